/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One answer of explain() while it is made. */
#ifndef KUBE_NFTD_SRC_SERVE_EXPLAINER_H
#define KUBE_NFTD_SRC_SERVE_EXPLAINER_H

#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"

/* What may be left out of an answer, to keep it short. */
enum left_out {
    LEFT_PORTS,
    LEFT_FRONTENDS,
    LEFT_RIVALS,
    LEFT_SOURCE_RANGES,
    LEFT_SLICES,
    LEFT_ENDPOINTS,
    LEFT_ELEMENTS, /* of the kernel that were not looked at */
    LEFT_COUNT
};

struct explainer {
    const struct explain_sources *from;
    const struct explain_query *query;
    /* If the query is of an address; or with just a port, if that is a node port of a Service. */
    bool by_address;
    struct frontend asked;
    size_t endpoints, lookups, entries; /* that are left of the budgets */
    size_t left_out[LEFT_COUNT];
    struct nft_socket *socket; /* NULL: the kernel is not asked, */
    char *not_asked;           /* for this reason; owned */
    bool table[FAMILY_COUNT];  /* there is one that can be looked into */
    bool audited;              /* something was compared with the kernel */
    struct decision decision;  /* on the port that is being explained */
    cJSON *root, *summary, *notes, *kernel, *differences; /* all but the first belong to it */
};

/* Adds a line to "summary", or to "notes". */
#define explain_say(e, ...) facts_append_text((e)->summary, __VA_ARGS__)
#define explain_note(e, ...) facts_append_text((e)->notes, __VA_ARGS__)

/* Texts that last until the block ends. */
#define ADDRESS_TEXT(family, address) address_format(family, address, (char[ADDRESS_TEXT_SIZE]){0})
#define RANGE_TEXT(family, range) range_format(family, range, (char[RANGE_TEXT_SIZE]){0})
#define BACKEND_TEXT(family, backend) backend_format(family, backend, (char[BACKEND_TEXT_SIZE]){0})
#define FRONTEND_TEXT(frontend) frontend_format(frontend, (char[FRONTEND_TEXT_SIZE]){0})

/** Takes one entry of the budget for something listed; false if there is none left: then it is
 * counted as left out. */
bool explain_may_add(struct explainer *e, enum left_out what);

/* ---- explain_kernel.c ---- */

/** Opens a socket of its own for reading, and finds the tables. */
void explain_kernel_open(struct explainer *e);

/** Compares the kernel with @route of @frontend (NULL: nobody has it), as "kernel" of @to. */
void explain_kernel(struct explainer *e, const struct frontend *frontend, const struct route *route,
                    cJSON *to);

/** Ends it: "kernel" of the answer. */
void explain_kernel_close(struct explainer *e);

/* ---- explain_endpoints.c ---- */

/** The endpoints of the port that e->decision is of, used or not, as "endpoints", "slices" and
 * "topology" of @to. */
void explain_endpoints(struct explainer *e, cJSON *to);

/* ---- explain_service.c ---- */

/** The Service of @state, as "service" of the answer: with all of its ports, or with @only in both
 * families, or with those of a name or number. Returns how many ports there were. */
size_t explain_service(struct explainer *e, const struct service_state *state,
                       const struct port_state *only, const char *port_name);

/** Whether the last version of the Service @id could not be read. */
bool explain_is_outdated(const struct explainer *e, const char *id);

/* ---- explain_address.c ---- */

/** e->asked, which nobody claims: "found", "summary" and "notes" of the answer. */
void explain_nobodys(struct explainer *e);

#endif
