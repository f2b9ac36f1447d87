/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of src/conntrack/flow_cleaner.c: what it is told, as a text for each frontend. */
#ifndef KUBE_NFTD_TESTS_FAKE_FLOWS_H
#define KUBE_NFTD_TESTS_FAKE_FLOWS_H

#include "kube-nftd/conntrack.h"
#include "objects.h"

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
void receive_flows(const struct frontend *frontend, char *text);

void fake_flows_clear(struct fake_flows *flows);

#endif
