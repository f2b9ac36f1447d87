/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "audit.h"

/* After each piece, the audit pauses this many times as long. */
#define SHARE 200.0

/* Buckets of entries looked at in a piece. */
#define BUCKETS_MOST 128

/* Limit at a time; a later audit finds the rest. */
#define MOST_RECHECKS 900

static void recheck(struct ruleset *rs, enum table_set set, const struct key *key)
{
    const struct nft_element element = {.key = key->bytes, .key_length = key->length};
    if (rs->rechecks.n < MOST_RECHECKS)
        ruleset_recheck_element(rs, set_name(set), &element);
}

/* ---- seen elements: a bit for each of an entry's slots, since an element may come twice ---- */

#define WORD 32

/* The number of bit words of an entry, followed by them; NULL: nothing seen yet. */
static uint32_t *words_of(const struct audit *audit, const struct entry *entry)
{
    return entry->seen ? &audit->seen.v[entry->seen - 1] : NULL;
}

/* Slots added since the entry was first seen have no bit; they are rechecked. */
static void see(struct audit *audit, enum table_set set, struct entry *entry, uint32_t at)
{
    if (entry->seen == 0) {
        const uint32_t n = (entry_keys(set, entry) + WORD - 1) / WORD;
        entry->seen = (uint32_t)audit->seen.n + 1;
        vec_push(&audit->seen, n);
        for (uint32_t i = 0; i < n; i++)
            vec_push(&audit->seen, 0);
    }
    uint32_t *words = words_of(audit, entry);
    if (at / WORD < *words)
        words[1 + at / WORD] |= 1u << at % WORD;
}

static bool was_seen(const struct audit *audit, const struct entry *entry, uint32_t at)
{
    const uint32_t *words = words_of(audit, entry);
    return words && at / WORD < *words && words[1 + at / WORD] & 1u << at % WORD;
}

/* ---- sets ---- */

static void audit_element(void *ctx, const struct nft_element *element)
{
    struct audit *audit = ctx;
    struct ruleset *rs = audit->ruleset;
    const enum table_set set = audit->walk.set;
    struct applied_element applied;
    if (ruleset_find_applied(rs, set, element, &applied) && applied.same)
        see(audit, set, applied.entry, applied.element.slot);
    else if (rs->rechecks.n < MOST_RECHECKS)
        ruleset_recheck_element(rs, set_name(set), element);
}

static bool is_in(enum table_set set, const struct entry *entry)
{
    return entry->kind != ENTRY_PLAIN || plain_set(as_plain(entry)) == set;
}

static void look_for_missing(const struct audit *audit, enum table_set set,
                             const struct entry *entry)
{
    const uint32_t n = entry_keys(set, entry);
    for (uint32_t i = 0; i < n; i++) {
        if (!entry_has(set, entry, i) || was_seen(audit, entry, i))
            continue;
        const struct key key = entry_key(set, entry, i);
        recheck(audit->ruleset, set, &key);
    }
}

/* Elements can be missing only if all of the set was read (@whole). */
static void finish_set(struct audit *audit, enum table_set set, bool whole)
{
    hash_table_each (ruleset_entries(audit->ruleset, set), struct entry, entry) {
        if (!is_in(set, entry))
            continue;
        if (whole)
            look_for_missing(audit, set, entry);
        entry->seen = 0;
    }
    vec_free(&audit->seen);
}

static void check_rules(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    bool same = true;
    rs->flowtable.due = true;
    if (ruleset_knows_kernel(rs) && (!ruleset_is_still_ours(rs, socket) ||
                                     (rules_check(rs, socket, &same, &err) == 0 && !same)))
        ruleset_recheck_rules(rs);
    error_clear(&err);
}

/* ---- piece by piece ---- */

static uint64_t count_applied(void *ctx, enum table_set set)
{
    const struct audit *audit = ctx;
    uint64_t n = 0;
    hash_table_each (ruleset_entries(audit->ruleset, set), struct entry, entry)
        for (uint32_t i = 0; is_in(set, entry) && i < entry_keys(set, entry); i++)
            n += entry_has(set, entry, i);
    return n;
}

static void ask_entry(void *ctx, void *item)
{
    struct audit *audit = ctx;
    const struct entry *entry = item;
    const enum table_set set = audit->walk.set;
    for (uint32_t i = 0; is_in(set, entry) && i < entry_keys(set, entry); i++) {
        const struct key key = entry_key(set, entry, i);
        if (entry_has(set, entry, i))
            walk_ask(&audit->walk, &key);
    }
}

static bool ask_applied(void *ctx)
{
    struct audit *audit = ctx;
    const struct hash_table *entries = ruleset_entries(audit->ruleset, audit->walk.set);
    for (unsigned left = BUCKETS_MOST; left > 0 && walk_asked(&audit->walk) < NFT_KEYS_MOST;
         left--) {
        audit->cursor = hash_table_scan(entries, audit->cursor, ask_entry, audit);
        if (audit->cursor == 0)
            return false;
    }
    return true;
}

/* Commits go on, so what was seen says nothing; a dump is read to its end. */
static uint64_t count_found(void *ctx, enum table_set set)
{
    const struct audit *audit = ctx;
    return audit->walk.state == WALK_KEYS ? count_applied(ctx, set) : 0;
}

static void begin_set(struct audit *audit, enum table_set set)
{
    static const struct walk_ops ops = {count_applied, ask_applied, audit_element, count_found};
    audit->walk.ops = &ops;
    audit->walk.ctx = audit;
    walk_begin(&audit->walk, set);
    audit->cursor = 0;
    vec_free(&audit->seen);
}

void audit_stop(struct audit *audit)
{
    begin_set(audit, WALK_FIRST);
}

/* Returns whether the audit is complete. */
static bool step(struct audit *audit, struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    enum walk_result result = WALK_FAILED;
    if (ruleset_knows_kernel(rs))
        result = walk_step(&audit->walk, rs, socket, &err);
    if (err.text)
        log_debug(2, "table", "family=%s %s", family_name(rs->family), err.text);
    error_clear(&err);
    if (result == WALK_GOES_ON)
        return false;
    if (result == WALK_FOREIGN)
        recheck(rs, audit->walk.set, &(struct key){.length = 0});
    finish_set(audit, audit->walk.set, result == WALK_ENDED);
    begin_set(audit, walk_after(audit->walk.set));
    if (audit->walk.set < TABLE_SETS)
        return false;
    begin_set(audit, WALK_FIRST);
    check_rules(rs, socket);
    return true;
}

double audit_step(struct audit *audit, struct ruleset *rs, struct nft_socket *socket, double period,
                  double now, bool *found)
{
    if (!audit->ruleset) {
        audit->ruleset = rs;
        audit->due = now + period;
        begin_set(audit, WALK_FIRST);
    }
    if (now < audit->due)
        return audit->due;
    const enum table_set set = audit->walk.set;
    double begun = clock_cpu();
    const bool ended = step(audit, rs, socket);
    const double spent = clock_cpu() - begun;
    if (ended || audit->walk.set != set)
        *found = ruleset_has_rechecks(rs);
    audit->seconds += spent;
    audit->due = ended ? now + period : walk_rest(now, spent, SHARE);
    if (ended) {
        log_debug(2, "table", "family=%s audit completed cpu_seconds=%.6f", family_name(rs->family),
                  audit->seconds);
        audit->seconds = 0;
        audit->ended++;
    }
    return audit->due;
}
