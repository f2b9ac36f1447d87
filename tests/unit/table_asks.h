/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cases in text about a table: commands that say what comes of it. tests/unit/cases/table explains
 * them. */
#ifndef KUBE_NFTD_TESTS_TABLE_ASKS_H
#define KUBE_NFTD_TESTS_TABLE_ASKS_H

#include "table_steps.h"

#include "table/audit.h"

#include <limits.h>
#include <math.h>

static struct ruleset *daemons[3]; /* that are not the one of now */
static size_t daemon_now;
static struct probe probe;
static unsigned names_asked;
static bool abandoned[MOST_NUMBERS];
static char failure[256];

/* ---- commits ---- */

static void write_sent(FILE *out)
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
    if (ruleset_trim_time(ruleset) != 0)
        fputs(", trim", out);
    if (figures->rejected)
        fprintf(out, ", %zu refused", figures->rejected);
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

/* "commit [within=N]": at most so many tries that the kernel refuses. */
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
COMMAND(settle)
{
    for (int turns = 0; turns == 0 || ruleset_trim_time(ruleset) != 0; turns++) {
        ck_assert_int_lt(turns, 100);
        now = fmax(now, ruleset_trim_time(ruleset));
        ck_assert_int_eq(try_commit(NULL), 0);
    }
    fputs("settled", out);
    write_undesired(out);
    fputc('\n', out);
}

/* Commits whenever it is time to try again, until nothing is refused. */
COMMAND(retry)
{
    for (int turns = 0; ruleset_retry_time(ruleset) != 0; turns++) {
        ck_assert_int_lt(turns, 10);
        now = fmax(now, ruleset_retry_time(ruleset));
        commit();
    }
    run_settle(words, out);
}

