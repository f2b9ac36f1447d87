/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: what the kernel rejects, and how it fails. */
#include "table_commands.h"

#include <errno.h>

static int error_in_words(const char *name)
{
    static const int errors[] = {EINVAL, ENOSPC, ENFILE,  EOVERFLOW, EEXIST, ENOENT,
                                 EPERM,  ENOMEM, ENOBUFS, EBUSY,     EINTR};
    for (int i = 0; i < COUNT(errors); i++)
        if (strcmp(strerrorname_np(errors[i]), name) == 0)
            return errors[i];
    return EINVAL;
}

COMMAND(fail)
{
    static const char *const faults[] = {"rejects", "busy", "memory", "buffers", "loses-answer"};
    const unsigned nth = script_number(&words, 1);
    int fault = 0;
    while (strcmp(words, faults[fault]) != 0)
        ck_assert_int_lt(++fault, COUNT(faults));
    fake_kernel_fail(nth, (enum fake_fault)fault);
}

COMMAND(spare)
{
    fputs(fake_kernel_spare() ? "it did not come\n" : "", out);
}

/* P of the service port of a frontend: the one that it has, or the next commit gives it. */
static uint32_t port_to_reject(unsigned number)
{
    const struct frontend f = frontend(number);
    const struct frontend_entry *record = ruleset_find_frontend(ruleset, &f);
    const struct port_entry *port = record ? record->port : NULL;
    uint32_t last = ruleset->numbers.last;
    if ((!port || !ruleset_knows_kernel(ruleset)) && fake_kernel_port(&f))
        return fake_kernel_port(&f);
    ck_assert_ptr_nonnull(port);
    if (port->number)
        return port->number;
    vec_each (&ruleset->dirty, it) {
        last += (*it)->kind == ENTRY_PORT && !as_port(*it)->number;
        if (*it == &port->entry)
            break;
    }
    return last << PORT_LOW_BITS;
}

static bool is_any_of(const char *name, const char *const names[])
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

static void reject_number(const char *set, uint32_t number, int why)
{
    fake_kernel_reject(set, &number, sizeof(number), why);
}

/* What the service port of a frontend has in @set, or in all of them. */
static void reject_port(const char *set, unsigned number, int why)
{
    static const char *const by_backend[] = {"affinity_backends", "local_affinity_backends", NULL};
    const uint32_t port = port_to_reject(number);
    if (!set || strcmp(set, "dropped_ports") == 0)
        reject_number("dropped_ports", port | CLASS_LOCAL, why);
    for (uint32_t i = 1; set && is_any_of(set, by_backend) && i <= 16; i++)
        reject_number(set, port | i, why);
    if (!set || strcmp(set, "dropped_ports") != 0)
        reject_number(set, port, why);
}

/* What a frontend has in @set, or its service port; of NULL, both in all of them. */
static void reject(const char *set, unsigned number, int why)
{
    const uint8_t any_client = 12;
    struct frontend f = frontend(number);
    if (set && strcmp(set, "allowed_sources") == 0)
        fake_kernel_reject(set, &any_client, sizeof(any_client), why);
    else if (!set || strcmp(set, "services") == 0)
        fake_kernel_reject_frontend(set, &f, why);
    if (!set || (strcmp(set, "allowed_sources") != 0 && strcmp(set, "services") != 0))
        reject_port(set, number, why);
}

/* "reject SET|all NUMBERS [ERROR]" */
COMMAND(reject)
{
    const char *set = intern(script_word(&words)); /* it is borrowed */
    struct numbers all;
    next_numbers(&words, &all);
    for (unsigned i = all.first; i <= all.last; i += all.step)
        reject(strcmp(set, "all") == 0 ? NULL : set, i, error_in_words(words));
}

/* "reject-key SET [KEY [ERROR]]": that begin like this. */
COMMAND(reject_key)
{
    const char *set = intern(script_word(&words));
    const struct key key = next_key(&words);
    fake_kernel_reject(set, key.bytes, key.length, error_in_words(words));
}

COMMAND(limit)
{
    const char *set = intern(script_word(&words));
    fake_kernel_limit(set, script_number(&words, 0));
}

COMMAND(reject_chain)
{
    const char *chain = intern(script_word(&words));
    fake_kernel_reject_chain(chain, error_in_words(words));
}

COMMAND(limit_chains)
{
    fake_kernel_limit_chains(script_number(&words, 0));
}

COMMAND(accept)
{
    fake_kernel_accept();
}

COMMAND(lack)
{
    static char expression[32];
    snprintf(expression, sizeof(expression), "%s", words);
    fake_kernel_lack(*words ? expression : NULL);
}

COMMAND(tear)
{
    fake_kernel_tear_reads(1, script_number(&words, 0));
}

/* "fail-reads NTH N [tables]"; with ENOBUFS if the table may be looked for. */
COMMAND(fail_reads)
{
    const unsigned nth = script_number(&words, 1), n = script_number(&words, 1);
    fake_kernel_fail_reads(nth, n, *words, *words ? EINTR : ENOBUFS);
}

static char intrusion[64];

static void intrude(void)
{
    script_line("take %s", intrusion);
}

/* "while-reading SET KEY": is taken by another program during a read that fails. */
COMMAND(while_reading)
{
    snprintf(intrusion, sizeof(intrusion), "%s", words);
    fake_kernel_while_failing(intrude);
}

COMMAND(cut)
{
    fake_kernel_cut(strcmp(words, "no") != 0);
}

COMMAND(churn)
{
    fake_kernel_churn(true);
}

COMMAND(uncounted)
{
    fake_kernel_tell_counts(false);
}

COMMAND(tolerate)
{
    fake_kernel_tolerate();
}
