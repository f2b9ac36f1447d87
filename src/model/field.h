/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading the fields of one object, for the decoders in src/model. Absent and null are the same.
 *
 * What is said of a bad field: "Service shop/web: spec.ports[1].port: 70000 is not
 * within 1..65535". The way to a field is a chain of struct field_path on the stack, turned into
 * text only for an error. All functions return 0, or -1 with that error.
 */
#ifndef KUBE_NFTD_MODEL_FIELD_H
#define KUBE_NFTD_MODEL_FIELD_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include "kube-nftd/values.h"

struct field_path {
    const struct field_path *up;
    const char *key; /* NULL: the element @index of a list */
    int index;
};

/* One object that is being decoded; its kind and id are there already. */
struct decoder {
    struct object *out;
    struct error *err;
    char *warnings; /* owned; what field_warn() was told; NULL if nothing */
    unsigned n_warnings;
};

/** Says what is wrong with a field. Always -1. */
int field_bad(struct decoder *d, const struct field_path *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Notes why a field is ignored that costs the object nothing else: "spec.a: no IP address". Of
 * very many, the first few are named. */
void field_warn(struct decoder *d, const struct field_path *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** All that was noted, as one text for the caller to free; NULL if nothing was. */
char *field_take_warnings(struct decoder *d);

/** Says that @value of a field is not @what ("a string"), or no text at all. Always -1. */
int field_is_not(struct decoder *d, const struct json_value *value, const struct field_path *path,
                 const char *what) __attribute__((cold));

/* What follows is inline so that the lengths of keys, which are constants, are known. */

/** The value @value, found by @key, is a string, borrowed from the JSON; NULL if it is absent. */
static inline int field_as_string(struct decoder *d, const struct json_value *value,
                                  const struct field_path *up, const char *key, const char **out)
{
    *out = json_string(value);
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, value, &(struct field_path){up, key, 0}, "a string");
}

/** The same for a list or an object. */
static inline int field_as_list(struct decoder *d, const struct json_value *value,
                                const struct field_path *up, const char *key,
                                const struct json_value **out)
{
    *out = json_is(value, JSON_ARRAY) ? value : NULL;
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, value, &(struct field_path){up, key, 0}, "a list");
}

static inline int field_as_object(struct decoder *d, const struct json_value *value,
                                  const struct field_path *up, const char *key,
                                  const struct json_value **out)
{
    *out = json_is(value, JSON_OBJECT) ? value : NULL;
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, value, &(struct field_path){up, key, 0}, "an object");
}

/** A string, list or object of @object by its key. */
static inline int field_string(struct decoder *d, const struct json_value *object,
                               const struct field_path *up, const char *key, const char **out)
{
    return field_as_string(d, json_find(object, key), up, key, out);
}

static inline int field_list(struct decoder *d, const struct json_value *object,
                             const struct field_path *up, const char *key,
                             const struct json_value **out)
{
    return field_as_list(d, json_find(object, key), up, key, out);
}

static inline int field_object(struct decoder *d, const struct json_value *object,
                               const struct field_path *up, const char *key,
                               const struct json_value **out)
{
    return field_as_object(d, json_find(object, key), up, key, out);
}

/** Sets @flag in @flags if the boolean @value, found by @key, is true, or absent and
 * @absent_means. */
static inline int field_as_flag(struct decoder *d, const struct json_value *value,
                                const struct field_path *up, const char *key, bool absent_means,
                                uint8_t flag, uint8_t *flags)
{
    bool absent = json_is_absent(value);
    if (!absent && !json_is_bool(value))
        return field_is_not(d, value, &(struct field_path){up, key, 0}, "true or false");
    if (absent ? absent_means : json_is(value, JSON_TRUE))
        *flags |= flag;
    return 0;
}

/** Takes one entry of a list. */
typedef int (*field_entry_fn)(struct decoder *d, const struct json_value *entry,
                              const struct field_path *path, void *ctx);

/** Gives each entry of a list to @take until that fails; an absent list has none. The entries of
 * the first are objects, of the second strings, which they must be. */
int field_each_object(struct decoder *d, const struct json_value *object,
                      const struct field_path *up, const char *key, field_entry_fn take, void *ctx);
int field_each_string(struct decoder *d, const struct json_value *object,
                      const struct field_path *up, const char *key, field_entry_fn take, void *ctx);

/** An integer within @min..@max; @out is left alone if it is absent. */
int field_integer(struct decoder *d, const struct json_value *object, const struct field_path *up,
                  const char *key, uint32_t min, uint32_t max, uint32_t *out);

/** A time in whole seconds since 1970; @out is left alone if it is absent. */
int field_time(struct decoder *d, const struct json_value *object, const struct field_path *up,
               const char *key, int64_t *out);

/** Whether a string is @special and not @usual, which absent means. Any other is warned of and
 * taken for @usual. */
int field_choice(struct decoder *d, const struct json_value *object, const struct field_path *up,
                 const char *key, const char *usual, const char *special, bool *out);

/** A port number. @min is 1 where it must be there, 0 where absent means 0. */
int field_port(struct decoder *d, const struct json_value *object, const struct field_path *up,
               const char *key, int min, uint16_t *out);

/** The CIDR that @value, a string, is, into @cidrs, if it is the first one of its family. */
int field_cidr(struct decoder *d, const struct json_value *value, const struct field_path *path,
               bool has_cidr[FAMILY_COUNT], struct cidr cidrs[FAMILY_COUNT]);

/** The IP protocol number of "protocol"; TCP if it is absent. */
int field_protocol(struct decoder *d, const struct json_value *object, const struct field_path *up,
                   uint8_t *out);

/** One decoder a kind: fills in the payload of d->out. On -1 the payload may be half filled in. */
int decode_service(struct decoder *d, const struct json_value *json);
int decode_endpoint_slice(struct decoder *d, const struct json_value *json);
int decode_service_cidr(struct decoder *d, const struct json_value *json);
int decode_node(struct decoder *d, const struct json_value *json);

#endif
