/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel holds for one frontend, beside what it should hold. Reads single elements, so the
 * cost follows the frontend and not the table; changes nothing.
 */
#ifndef KUBE_NFTD_RULESET_AUDIT_H
#define KUBE_NFTD_RULESET_AUDIT_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/policy/route.h"
#include "kube-nftd/ruleset/ruleset.h"

typedef VEC(struct backend) backend_list;

/* ports with endpoints, or local_ports with local_endpoints. */
struct audit_part {
    uint32_t value;     /* P:N; 0: the service port is not there */
    size_t looked_at;   /* slots, from 0 */
    backend_list found; /* what is in them, sorted */
};

/* Something that is not as it should be. */
struct audit_difference {
    const char *set; /* of base.nft; static */
    char *text;      /* owned; what is wrong in it, for people */
};

/* Start zeroed, release with audit_clear(). */
struct audit {
    uint32_t service; /* P:class; 0: the frontend is not there, and nothing more is known */
    struct audit_part all, local;
    bool rejected, dropped, cluster_ip; /* is in the set for it */
    uint32_t affinity_timeout;          /* 0: it has none */
    uint32_t source_list;               /* likewise */
    size_t sources;                     /* prefixes of it found as they should be */
    size_t skipped; /* elements that were not looked at: there were no lookups left */
    VEC(struct audit_difference) differences;
};

/* What a frontend should be. */
struct audit_subject {
    const struct frontend *frontend;
    const struct route *route;     /* NULL: nobody has the frontend */
    const struct port_route *port; /* of the port that it leads to; NULL likewise */
    bool cluster_ip;               /* its address is a cluster IP in use */
};

/**
 * Fills in @audit for @subject.
 * @lookups  how many slots and source ranges may be looked at; what was is taken off
 * -1 if the kernel could not be asked.
 */
int ruleset_audit(const struct ruleset *ruleset, struct nft_socket *socket,
                  const struct audit_subject *subject, size_t *lookups, struct audit *audit,
                  struct error *err);

void audit_clear(struct audit *audit);

/** Whether the kernel has the table of @ruleset's family, and whether its rules are made from the
 * templates and settings of @ruleset. */
int ruleset_audit_table(const struct ruleset *ruleset, struct nft_socket *socket, bool *exists,
                        bool *same, struct error *err);

/** Whether @address is in a set of addresses ("cluster_ips", "service_cidrs"). */
int ruleset_audit_address(const struct ruleset *ruleset, struct nft_socket *socket, const char *set,
                          const struct address *address, bool *held, struct error *err);

#endif
