/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When an audit of the table goes on, and what the monitor tells meanwhile. Against a kernel in
 * memory (fake_kernel.h); what audits find: tests/unit/cases/table_foreign. */
#include "unit.h"

#include "table_model.h"

#include "table/audit.h"
#include "table/guard.h"

static struct key key_of_one;

/* Of two frontends, the kernel does not have the first. */
static void begin_without_one(int which)
{
    begin(which);
    want("1..2 123");
    commit();
    const struct frontend f = frontend(1);
    key_of_one = key_of_frontend(&f);
    fake_kernel_take(family, "services", key_of_one.bytes, key_of_one.length);
    fake_kernel_tolerate();
}

static size_t services(void)
{
    return fake_kernel_size(family, "services");
}

/* An audit that finds what is missing, and what the monitor tells of it before it is put right. */
static const struct news {
    const char *name;
    int heard, settled; /* milliseconds behind the audit; 0: never */
    int held;           /* until when nothing is put right */
    uint64_t repairs, drift;
} all_news[] = {
    {"nobody did it", 0, 0, 40, 0, 1},
    {"events that come later", 10, 20, 20, 1, 0},
    {"events that come much later", 40, 60, 60, 1, 0},
};

TEST_ROWS(an_audit_waits_for_the_news, all_news)
{
    const struct table_program by = {.pid = 4711, .name = "nft"};
    struct guard guard = {0};
    struct audit audit = {.due = 0};
    bool found = false;
    begin_without_one(FAMILY_IPV4);
    const struct nft_element element = {.key = key_of_one.bytes, .key_length = key_of_one.length};
    const struct table_change change = {.family = family, .set = "services", .element = &element};
    for (double at = 0; !found; at++)
        audit_turn(&audit, ruleset, sock, 1, at, &found);
    audit_stop(&audit);
    ck_assert(ruleset_has_suspects(ruleset));
    for (int ms = 0; ms < 100; ms += 10) {
        const double at = 1000 + ms / 1000.0 + 1e-6;
        if (ms == 0 || ruleset_has_suspects(ruleset))
            guard_audited(&guard, at);
        if (ms > 0 && ms == row->heard)
            guard_changed(&guard, ruleset, &change);
        if (ms > 0 && ms == row->settled)
            guard_settled(&guard, &by);
        bool held = guard_check(&guard, ruleset, sock, at, ms % 20 == 0) > at;
        ck_assert_int_eq(held, ms < row->held);
        if (held || !ruleset_needs_commit(ruleset, now))
            continue;
        struct ruleset_stats stats = commit();
        guard_committed(&guard, "IPv4", ruleset, &stats, at);
    }
    ck_assert_uint_eq(guard.repairs, row->repairs);
    ck_assert_uint_eq(guard.drift, row->drift);
    ck_assert_uint_eq(services(), 2);
}

/* Set by set, each when it is due, and then after a period all of it again. */
EACH_FAMILY(audits_go_on_in_pieces)
{
    const double period = 60;
    struct audit audit = {.due = 0};
    bool found = false;
    begin_without_one(_i);
    double start = now, next = audit_turn(&audit, ruleset, sock, period, now, &found);
    ck_assert_double_eq(next, start + period);
    for (int audits = 0; audits < 2; audits++) {
        for (int set = 0; set < TABLE_SETS; set++) {
            ck_assert_uint_eq(audit.ended, audits);
            now = next - 0.0001;
            ck_assert_double_eq(audit_turn(&audit, ruleset, sock, period, now, &found), next);
            now = next;
            next = audit_turn(&audit, ruleset, sock, period, now, &found);
            ck_assert_double_gt(next, now);
        }
        ck_assert_uint_eq(audit.ended, audits + 1);
        ck_assert_double_eq(next, now + period);
        ck_assert(found == (audits == 0));
        found = false;
        ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), audits == 0);
        commit_sends(audits == 0, 0);
        ck_assert_uint_eq(services(), 2);
    }
    audit_stop(&audit);
}

UNIT_FIXTURE(set_up_desired, teardown)
