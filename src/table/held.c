/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "held.h"

#include "record.h"
#include "slots.h"

#include <string.h>

/* ---- what is believed ---- */

static struct key key_of_bytes(const uint8_t *bytes, size_t length)
{
    struct key key = {.length = length};
    if (length)
        memcpy(key.bytes, bytes, length);
    return key;
}

static void find_slot(const struct ruleset *rs, enum table_set set, struct held *out)
{
    const struct part *part = set_part(set, out->record);
    if (!part || out->at >= part->n_slots || slot_is_empty(&part->slots[out->at]))
        return;
    out->there = true;
    out->value = value_of_backend(rs->family, &part->slots[out->at]);
}

static void find_number(enum table_set set, struct held *out)
{
    uint32_t number = set_number(set, out->record).held;
    out->there = number != 0;
    if (out->there && *set_value_fields(set))
        key_put_number(&out->value, number);
}

static void find_content(const struct ruleset *rs, enum table_set set,
                         const struct nft_element *element, struct held *out)
{
    struct key key = key_of_bytes(element->key, element->key_length);
    out->content = contents_find(&rs->contents, set, &key);
    out->there = out->content && out->content->in_kernel;
    if (out->there)
        out->value = key_of_bytes(content_kernel_value(out->content), out->content->value_length);
}

bool held_find(const struct ruleset *rs, enum table_set set, const struct nft_element *element,
               struct held *out)
{
    memset(out, 0, sizeof(*out));
    if (set_has_contents(set)) {
        bool fits = !set_is_ranged(set) && set_fits_key(set, rs->family, element);
        if (fits)
            find_content(rs, set, element, out);
        return fits;
    }
    if (!set_subject_of(set, rs->family, element->key, element->key_length, &out->subject))
        return false;
    out->at = out->subject.slot;
    out->record = ruleset_find_subject(rs, &out->subject);
    if (out->record && set_owner(set) == OWNER_SLOTS)
        find_slot(rs, set, out);
    else if (out->record)
        find_number(set, out);
    return true;
}

bool held_is(const struct held *held, const struct nft_element *element)
{
    return held->there && held->value.length == element->data_length &&
           (element->data_length == 0 ||
            memcmp(held->value.bytes, element->data, element->data_length) == 0);
}

/* ---- what a record has ---- */

uint32_t held_room(enum table_set set, const struct record *record)
{
    if (set_owner(set) != OWNER_SLOTS)
        return 1;
    return set_part(set, record) ? set_part(set, record)->n_slots : 0;
}

bool held_has(enum table_set set, const struct record *record, uint32_t i)
{
    return set_owner(set) == OWNER_SLOTS ? !slot_is_empty(&set_part(set, record)->slots[i])
                                         : set_number(set, record).held != 0;
}

/* ---- what was found ---- */

/* The record has @element, which fits, or nothing under its key. */
static void hold(struct ruleset *rs, enum table_set set, struct record *record, uint32_t at,
                 const struct nft_element *element, bool there)
{
    struct backend backend = {.port = 0};
    uint32_t number = there;
    if (set_owner(set) == OWNER_SLOTS) {
        if (there)
            backend_of_value(rs->family, element->data, element->data_length, &backend);
        part_put_slot(set_make_part(set, record), at, &backend);
        return;
    }
    if (there && element->data_length)
        memcpy(&number, element->data, sizeof(number));
    set_hold_number(rs, set, record, number);
}

static bool adopt_content(struct ruleset *rs, enum table_set set, const struct nft_element *element)
{
    struct key key = key_of_bytes(element->key, element->key_length),
               value = key_of_bytes(element->data, element->data_length);
    return contents_adopt(&rs->contents, set, &key, value.length ? &value : NULL);
}

bool held_adopt(struct ruleset *rs, enum table_set set, const struct nft_element *element,
                bool *again)
{
    struct held held;
    if (!held_find(rs, set, element, &held) || !set_fits_value(set, rs->family, element))
        return false;
    *again = *again || held.there;
    if (set_has_contents(set)) {
        adopt_content(rs, set, element);
        return true;
    }
    struct record *record = held.record ? held.record : ruleset_subject(rs, &held.subject);
    hold(rs, set, record, held.at, element, true);
    ruleset_mark_pending(rs, record); /* one that nobody wants is to be removed */
    return true;
}

