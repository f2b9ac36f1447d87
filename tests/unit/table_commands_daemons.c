/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: daemons that start, and run at the same time. */
#include "table_commands.h"

static struct ruleset *daemons[3]; /* that are not the one of now */
static size_t daemon_now;
static unsigned names_asked;
static bool abandoned[MOST_NUMBERS];

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
    restart();
    fputs(mend_previous() ? "mended" : "nothing", out);
    const struct fake_counts *counts = fake_kernel_counts();
    if (counts->transactions || counts->attempts)
        fprintf(out, ", %zu transactions", counts->transactions);
    ck_assert_uint_eq(counts->tables + counts->added, 0);
    fputc('\n', out);
    tell_desired();
}

COMMAND(abandoned)
{
    for (unsigned i = 0; i < MOST_NUMBERS; i++)
        if (abandoned[i])
            fprintf(out, "%u\n", i);
    memset(abandoned, 0, sizeof(abandoned));
}

void forget_daemons(void)
{
    for (int i = 0; i < COUNT(daemons); i++) {
        ruleset_free(daemons[i]);
        daemons[i] = NULL;
    }
    daemon_now = names_asked = 0;
    memset(abandoned, 0, sizeof(abandoned));
    config.abandoned = on_abandoned;
}
