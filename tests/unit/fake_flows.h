/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of src/conntrack/flow_cleaner.c: what it is told, as a text for each frontend. */
#ifndef KUBE_NFTD_TESTS_FAKE_FLOWS_H
#define KUBE_NFTD_TESTS_FAKE_FLOWS_H

#include "kube-nftd/conntrack.h"
#include "objects.h"

#include <check.h>

/* A flow cleaner is a pointer to this. Starts zeroed; fake_flows_clear() empties it. */
struct fake_flows {
    VEC(struct {
        struct frontend frontend;
        uint32_t id;
    })
    frontends;
    VEC(struct {
        enum family family;
        uint32_t id;
        bool removed;
        char *text;
    })
    ports;
};

/* Defined by the test. Takes both texts. NULL: no service has the frontend any more. */
static void receive_flows(const struct frontend *frontend, char *text);

static inline char *fake_flows_of(const struct fake_flows *flows, enum family family, uint32_t id)
{
    vec_each (&flows->ports, it)
        if (it->id == id && it->family == family)
            return it->text;
    ck_abort_msg("no service port %u", id);
}

void flow_cleaner_set(struct flow_cleaner *cleaner, const struct frontend *frontend, uint32_t id)
{
    struct fake_flows *flows = (struct fake_flows *)(void *)cleaner;
    size_t i = 0;
    while (i < flows->frontends.n &&
           memcmp(&flows->frontends.v[i].frontend, frontend, sizeof(*frontend)) != 0)
        i++;
    if (i == flows->frontends.n)
        vec_push(&flows->frontends, (__typeof__(*flows->frontends.v)){*frontend, 0});
    else if (flows->frontends.v[i].id == id)
        return;
    flows->frontends.v[i].id = id;
    if (!id)
        flows->frontends.v[i] = flows->frontends.v[--flows->frontends.n];
    const enum family family = (enum family)frontend->family;
    receive_flows(frontend, id ? xstrdup(fake_flows_of(flows, family, id)) : NULL);
}

void flow_cleaner_set_port(struct flow_cleaner *cleaner, enum family family, uint32_t id,
                           const struct backend *in_use, size_t n)
{
    struct fake_flows *flows = (struct fake_flows *)(void *)cleaner;
    char *text = flows_text(family, in_use, n);
    size_t i = 0;
    for (size_t b = 1; b < n; b++)
        ck_assert_int_lt(backend_compare(&in_use[b - 1], &in_use[b]), 0);
    while (i < flows->ports.n && (flows->ports.v[i].id != id || flows->ports.v[i].family != family))
        i++;
    if (i == flows->ports.n) {
        vec_push(&flows->ports, (__typeof__(*flows->ports.v)){family, id, false, text});
        return;
    }
    ck_assert(!flows->ports.v[i].removed);
    if (strcmp(flows->ports.v[i].text, text) != 0)
        vec_each (&flows->frontends, it)
            if (it->id == id && it->frontend.family == family)
                receive_flows(&it->frontend, xstrdup(text));
    free(flows->ports.v[i].text);
    flows->ports.v[i].text = text;
}

void flow_cleaner_remove_port(struct flow_cleaner *cleaner, enum family family, uint32_t id)
{
    struct fake_flows *flows = (struct fake_flows *)(void *)cleaner;
    vec_each (&flows->ports, it)
        if (it->id == id && it->family == family)
            it->removed = true;
}

static inline void fake_flows_clear(struct fake_flows *flows)
{
    vec_each (&flows->ports, it)
        free(it->text);
    vec_free(&flows->ports);
    vec_free(&flows->frontends);
}

#endif
