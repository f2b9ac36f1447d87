/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the fake kernel share: a table as plain data.
 *  fake_kernel_table.c     sets, chains and rules by name, whole tables copied
 *  fake_kernel_elements.c  adding, deleting and looking up elements, ranges too, as the kernel does
 *  fake_kernel_messages.c  netlink messages taken apart
 *  fake_kernel_flowtable.c those about the flowtable, and its devices
 *  fake_kernel_checks.c    the rules of fake_kernel.h for each transaction
 *  fake_kernel_batches.c   those for whole batches
 *  fake_kernel_rules.c     rules as the kernel gives them back, and what others change in them
 *  fake_kernel_listing.c   what a table does, as text
 *  fake_kernel_packets.c   a packet on its way through the rules
 *  fake_kernel.c           transactions, nft_socket_*(), and what tests ask for
 */
#ifndef KUBE_NFTD_TESTS_FAKE_KERNEL_STATE_H
#define KUBE_NFTD_TESTS_FAKE_KERNEL_STATE_H

#include "fake_kernel.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <check.h>
#include <linux/netlink.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/rule.h>

/* As ck_assert(), which makes a system call when all is well. For what is done often. */
#define FAKE_ASSERT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

#define FAKE_NAME_SIZE 64
#define FAKE_BYTES 64 /* of a key or value; the kernel takes no more either */
#define FAKE_NO_HOOK (-1)

struct fake_element {
    struct hash_link link; /* by key */
    uint8_t key[FAKE_BYTES], data[FAKE_BYTES];
    size_t key_length, data_length;
    bool is_end;                /* of a range: the key is the first one behind it */
    char chain[FAKE_NAME_SIZE]; /* of a verdict */
    double unused_since;        /* of what packets no longer get to, and of its lists */
    bool foreign;               /* another program put it there */
    uint64_t packets;           /* that its counter has */
};

struct fake_set {
    char name[FAKE_NAME_SIZE];
    uint32_t id; /* in its transaction */
    uint32_t flags;
    bool is_map, verdicts, anonymous, bound;
    bool interval;
    size_t key_length, data_length;
    struct nlmsghdr *declaration;     /* as sent, or as another program changed it */
    struct hash_table elements, ends; /* struct fake_element; of ranges the starts, and the ends */
};

struct fake_rule {
    char chain[FAKE_NAME_SIZE];
    char anonymous[FAKE_NAME_SIZE]; /* the set that it looks into by its number */
    struct nlmsghdr *message;
    struct nlmsghdr *before;   /* the last change of another program; NULL if there was none */
    struct nftnl_rule *parsed; /* of @message, once a packet met it; see fake_parsed_rule() */
};

struct fake_chain {
    char name[FAKE_NAME_SIZE];
    int hook, priority; /* FAKE_NO_HOOK: only other chains lead there */
    char type[FAKE_NAME_SIZE];
    bool drops; /* by its policy */
};

struct fake_device {
    char name[16];
};
struct fake_devices {
    struct fake_device *v;
    size_t n, cap;
};

struct fake_table {
    bool exists;
    bool anew; /* made by this transaction */
    char *comment;
    uint32_t flags;       /* of NFTA_TABLE_FLAGS */
    bool owned_elsewhere; /* another program's table: EPERM for ours */
    VEC(struct fake_set) sets;
    VEC(struct fake_chain) chains;
    VEC(struct fake_rule) rules;
    char flowtable[FAKE_NAME_SIZE]; /* "": there is none */
    struct fake_devices devices;    /* of it */
};

/* A key put together from others. */
struct fake_key {
    uint8_t bytes[FAKE_BYTES];
    size_t length;
};

/* ---- fake_kernel_table.c ---- */

void fake_copy_name(char to[FAKE_NAME_SIZE], const char *name);
void fake_free_table(struct fake_table *table);
void fake_copy_table(struct fake_table *to, const struct fake_table *from);
void fake_free_elements(struct fake_set *set);
void fake_free_set(struct fake_set *set);
struct nlmsghdr *fake_copy_message(const struct nlmsghdr *from);

