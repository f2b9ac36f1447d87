/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nf_tables without a kernel. A program with the fake_kernel*.c in it gets these nft_socket_*()
 * instead of those of src/netlink/nft_socket.c. They take the real netlink messages apart and apply
 * them to a table in memory, one of each family, as the kernel would: all or nothing, with the
 * errors that it would give.
 *
 * After each transaction the table is checked for what packets rely on; a test that breaks it is
 * ended on the spot:
 *  - a chain that is new in a table came before the elements that lead to it,
 *  - an entry of services leads to a service port that has
 *    backends for it or rejects its packets: rejected_ports, and for traffic policy Local also
 *    dropped_ports,
 *  - one that gets session affinity leads to a service port with a timeout, and the learner for
 *    that,
 *  - a number in ports or local_ports is of its service port, and has its chain in picks and all
 *    the slots that it reaches, but no slot beyond it that this chain draws,
 *  - such a number, unless it makes way for a refusal, is deleted only when no frontend has led to
 *    it for RULESET_TRIM_DELAY,
 *  - a slot is deleted only when no number, or no frontend that leads to that, has reached it for
 *    RULESET_TRIM_DELAY, or when it is beyond its number, but drawn,
 *  - a number in affinity_numbers is of that service port, and no other backend has it,
 *  - one that is restricted leads to a service port with a list of sources, which is deleted only
 *    when no restricted frontend has led there for RULESET_TRIM_DELAY,
 *  - a list of sources stays when the last service port gets another one; it goes later, but for
 *    what another program put there,
 *  - ranges do not overlap, and each has an end (the kernel lets some slip through).
 * When all of a batch is applied:
 *  - a frontend that was there before and is there after was there all the time, even if the batch
 *    was cut; and just those could talk to it that could before or can now. Service CIDRs and pod
 *    CIDRs were those from before or the new ones (all unless the table was made anew),
 *  - backends of frontends with affinity have numbers, all of a part or none that is given up, and
 * no number leads to a backend that no frontend of the service port reaches.
 * A table that was there is replaced in one transaction, even if others are cut.
 */
#ifndef KUBE_NFTD_TESTS_FAKE_KERNEL_H
#define KUBE_NFTD_TESTS_FAKE_KERNEL_H

#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_fault {
    FAKE_REJECTS,       /* the transaction is rejected */
    FAKE_BUSY,          /* likewise, and its first message is named, with EBUSY */
    FAKE_OUT_OF_MEMORY, /* likewise with ENOMEM */
    FAKE_NO_BUFFERS,    /* it cannot be sent */
    FAKE_LOSES_ANSWER   /* it is applied, but the answer gets lost */
};

/* The first packet of a connection, by where it comes from. */
struct fake_client {
    struct address address;
    const char *interface; /* that it comes in by; NULL for none */
    bool is_host;          /* sent by this host, not forwarded */
    uint32_t mark;
};

enum fake_fate { FAKE_UNTOUCHED, FAKE_BALANCED, FAKE_REJECTED, FAKE_DROPPED };

struct fake_destination {
    struct backend backend;
    bool masqueraded;
    uint32_t mark; /* when it leaves */
};

/* What becomes of such packets. */
struct fake_route {
    enum fake_fate fate;
    size_t n; /* 0 unless balanced */
    struct fake_destination *to;
    /* Numbers that are drawn first; if some are drawn again, how often, and how many the last time.
     */
    unsigned choices, most_draws, last_choices;
};

/* What the applied transactions have done since the last fake_kernel_forget_counts(). */
struct fake_counts {
    size_t transactions, messages;
    size_t attempts;                              /* transactions that were rejected, too */
    size_t tables, sets, chains, rules, verdicts; /* added */
    size_t added, deleted;                        /* elements of data maps and named sets */
    size_t looked_up;                             /* elements given by their keys */
};

/** No tables, no faults, counts and time zero, batches not cut. Of both kernels. */
void fake_kernel_reset(void);

/** There are two of these kernels, which know nothing of each other: from now on all is about the
 * other one. */
void fake_kernel_exchange(void);

/** What time it is for the check of deleted slots: that of the next commit. */
void fake_kernel_set_time(double now);

/** The @nth transaction from now (1 is the next one) has @fault. */
void fake_kernel_fail(unsigned nth, enum fake_fault fault);

/** From now on rules with @expression ("fib", borrowed) are rejected, as by a kernel that was built
 * without it. NULL: none are. */