void held_adopt_ranges(struct ruleset *rs, enum table_set set, const range_vec *ranges, bool *again)
{
    vec_each (ranges, range) {
        struct key key = key_of_range(rs->family, range);
        *again = !contents_adopt(&rs->contents, set, &key, NULL) || *again;
    }
}

/* What is in force is what is wanted, so it is what shall be there again. */
static void reopen(struct ruleset *rs, struct record *record)
{
    bool listed = record->pending || record->held_back;
    if (record->is_port && listed)
        port_list_wishes(as_port(record));
    else if (record->is_port)
        port_want_in_force(as_port(record));
    ruleset_mark_pending(rs, record);
}

/* Which of our lists another one is shows only when all of it is read. */
static bool shows_alone(enum table_set set, bool there)
{
    return !(set == SET_RESTRICTED && there);
}

static void observe_of_record(struct ruleset *rs, enum table_set set, const struct held *held,
                              const struct nft_element *element, bool there)
{
    struct record *record = held->record ? held->record : ruleset_subject(rs, &held->subject);
    reopen(rs, record);
    if (set == SET_RESTRICTED)
        frontend_release_list(rs, as_frontend(record), 0);
    else
        hold(rs, set, record, held->at, element, there);
}

static void observe_content(struct ruleset *rs, enum table_set set,
                            const struct nft_element *element, bool there)
{
    struct key key = key_of_bytes(element->key, element->key_length),
               value = key_of_bytes(element->data, there ? element->data_length : 0);
    contents_observe(&rs->contents, set, &key, value.length ? &value : NULL, there);
}

enum held_verdict held_observe(struct ruleset *rs, enum table_set set,
                               const struct nft_element *element, bool there)
{
    struct held held;
    if (!held_find(rs, set, element, &held))
        return HELD_ALIEN;
    if (there ? held_is(&held, element) : !held.there)
        return HELD_SAME;
    if (!shows_alone(set, there) || (there && !set_fits_value(set, rs->family, element)))
        return HELD_ALIEN;
    if (set_has_contents(set))
        observe_content(rs, set, element, there);
    else
        observe_of_record(rs, set, &held, element, there);
    rs->figures.elements += (size_t)there - (size_t)held.there;
    return HELD_CHANGED;
}

/* ---- ranges ---- */

static int compare_ranges(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address_range));
}

static bool is_held(const struct ruleset *rs, enum table_set set, const struct key *key)
{
    const struct content *content = contents_find(&rs->contents, set, key);
    return content && content->in_kernel;
}

static void observe_range(struct ruleset *rs, enum table_set set, const struct address_range *range,
                          bool there)
{
    struct key key = key_of_range(rs->family, range);
    size_t elements = range_elements(rs->family, range);
    contents_observe(&rs->contents, set, &key, NULL, there);
    rs->figures.elements += there ? elements : -elements;
}

/* Ranges that are believed to be there and are not in @found. */
static void missing_ranges(const struct ruleset *rs, enum table_set set, const range_vec *found,
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

bool held_has_ranges(const struct ruleset *rs, enum table_set set, const range_vec *found)
{
    range_vec missing = {0};
    missing_ranges(rs, set, found, &missing);
    bool same = missing.n == 0;
    vec_free(&missing);
    vec_each (found, range) {
        struct key key = key_of_range(rs->family, range);
        same = same && is_held(rs, set, &key);
    }
    return same;
}

enum held_verdict held_observe_ranges(struct ruleset *rs, enum table_set set,
                                      const range_vec *found)
{
    range_vec missing = {0};
    if (held_has_ranges(rs, set, found))
        return HELD_SAME;
    missing_ranges(rs, set, found, &missing);
    vec_each (&missing, range)
        observe_range(rs, set, range, false);
    vec_free(&missing);
    vec_each (found, range) {
        struct key key = key_of_range(rs->family, range);
        if (!is_held(rs, set, &key))
            observe_range(rs, set, range, true);
    }
    return HELD_CHANGED;
}