struct fake_set *fake_find_set(const struct fake_table *table, const char *name);
struct fake_set *fake_find_set_id(const struct fake_table *table, uint32_t id);
struct fake_chain *fake_find_chain(const struct fake_table *table, const char *name);
bool fake_has_rules(const struct fake_table *table, const char *chain);
void fake_add_rule(struct fake_table *table, const struct fake_rule *from);
void fake_flush_chain(struct fake_table *table, const char *chain);

/** The rule as libnftnl has it; to be freed. */
struct nftnl_rule *fake_parse_rule(const struct fake_rule *from);

/** As fake_parse_rule(), of a table's rule, which keeps it: many packets meet it. */
struct nftnl_rule *fake_parsed_rule(struct fake_rule *from);

/** The element with just this key among elements, or in a set, which may be missing; NULL. */
struct fake_element *fake_find_key(const struct hash_table *elements, const void *key,
                                   size_t length);
struct fake_element *fake_find(const struct fake_table *table, const char *set, const void *key,
                               size_t length);

/** The elements of a set; none if there is no such set. */
const struct hash_table *fake_elements(const struct fake_table *table, const char *set);

/** Puts a copy of @from into the set, as it is; and takes it out again. */
void fake_insert(struct fake_set *set, const struct fake_element *from);
void fake_remove(struct fake_set *set, struct fake_element *element);

uint32_t fake_u32(const uint8_t *bytes);
/** Of an element of allowed_sources: what gives service ports its list, and its prefix's length. */
uint32_t fake_list_of(const struct fake_element *source);
unsigned fake_prefix_length(const struct fake_element *source);
struct fake_key fake_join(const void *a, size_t a_length, const void *b, size_t b_length);
struct fake_key fake_frontend_key(const struct frontend *frontend);
struct backend fake_backend_of(const struct fake_element *slot);

/* ---- fake_kernel_rules.c ---- */

/** As fake_parse_rule(), with what the kernel adds. */
struct nftnl_rule *fake_give_rule(const struct fake_rule *from);

/** See fake_kernel_change_operand(), fake_kernel_undo_change(). */
char *fake_change_operand(struct fake_rule *rule, unsigned nth);
void fake_undo_change(struct fake_rule *rule);

void fake_free_rule(struct fake_rule *rule);

/* ---- fake_kernel_elements.c ---- */

/** What the kernel does. Both return an errno, or 0. */
int fake_add_element(struct fake_set *set, const struct fake_element *element);
int fake_delete_element(struct fake_set *set, const struct fake_element *element);

/** The element, of a range too, that @key is in; NULL. */
struct fake_element *fake_lookup(const struct fake_set *set, const uint8_t *key);

/** The elements of a set of ranges, starts and ends, ascending; an end stands
 * before the start that has its key. */
typedef VEC(const struct fake_element *) fake_element_refs;
void fake_sorted(const struct fake_set *set, fake_element_refs *out);

/* ---- fake_kernel_messages.c ---- */

/* What is rejected although nothing is wrong with it. */
struct fake_grudges {
    const char *lacking; /* an expression that is not known, or NULL */
    VEC(struct {
        const char *set;     /* NULL: any */
        struct fake_key key; /* of elements whose key begins with it */
        int why;
    })
    elements;
    VEC(struct {
        const char *set;
        size_t most; /* elements */
    })
    limits;
    const char *chain; /* that cannot be made, or NULL */
    int chain_why;
    size_t most_chains; /* 0: any number */
};

static inline bool fake_rejects(const struct fake_grudges *grudges)
{
    return grudges->elements.n + grudges->limits.n + grudges->most_chains > 0 || grudges->chain;
}

/** Applies the messages of a batch between two offsets, each up to its first fault, and notes
 * in the batch what is rejected. The first errno, or 0. */
int fake_apply(struct fake_table *table, struct nft_batch *batch, size_t from, size_t to,
               struct fake_counts *counts, const struct fake_grudges *grudges);

