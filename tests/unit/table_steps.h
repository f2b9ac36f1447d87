/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cases in text do to a table and to the kernel below it: commands without anything of their
 * own to say. tests/unit/cases/table explains them. */
#ifndef KUBE_NFTD_TESTS_TABLE_STEPS_H
#define KUBE_NFTD_TESTS_TABLE_STEPS_H

#include "table_elements.h"

#include <errno.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

static inline unsigned script_number(char **words, unsigned otherwise)
{
    const char *word = script_word(words);
    return *word ? (unsigned)strtoul(word, NULL, 0) : otherwise;
}

/* ---- what is desired ---- */

COMMAND(set)
{
    want(words);
}

COMMAND(drop)
{
    EACH_NUMBER(i, &words)
    {
        desired.frontends[i].wanted = false;
        tell_frontend(i);
        tell_port_of(desired.frontends[i].port);
    }
}

COMMAND(port)
{
    struct desired_frontend none = {0};
    const unsigned port = script_number(&words, 0);
    desired.ports[port] = (struct desired_port){.stays = true};
    note_number(port);
    parse_wish(words, port, &none, &desired.ports[port]);
    tell_port_of(port);
}

COMMAND(drop_port)
{
    const unsigned port = script_number(&words, 0);
    desired.ports[port].stays = false;
    ruleset_remove_port(ruleset, port + 1);
}

COMMAND(lead)
{
    struct numbers all;
    next_numbers(&words, &all);
    const unsigned port = script_number(&words, 0);
    for (unsigned i = all.first; i <= all.last; i += all.step) {
        struct desired_port unused;
        desired.frontends[i] = (struct desired_frontend){.wanted = true, .port = port};
        parse_wish(words, i, &desired.frontends[i], &unused);
        tell_frontend(i);
    }
}

/* Its service port does not hear of it. */
COMMAND(unlead)
{
    EACH_NUMBER(i, &words)
    {
        desired.frontends[i].wanted = false;
        tell_frontend(i);
    }
}

/* Names in order; "eth0#2" is another device of that name. */
COMMAND(devices)
{
    device_vec devices = {0};
    for (char *word; *(word = script_word(&words));) {
        struct device device = {.index = 1};
        char *number = strchr(word, '#');
        if (number)
            device.index = (uint32_t)atoi(number + 1);
        memcpy(device.name, word, number ? (size_t)(number - word) : strlen(word));
        vec_push(&devices, device);
    }
    ruleset_set_devices(ruleset, &devices);
    vec_free(&devices);
}

/* So many devices, dev0000 and so on. */
COMMAND(many_devices)
{
    device_vec devices = {0};
    char *names = xstrdup("");
    for (unsigned i = 0, n = script_number(&words, 0); i < n; i++) {
        struct device device = {.index = i};
        snprintf(device.name, sizeof(device.name), "dev%04u", i);
        vec_push(&devices, device);
        char *longer = xasprintf("%s %s", names, device.name);
        free(names);
        names = longer;
    }
    fake_kernel_have_devices(names);
    ruleset_set_devices(ruleset, &devices);
    vec_free(&devices);
    free(names);
}

COMMAND(have)
{
    fake_kernel_have_devices(words);
}

COMMAND(keep_names)
{
    fake_kernel_keep_device_names(true);
}

/* "hook NAME": it is refused; "hook": all are taken. */
COMMAND(unhookable)
{
    static char *name;
    free(name);
    name = *words ? xstrdup(words) : NULL;
    fake_kernel_refuse_device(name, EOPNOTSUPP);
}

COMMAND(take_device)
{
    fake_kernel_drop_device(family, words);
    ruleset_recheck_rules(ruleset);
}

/* Of which nobody is told. */
COMMAND(steal_device)
{
    fake_kernel_drop_device(family, words);
}

COMMAND(take_flowtable)
{
    fake_kernel_drop_flowtable(family);
    ruleset_recheck_rules(ruleset);
}

static void change_backends(char *all, unsigned number, bool more)
{
    struct backend backends[MOST_BACKENDS];
    bool has[MOST_NUMBERS] = {false};
    const size_t n = backends_of(all, backends);
    for (size_t i = 0; i < n; i++)
        has[backends[i].address.bytes[2] << 8 | backends[i].address.bytes[3]] = true;
    has[number] = more;
    size_t length = 0;
    *all = '\0';
    for (unsigned i = 0, first = 0; i + 1 < MOST_NUMBERS; i++) {
        first = has[i] && (i == 0 || !has[i - 1]) ? i : first;
        if (has[i] && !has[i + 1])
            length += (size_t)snprintf(all + length, 80 - length, "%s%u..%u", length ? "," : "",
                                       first, i);
    }
}

