/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/held.h"

#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <string.h>

enum kind { SERVICE, AFFINITY, FLAG, SLOT, LIST, CONTENT, RANGE };

static const struct {
    const char *name; /* NULL: that of the content set */
    enum kind kind;
    bool second; /* of the two of a kind */
    enum frontend_flag flag;
    enum content_set set;
} sets[HELD_SETS] = {
    {.name = MAP_SERVICES, .kind = SERVICE},
    {.name = MAP_LOCAL_SERVICES, .kind = SERVICE, .second = true},
    {.name = MAP_ENDPOINTS, .kind = SLOT},
    {.name = MAP_LOCAL_ENDPOINTS, .kind = SLOT, .second = true},
    {.name = SET_REJECTS, .kind = FLAG, .flag = FLAG_REJECTED},
    {.name = SET_DROPS, .kind = FLAG, .flag = FLAG_DROPPED},
    {.name = MAP_RESTRICTED, .kind = LIST},
    {.name = MAP_AFFINITY_IDS, .kind = AFFINITY},
    {.name = MAP_AFFINITY_TIMEOUTS, .kind = AFFINITY, .second = true},
    {.kind = CONTENT, .set = CONTENT_CLUSTER_IPS},
    {.kind = CONTENT, .set = CONTENT_HAIRPIN},
    {.kind = CONTENT, .set = CONTENT_ALLOWED_SOURCES},
    {.kind = CONTENT, .set = CONTENT_AFFINITY_NUMBERS},
    {.kind = CONTENT, .set = CONTENT_AFFINITY_BACKENDS},
    {.kind = CONTENT, .set = CONTENT_LOCAL_AFFINITY_BACKENDS},
    {.kind = RANGE, .set = CONTENT_SERVICE_CIDRS},
    {.kind = RANGE, .set = CONTENT_POD_CIDRS},
};

const char *held_set_name(int set)
{
    return sets[set].name ? sets[set].name : content_set_name(sets[set].set);
}

int held_set_of(const char *name)
{
    for (int set = 0; set < HELD_SETS; set++)
        if (strcmp(held_set_name(set), name) == 0)
            return set;
    return -1;
}

/* ---- what is believed ---- */

static uint32_t number_held(int set, const struct record *record)
{
    const struct extras *extras = record->extras;
    if (sets[set].kind == LIST)
        return extras ? extras->restriction : 0;
    if (sets[set].kind == AFFINITY)
        return !extras ? 0 : sets[set].second ? extras->affinity_timeout : extras->affinity_id;
    if (sets[set].second)
        return record->local ? record->local->service : 0;
    return record->all.service;
}

static void find_slot(const struct ruleset *rs, int set, uint32_t slot, struct held *out)
{
    const struct part *part = sets[set].second ? out->record->local : &out->record->all;
    if (!part || slot >= part->n_slots || slot_is_empty(&part->slots[slot]))
        return;
    out->there = true;
    out->value = value_of_backend(rs->family, &part->slots[slot]);
}

static bool find_content(const struct ruleset *rs, int set, const uint8_t *bytes, size_t length,
                         struct held *out)
{
    struct key key = {.length = length};
    if (length > sizeof(key.bytes))
        return false;
    memcpy(key.bytes, bytes, length);
    out->content = contents_find(&rs->contents, sets[set].set, &key);
    out->there = out->content && out->content->in_kernel;
    if (out->there && out->content->value_length) {
        out->value.length = out->content->value_length;
        memcpy(out->value.bytes, content_kernel_value(out->content), out->value.length);
    }
    return true;
}

