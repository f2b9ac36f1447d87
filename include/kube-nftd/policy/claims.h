/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who has which frontend. Every service port claims some; of several that claim the same, all but
 * one are said in the log and in events on their Services, and the conflict is counted. So are
 * those of the API server's frontends (reserved.h).
 */
#ifndef KUBE_NFTD_POLICY_CLAIMS_H
#define KUBE_NFTD_POLICY_CLAIMS_H

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/policy/port_states.h"
#include "kube-nftd/policy/reserved.h"
#include "kube-nftd/policy/route.h"

struct claims;

/* What a frontend's address is to the service port; a bit each, since it may be several. */
enum claim_kind {
    CLAIM_CLUSTER_IP = 1 << 0,
    CLAIM_EXTERNAL_IP = 1 << 1,
    CLAIM_LOAD_BALANCER_IP = 1 << 2,
    CLAIM_NODE_PORT = 1 << 3,
};

/* That a service port claims a frontend. */
struct claim {
    struct port_state *port;
    struct frontend_state *target;
    struct claim *next_of_port;
    struct claim *next_of_target;
    uint8_t kinds;   /* of enum claim_kind; none: it is new, and counts from claims_end() on */
    uint8_t renewed; /* likewise, while they are renewed: what they are going to be */
    bool said;       /* in the log: that the present winner has the frontend, not this one */
};

/* Noted frontends wait in one of these, or in both, so that what concerns few frontends does not
 * wait for what concerns many. */
enum claims_queue { CLAIMS_FEW, CLAIMS_MANY, CLAIMS_QUEUES };

/* A frontend that somebody claims, or has claimed since the last claims_settle(). */
struct frontend_state {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    uint32_t n_claims : 27;
    uint32_t queued : 2; /* in which queues it is, a bit each; it may be there and not noted */
    bool noted : 1;      /* to be decided for itself, not along with its only port */
    bool reserved : 1;   /* for the API server, as was decided last: it has no winner */
    bool told : 1;       /* handed on */
    struct claim *claims;
    const struct port_state *winner; /* that was decided last; NULL: none yet, or it is gone */
    uint64_t serving;                /* fingerprint of the endpoints handed on for flows */
};

/** Borrows @reserved. */
struct claims *claims_new(const struct reserved *reserved);

/** Where events go, borrowed. NULL, as at first: nowhere. */
void claims_set_events(struct claims *claims, const struct event_sink *events);

/** Leaves the ports' chains of claims dangling: for the end. */
void claims_free(struct claims *claims);

/**
 * Renews what @port claims: after claims_begin(), claims_add() for each frontend, as often as it
 * occurs and in any order; claims_end() drops the claims that were not named. Up to then it claims
 * what it claimed before; and all of it may begin anew. Frontends that others
 * claim too, or nobody any more, are noted here, in @queue, and those whose claim is not what it
 * was; but if the caller decides @port as a whole afterwards, not those that it alone claims.
 */
void claims_begin(struct port_state *port);
void claims_add(struct claims *claims, struct port_state *port, const struct frontend *frontend,
                enum claim_kind kind);
void claims_end(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** The frontend is to be decided by the next claims_settle() of @queue. */
void claims_note(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/** The same for @frontend, if somebody claims it, and the queue of few. */
void claims_note_frontend(struct claims *claims, const struct frontend *frontend);

/**
 * Which of the claims has the frontend; NULL if there are none, or just external and load-balancer
 * addresses and the frontend is reserved. The same on every node that knows the same objects: a
 * cluster IP goes before a node port, and that before external and load-balancer addresses; then
 * one with endpoints that could serve, the oldest Service, the first by name, the first port of a
 * Service. Says in the log and in events who is left out, once for each claim and winner, and who
 * has got what it was left out of.
 */
const struct claim *claims_decide(struct claims *claims, struct frontend_state *target);

/** The frontend, if somebody claims it, else NULL. */
const struct frontend_state *claims_find(const struct claims *claims,
                                         const struct frontend *frontend);

/** What is said of the one of two claims that goes before the other: "is older". */
const char *claims_reason(const struct claim *winner, const struct claim *loser);

/** Calls @decide for each noted frontend in @queue, then forgets it if nobody claims it. Ends when
 * @left is 0, which @decide lowers. Returns whether that was all. */
bool claims_settle(struct claims *claims, enum claims_queue queue,
                   void (*decide)(void *ctx, struct frontend_state *target), void *ctx,
                   const size_t *left);

/** How many frontends have more than one claim. */
size_t claims_conflicts(const struct claims *claims);

/** How many frontends nobody has since they are reserved. */
size_t claims_reserved(const struct claims *claims);

#endif