/* The same until chains that nothing uses are gone, too: at two looks each. */
COMMAND(rest)
{
    run_settle(words, out);
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
        until = ruleset_trim_time(ruleset);
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

/* ---- daemons ---- */

static void on_abandoned(void *ctx, const struct frontend *f)
{
    for (unsigned i = 0; i < desired.most; i++) {
        struct frontend other = frontend(i);
        abandoned[i] = abandoned[i] || memcmp(&other, f, sizeof(other)) == 0;
    }
}

/* The name of whose port is 80, and how often somebody asked. */
static char *name_owner(void *ctx, const struct frontend *f)
{
    names_asked++;
    return f->port == 80 ? xasprintf("default/web:http(%u)", names_asked) : NULL;
}

static bool configure(const char *word)
{
    char *value, *copy = (char *)word;
    if (strcmp(word, "owned") == 0)
        config.owned = true;
    else if (strcmp(word, "unowned") == 0)
        config.owned = false;
    else if (strcmp(word, "cidrs") == 0)
        config.detector = DETECT_CIDRS;
    else if (strcmp(word, "named") == 0)
        config.owner = name_owner;
    else if (strcmp(word, "flowtable") == 0)
        config.flowtable = true;
    else if (strcmp(word, "no-flowtable") == 0)
        config.flowtable = false;
    else if (script_option(copy, "dump", &value))
        config.dump_most = (uint32_t)atoi(value);
    else if (script_option(copy, "portion", &value))
        config.portion = (uint32_t)atoi(value);
    else if (script_option(copy, "numbers", &value))
        config.most_numbers = (uint32_t)atoi(value);
    else
        return false;
    return true;
}

/* "restart [WORDS] [empty]": another daemon, of which the same is desired, or nothing yet. */
COMMAND(restart)
{
    bool empty = false;
    for (char *word; *(word = script_word(&words));)
        empty = !configure(word) || empty;
    restart();
    if (empty)
        memset(&desired, 0, sizeof(desired));
    tell_desired();
}

/* One of several that run at the same time. */
COMMAND(daemon)
{
    const size_t next = script_number(&words, 0);
    daemons[daemon_now] = ruleset;
    ruleset = daemons[next] ? daemons[next] : new_ruleset();
    daemons[next] = NULL;
    daemon_now = next;
    tell_desired();
    for (unsigned i = 0; i < desired.most; i++) {
        tell_frontend(i); /* those that are gone, too */
        tell_port_of(i);
    }
}

/* The same daemon's other table, of which nothing is desired yet. */
COMMAND(other_family)
{
    ruleset_free(ruleset);
    begin(1 - (int)family);
    memset(&desired, 0, sizeof(desired));
}

/* Another daemon, of which nothing is desired yet, puts right what the rules are; then it is. */
COMMAND(mend)
{
    struct error err = {0};
    bool mended = true;
    restart();
    const int result = ruleset_repair_previous(ruleset, sock, &mended, &err);
    ck_assert_int_eq(err.text != NULL, result != 0);
    ck_assert(result == 0 || !mended);
    error_clear(&err);
    fputs(result != 0 ? "fails" : mended ? "mended" : "nothing", out);
    const struct fake_counts *counts = fake_kernel_counts();
    if (counts->transactions || counts->attempts)
        fprintf(out, ", %zu transactions", counts->transactions);
    ck_assert_uint_eq(counts->tables + counts->added, 0);
    fputc('\n', out);
    tell_desired();
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

/* ---- other programs' changes ---- */

/* How much there is to put right, of what was noted. */
COMMAND(look)
{
    const size_t n = ruleset_recheck(ruleset, sock);
    fprintf(out, "%zu%s\n", n, ruleset_knows_kernel(ruleset) ? "" : ", all is read back");
    ck_assert_uint_eq(ruleset_recheck(ruleset, sock), 0);
}

static struct audit audit;
static int set_looked_through;

static void take_one(void *ctx, const struct nft_element *element)
{
    unsigned *left = ctx;
    if (*left == 0)
        return;
    --*left;
    audit_take(&audit, ruleset, set_looked_through, element);
}

static void read_set(const char *name, unsigned most)
{
    struct error err = {0};
    set_looked_through = set_of_name(name);
    ck_assert_int_eq(
        nft_socket_read_elements(sock, family, RULESET_TABLE, name, take_one, &most, &err), 0);
}

/* "audit [SET N]": all sets, of SET the first @N elements only; or each of them @N times. */
COMMAND(audit)
{
    const char *torn = script_word(&words);
    const unsigned n = script_number(&words, 1);
    for (int set = 0; set < TABLE_SETS; set++) {
        for (unsigned i = 0; i < (strcmp(torn, "times") == 0 ? n : 1); i++)
            read_set(set_name(set), strcmp(torn, set_name(set)) == 0 ? n : UINT_MAX);
        audit_finish(&audit, ruleset, set, true);
    }
    audit_check_rules(ruleset, sock);
    fputs(ruleset_has_rechecks(ruleset) ? "suspects\n" : "", out);
}

/* Pieces of that: "audit-begin SET N", "audit-end SET". */
COMMAND(audit_begin)
{
    const char *set = script_word(&words);
    read_set(set, script_number(&words, 1));
}

COMMAND(audit_end)
{
    read_set(words, UINT_MAX);
    audit_finish(&audit, ruleset, set_looked_through, true);
}

/* Records of session affinity, and how often it was logged that there is hardly room for more. */
COMMAND(affinity_records)
{
    const struct ruleset_stats *figures = ruleset_stats(ruleset);
    affinity_count_records(ruleset, sock);
    if (figures->records_known)
        fprintf(out, "%u of %u", figures->records, figures->most_records);
    fprintf(out, "%s, %u logged\n", figures->records_known ? "" : "unknown",
            logged(LOG_LEVEL_WARN));
}

/* There is room for so many. */
COMMAND(affinity_room)
{
    const unsigned room = script_number(&words, 0);
    vec_each (&ruleset->base.sets, set)
        if (strcmp(set->name, "affinity") == 0)
            set->size = room;
    fake_kernel_limit("affinity", room);
}

/* What is said to somebody who asks why: "explain N [LOOKUPS [WISH]]". */
COMMAND(explain)
{
    const unsigned number = script_number(&words, 1);
    size_t lookups = script_number(&words, 100);
    const struct frontend f = frontend(number);
    const struct wish wish = desired_wish(number);
    struct route_memory memory;
    const struct route route = route_of(number, &wish);
    const struct port_route port = port_route_of(&wish, &memory);
    const struct probe_subject subject = {&f, wish.wanted ? &route : NULL,
                                          wish.wanted ? &port : NULL};
    struct error err = {0};
    probe_clear(&probe);
    if (ruleset_probe(ruleset, sock, &subject, &lookups, &probe, &err) != 0)
        fprintf(out, "%s\n", err.text ? "fails" : "fails without a word");
    error_clear(&err);
    vec_free(&memory.sources);
    vec_each (&probe.differences, difference)
        fprintf(out, "%s: %s\n", difference->set, difference->text);
    if (probe.skipped)
        fprintf(out, "skipped %zu of %zu\n", probe.skipped, probe.skipped + probe.all.found.n);
}

/* What else of the table is found then. */
COMMAND(explained)
{
    fprintf(out, "cluster IP %d, %zu sources in list %u, affinity %u\n", probe.cluster_ip,
            probe.sources, probe.source_list, probe.affinity_timeout);
}

COMMAND(rules)
{
    bool exists, same;
    ck_assert_int_eq(ruleset_probe_table(ruleset, sock, &exists, &same, NULL), 0);
    fprintf(out, "%s\n", !exists ? "none" : same ? "right" : "others");
}

/* ---- what there is ---- */

/* "check N WISH|gone": that is what packets get in place of what is desired. */
COMMAND(check)
{
    const unsigned number = script_number(&words, 0);
    struct desired_frontend f = {.wanted = strcmp(words, "gone") != 0};
    struct desired_port p = {0};
    parse_wish(words, number, &f, &p);
    const struct wish wish = {.wanted = f.wanted,
                              .external = f.external,
                              .local = f.local,
                              .all = p.all,
                              .here = p.here,
                              .sources = f.restricted ? p.sources : NULL};
    if (!goes(number, &wish))
        fprintf(out, "no\n");
}

/* What its slots have. */
COMMAND(slots)
{
    struct backend reached[MOST_BACKENDS];
    const struct frontend f = frontend(script_number(&words, 0));
    const size_t n = fake_kernel_backends(&f, reached, MOST_BACKENDS);
    fputs(n ? "" : "none", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%u", i ? " " : "", reached[i].address.bytes[3]);
    fputc('\n', out);
}

COMMAND(size)
{
    const char *mark = "";
    for (char *word; *(word = script_word(&words)); mark = " ")
        fprintf(out, "%s%zd", mark, (ssize_t)fake_kernel_size(family, word));
    fputc('\n', out);
}

COMMAND(sizes)
{
    const char *mark = "";
    for (size_t i = 0; i < SIZED; i++) {
        const size_t size = fake_kernel_size(family, sized[i]);
        if (size == 0)
            continue;
        fprintf(out, "%s%zd %s", mark, (ssize_t)size, sized[i]);
        mark = ", ";
    }
    fputs(*mark ? "\n" : "empty\n", out);
}

/* "has SET KEY": the number that it leads to, or that it is there. */
COMMAND(has)
{
    const char *set = script_word(&words);
    const struct key key = read_key(&words);
    size_t length = 0;
    uint32_t number;
    const uint8_t *value = fake_kernel_value(family, set, key.bytes, key.length, &length);
    if (value && length == sizeof(number)) {
        memcpy(&number, value, sizeof(number));
        fprintf(out, "%u\n", number);
        return;
    }
    fputs(value ? "yes\n" : "no\n", out);
}

/* Elements to be compared with what is there later: "note SET KEY", and "noted" for all of them. */
static struct noted {
    char words[64];
    uint8_t value[KEY_SIZE];
    size_t length;
} noted[16];
static size_t n_noted;

static void read_noted(struct noted *now_there, const char *text)
{
    char copy[64], *words = copy;
    snprintf(now_there->words, sizeof(now_there->words), "%s", text);
    snprintf(copy, sizeof(copy), "%s", text);
    const char *set = script_word(&words);
    const struct key key = read_key(&words);
    const uint8_t *value =
        fake_kernel_value(family, set, key.bytes, key.length, &now_there->length);
    memcpy(now_there->value, value ? value : (const uint8_t *)"", now_there->length);
}

COMMAND(note)
{
    ck_assert_uint_lt(n_noted, COUNT(noted));
    read_noted(&noted[n_noted++], words);
}

COMMAND(noted)
{
    for (size_t i = 0; i < n_noted; i++) {
        struct noted is = {.length = 0};
        read_noted(&is, noted[i].words);
        const bool same =
            is.length == noted[i].length && memcmp(is.value, noted[i].value, is.length) == 0;
        fprintf(out, "%s%s", i ? " " : "", same ? "same" : "other");
    }
    fputc('\n', out);
}

/* "routes N CLIENT": the backends that a client may get to, one with a record to just that. */
COMMAND(routes)
{
    char digits[MOST_BACKENDS + 1];
    const struct frontend f = frontend(script_number(&words, 0));
    const struct fake_client from = {.address = client(script_number(&words, 0))};
    struct fake_route route = fake_kernel_route(&f, &from);
    for (const char *at = digits_of(&route, digits); *at; at++)
        fprintf(out, "%s%c", at == digits ? "" : " ", *at);
    fputc('\n', out);
    fake_route_free(&route);
}

/* "hairpins N": backends 1 to 9 that are masqueraded when they reach themselves through a frontend;
 * and never otherwise. */
COMMAND(hairpins)
{
    const struct frontend f = frontend(script_number(&words, 0));
    const char *mark = "";
    for (unsigned digit = 1; digit < 10; digit++) {
        const struct fake_client from = {.address = backend(digit).address};
        struct fake_route route = fake_kernel_route(&f, &from);
        for (size_t i = 0; i < route.n; i++) {
            if (!route.to[i].masqueraded)
                continue;
            ck_assert_mem_eq(&route.to[i].backend.address, &from.address, 16);
            fprintf(out, "%s%u", mark, digit);
            mark = " ";
        }
        fake_route_free(&route);
    }
    fputc('\n', out);
}

COMMAND(chains)
{
    const char *mark = "";
    for (char *word; *(word = script_word(&words)); mark = " ")
        fprintf(out, "%s%s", mark, fake_kernel_has_chain(family, word) ? word : "-");
    fputc('\n', out);
}

/* "refused 1 2": of which of these. */
COMMAND(refused)
{
    const char *mark = "";
    EACH_NUMBER(i, &words)
    {
        const struct frontend f = frontend(i);
        ck_assert(!ruleset_is_waiting(ruleset, &f));
        if (!ruleset_is_rejected(ruleset, &f))
            continue;
        fprintf(out, "%s%u", mark, i);
        mark = " ";
    }
    fputc('\n', out);
}

COMMAND(frontends)
{
    fprintf(out, "%zu\n", ruleset_frontends(ruleset));
}

/* Records of the ruleset, with those that wait for the last of their elements to go. */
COMMAND(records)
{
    fprintf(out, "%zu frontends, %zu ports, %zu elements of nobody\n", ruleset->frontends.n,
            ruleset->ports.n, ruleset->plain.all.n);
}

COMMAND(figures)
{
    const struct ruleset_stats *f = ruleset_stats(ruleset);
    log_flush(INFINITY);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"elements", f->elements},           {"read-backs", f->read_backs},
               {"refusals", f->rejections},         {"mistakes", f->mistakes},
               {"replaced", f->replaced},           {"rewritten", f->rewritten},
               {"errors", logged(LOG_LEVEL_ERROR)}, {"looked-up", fake_kernel_counts()->looked_up}};
    const char *mark = "";
    for (char *word; *(word = script_word(&words)); mark = " ")
        for (int i = 0; i < COUNT(all); i++)
            if (strcmp(word, all[i].name) == 0)
                fprintf(out, "%s%llu", mark, (unsigned long long)all[i].value);
    fputc('\n', out);
}

COMMAND(flags)
{
    const uint32_t flags = fake_kernel_table_flags(family);
    fprintf(out, "%s%s%s\n", flags ? "" : "none", flags & NFT_TABLE_OWNED ? "owned " : "",
            flags & NFT_TABLE_PERSISTENT ? "persistent" : "");
}

/* "0" stands for none of that name. */
COMMAND(priority)
{
    const int priority = fake_kernel_priority(family, words);
    fprintf(out, "%d\n", priority == INT_MAX ? 0 : priority);
}

COMMAND(log)
{
    write_logged(out, LOG_LEVEL_ERROR);
}

/* How many warnings there were so far. */
COMMAND(warnings)
{
    fprintf(out, "%u\n", logged(LOG_LEVEL_WARN));
}

COMMAND(failure)
{
    fprintf(out, "%s\n", strstr(failure, words) ? "yes" : failure);
}

COMMAND(abandoned)
{
    for (unsigned i = 0; i < MOST_NUMBERS; i++)
        if (abandoned[i])
            fprintf(out, "%u\n", i);
    memset(abandoned, 0, sizeof(abandoned));
}

#endif