/* ---- fake_kernel_flowtable.c ---- */

/** Applies a message. @in_use: a rule names the flowtable. An errno, or 0. */
int fake_new_flowtable(struct fake_table *table, const struct nlmsghdr *message);
int fake_delete_flowtable(struct fake_table *table, const struct nlmsghdr *message, bool in_use);

/** The devices of the host, separated by blanks; those that are not there leave a flowtable. */
void fake_set_host_devices(const char *names);
void fake_keep_present(struct fake_table *table);
void fake_reset_devices(void);

/** See fake_kernel_devices(). */
char *fake_list_devices(const struct fake_table *table);

/* ---- fake_kernel_checks.c ---- */

/* Where violations go; the element may be NULL. */
typedef void (*fake_violated_fn)(const char *what, const struct fake_element *by);

/* The parts of a service port are alike: what traffic policy Cluster leads to, and Local. */
#define FAKE_PARTS 2
extern const struct fake_part {
    const char *ports, *endpoints, *picks, *backends;
} fake_parts[FAKE_PARTS];

/** P of what begins with a value or key, nothing below it; and what is below it; the class in a
 * value of services. */
uint32_t fake_port(const uint8_t *bytes);
uint32_t fake_low(const uint8_t *bytes);
uint32_t fake_class(const uint8_t *bytes);

/** The number of slots that an element of ports or local_ports says; it may be NULL. */
uint32_t fake_count(const struct fake_element *port);

/** Whether frontends of a class (P:class) lead to a part; to how many slots there, which their own
 * value may say. */
bool fake_leads_to(const struct fake_element *service, const struct fake_part *part);
uint32_t fake_reaches(const struct fake_table *table, const struct fake_element *service,
                      const struct fake_part *part);

/** The element of another set that has the same key; that of service port P in a part, and that of
 * a set with its key (P, or P:2 in dropped_ports); a slot; or NULL. */
const struct fake_element *fake_find_like(const struct fake_table *table, const char *set,
                                          const struct fake_element *like);
const struct fake_element *fake_find_port(const struct fake_table *table, const char *set,
                                          uint32_t key);
const struct fake_element *fake_find_slot(const struct fake_table *table, const char *endpoints,
                                          uint32_t port, uint32_t slot);

/** Checks one transaction. What was broken before may stay broken with @cuts, which are pieces of
 * more, and if the kernel @rejects something, whose owner stays as it is. @half_told: see
 * fake_kernel_half_told(). */
void fake_check_transaction(const struct fake_table *before, struct fake_table *after, double now,
                            bool cuts, bool rejects, bool half_told, fake_violated_fn violated);

/* ---- fake_kernel_batches.c ---- */

/** Checks what holds when all of a batch is applied. */
void fake_check_batch(const struct fake_table *table, fake_violated_fn violated);

/* Who may talk to a frontend: a sum over its ranges; 0 if it does not serve. */
struct fake_access {
    struct fake_element frontend;
    uint64_t sum;
};

/* What a batch in pieces showed in between, to be judged when all of it is applied. */
#define FAKE_RANGE_SETS 3
struct fake_watch {
    struct fake_table start;
    bool anew;
    VEC(struct fake_access) accesses;
    VEC(uint64_t) sums[FAKE_RANGE_SETS];
};

void fake_watch_begin(struct fake_watch *watch, const struct fake_table *start);
/** @whole: it is all of the batch. */
void fake_watch_piece(struct fake_watch *watch, const struct fake_table *now, bool whole,
                      fake_violated_fn violated);
/** @done: all pieces are applied. */
void fake_watch_end(struct fake_watch *watch, const struct fake_table *end, bool done,
                    fake_violated_fn violated);

/* ---- fake_kernel_packets.c ---- */

/** See fake_kernel_route(). */
struct fake_route fake_follow(const struct fake_table *table, const struct frontend *to,
                              const struct fake_client *from);

/* ---- fake_kernel_listing.c ---- */

/** See fake_kernel_list(). */
char *fake_list(const struct fake_table *table);

#endif