/* "change 1 +5 -100": a difference of a port's backends. */
COMMAND(change)
{
    struct backend_change changes[32];
    struct port_route_change change = {.backends = changes};
    const unsigned port = script_number(&words, 0);
    char *listed = xstrdup(words), *rest = listed;
    for (char *word; *(word = script_word(&rest));)
        changes[change.n_backends++] =
            (struct backend_change){backend((unsigned)atoi(word + 1)), *word == '+'};
    const bool taken = ruleset_change_port(ruleset, port + 1, &change);
    fputs(taken ? "" : "not taken\n", out);
    for (char *word; taken && *(word = script_word(&words));)
        change_backends(desired.ports[port].all, (unsigned)atoi(word + 1), *word == '+');
    free(listed);
}

COMMAND(pods)
{
    want_pods(words);
}

COMMAND(service_cidrs)
{
    want_service_cidrs(words);
}

/* Each time is another use of it. */
static void set_cluster_ips(char *words, bool more)
{
    EACH_NUMBER(i, &words)
    {
        const struct frontend f = frontend(i);
        desired.frontends[i].cluster_ip += more ? 1 : -1;
        ruleset_use_cluster_ip(ruleset, &f.address, more);
        ck_assert_int_eq(ruleset_has_cluster_ip(ruleset, &f.address),
                         desired.frontends[i].cluster_ip > 0);
    }
}

COMMAND(cluster_ip)
{
    set_cluster_ips(words, true);
}

COMMAND(no_cluster_ip)
{
    set_cluster_ips(words, false);
}

static void set_hairpins(char *words, bool in_use)
{
    EACH_NUMBER(i, &words)
    {
        struct backend b = backend(i);
        ruleset_use_hairpin(ruleset, &b.address, in_use);
    }
}

COMMAND(hairpin)
{
    set_hairpins(words, true);
}

COMMAND(no_hairpin)
{
    set_hairpins(words, false);
}

/* ---- what other programs do ---- */

static struct key read_key(char **words)
{
    const char *word = script_word(words);
    char text[64];
    ck_assert_uint_lt(strlen(word), sizeof(text));
    strcpy(text, word);
    return *text ? key_in_words(text) : (struct key){.length = 0};
}

static void put_element(char *words, bool take_first, bool put)
{
    const char *set = script_word(&words);
    const struct key key = read_key(&words), value = read_key(&words);
    if (take_first)
        fake_kernel_take(family, set, key.bytes, key.length);
    if (put)
        fake_kernel_put(family, set, key.bytes, key.length, value.length ? value.bytes : NULL,
                        value.length);
}

COMMAND(put)
{
    put_element(words, false, true);
}

COMMAND(take)
{
    put_element(words, true, false);
}

COMMAND(replace)
{
    put_element(words, true, true);
}

/* The end of a range, which is the first address behind it. */
COMMAND(put_end)
{
    const char *set = script_word(&words);
    const struct key key = read_key(&words);
    fake_kernel_put_end(family, set, key.bytes, key.length);
}

/* "suspect rules|all", "suspect SET KEY [times=N]" */
COMMAND(suspect)
{
    char *times = "1";
    const char *set = script_word(&words);
    if (strcmp(set, "rules") == 0)
        ruleset_recheck_rules(ruleset);
    else if (strcmp(set, "all") == 0)
        ruleset_recheck_all(ruleset);
    const struct key key = read_key(&words);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    script_option(words, "times", &times);
    for (int n = atoi(times); key.length && n > 0; n--)
        ruleset_recheck_element(ruleset, set, &element);
}

/* What of that is done behind "seen" is seen as well. */
COMMAND(seen)
{
    const char *what = script_word(&words);
    char *element = xstrdup(words);
    put_element(element, strcmp(what, "put") != 0, strcmp(what, "take") != 0);
    run_suspect(words, out);
    free(element);
}

COMMAND(redirect)
{
    const char *map = script_word(&words);
    const unsigned key = script_number(&words, 0);
    fake_kernel_lead(family, map, key, script_word(&words));
}

COMMAND(flush)
{
    fake_kernel_flush_chain(family, words);
}

COMMAND(copy_rule)
{
    const char *from = script_word(&words);
    fake_kernel_copy_rule(family, from, script_word(&words));
}

COMMAND(change_operand)
{
    const unsigned rule = script_number(&words, 0);
    free(fake_kernel_change_operand(family, rule, script_number(&words, 0)));
}

/* "put-chain NAME [output|policy]": one of a hook; or the policy of what is there is to drop. */
COMMAND(put_chain)
{
    const char *name = script_word(&words);
    const int hook = strcmp(words, "output") == 0 ? NF_INET_LOCAL_OUT : -1;
    fake_kernel_put_chain(family, name, strcmp(words, "policy") == 0 ? 0 : hook, *words != '\0');
}

COMMAND(drop_chain)
{
    fake_kernel_drop_chain(family, words);
}

COMMAND(drop_set)
{
    fake_kernel_drop_set(family, words);
}

COMMAND(drop_table)
{
    fake_kernel_drop_table(family);
}

COMMAND(comment)
{
    fake_kernel_set_comment(family, *words ? words : NULL);
}

