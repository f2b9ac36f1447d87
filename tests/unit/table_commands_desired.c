/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: what is desired of it. */
#include "table_commands.h"

#include <errno.h>

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

/* "hook NAME": it is rejected; "hook": all are taken. */
COMMAND(unhookable)
{
    static char *name;
    free(name);
    name = *words ? xstrdup(words) : NULL;
    fake_kernel_reject_device(name, EOPNOTSUPP);
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
    backend_change_vec changes = {0};
    const unsigned port = script_number(&words, 0);
    char *listed = xstrdup(words), *rest = listed;
    for (char *word; *(word = script_word(&rest));)
        vec_push(&changes, (struct backend_change){backend((unsigned)atoi(word + 1)), *word == '-',
                                                   *word == '+'});
    backend_changes_sum(&changes);
    const bool taken = ruleset_change_port(ruleset, port + 1, &changes);
    vec_free(&changes);
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
