/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's maps and sets hold, put into a ruleset. */
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <string.h>

struct adoption {
    struct ruleset *ruleset;
    bool by_keys;    /* may be asked for slots by their keys */
    size_t elements; /* but for verdicts */
    size_t held;     /* all that the kernel gave */
    nft_element_fn take;
    bool torn;    /* an element came twice: the kernel was moving them to a larger table, and may
                     have left out others as well */
    bool foreign; /* an element that we cannot have written */
    enum content_set set;         /* the one that is being read */
    struct boundaries boundaries; /* of a set of ranges, likewise */
};

/* ---- what is keyed by frontends ---- */

static bool number_of(const uint8_t *bytes, size_t length, uint32_t *number)
{
    if (length != sizeof(*number))
        return false;
    memcpy(number, bytes, sizeof(*number));
    return *number != 0;
}

/* The record for what the kernel holds; one that nobody wants is pending to be removed. */
static struct record *record_of(struct adoption *a, const struct frontend *frontend)
{
    struct record *record = ruleset_record(a->ruleset, frontend);
    ruleset_mark_pending(a->ruleset, record);
    a->elements++;
    return record;
}

static struct record *record_of_element(struct adoption *a, const struct nft_element *element)
{
    struct frontend frontend;
    if (frontend_of_key(a->ruleset->family, element->key, element->key_length, &frontend))
        return record_of(a, &frontend);
    a->foreign = true;
    return NULL;
}

/* Takes over a value of a map. */
static void take_value(struct adoption *a, const struct nft_element *element, uint32_t *held)
{
    a->torn = a->torn || *held != 0;
    if (!number_of(element->data, element->data_length, held))
        a->foreign = true;
}

static void on_service(void *ctx, const struct nft_element *element)
{
    struct record *record = record_of_element(ctx, element);
    if (record)
        take_value(ctx, element, &record->all.service);
}

static void on_local_service(void *ctx, const struct nft_element *element)
{
    struct record *record = record_of_element(ctx, element);
    if (record)
        take_value(ctx, element, &record_local(record)->service);
}

static void on_affinity_id(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    struct record *record = record_of_element(a, element);
    if (!record)
        return;
    take_value(a, element, &record_extras(record)->affinity_id);
    affinity_note_kernel_id(&a->ruleset->affinity, record->extras->affinity_id);
}

static void on_affinity_timeout(void *ctx, const struct nft_element *element)
{
    struct record *record = record_of_element(ctx, element);
    if (record)
        take_value(ctx, element, &record_extras(record)->affinity_timeout);
}

static void take_flag(struct adoption *a, const struct nft_element *element, unsigned flag)
{
    struct record *record = record_of_element(a, element);
    if (!record)
        return;
    a->torn = a->torn || record->flags & flag;
    record->flags |= (uint8_t)flag;
}

static void on_reject(void *ctx, const struct nft_element *element)
{
    take_flag(ctx, element, FLAG_REJECTED);
}

static void on_drop(void *ctx, const struct nft_element *element)
{
    take_flag(ctx, element, FLAG_DROPPED);
}

static void on_restriction(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    struct record *record = record_of_element(a, element);
    if (!record)
        return;
    take_value(a, element, &record_extras(record)->restriction);
    a->foreign = a->foreign || !is_list_value(record->extras->restriction);
}

static void take_slot(struct adoption *a, struct part *part, uint32_t slot,
                      const struct backend *backend)
{
    a->torn = a->torn || (slot < part->n_slots && !slot_is_empty(&part->slots[slot]));
    part_put_slot(part, slot, backend);
}

static void take_endpoint(struct adoption *a, const struct nft_element *element, bool local)
{
    struct frontend frontend;
    struct backend backend;
    uint32_t slot;
    if (!slot_of_key(a->ruleset->family, element->key, element->key_length, &frontend, &slot) ||
        !backend_of_value(a->ruleset->family, element->data, element->data_length, &backend)) {
        a->foreign = true;
        return;
    }
    struct record *record = record_of(a, &frontend);
    take_slot(a, local ? record_local(record) : &record->all, slot, &backend);
}

static void on_endpoint(void *ctx, const struct nft_element *element)
{
    take_endpoint(ctx, element, false);
}

static void on_local_endpoint(void *ctx, const struct nft_element *element)
{
    take_endpoint(ctx, element, true);
}

/* ---- contents ---- */

static bool source_fits(enum family family, const struct nft_element *element)
{
    uint32_t list;
    struct cidr prefix;
    return source_of_key(family, element->key, element->key_length, &list, &prefix);
}