static bool find_of_frontend(const struct ruleset *rs, int set, const uint8_t *key, size_t length,
                             struct held *out)
{
    struct frontend frontend;
    uint32_t slot = 0, number;
    bool is_slot = sets[set].kind == SLOT;
    if (is_slot ? !slot_of_key(rs->family, key, length, &frontend, &slot)
                : !frontend_of_key(rs->family, key, length, &frontend))
        return false;
    out->record = ruleset_find_record(rs, &frontend);
    if (!out->record)
        return true;
    if (is_slot) {
        out->at = slot;
        find_slot(rs, set, slot, out);
    } else if (sets[set].kind == FLAG) {
        out->there = out->record->flags & sets[set].flag;
    } else if ((number = number_held(set, out->record)) != 0) {
        out->there = true;
        key_put_number(&out->value, number);
    }
    return true;
}

bool held_find(const struct ruleset *rs, int set, const struct nft_element *element,
               struct held *out)
{
    memset(out, 0, sizeof(*out));
    switch (sets[set].kind) {
    case CONTENT:
        return find_content(rs, set, element->key, element->key_length, out);
    case RANGE:
        return false;
    default:
        return find_of_frontend(rs, set, element->key, element->key_length, out);
    }
}

bool held_is(const struct held *held, const struct nft_element *element)
{
    return held->there && held->value.length == element->data_length &&
           (element->data_length == 0 ||
            memcmp(held->value.bytes, element->data, element->data_length) == 0);
}

/* ---- what a frontend has ---- */

static const struct part *part_of(int set, const struct record *record)
{
    return sets[set].second ? record->local : &record->all;
}

uint32_t held_room(int set, const struct record *record)
{
    if (sets[set].kind != SLOT)
        return 1;
    return part_of(set, record) ? part_of(set, record)->n_slots : 0;
}

bool held_has(int set, const struct record *record, uint32_t i)
{
    if (sets[set].kind == FLAG)
        return record->flags & sets[set].flag;
    if (sets[set].kind != SLOT)
        return number_held(set, record) != 0;
    return !slot_is_empty(&part_of(set, record)->slots[i]);
}

struct key held_key(int set, const struct record *record, uint32_t i)
{
    return sets[set].kind == SLOT ? key_of_slot(&record->frontend, i)
                                  : key_of_frontend(&record->frontend);
}

bool held_is_ranged(int set)
{
    return sets[set].kind == RANGE;
}

enum content_set held_content_set(int set)
{
    return sets[set].kind == CONTENT || sets[set].kind == RANGE ? sets[set].set : CONTENT_SETS;
}

/* ---- what was found ---- */

/* What is in force is what is wanted, so it is what shall be there again. */
static void reopen(struct ruleset *rs, struct record *record)
{
    if (record->pending || refusals_resume(record)) {
        record_list_wishes(record);
        ruleset_mark_pending(rs, record);
        return;
    }
    part_want_slots(&record->all, service_count(record->all.service));
    if (record->local)
        part_want_slots(record->local,
                        local_is_unreachable(record) ? 0 : service_count(record->local->service));
    ruleset_mark_pending(rs, record);
}

static bool observe_number(int set, struct record *record, const struct nft_element *element,
                           bool there)
{
    uint32_t number = 0;
    if (there) {
        if (element->data_length != sizeof(number))
            return false;
        memcpy(&number, element->data, sizeof(number));
        if (number == 0)
            return false;
    }
    if (sets[set].second)
        record_local(record)->service = number;
    else
        record->all.service = number;
    return true;
}

static bool observe_of_frontend(struct ruleset *rs, int set, const struct nft_element *element,
                                bool there)
{
    struct frontend frontend;
    struct backend backend = {0};
    uint32_t slot = 0;
    bool is_slot = sets[set].kind == SLOT;
    if (is_slot) {
        if (!slot_of_key(rs->family, element->key, element->key_length, &frontend, &slot) ||
            (there && !backend_of_value(rs->family, element->data, element->data_length, &backend)))
            return false;
    } else if (!frontend_of_key(rs->family, element->key, element->key_length, &frontend)) {
        return false;
    }
    struct record *record = ruleset_record(rs, &frontend);
    reopen(rs, record);
    if (is_slot)
        part_put_slot(sets[set].second ? record_local(record) : &record->all, slot, &backend);
    else if (sets[set].kind == FLAG)
        record->flags = (uint8_t)(there ? record->flags | sets[set].flag
                                        : record->flags & ~(unsigned)sets[set].flag);
    else if (sets[set].kind == LIST)
        record_release_list(rs, record->extras, 0);
    else
        return observe_number(set, record, element, there);
    return true;
}

