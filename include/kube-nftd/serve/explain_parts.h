/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of explain.h share. */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_PARTS_H
#define KUBE_NFTD_SERVE_EXPLAIN_PARTS_H

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/policy/decision.h"
#include "kube-nftd/serve/explain.h"

/* One answer while it is made. */
struct explainer {
    const struct explain_sources *from;
    const struct explain_query *query;
    struct frontend asked; /* if the query is of an address */
    bool by_address;
    size_t endpoints, lookups, entries; /* that are left of the budgets */
    struct {
        size_t ports, frontends, rivals, source_ranges, slices, endpoints;
        size_t elements; /* of the kernel that were not looked at */
    } left_out;
    struct nft_socket *socket; /* NULL: the kernel is not asked */
    bool table[FAMILY_COUNT];  /* there is one that can be looked into */
    bool audited;              /* something was compared with the kernel */
    struct decision decision;
    cJSON *root, *summary, *notes, *differences; /* the last three belong to the first */
};

/* ---- explain_json.c: cJSON, with memory that does not run out ---- */

cJSON *json_new_object(void);
cJSON *json_add_object(cJSON *to, const char *key);
cJSON *json_add_array(cJSON *to, const char *key);
/** A new object at the end of an array. */
cJSON *json_append_object(cJSON *array);
/** @text NULL: null. */
void json_add_text(cJSON *to, const char *key, const char *text);
void json_add_format(cJSON *to, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void json_append_format(cJSON *array, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void json_add_number(cJSON *to, const char *key, double number);
void json_add_bool(cJSON *to, const char *key, bool value);
void json_add_null(cJSON *to, const char *key);

/* ---- explain.c ---- */

/** Takes one entry of the budget for something listed; false if there is none left: then it is
 * counted in @left_out. */
bool explain_may_add(struct explainer *e, size_t *left_out);

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

/* ---- explain_frontends.c ---- */

/** The addresses of the port that e->decision is of, as "frontends" of @to. */
void explain_frontends(struct explainer *e, cJSON *to);

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