/* Whether an element is like those that we put into a set. */
static bool content_fits(enum family family, enum content_set set,
                         const struct nft_element *element)
{
    const size_t address = address_length(family), number = sizeof(uint32_t);
    const struct {
        size_t key, value;
    } lengths[CONTENT_SETS] = {
        [CONTENT_CLUSTER_IPS] = {address, 0},
        [CONTENT_HAIRPIN] = {2 * address + 2 * number, 0},
        [CONTENT_ALLOWED_SOURCES] = {address + number, 0},
        [CONTENT_AFFINITY_NUMBERS] = {number + address + number, number},
        [CONTENT_AFFINITY_BACKENDS] = {number, address + number},
        [CONTENT_LOCAL_AFFINITY_BACKENDS] = {number, address + number},
    };
    return element->key_length == lengths[set].key && element->data_length == lengths[set].value &&
           (set != CONTENT_ALLOWED_SOURCES || source_fits(family, element));
}

static void on_content(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    struct key key = {.length = element->key_length}, value = {.length = element->data_length};
    if (!content_fits(a->ruleset->family, a->set, element)) {
        a->foreign = true;
        return;
    }
    memcpy(key.bytes, element->key, key.length);
    if (value.length)
        memcpy(value.bytes, element->data, value.length);
    a->elements++;
    a->torn = !contents_adopt(&a->ruleset->contents, a->set, &key, value.length ? &value : NULL) ||
              a->torn;
}

static void on_boundary(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    boundaries_take(&a->boundaries, a->ruleset->family, element);
}

static void take_ranges(struct adoption *a)
{
    enum family family = a->ruleset->family;
    range_vec ranges = {0};
    enum boundaries_verdict verdict = boundaries_pair(&a->boundaries, family, &ranges);
    a->torn = a->torn || verdict == BOUNDARIES_TORN;
    a->foreign = a->foreign || verdict == BOUNDARIES_FOREIGN;
    vec_each (&ranges, range) {
        struct key key = key_of_range(family, range);
        a->elements++;
        a->torn = !contents_adopt(&a->ruleset->contents, a->set, &key, NULL) || a->torn;
    }
    vec_free(&ranges);
    boundaries_clear(&a->boundaries);
}

/* ---- all of it ---- */

static void on_any(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    a->held++;
    a->take(a, element);
}

static int read_set(struct adoption *a, struct nft_socket *socket, const char *name,
                    nft_element_fn fn, struct error *err)
{
    a->take = fn;
    return nft_socket_read_elements(socket, a->ruleset->family, RULESET_TABLE, name, on_any, a,
                                    err);
}

static int read_contents(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    for (int set = 0; set < CONTENT_SETS; set++) {
        a->set = (enum content_set)set;
        bool ranged = content_set_is_ranged(a->set);
        if (read_set(a, socket, content_set_name(a->set), ranged ? on_boundary : on_content, err))
            return -1;
        if (ranged)
            take_ranges(a);
    }
    return 0;
}

/* After what leads to them. */
static int read_slots(struct adoption *a, struct nft_socket *socket, bool local, struct error *err)
{
    nft_element_fn fn = local ? on_local_endpoint : on_endpoint;
    bool done = false;
    a->take = fn;
    if (a->by_keys && ruleset_read_slots(a->ruleset, socket, local, on_any, a, &done, err))
        return -1;
    return done ? 0 : read_set(a, socket, local ? MAP_LOCAL_ENDPOINTS : MAP_ENDPOINTS, fn, err);
}

static int read_all(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    const struct {
        const char *name;
        nft_element_fn fn;
    } parts[] = {{MAP_SERVICES, on_service},         {MAP_LOCAL_SERVICES, on_local_service},
                 {MAP_AFFINITY_IDS, on_affinity_id}, {MAP_AFFINITY_TIMEOUTS, on_affinity_timeout},
                 {SET_REJECTS, on_reject},           {SET_DROPS, on_drop},
                 {MAP_RESTRICTED, on_restriction}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (read_set(a, socket, parts[i].name, parts[i].fn, err))
            return -1;
    if (read_slots(a, socket, false, err) || read_slots(a, socket, true, err) ||
        read_contents(a, socket, err))
        return -1;
    return a->torn ? error_set(err, "the kernel gave elements twice") : 0;
}

int ruleset_read_back(struct ruleset *rs, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err)
{
    struct adoption a = {.ruleset = rs, .by_keys = by_keys};
    int result = read_all(&a, socket, err);
    found->elements = a.elements;
    found->held = a.held;
    found->foreign = a.foreign;
    boundaries_clear(&a.boundaries);
    return result;
}