static bool observe_content(struct ruleset *rs, int set, const struct nft_element *element,
                            bool there)
{
    struct key key = {.length = element->key_length}, value = {.length = element->data_length};
    if (key.length > sizeof(key.bytes) || value.length > sizeof(value.bytes))
        return false;
    memcpy(key.bytes, element->key, key.length);
    if (there && value.length)
        memcpy(value.bytes, element->data, value.length);
    return contents_observe(&rs->contents, sets[set].set, &key,
                            there && value.length ? &value : NULL, there);
}

static bool observe(struct ruleset *rs, int set, const struct nft_element *element, bool there)
{
    switch (sets[set].kind) {
    case CONTENT:
        return observe_content(rs, set, element, there);
    case AFFINITY: /* the number of a service port is shared: one alone cannot be put right */
        return false;
    case LIST: /* which of ours another one is shows only when all of it is read */
        return !there && observe_of_frontend(rs, set, element, there);
    default:
        return observe_of_frontend(rs, set, element, there);
    }
}

enum held_verdict held_observe(struct ruleset *rs, int set, const struct nft_element *element,
                               bool there)
{
    struct held held;
    if (!held_find(rs, set, element, &held))
        return HELD_ALIEN;
    if (there ? held_is(&held, element) : !held.there)
        return HELD_SAME;
    if (!observe(rs, set, element, there))
        return HELD_ALIEN;
    rs->figures.elements += (size_t)there - (size_t)held.there;
    return HELD_CHANGED;
}

/* ---- ranges ---- */

static int compare_ranges(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address_range));
}

static bool is_held(const struct ruleset *rs, enum content_set set, const struct key *key)
{
    const struct content *content = contents_find(&rs->contents, set, key);
    return content && content->in_kernel;
}

static void observe_range(struct ruleset *rs, enum content_set set,
                          const struct address_range *range, bool there)
{
    struct key key = key_of_range(rs->family, range);
    size_t elements = range_elements(rs->family, range);
    contents_observe(&rs->contents, set, &key, NULL, there);
    rs->figures.elements += there ? elements : -elements;
}

/* Ranges that are believed to be there and are not in @found. */
static void missing_ranges(const struct ruleset *rs, enum content_set set, const range_vec *found,
                           range_vec *out)
{
    hash_table_each (&rs->contents.all, struct content, content) {
        if (content_set_of(content) != set || !content->in_kernel)
            continue;
        struct address_range range = range_of_key(rs->family, content_key(content));
        if (found->n == 0 || !bsearch(&range, found->v, found->n, sizeof(range), compare_ranges))
            vec_push(out, range);
    }
}

bool held_has_ranges(const struct ruleset *rs, int set, const range_vec *found)
{
    range_vec missing = {0};
    missing_ranges(rs, sets[set].set, found, &missing);
    bool same = missing.n == 0;
    vec_free(&missing);
    vec_each (found, range) {
        struct key key = key_of_range(rs->family, range);
        same = same && is_held(rs, sets[set].set, &key);
    }
    return same;
}

enum held_verdict held_observe_ranges(struct ruleset *rs, int set, const range_vec *found)
{
    range_vec missing = {0};
    if (held_has_ranges(rs, set, found))
        return HELD_SAME;
    missing_ranges(rs, sets[set].set, found, &missing);
    vec_each (&missing, range)
        observe_range(rs, sets[set].set, range, false);
    vec_free(&missing);
    vec_each (found, range) {
        struct key key = key_of_range(rs->family, range);
        if (!is_held(rs, sets[set].set, &key))
            observe_range(rs, sets[set].set, range, true);
    }
    return HELD_CHANGED;
}
