/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: commits, and what comes of them. */
#include "table_commands.h"

#include <math.h>

static char failure[256]; /* of the last one */

void write_sent(FILE *out)
{
    const struct fake_counts *counts = fake_kernel_counts();
    const char *mark = "";
    if (counts->tables)
        fputs("new table", out), mark = ", ";
    if (counts->added || counts->deleted)
        fprintf(out, "%s+%zu -%zu", mark, counts->added, counts->deleted), mark = ", ";
    if (counts->chains && !counts->tables)
        fprintf(out, "%s%zu chains", mark, counts->chains), mark = ", ";
    if (counts->rules && !counts->chains)
        fprintf(out, counts->rules < 10 ? "%s%zu rules" : "%smany rules", mark, counts->rules),
            mark = ", ";
    if (counts->verdicts && !counts->chains && !counts->tables)
        fprintf(out, "%s%zu verdicts", mark, counts->verdicts), mark = ", ";
    if (!counts->transactions)
        fputs("nothing", out);
    else if (!*mark)
        fputs("no elements", out);
    if (counts->transactions > 1)
        fputs(counts->transactions == 2 ? ", 2 transactions" : ", several transactions", out);
}

/* What waits for another commit, and what is not as desired. */
static void write_rest(FILE *out)
{
    const struct ruleset_stats *figures = ruleset_stats(ruleset);
    if (ruleset_needs_commit(ruleset, now))
        fputs(", more", out);
    if (trim_time() != 0)
        fputs(", trim", out);
    if (figures->rejected)
        fprintf(out, ", %zu rejected", figures->rejected);
    if (figures->limited[LIMIT_NUMBERS])
        fprintf(out, ", %zu without a number", figures->limited[LIMIT_NUMBERS]);
    if (figures->rejected_elements)
        fprintf(out, ", %zu left out", figures->rejected_elements);
    ck_assert((ruleset_retry_time(ruleset) != 0) ==
              (figures->rejected + figures->rejected_elements > 0));
    ck_assert(ruleset_retry_time(ruleset) == 0 || ruleset_retry_time(ruleset) > now);
    write_undesired(out);
}

static void check_stats(const struct commit_stats *stats)
{
    const struct fake_counts *counts = fake_kernel_counts();
    if (counts->tables || counts->chains || counts->rules || counts->verdicts ||
        counts->attempts > counts->transactions)
        return;
    ck_assert_uint_eq(stats->elements_added, counts->added);
    ck_assert_uint_eq(stats->elements_deleted, counts->deleted);
    ck_assert_int_ge(stats->bytes > 0, counts->added + counts->deleted > 0);
}

/* "commit [within=N]": at most so many tries that the kernel rejects. */
COMMAND(commit)
{
    struct commit_stats stats;
    struct error err = {0};
    const struct fake_counts *counts = fake_kernel_counts();
    char *within = NULL;
    memset(&stats, 0xaa, sizeof(stats));
    fake_kernel_forget_counts();
    fake_kernel_set_time(now);
    const int result = ruleset_commit(ruleset, sock, now, &stats, &err);
    snprintf(failure, sizeof(failure), "%s", err.text ? err.text : "");
    ck_assert_int_eq(err.text != NULL, result != 0);
    error_clear(&err);
    if (result != 0)
        fputs("fails", out);
    else
        check_stats(&stats), write_sent(out);
    if (result != 0 && !ruleset_needs_commit(ruleset, now))
        fputs(", for good", out);
    if (ruleset->state == TABLE_OWNED_ELSEWHERE)
        fputs(", owned elsewhere", out);
    if (script_option(words, "within", &within))
        ck_assert_uint_le(counts->attempts, (unsigned)atoi(within));
    if (result == 0)
        write_rest(out);
    fputc('\n', out);
}

/* "read N": so many steps of reading the table back. */
COMMAND(read)
{
    struct error err = {0};
    enum adoption_result result = ADOPTION_GOES_ON;
    for (unsigned n = script_number(&words, 1); n > 0 && result == ADOPTION_GOES_ON; n--)
        result = ruleset_adopt(ruleset, sock, now, 0, &err);
    ck_assert_int_eq(err.text != NULL, result == ADOPTION_FAILED);
    error_clear(&err);
    fputs(result == ADOPTION_GOES_ON ? "goes on\n" : result ? "fails\n" : "read\n", out);
}

