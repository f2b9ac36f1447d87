/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: what it has, and what is said of that. */
#include "table_commands.h"

#include <limits.h>
#include <linux/netfilter/nf_tables.h>
#include <math.h>

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
    const struct key key = next_key(&words);
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
    const struct key key = next_key(&words);
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

/* "rejected 1 2": of which of these. */
COMMAND(rejected)
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
            ruleset->ports.n, ruleset->plains.n);
}

COMMAND(figures)
{
    const struct ruleset_stats *f = ruleset_stats(ruleset);
    log_flush(INFINITY);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"elements", f->elements},           {"read-backs", f->read_backs},
               {"rejections", f->rejections},       {"mistakes", f->mistakes},
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

/* "log [info]": errors, or all lines up to that level. */
COMMAND(log)
{
    write_logged(out, strcmp(words, "info") == 0 ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
}

/* How many warnings there were so far. */
COMMAND(warnings)
{
    fprintf(out, "%u\n", logged(LOG_LEVEL_WARN));
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

/* ---- what is explained ---- */

static struct probe probe;

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

void forget_noted(void)
{
    n_noted = 0;
    probe_clear(&probe);
}