void fake_kernel_lack(const char *expression);

/*
 * What is rejected from now on, message by message as the kernel does: the whole transaction is
 * judged, each message up to its first fault. Strings are borrowed.
 */

/** Elements of @set (NULL: of any but verdict maps) whose key begins with @key: adding them and
 * deleting them. */
void fake_kernel_reject(const char *set, const void *key, size_t key_length, int why);
void fake_kernel_reject_frontend(const char *set, const struct frontend *frontend, int why);

/** More than so many elements in @set: ENFILE. */
void fake_kernel_limit(const char *set, size_t most);

/** Making a chain of this name, and deleting it. */
void fake_kernel_reject_chain(const char *chain, int why);

/** More than so many chains: EMLINK, of the transaction as a whole, without a message. */
void fake_kernel_limit_chains(size_t most);

/*
 * Devices of the host, and of the flowtable of each table.
 */

/** The host has just these, separated by blanks. Those that go leave the flowtables, unless names
 * are kept, as by Linux 6.16 and later: then a device need not be there. */
void fake_kernel_have_devices(const char *names);
void fake_kernel_keep_device_names(bool on);

/** This device (borrowed) cannot be added to a flowtable. NULL: all can. */
void fake_kernel_reject_device(const char *name, int why);

/** The names of a flowtable's devices, sorted, to be freed; NULL: there is no flowtable. */
char *fake_kernel_devices(enum family family);

/** Another program takes a device out of the flowtable, or deletes the flowtable and the rules that
 * name it. */
void fake_kernel_drop_device(enum family family, const char *name);
void fake_kernel_drop_flowtable(enum family family);

/** Nothing is rejected any more. */
void fake_kernel_accept(void);

/** Whether a fault is still to come; it is taken back. */
bool fake_kernel_spare(void);

/** The @nth read of declarations, elements or rules from now and the @n - 1 after it fail with
 * @why; those of a table too if @tables. */
void fake_kernel_fail_reads(unsigned nth, unsigned n, bool tables, int why);

/** The @nth read of sets that have elements from now and the @n - 1 after it give one of them twice
 * and leave one out, as the kernel may while it moves them to a larger hash table. */
void fake_kernel_tear_reads(unsigned nth, unsigned n);

/** From now on the elements of sets that are dumped in pieces come so many in each; 0: all of them
 * in one. */
void fake_kernel_dump_in_pieces(size_t n);

/** Whether other tables change all the time, so that no two looks at the generation agree. */
void fake_kernel_churn(bool on);

/** Whether the kernel says how many elements a set has, as newer ones do; on at the beginning. */
void fake_kernel_tell_counts(bool on);

/** What another program does to the table during each read that fails; NULL for nothing. */
void fake_kernel_while_failing(void (*intrude)(void));

/** From now on each batch is cut into transactions wherever that is allowed. */
void fake_kernel_cut(bool on);

/** Whether entries of services may lead where nothing answers: those of a table that is made while
 * it is being decided where they lead. */
void fake_kernel_half_told(bool on);

/** From now on what breaks the rules is only noted; the last one is told by the other. */
void fake_kernel_tolerate(void);
const char *fake_kernel_violation(void);

const struct fake_counts *fake_kernel_counts(void);
void fake_kernel_forget_counts(void);

/** The flags of the table of @family: NFT_TABLE_OWNED and the like. */
uint32_t fake_kernel_table_flags(enum family family);

/** Somebody sets others. */
void fake_kernel_set_flags(enum family family, uint32_t flags);

/** The priority of a chain that has a hook; INT_MAX if there is none of that name. */
int fake_kernel_priority(enum family family, const char *chain);

/** The comment of the table of @family; NULL if there is no table. */
const char *fake_kernel_comment(enum family family);

/** How many elements a map or set holds, a range counted once; SIZE_MAX if it is not there. */
size_t fake_kernel_size(enum family family, const char *set);

/** The value of a data map's element, or NULL. */
const uint8_t *fake_kernel_value(enum family family, const char *set, const void *key,
                                 size_t key_length, size_t *length);

/**
 * What the table of @family does for packets, in lines; to be freed. Two tables have the same text
 * if they differ just in the order of slots, the numbers of affinity, chains that nothing needs and
 * elements that nothing leads to any more.
 */
char *fake_kernel_list(enum family family);

