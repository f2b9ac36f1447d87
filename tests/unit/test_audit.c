/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When an audit of the table goes on, and what the monitor tells meanwhile. Against a kernel in
 * memory (fake_kernel.h); what audits find: tests/unit/cases/table_foreign. */
#include "unit.h"

#include "table_model.h"

#include "table/audit.h"
#include "table/foreign.h"

static struct key key_of_one;

/* The kernel does not have the first frontend any more. */
static void take_one(void)
{
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
    const char *waits;  /* what Services change meanwhile goes with the repair, and is no drift */
    uint64_t repairs, drift;
} all_news[] = {
    {"nobody did it", 0, 0, 40, "", 0, 1},
    {"nobody did it, and a Service changes", 0, 0, 40, "2 45", 0, 1},
    {"events that come later", 10, 20, 20, "", 1, 0},
    {"events that come much later", 40, 60, 60, "", 1, 0},
};

TEST_ROWS(an_audit_waits_for_the_news, all_news)
{
    const struct table_program by = {.pid = 4711, .name = "nft"};
    const struct table_config with_audits = {
        .family = FAMILY_IPV4, .ruleset = config, .audit_period = 1};
    struct table *table = table_new(&with_audits, NULL);
    struct table_view view;
    family = FAMILY_IPV4;
    ruleset = table_changing(table);
    want("1..2 123");
    table_sync(table, false, NULL, sock, now);
    take_one();
    const struct nft_element element = {.key = key_of_one.bytes, .key_length = key_of_one.length};
    const struct table_change change = {.family = family, .set = "services", .element = &element};
    while (!ruleset_has_rechecks(ruleset))
        table_sync(table, false, NULL, sock, ++now);
    if (*row->waits)
        want(row->waits);
    for (int ms = 0; ms < 100; ms += 10) {
        if (ms > 0 && ms == row->heard)
            table_foreign_change(table, &change);
        if (ms > 0 && ms == row->settled)
            table_foreign_finished(table, &by);
        if (ms > 0)
            table_sync(table, false, NULL, sock, now + ms / 1000.0 + 1e-6);
        ck_assert_uint_eq(services(), ms < row->held ? 1 : 2);
    }
    table_view(table, now, &view);
    ck_assert_uint_eq(view.repairs, row->repairs);
    ck_assert_uint_eq(view.drift, row->drift);
    table_free(table);
    ruleset = NULL;
}

/* Set by set, each when it is due, and then after a period all of it again. */
EACH_FAMILY(audits_go_on_in_pieces)
{
    const double period = 60;
    struct audit audit = {.due = 0};
    bool found = false;
    begin(_i);
    want("1..2 123");
    commit();
    take_one();
    double start = now, next = audit_step(&audit, ruleset, sock, period, now, &found);
    ck_assert_double_eq(next, start + period);
    for (int audits = 0; audits < 2; audits++) {
        for (int set = 0; set < TABLE_SETS; set++) {
            ck_assert_uint_eq(audit.ended, audits);
            now = next - 0.0001;
            ck_assert_double_eq(audit_step(&audit, ruleset, sock, period, now, &found), next);
            now = next;
            next = audit_step(&audit, ruleset, sock, period, now, &found);
            ck_assert_double_gt(next, now);
        }
        ck_assert_uint_eq(audit.ended, audits + 1);
        ck_assert_double_eq(next, now + period);
        ck_assert(found == (audits == 0));
        found = false;
        ck_assert_uint_eq(ruleset_recheck(ruleset, sock).differences, audits == 0);
        commit_sends(audits == 0, 0);
        ck_assert_uint_eq(services(), 2);
    }
    audit_stop(&audit);
}

/* After many repairs the next one waits long, whoever found what is wrong; Services that change
 * wait a second. */
EACH_FAMILY(changes_do_not_wait_for_the_pace_of_repairs)
{
    begin(_i);
    want("1..2 123");
    commit();
    for (enum foreign_state state = FOREIGN_AUDITED; state <= FOREIGN_REPORTED; state++) {
        struct foreign foreign = {.state = state, .pace = {.last = now, .wait = 10}};
        ck_assert_double_eq(foreign_check(&foreign, ruleset, sock, false, now), now + 10);
        ck_assert_double_eq(foreign_check(&foreign, ruleset, sock, true, now), now + CHANGE_RETRY);
    }
}

UNIT_FIXTURE(set_up_desired, teardown)
