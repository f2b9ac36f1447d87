/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of explain() while it builds an answer. */
#ifndef KUBE_NFTD_SRC_SERVE_EXPLAIN_H
#define KUBE_NFTD_SRC_SERVE_EXPLAIN_H

#include "kube-nftd/serve.h"

/* Items that an answer may omit to keep it short. */
enum item {
    ITEM_PORT,
    ITEM_FRONTEND,
    ITEM_RIVAL,
    ITEM_SOURCE_RANGE,
    ITEM_SLICE,
    ITEM_ENDPOINT,
    ITEM_ELEMENT, /* of the kernel, to compare */
    ITEM_COUNT
};

struct explainer {
    const struct snapshot *now;
    const struct explain_query *query;
    /* The query has an address, or a lone port that is a NodePort of a Service. */
    bool by_address;
    struct frontend asked;
    size_t endpoints, elements, others; /* what remains of the budgets */
    size_t omitted[ITEM_COUNT];
    struct nft_socket *socket; /* NULL: the kernel is not queried */
    char *not_asked;           /* why not; owned */
    bool table[FAMILY_COUNT];  /* exists and can be read */
    bool probed;               /* at least one frontend was compared with the kernel */
    struct decision decision;  /* on the port being explained */
    cJSON *root, *summary, *notes, *kernel, *differences; /* all members of root */
};

/* Add a line to "summary" or "notes". */
#define explain_summary(e, ...) facts_append_text((e)->summary, __VA_ARGS__)
#define explain_note(e, ...) facts_append_text((e)->notes, __VA_ARGS__)

/* Texts valid until the end of the block. */
#define ADDRESS_TEXT(family, address) address_format(family, address, (char[ADDRESS_TEXT_SIZE]){0})
#define RANGE_TEXT(family, range) range_format(family, range, (char[RANGE_TEXT_SIZE]){0})
#define BACKEND_TEXT(family, backend) backend_format(family, backend, (char[BACKEND_TEXT_SIZE]){0})
#define FRONTEND_TEXT(frontend) frontend_format(frontend, (char[FRONTEND_TEXT_SIZE]){0})

/** Takes @n of @item from their budget. If fewer are left, counts them as omitted and returns
 * false. */
bool explain_take(struct explainer *e, enum item item, size_t n);

/* ---- explain_kernel.c ---- */

/** Opens a socket for reading and finds the tables. */
void explain_kernel_open(struct explainer *e);

/** Compares the kernel with @route of @frontend (NULL: unclaimed). Adds "kernel" to @to. */
void explain_kernel(struct explainer *e, const struct frontend *frontend, const struct route *route,
                    cJSON *to);

/** Closes the socket and completes "kernel" of the answer. */
void explain_kernel_close(struct explainer *e);

/* ---- obstacles.c: what is not in our tables ---- */

/** Adds notes on what on this host may keep connections from where they are led: obstacles_find(),
 * and nat chains of other tables that see them first ("translators" of the answer). */
void explain_surroundings(struct explainer *e);

/* ---- explain_endpoints.c ---- */

/** Adds all endpoints, used or not, of the port of e->decision to @to: "endpoints", "slices" and
 * "topology". */
void explain_endpoints(struct explainer *e, cJSON *to);

/* ---- explain_service.c ---- */

/** Adds the Service of @state as "service" of the answer: with all of its ports, or only @only in
 * both families, or those with the name or number @port_name. Returns the number of ports. */
size_t explain_service(struct explainer *e, const struct service_state *state,
                       const struct port_state *only, const char *port_name);

/** Whether the latest version of the Service @id is invalid. */
bool explain_is_outdated(const struct explainer *e, const char *id);

/* ---- explain_localhost.c ---- */

/** Whether the frontend of @claim is a loopback address, which the daemon serves itself. */
bool explain_is_localhost(const struct snapshot *now, const struct claim *claim);

/** Adds where connections to it go to @array; returns the same as text, owned by the caller. */
char *explain_localhost(const struct explainer *e, const struct claim *claim, cJSON *array);

/* ---- explain_address.c ---- */

/** Explains e->asked, which no Service claims: "found", "summary" and "notes" of the answer. */
void explain_unclaimed(struct explainer *e);

#endif