/** Whether a frontend is in a map or set; and its value there, or 0. */
bool fake_kernel_has(const char *set, const struct frontend *frontend);
uint32_t fake_kernel_classid(const char *map, const struct frontend *frontend);

/** The ranges in a set of addresses, ascending, appended to @out. */
void fake_kernel_ranges(enum family family, const char *set, range_vec *out);

/** The number of a frontend's list of sources, 0 for none; what it has in allowed_sources, as
 * ranges.
 */
uint32_t fake_kernel_source_list(const struct frontend *frontend);
void fake_kernel_sources(const struct frontend *frontend, range_vec *out);

/**
 * What becomes of a packet to @frontend: it is sent through the rules themselves, once for each
 * random number, which is also what is drawn again. Destinations are in the order of slots, those
 * of numbers that are drawn again only if no other leads there; just one if a record in affinity
 * leads there. Records are not written. Release with fake_route_free().
 */
struct fake_route fake_kernel_route(const struct frontend *frontend,
                                    const struct fake_client *client);
void fake_route_free(struct fake_route *route);

/** The number of the service port that a frontend leads to, 0 for none. */
uint32_t fake_kernel_port(const struct frontend *frontend);

/** What a map holds under the number of a service port, or 0; what a set does, 1 or 0. */
uint32_t fake_kernel_number(enum family family, const char *set, uint32_t key);

/** The backends that ports has for packets to @frontend, in the order of their slots. Returns how
 * many; only the first @room are written. */
size_t fake_kernel_backends(const struct frontend *frontend, struct backend *out, size_t room);

/** Those that local_ports has. */
size_t fake_kernel_local_backends(const struct frontend *frontend, struct backend *out,
                                  size_t room);

/** Whether packets to @frontend are rejected, if nothing translates them. */
bool fake_kernel_rejects(const struct frontend *frontend);

/* What other programs do to a table. Lengths are not checked. */

/** Puts an element into a map or set; @data may be NULL. */
void fake_kernel_put(enum family family, const char *set, const void *key, size_t key_length,
                     const void *data, size_t data_length);

/** Packets counted in an element of a set, which they make if it is not there. */
void fake_kernel_count(enum family family, const char *set, const void *key, size_t key_length,
                       uint64_t packets);

/** Puts the end of a range into a set of single fields; the start is put like any element. */
void fake_kernel_put_end(enum family family, const char *set, const void *key, size_t key_length);

/** Takes an element away; it must be there. Of a range in a set of single fields, the start. */
void fake_kernel_take(enum family family, const char *set, const void *key, size_t key_length);

/** Leads the verdict under @key, which must be there, to another chain. */
void fake_kernel_lead(enum family family, const char *map, uint32_t key, const char *chain);

enum fake_owner { FAKE_OWNER_NONE, FAKE_OWNER_US, FAKE_OWNER_ELSEWHERE };

/** The owner ends, comes, or changes; the table stays. */
void fake_kernel_set_owner(enum family family, enum fake_owner owner);

void fake_kernel_set_comment(enum family family, const char *comment);
void fake_kernel_drop_set(enum family family, const char *set);

/** Declares a set in another way: NFTNL_SET_DESC_SIZE and the like. */
void fake_kernel_declare(enum family family, const char *set, uint16_t attribute, const void *value,
                         size_t length);

/** Deletes the rules of a chain. */
void fake_kernel_flush_chain(enum family family, const char *chain);

/** Makes a chain without rules, of a hook (NF_INET_LOCAL_OUT) or -1, whose policy may be to drop;
 * of one that is there, the policy changes. Deletes a chain with its rules. */
void fake_kernel_put_chain(enum family family, const char *name, int hook, bool drops);
void fake_kernel_drop_chain(enum family family, const char *name);

/** Whether there is a chain of that name. */
bool fake_kernel_has_chain(enum family family, const char *name);

/** Adds a copy of the first rule of a chain to another one. */
void fake_kernel_copy_rule(enum family family, const char *from, const char *to);
void fake_kernel_drop_table(enum family family);

size_t fake_kernel_rules(enum family family);

/** Changes operand @nth of a rule, counted over all of its expressions; behind the last one of
 * each, takes the expression away. Says what it did ("numgen 2 in pick-3"), to be freed; NULL:
 * there are no more. The last change can be undone. */
char *fake_kernel_change_operand(enum family family, size_t rule, unsigned nth);
void fake_kernel_undo_change(enum family family, size_t rule);

#endif
