/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table_model.h"

struct desired desired;

void set_up_desired(void)
{
    memset(&desired, 0, sizeof(desired));
    setup();
}

void note_number(unsigned number)
{
    desired.most = number >= desired.most ? number + 1 : desired.most;
    ck_assert_uint_lt(desired.most, MOST_NUMBERS);
}

bool next_numbers(char **words, struct numbers *numbers)
{
    char *word = script_word(words);
    *numbers = (struct numbers){.step = 1};
    int n = sscanf(word, "%u..%u/%u", &numbers->first, &numbers->last, &numbers->step);
    if (n == 1)
        numbers->last = numbers->first;
    if (n >= 1)
        note_number(numbers->last);
    return n >= 1;
}

/* ---- telling ---- */

struct wish wish_of(const struct desired_frontend *f, const struct desired_port *p)
{
    return (struct wish){.wanted = f->wanted,
                         .external = f->external,
                         .local = f->local,
                         .all = p->all,
                         .here = p->here,
                         .timeout = p->timeout,
                         .sources = f->restricted ? p->sources : NULL};
}

struct wish wish_in(const struct desired *what, unsigned number)
{
    const struct desired_frontend *f = &what->frontends[number];
    return wish_of(f, &what->ports[f->port]);
}

struct wish desired_wish(unsigned number)
{
    return wish_in(&desired, number);
}

/* Whether a port has a list of sources. */
static bool port_restricts(unsigned port)
{
    for (unsigned i = 0; i < desired.most; i++)
        if (desired.frontends[i].wanted && desired.frontends[i].port == port &&
            desired.frontends[i].restricted)
            return true;
    return false;
}

bool port_needs_of(unsigned port, bool *cluster, bool *local)
{
    const struct desired_port *p = &desired.ports[port];
    bool led = false;
    *cluster = p->more_cluster;
    *local = p->more_local;
    for (unsigned i = 0; i < desired.most; i++) {
        const struct desired_frontend *f = &desired.frontends[i];
        if (!f->wanted || f->port != port)
            continue;
        led = true;
        *cluster = *cluster || f->external || !f->local;
        *local = *local || f->local;
    }
    *cluster = *cluster || (!led && !*local);
    return led || p->stays;
}

void tell_port_of(unsigned port)
{
    struct route_memory memory;
    const struct desired_port *p = &desired.ports[port];
    const struct wish wish = {.all = p->all,
                              .here = p->here,
                              .timeout = p->timeout,
                              .sources = port_restricts(port) ? p->sources : NULL};
    struct port_route route = port_route_of(&wish, &memory);
    route.service_id = *p->service ? p->service : NULL;
    const bool exists = port_needs_of(port, &route.needs_cluster, &route.needs_local);
    route.n_backends = route.needs_cluster ? route.n_backends : 0;
    route.n_local = route.needs_local ? route.n_local : 0;
    if (exists)
        ruleset_set_port(ruleset, port + 1, &route);
    else
        ruleset_remove_port(ruleset, port + 1);
    vec_free(&memory.sources);
}

void tell_frontend(unsigned number)
{
    const struct wish wish = desired_wish(number);
    const struct frontend f = frontend(number);
    struct route route = route_of(number, &wish);
    route.port = desired.frontends[number].port + 1;
    if (wish.wanted)
        ruleset_set(ruleset, &f, &route);
    else
        ruleset_remove(ruleset, &f);
}

static void tell_cluster_ip(unsigned number)
{
    const struct frontend f = frontend(number);
    const bool told = ruleset_has_cluster_ip(ruleset, &f.address);
    for (int i = 0; !told && i < desired.frontends[number].cluster_ip; i++)
        ruleset_use_cluster_ip(ruleset, &f.address, true);
}

void tell_desired(void)
{
    bool cluster, local;
    for (unsigned i = desired.most; i-- > 0;)
        if (port_needs_of(i, &cluster, &local))
            tell_port_of(i);
    for (unsigned i = desired.most; i-- > 0;) {
        if (desired.frontends[i].wanted)
            tell_frontend(i);
        tell_cluster_ip(i);
    }
    set_pod_cidrs(desired.pods);
    set_service_cidrs(desired.service_cidrs);
}

/* ---- in words ---- */

void spaced(const char *value, char out[80])
{
    snprintf(out, 80, "%s", value);
    for (char *at = out; (at = strchr(at, ','));)
        *at = ' ';
}

/* Backends: as for backends_of(), "-" for none; "i+2:3" are three from 2 + @number on. */
static void backends_in_words(const char *value, unsigned number, char out[80])
{
    unsigned from = 0, n;
    if (sscanf(value, "i+%u:%u", &from, &n) == 2 || sscanf(value, "i:%u", &n) == 1)
        snprintf(out, 80, "%u..%u", number + from, number + from + n - 1);
    else
        snprintf(out, 80, "%s", *value == '-' ? "" : value);
}

