/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kind, resourceVersion and uid of an object. */
#ifndef KUBE_NFTD_MODEL_OBJECT_METADATA_H
#define KUBE_NFTD_MODEL_OBJECT_METADATA_H

#include <stdbool.h>
#include <stdint.h>

/* resourceVersions are opaque, but they go into URLs: of more bytes than this they are not taken.
 */
#define RESOURCE_VERSION_LIMIT 1024

/*
 * An object's resourceVersion. To Kubernetes' clients that is an opaque text, and it is kept
 * exactly; but since it is a decimal number wherever etcd is behind, it takes 8 bytes then and no
 * allocation.
 *
 * Starts zeroed, as the version of nothing; release with object_version_clear().
 */
struct object_version {
    uint64_t bits; /* 0: of nothing; odd: a number; else a pointer to the text, which is owned */
};

/* Room for a number as text. */
#define OBJECT_VERSION_SIZE 21

/** Makes @version that of an object whose resourceVersion is @text; NULL or "": it has none. */
void object_version_set(struct object_version *version, const char *text);

/** The resourceVersion: "" for an object that has none, NULL for the version of nothing. Borrowed
 * from @version, or put into @number. */
const char *object_version_text(const struct object_version *version,
                                char number[OBJECT_VERSION_SIZE]);

/** Whether it is the version of an object at all. */
bool object_version_is_set(const struct object_version *version);

bool object_version_equal(const struct object_version *a, const struct object_version *b);

/** Makes @version a copy of @from. */
void object_version_copy(struct object_version *version, const struct object_version *from);

/** Moves @from into @version; @from is that of nothing then. */
void object_version_move(struct object_version *version, struct object_version *from);

void object_version_clear(struct object_version *version);

/* metadata.uid, which the API server makes as UUIDs: the 16 bytes that it stands for. All zero:
 * unknown. */
struct uid {
    uint8_t bytes[16];
};

/* Room for 36 characters and the NUL. */
#define UID_TEXT_SIZE 37

/** Reads a UUID in lower case as the server writes it. What is none (NULL too) is as good as
 * unknown: false, and @uid is all zero. */
bool uid_parse(const char *text, struct uid *uid);

/** Writes @uid into @text and returns it; "" if it is unknown. */
const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE]);

enum object_kind { KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR, KIND_NODE, KIND_COUNT };

/** "Service", "EndpointSlice", "ServiceCIDR" or "Node". */
const char *object_kind_name(enum object_kind kind);

#endif
