/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nf_tables without a kernel. A program with fake_kernel.c in it gets these nft_socket_*() instead
 * of those of src/netlink/nft_socket.c. They take the real netlink messages apart and apply them to
 * a table in memory, one of each family, as the kernel would: all or nothing, with the errors that
 * it would give.
 *
 * After each transaction the table is checked for what packets rely on; a test that breaks it is
 * ended on the spot:
 *  - each entry of services has a pick chain and all the slots that its count reaches,
 *  - a slot that a count reached before the transaction is there after it,
 *  - a slot is deleted only when no count has reached it for RULESET_TRIM_DELAY,
 *  - a frontend that is there before and after a batch is there all the time, even if the batch is
 *    cut (unless the table was made anew).
 */
#ifndef KUBE_NFTD_TESTS_FAKE_KERNEL_H
#define KUBE_NFTD_TESTS_FAKE_KERNEL_H

#include "kube-nftd/policy/frontend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_fault {
    FAKE_REFUSES,     /* the transaction is refused */
    FAKE_LOSES_ANSWER /* it is in force, but the answer gets lost */
};

/* What the transactions in force have done since the last fake_kernel_forget_counts(). */
struct fake_counts {
    size_t transactions, messages;
    size_t tables, sets, chains, rules, verdicts; /* added */
    size_t added, deleted;                        /* elements of data maps and named sets */
};

/** No tables, no faults, counts and time zero, batches not cut. */
void fake_kernel_reset(void);

/** What time it is for the check of deleted slots: that of the next commit. */
void fake_kernel_set_time(double now);

/** The @nth transaction from now (1 is the next one) has @fault. */
void fake_kernel_fail(unsigned nth, enum fake_fault fault);

/** Whether a fault is still to come; it is taken back. */
bool fake_kernel_spare(void);

/** The @nth read of elements or rules from now and the @n - 1 after it fail with EINTR; those of a
 * table too if @tables. */
void fake_kernel_refuse_reads(unsigned nth, unsigned n, bool tables);

/** The next @n reads of sets that have elements give one of them twice and leave one out, as the
 * kernel may while it moves them to a larger hash table. */
void fake_kernel_tear_reads(unsigned n);

/** What another program does to the table during each read that is refused; NULL for nothing. */
void fake_kernel_while_refusing(void (*intrude)(void));

/** From now on each batch is cut into transactions wherever that is allowed. */
void fake_kernel_cut(bool on);

/** From now on what breaks the rules is only noted; the last one is told by the other. */
void fake_kernel_tolerate(void);
const char *fake_kernel_violation(void);

const struct fake_counts *fake_kernel_counts(void);
void fake_kernel_forget_counts(void);

/** The comment of the table of @family; NULL if there is no table. */
const char *fake_kernel_comment(enum family family);

/** How many elements a map or set holds; SIZE_MAX if it is not there. */
size_t fake_kernel_size(enum family family, const char *set);

/** The value of a data map's element, or NULL. */
const uint8_t *fake_kernel_value(enum family family, const char *set, const void *key,
                                 size_t key_length, size_t *length);

/** The backends that packets to @frontend reach, in the order of their slots. Returns how many;
 * only the first @room are written. */
size_t fake_kernel_backends(const struct frontend *frontend, struct backend *out, size_t room);

/** Whether packets to @frontend are rejected. */
bool fake_kernel_rejects(const struct frontend *frontend);

/* What other programs do to a table. Lengths are not checked. */

/** Puts an element into a map or set; @data may be NULL. */
void fake_kernel_put(enum family family, const char *set, const void *key, size_t key_length,
                     const void *data, size_t data_length);

/** Takes an element away; it must be there. */
void fake_kernel_take(enum family family, const char *set, const void *key, size_t key_length);

void fake_kernel_set_comment(enum family family, const char *comment);
void fake_kernel_drop_set(enum family family, const char *set);

/** Deletes the rules of a chain. */
void fake_kernel_flush_chain(enum family family, const char *chain);

/** Adds a copy of the first rule of a chain to another one. */
void fake_kernel_copy_rule(enum family family, const char *from, const char *to);
void fake_kernel_drop_table(enum family family);

#endif