void parse_wish(char *words, unsigned number, struct desired_frontend *f, struct desired_port *p)
{
    char *value;
    for (char *word; *(word = script_word(&words));) {
        if (strcmp(word, "gone") == 0)
            f->wanted = false;
        else if (strcmp(word, "external") == 0)
            f->external = true;
        else if (strcmp(word, "local") == 0)
            f->local = true;
        else if (script_option(word, "port", &value))
            f->port = (unsigned)atoi(value);
        else if (script_option(word, "from", &value))
            f->restricted = true, spaced(value, p->sources);
        else if (strcmp(word, "open") == 0)
            f->restricted = false;
        else if (script_option(word, "timeout", &value))
            p->timeout = (uint32_t)atoi(value);
        else if (script_option(word, "ns", &value))
            snprintf(p->service, sizeof(p->service), "%s/", value);
        else if (script_option(word, "here", &value))
            backends_in_words(value, number, p->here);
        else
            backends_in_words(word, number, p->all);
    }
}

void set_desired(unsigned number, const char *words)
{
    char *copy = xstrdup(words);
    struct desired_frontend f = {.wanted = true, .port = number}, was = desired.frontends[number];
    struct desired_port p = {0};
    parse_wish(copy, number, &f, &p);
    note_number(number);
    note_number(f.port);
    if (!strstr(words, "from=")) /* other frontends may be restricted */
        memcpy(p.sources, desired.ports[f.port].sources, sizeof(p.sources));
    f.cluster_ip = was.cluster_ip;
    p.stays = desired.ports[f.port].stays;
    desired.frontends[number] = f;
    desired.ports[f.port] = p;
    tell_port_of(f.port);
    tell_frontend(number);
    if (was.wanted && was.port != f.port)
        tell_port_of(was.port);
    free(copy);
}

void want(const char *words)
{
    struct numbers all;
    char *copy = xstrdup(words), *rest = copy;
    next_numbers(&rest, &all);
    for (unsigned i = all.first; i <= all.last; i += all.step)
        set_desired(i, rest);
    free(copy);
}

void want_pods(const char *text)
{
    snprintf(desired.pods, sizeof(desired.pods), "%s", text);
    set_pod_cidrs(desired.pods);
}

void want_service_cidrs(const char *text)
{
    snprintf(desired.service_cidrs, sizeof(desired.service_cidrs), "%s", text);
    set_service_cidrs(desired.service_cidrs);
}

/* ---- what the kernel does ---- */

/* Frees both. */
static bool same_ranges(range_vec *got, range_vec *expected)
{
    bool same = got->n == expected->n &&
                (got->n == 0 || memcmp(got->v, expected->v, got->n * sizeof(*got->v)) == 0);
    vec_free(expected);
    vec_free(got);
    return same;
}

/* Prefixes that lie side by side are one range. */
static bool has_sources(unsigned number, const char *text)
{
    const struct frontend f = frontend(number);
    range_vec got = {0}, expected = {0};
    fake_kernel_sources(&f, &got);
    ranges_of(text, &expected);
    ranges_normalize(family, &expected);
    return same_ranges(&got, &expected);
}

bool has_ranges(const char *set, const char *text)
{
    range_vec got = {0}, expected = {0};
    if (fake_kernel_size(family, set) != SIZE_MAX)
        fake_kernel_ranges(family, set, &got);
    ranges_of(text, &expected);
    return same_ranges(&got, &expected);
}

bool goes(unsigned number, const struct wish *wish)
{
    const struct world world = {desired.pods, desired.service_cidrs,
                                desired.frontends[number].cluster_ip > 0};
    return !wish_difference(number, wish, &world) &&
           (!wish->wanted || !wish->sources || has_sources(number, wish->sources));
}

bool does(unsigned number)
{
    const struct wish wish = desired_wish(number);
    return goes(number, &wish);
}

/* A list of numbers, in which three and more may be a run. */
static void write_numbers(FILE *out, const unsigned *numbers, size_t n)
{
    for (size_t i = 0, last; i < n; i = last + 1) {
        const unsigned step = i + 1 < n ? numbers[i + 1] - numbers[i] : 0;
        for (last = i; last + 1 < n && numbers[last + 1] - numbers[last] == step; last++)
            ;
        last = last < i + 2 ? i : last;
        fprintf(out, last > i ? " %u..%u" : " %u", numbers[i], numbers[last]);
        if (last > i && step > 1)
            fprintf(out, "/%u", step);
    }
}

void write_undesired(FILE *out)
{
    unsigned wrong[MOST_NUMBERS];
    size_t n = 0;
    for (unsigned i = 0; i < desired.most; i++) {
        wrong[n] = i;
        n += !does(i);
    }
    fputs(n ? ", not" : "", out);
    if (n > 100) /* the kernel chose which */
        fprintf(out, " %zu of them", n);
    else
        write_numbers(out, wrong, n);
    if (!has_ranges("service_cidrs", desired.service_cidrs))
        fputs(", not the service CIDRs", out);
    if (config.detector == DETECT_CIDRS && !has_ranges("pod_cidrs", desired.pods))
        fputs(", not the pod CIDRs", out);
}