/* "declare SET WHAT NUMBER": by another program. */
COMMAND(declare)
{
    static const struct {
        const char *name;
        uint16_t attribute;
        size_t length;
    } all[] = {{"size", NFTNL_SET_DESC_SIZE, 4},     {"flags", NFTNL_SET_FLAGS, 4},
               {"policy", NFTNL_SET_POLICY, 4},      {"key-type", NFTNL_SET_KEY_TYPE, 4},
               {"key-length", NFTNL_SET_KEY_LEN, 4}, {"value-type", NFTNL_SET_DATA_TYPE, 4},
               {"timeout", NFTNL_SET_TIMEOUT, 8},    {"gc-interval", NFTNL_SET_GC_INTERVAL, 4},
               {"user-data", NFTNL_SET_USERDATA, 8}};
    const char *set = script_word(&words), *what = script_word(&words);
    const uint32_t number = (uint32_t)atoi(words);
    const uint64_t wide = number;
    size_t i = 0;
    while (strcmp(what, all[i].name) != 0)
        ck_assert_uint_lt(++i, COUNT(all));
    fake_kernel_declare(family, set, all[i].attribute,
                        all[i].length == sizeof(wide) ? (const void *)&wide : &number,
                        all[i].length);
}

COMMAND(dormant)
{
    fake_kernel_set_flags(family, NFT_TABLE_DORMANT);
}

COMMAND(owner)
{
    fake_kernel_set_owner(family,
                          strcmp(words, "none") == 0 ? FAKE_OWNER_NONE : FAKE_OWNER_ELSEWHERE);
}

/* ---- what the kernel refuses ---- */

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
    static const char *const faults[] = {"refuses", "busy", "memory", "buffers", "loses-answer"};
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
static uint32_t port_to_refuse(unsigned number)
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
        last += (*it)->is_port && !as_port(*it)->number;
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

static void refuse_number(const char *set, uint32_t number, int why)
{
    fake_kernel_refuse(set, &number, sizeof(number), why);
}

/* What the service port of a frontend has in @set, or in all of them. */
static void refuse_port(const char *set, unsigned number, int why)
{
    static const char *const by_backend[] = {"affinity_backends", "local_affinity_backends", NULL};
    const uint32_t port = port_to_refuse(number);
    if (!set || strcmp(set, "dropped_ports") == 0)
        refuse_number("dropped_ports", port | CLASS_LOCAL, why);
    for (uint32_t i = 1; set && is_any_of(set, by_backend) && i <= 16; i++)
        refuse_number(set, port | i, why);
    if (!set || strcmp(set, "dropped_ports") != 0)
        refuse_number(set, port, why);
}

/* What a frontend has in @set, or its service port; of NULL, both in all of them. */
static void refuse(const char *set, unsigned number, int why)
{
    const uint8_t any_client = 12;
    struct frontend f = frontend(number);
    if (set && strcmp(set, "allowed_sources") == 0)
        fake_kernel_refuse(set, &any_client, sizeof(any_client), why);
    else if (!set || strcmp(set, "services") == 0)
        fake_kernel_refuse_frontend(set, &f, why);
    if (!set || (strcmp(set, "allowed_sources") != 0 && strcmp(set, "services") != 0))
        refuse_port(set, number, why);
}

/* "refuse SET|all NUMBERS [ERROR]" */
COMMAND(refuse)
{
    const char *set = intern(script_word(&words)); /* it is borrowed */
    struct numbers all;
    next_numbers(&words, &all);
    for (unsigned i = all.first; i <= all.last; i += all.step)
        refuse(strcmp(set, "all") == 0 ? NULL : set, i, error_in_words(words));
}

/* "refuse-key SET [KEY [ERROR]]": that begin like this. */
COMMAND(refuse_key)
{
    const char *set = intern(script_word(&words));
    const struct key key = read_key(&words);
    fake_kernel_refuse(set, key.bytes, key.length, error_in_words(words));
}

COMMAND(limit)
{
    const char *set = intern(script_word(&words));
    fake_kernel_limit(set, script_number(&words, 0));
}

COMMAND(refuse_chain)
{
    const char *chain = intern(script_word(&words));
    fake_kernel_refuse_chain(chain, error_in_words(words));
}

COMMAND(limit_chains)
{
    fake_kernel_limit_chains(script_number(&words, 0));
}

COMMAND(forgive)
{
    fake_kernel_forgive();
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

/* "refuse-reads NTH N [tables]"; with ENOBUFS if the table may be looked for. */
COMMAND(refuse_reads)
{
    const unsigned nth = script_number(&words, 1), n = script_number(&words, 1);
    fake_kernel_refuse_reads(nth, n, *words, *words ? EINTR : ENOBUFS);
}

static char intrusion[64];

static void intrude(void)
{
    put_element(intrusion, true, false);
}

/* "while-reading SET KEY": is taken by another program during a read that fails. */
COMMAND(while_reading)
{
    snprintf(intrusion, sizeof(intrusion), "%s", words);
    fake_kernel_while_refusing(intrude);
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

#endif
