/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON objects of the API into typed ones. */
#ifndef KUBE_NFTD_MODEL_DECODE_H
#define KUBE_NFTD_MODEL_DECODE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/object.h"

#include "kube-nftd/base/json.h"

enum decode_result {
    DECODE_OK,    /* the object is filled in */
    DECODE_OTHER, /* a kind or API version that kube-nftd does not use; nothing was written */
    DECODE_BAD,   /* a field is missing, mistyped or out of range; the error names it */
};

/** Whether @json says that it is of @kind, or says nothing of kind and apiVersion. */
bool object_may_be(const struct json_value *json, enum object_kind kind);

/**
 * Decodes one object (docs/behaviour.md 1.2 to 1.4).
 *
 * @json      the object as the API writes it; unknown fields are ignored
 * @expected  the kind and apiVersion to assume where the object carries none, as list items do:
 *            one of enum object_kind, or -1 for "it must say itself"
 * @out       DECODE_OK: the object, for the caller to clear. DECODE_BAD: the kind and, where
 *            metadata could be read, the id, the version and (of a slice) the Service, with no
 *            payload (see struct object); clear it too
 * @err       DECODE_BAD: kind, namespace/name, field and what is wrong with it
 */
enum decode_result object_decode(const struct json_value *json, int expected, struct object *out,
                                 struct error *err);

/** The kind of items of a list of @list_kind ("ServiceList" ...), or -1 for an unknown one. */
int object_kind_of_list(const char *list_kind);

#endif
