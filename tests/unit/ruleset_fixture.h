/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of a ruleset share: one over the fake kernel, frontends, backends and clients by
 * number, what is desired of a frontend in a line, and what shall become of packets then, as
 * docs/behaviour.md 4.2, 4.3 and 4.8 say it.
 */
#ifndef KUBE_NFTD_TESTS_RULESET_FIXTURE_H
#define KUBE_NFTD_TESTS_RULESET_FIXTURE_H

#include "fake_kernel.h"
#include "table/state.h"
#include "table_sizes.h"

#include <check.h>

extern struct ruleset *ruleset;
extern struct ruleset_config config; /* of the next one */
extern struct nft_socket *sock;
extern enum family family; /* of the table under test: each test runs for both */
extern double now;         /* at each commit */

#define MOST_BACKENDS 2048

/* What is desired of a frontend. Backends as for backends_of(); text may be NULL. */
struct wish {
    bool wanted, external, local;
    const char *all, *here; /* that could serve, on any node and on this one */
    uint32_t timeout;
    const char *sources;
};

/* A fixture: an empty kernel, and no ruleset yet. */
void setup(void);
void teardown(void);

struct ruleset *new_ruleset(void);

/* The first line of each test: without a detector, the classes are the simplest. */
void begin(int which);

/* A daemon that starts while the table of an earlier one is there. */
void restart(void);

/* ---- by number ---- */

struct frontend frontend(unsigned number);
struct backend backend(unsigned number);
struct address client(unsigned number);
int compare_backends(const void *a, const void *b);

/* Ranges of clients: "10-19 30 50-top". */
void ranges_of(const char *text, range_vec *out);
void set_service_cidrs(const char *text);
void set_pod_cidrs(const char *text);

/* ---- routes ---- */

/* "123" are three backends, as are "1..3" and "1..2,3..3"; returns how many. */
size_t backends_of(const char *text, struct backend out[MOST_BACKENDS]);

/* What routes borrow from. */
struct route_memory {
    struct backend all[MOST_BACKENDS], here[MOST_BACKENDS];
    range_vec sources;
};

struct route route_of(unsigned number, const struct wish *wish);

/* What the port of a frontend is, if it is alone there. The memory's sources are to be freed. */
struct port_route port_route_of(const struct wish *wish, struct route_memory *memory);

/* ---- commits ---- */

/* 0 or -1. */
int try_commit(struct commit_stats *stats);

/* All portions of a new table, and all steps of service ports that grow. */
struct commit_stats commit(void);

void commit_fails(void);

/* Commits and expects just so many element messages' worth of change, and nothing else. */
void commit_sends(size_t added, size_t deleted);

/* Lets what nothing leads to come of age. */
void wait_for_trims(void);

/** Looks at the rules of the table of the process before. Whether they had been changed, and are
 * right now. */
bool mend_previous(void);

/** Audits all of the table, each piece when it is due. Whether something is to be rechecked. */
bool audit_table(void);

/** When a commit has to delete what packets no longer reach, or to add further slots; 0: never. */
double trim_time(void);

/* Commits until nothing is left to be trimmed. */
void sync_table(void);

/* P of a frontend; of one that is not there, a number that nobody has. */
uint32_t port_of(unsigned number);

/* ---- what shall become of packets ---- */

/* What is known besides wishes; text as for ranges_of(), or NULL. */
struct world {
    const char *pods, *service_cidrs;
    bool cluster_ip; /* the frontend's address is one */
};

/* What shall become of packets of a client, and what they shall be sent to. */
struct expectation {
    enum fake_fate fate;
    const char *backends;
    bool masqueraded;
};

struct expectation expect(const struct wish *wish, const struct world *world,
                          const struct frontend *to, const struct fake_client *from);

/* Where a route leads to, as digits in their order. */
const char *digits_of(const struct fake_route *route, char out[MOST_BACKENDS + 1]);

/* What is wrong with how packets of all kinds of clients go, in a text that lasts until the next
 * one; NULL: nothing. */
const char *wish_difference(unsigned number, const struct wish *wish, const struct world *world);

#endif