/* Commits as long as the rest of it is due, and then what is to be trimmed. */
COMMAND(sync)
{
    for (int turns = 0; turns == 0 || trim_time() != 0; turns++) {
        ck_assert_int_lt(turns, 100);
        now = fmax(now, trim_time());
        ck_assert_int_eq(try_commit(NULL), 0);
    }
    fputs("synced", out);
    write_undesired(out);
    fputc('\n', out);
}

/* Commits whenever it is time to try again, until nothing is rejected. */
COMMAND(retry)
{
    for (int turns = 0; ruleset_retry_time(ruleset) != 0; turns++) {
        ck_assert_int_lt(turns, 10);
        now = fmax(now, ruleset_retry_time(ruleset));
        commit();
    }
    run_sync(words, out);
}

/* The same until chains that nothing uses are gone, too: at two looks each. */
COMMAND(rest)
{
    run_sync(words, out);
    for (int turns = 0; ruleset->collect_time != 0 && turns < 3; turns++) {
        now = ruleset->collect_time;
        ck_assert(ruleset_needs_commit(ruleset, now));
        commit();
    }
    ck_assert(!ruleset_needs_commit(ruleset, now));
}

/* "wait 0.05", "wait trims", "wait trim|retry|collect", which says for how long. */
COMMAND(wait)
{
    double until = now + strtod(words, NULL);
    if (strcmp(words, "trims") == 0)
        until = now + 2 * RULESET_TRIM_DELAY;
    else if (strcmp(words, "trim") == 0)
        until = trim_time();
    else if (strcmp(words, "retry") == 0)
        until = ruleset_retry_time(ruleset);
    else if (strcmp(words, "collect") == 0)
        until = ruleset->collect_time;
    ck_assert_double_gt(until, now);
    if (strcmp(words, "trims") != 0 && *words > '9')
        fprintf(out, "%.3g\n", until - now);
    now = until;
    ck_assert(*words <= '9' || words[4] == 's' || ruleset_needs_commit(ruleset, now));
}

COMMAND(needs_commit)
{
    fputs(ruleset_needs_commit(ruleset, now) ? "yes\n" : "no\n", out);
}

COMMAND(cleanup)
{
    struct error err = {0};
    bool existed = false;
    const enum family which = *words ? (enum family)(1 - family) : family;
    const int result = ruleset_cleanup(sock, which, &existed, &err);
    snprintf(failure, sizeof(failure), "%s", err.text ? err.text : "");
    fputs(result ? "fails\n" : existed ? "gone\n" : "nothing\n", out);
    error_clear(&err);
}

COMMAND(failure)
{
    fprintf(out, "%s\n", strstr(failure, words) ? "yes" : failure);
}

/* ---- the flowtable ---- */

/* "follow": what the flowtable has then, in one transaction or none; what is left out of it, and
 * when to try again. */
COMMAND(follow)
{
    fake_kernel_forget_counts();
    fake_kernel_set_time(now);
    const double next = flowtable_sync(ruleset, sock, now);
    const struct ruleset_flowtable flowtable = ruleset_flowtable(ruleset);
    char *devices = fake_kernel_devices(family);
    fprintf(out, "%s", devices ? *devices ? devices : "no devices" : "no flowtable");
    if (fake_kernel_counts()->transactions)
        fprintf(out, ", sent");
    if (fake_kernel_counts()->attempts > fake_kernel_counts()->transactions)
        fprintf(out, " after %zu rejections",
                fake_kernel_counts()->attempts - fake_kernel_counts()->transactions);
    vec_each (flowtable.rejected, it)
        fprintf(out, ", without %s: %s", it->device.name, strerror(it->why));
    if (flowtable.failure)
        fprintf(out, ", fails: %s", flowtable.failure);
    if (next)
        fprintf(out, ", again in %.3g s", next - now);
    fputc('\n', out);
    free(devices);
}

/* How many that are, and of how many messages. */
COMMAND(follow_count)
{
    fake_kernel_forget_counts();
    ck_assert_double_eq(flowtable_sync(ruleset, sock, now), 0);
    const struct fake_counts *counts = fake_kernel_counts();
    fprintf(out, "%zu devices, %zu transactions of %zu messages\n",
            ruleset_flowtable(ruleset).devices->n, counts->transactions, counts->messages);
}

/* What it is known to have. */
COMMAND(followed)
{
    vec_each (ruleset_flowtable(ruleset).devices, device)
        fprintf(out, "%s%s", device == ruleset_flowtable(ruleset).devices->v ? "" : " ",
                device->name);
    fputc('\n', out);
}
