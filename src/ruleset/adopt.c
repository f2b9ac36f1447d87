/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a table back: at the start, when one may be there from an earlier run, and after a
 * failed commit, when nothing is sure.
 */
#include "kube-nftd/base/log.h"
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <inttypes.h>
#include <string.h>

/* A set that changes while it is read is read again, up to so many times. */
#define READ_TRIES 3

struct adoption {
    struct ruleset *ruleset;
    size_t elements;
    bool torn;    /* an element came twice: the kernel was moving them to a larger table, and may
                     have left out others as well */
    bool foreign; /* an element that we cannot have written: make the table anew */
};

void ruleset_comment(char out[64])
{
    snprintf(out, 64, "kube-nftd layout %016" PRIx64, template_fingerprint());
}

/* What is in force becomes what is wanted, and nothing is known to be in force. */
static void forget_kernel(struct ruleset *rs)
{
    struct record *record, *next;
    HASH_ITER(hh, rs->records, record, next)
    {
        if (!record->pending) {
            record->n_wanted = record_count(record);
            record->wants_reject = record->rejected;
            record->wanted = record->slots;
            record->slots = NULL;
            if (record->n_wanted)
                qsort(record->wanted, record->n_wanted, sizeof(*record->wanted), backend_compare);
            ruleset_mark_pending(rs, record);
        }
        free(record->slots);
        record->slots = NULL;
        record->n_slots = 0;
        record->service = 0;
        record->rejected = false;
        record->trimming = false;
    }
    vec_clear(&rs->trims);
    memset(rs->known_picks, 0, sizeof(rs->known_picks));
}

/* The record for what the kernel holds; one that nobody wants is pending to be removed. */
static struct record *record_of_key(struct adoption *a, const struct frontend *frontend)
{
    struct record *record = ruleset_record(a->ruleset, frontend);
    ruleset_mark_pending(a->ruleset, record);
    a->elements++;
    return record;
}

static void on_pick(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                    size_t data_length)
{
    struct adoption *a = ctx;
    uint32_t value;
    (void)data;
    (void)data_length;
    if (key_length != sizeof(value)) {
        a->foreign = true;
        return;
    }
    memcpy(&value, key, sizeof(value));
    if (value == 0 || value > MAX_BACKENDS) {
        a->foreign = true;
        return;
    }
    a->torn = a->torn || ruleset_knows_pick(a->ruleset, value);
    ruleset_note_pick(a->ruleset, value);
}

static void on_service(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                       size_t data_length)
{
    struct adoption *a = ctx;
    struct frontend frontend;
    uint32_t value;
    if (!frontend_of_key(a->ruleset->family, key, key_length, &frontend) ||
        data_length != sizeof(value)) {
        a->foreign = true;
        return;
    }
    memcpy(&value, data, sizeof(value));
    struct record *record = record_of_key(a, &frontend);
    a->torn = a->torn || record->service != 0;
    record->service = value;
    a->foreign = a->foreign || value == 0;
}

static void on_reject(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                      size_t data_length)
{
    struct adoption *a = ctx;
    struct frontend frontend;
    (void)data;
    (void)data_length;
    if (!frontend_of_key(a->ruleset->family, key, key_length, &frontend)) {
        a->foreign = true;
        return;
    }
    struct record *record = record_of_key(a, &frontend);
    a->torn = a->torn || record->rejected;
    record->rejected = true;
}

static void on_endpoint(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                        size_t data_length)
{
    struct adoption *a = ctx;
    struct frontend frontend;
    struct backend backend;
    uint32_t slot;
    if (!slot_of_key(a->ruleset->family, key, key_length, &frontend, &slot) ||
        !backend_of_value(a->ruleset->family, data, data_length, &backend)) {
        a->foreign = true;
        return;
    }
    struct record *record = record_of_key(a, &frontend);
    if (slot >= record->n_slots) {
        record->slots = xreallocarray(record->slots, slot + 1, sizeof(*record->slots));
        memset(record->slots + record->n_slots, 0,
               (slot + 1 - record->n_slots) * sizeof(*record->slots));
        record->n_slots = slot + 1;
    }
    a->torn = a->torn || !slot_is_empty(&record->slots[slot]);
    record->slots[slot] = backend;
}

static int read_back(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    static const struct {
        const char *name;
        nft_element_fn fn;
    } parts[] = {{MAP_PICKS, on_pick},
                 {MAP_SERVICES, on_service},
                 {SET_REJECTS, on_reject},
                 {MAP_ENDPOINTS, on_endpoint}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (nft_socket_read_elements(socket, a->ruleset->family, RULESET_TABLE, parts[i].name,
                                     parts[i].fn, a, err))
            return -1;
    return a->torn ? error_set(err, "the kernel gave elements twice") : 0;
}

/* What is found at the start is worth a line; what is found after a failure, while it lasts, not.
 */
static void say(const struct ruleset *rs, const char *what, size_t elements)
{
    if (!rs->adopted)
        log_info("ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                 elements);
    else
        log_debug(2, "ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                  elements);
}

/* Takes over what a table of our shape holds; false if it has to be made anew. */
static bool take_over(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        struct adoption a = {.ruleset = rs};
        forget_kernel(rs);
        bool same = false;
        if (read_back(&a, socket, &err) ||
            (!a.foreign && ruleset_verify_rules(rs, socket, &same, &err)))
            continue;
        error_clear(&err);
        a.foreign = a.foreign || !same;
        if (!a.foreign)
            say(rs, "adopted the table", a.elements);
        return !a.foreign;
    }
    /* A table that lost a map, or never stops changing, is not worth more trouble. */
    log_warn("ruleset", "family=%s making the table anew: %s", nft_family_name(rs->family),
             err.text);
    error_clear(&err);
    return false;
}

int ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct nft_table_state state;
    char comment[64];
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, err))
        return -1;
    ruleset_comment(comment);
    bool ours = state.exists && state.comment && strcmp(state.comment, comment) == 0;
    free(state.comment);

    rs->table_missing = !ours || !take_over(rs, socket);
    rs->table_replaced = state.exists && rs->table_missing;
    rs->kernel_known = true;
    if (rs->table_missing)
        forget_kernel(rs);
    if (rs->table_replaced)
        say(rs, "replacing a table of another shape", 0);
    rs->adopted = true;
    return 0;
}
