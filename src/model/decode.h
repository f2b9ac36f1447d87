/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Field access for the decoders in src/model. Absent (NULL) and null are equivalent.
 *
 * Errors name the object, the field and the value: "Service shop/web: spec.ports[1].port: 70000 is
 * not within 1..65535". The path is looked up in the object when it is needed. All functions return
 * 0, or -1 with such an error.
 */
#ifndef KUBE_NFTD_MODEL_DECODE_H
#define KUBE_NFTD_MODEL_DECODE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

/* The object being decoded; its kind, id and metadata are already set. */
struct decoder {
    const struct json_value *json, *metadata;
    struct object *out;
    struct error *err;
    char *warnings; /* owned; from field_warn(); NULL: none */
    unsigned n_warnings;
};

/** Sets an error about the member @key (or members, "a.b") of @up, or about @up itself if @key is
 * NULL. Returns -1. */
int field_bad(struct decoder *d, const struct json_value *up, const char *key, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/** Records why a field is ignored while the object is kept: "spec.a: no IP address". Only the first
 * few warnings are kept, the rest are counted. */
void field_warn(struct decoder *d, const struct json_value *up, const char *key, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/** Sets the error that @value is not @what ("a string") or not valid text. Returns -1. */
int field_is_not(struct decoder *d, const struct json_value *value, const char *what)
    __attribute__((cold));

/** A string, borrowed; NULL if absent. */
static inline int field_string(struct decoder *d, const struct json_value *value, const char **out)
{
    *out = json_string(value);
    return *out || json_is_absent(value) ? 0 : field_is_not(d, value, "a string");
}

/** A list or object; NULL if absent. */
static inline int field_container(struct decoder *d, const struct json_value *value,
                                  enum json_type type, const struct json_value **out)
{
    *out = json_is(value, type) ? value : NULL;
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, value, type == JSON_ARRAY ? "a list" : "an object");
}

static inline int field_object(struct decoder *d, const struct json_value *value,
                               const struct json_value **out)
{
    return field_container(d, value, JSON_OBJECT, out);
}

/** Sets @flag in @flags if a boolean is true, or if it is absent and @absent_means. */
static inline int field_flag(struct decoder *d, const struct json_value *value, bool absent_means,
                             uint8_t flag, uint8_t *flags)
{
    bool absent = json_is_absent(value);
    if (!absent && !json_is_bool(value))
        return field_is_not(d, value, "true or false");
    if (absent ? absent_means : json_is(value, JSON_TRUE))
        *flags |= flag;
    return 0;
}

/** Passes each entry of a list, all of @type (a string or an object), to @take until that fails. */
int field_each(struct decoder *d, const struct json_value *list, enum json_type type,
               int (*take)(struct decoder *d, const struct json_value *entry, void *ctx),
               void *ctx);

/** An integer within @min..@max; @out is unchanged if absent. */
int field_integer(struct decoder *d, const struct json_value *value, uint32_t min, uint32_t max,
                  uint32_t *out);

/** A time in whole seconds since 1970; @out is unchanged if absent. */
int field_time(struct decoder *d, const struct json_value *value, int64_t *out);

/** Whether a string is @special rather than @usual, the default. Any other value counts as @usual,
 * with a warning. */
int field_choice(struct decoder *d, const struct json_value *value, const char *usual,
                 const char *special, bool *out);

/** A port number. @min: 1 if required; 0 if absent and 0 mean none. */
int field_port(struct decoder *d, const struct json_value *up, const char *key, int min,
               uint16_t *out);

/** Parses a string as a CIDR and stores the first one of each family in @cidrs. */
int field_cidr(struct decoder *d, const struct json_value *value, bool has_cidr[FAMILY_COUNT],
               struct cidr cidrs[FAMILY_COUNT]);

/** The IP protocol number of a name; TCP if absent. */
int field_protocol(struct decoder *d, const struct json_value *value, uint8_t *out);

/** One decoder per kind: fills in the payload of d->out from d->json. On -1 the payload may be
 * incomplete. */
int decode_service(struct decoder *d);
int decode_endpoint_slice(struct decoder *d);
int decode_service_cidr(struct decoder *d);
int decode_node(struct decoder *d);

/** Parses a UUID in lower case, as the server writes it. Anything else, and NULL, counts as
 * unknown: returns false, and @uid is all zero. */
bool uid_parse(const char *text, struct uid *uid);

#endif
