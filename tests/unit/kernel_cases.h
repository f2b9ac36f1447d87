/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transactions as text, and what the kernel says to them, for two tests: that of the real socket
 * shows that the kernel is like this, that of the fake kernel shows that it is like the kernel.
 *
 *     + ports p1 : p1/2        an element: key and value
 *     - endpoints p1 0         one to be deleted
 *     + picks 7 goto pick-7
 *     + service_cidrs 10-19    a range of addresses by their last digits; 50-top
 *     rule port F @services    F: the frontend that a packet is for
 *     instance learn.nft 100   what a template adds for that number
 *
 * Keys and values: f1 a frontend, p1/2 service port 1 and what is below it, b1 a backend, g1 and h1
 * their addresses, t80 TCP and a port, a12 an address that ends so, s1/12/2 a prefix in list 1 of
 * sources with two bits that do not count, l1 what service ports have for that list, x8 so many
 * bytes, 12 a number.
 */
#ifndef KUBE_NFTD_TESTS_KERNEL_CASES_H
#define KUBE_NFTD_TESTS_KERNEL_CASES_H

#include "script.h"
#include "table/state.h"
#include "table/template.h"

/* What all of it is sent over, the transaction to come, and what went wrong. */
extern struct nft_socket *sock;
extern struct nft_batch batch;
extern struct error err;

/* Of the transaction. */
enum family case_family(void);

/* ---- keys and values ---- */

struct frontend case_frontend(enum family family, uint8_t number);

/* P of a service port: each frontend leads to the one with its own number. */
uint32_t case_port(uint8_t number);

struct key case_word(enum family family, const char *word);

/* A key or value, up to what @end begins with. */
struct key case_words(char **words, const char *end);

/* ---- messages ---- */

/* Variables of a table that knows its pods by their addresses. */
struct layout_vars case_vars(unsigned n);

/* Adds what a template has. */
void case_layout(enum template_id id, const struct layout_vars *vars);

/* Adds lines of messages; printf's format. */
void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- transactions ---- */

/* Opens the socket; case_close() closes it and empties the transaction. */
void case_open(void);
void case_close(void);

/* A table as it is before each case, in the kernel. */
void begin(enum family family);

/* Sends the transaction, which the kernel must take, and begins another. */
void commit(void);

/* ---- reading ---- */

/* Elements of a set as lines. */
struct case_lines {
    const char *set;
    VEC(char *) lines;
};

/* Adds an element to the case_lines @ctx. */
void case_see(void *ctx, const struct nft_element *e);

/* How many elements a set has. */
size_t size_of(const char *set);

/* ---- cases ---- */

/* The cases for both, in both families: number @i of them. */
void case_transactions(int i);

#define CASE_TRANSACTIONS                                                                          \
    TESTS(transactions, FAMILY_COUNT *script_cases("kernel"))                                      \
    {                                                                                              \
        case_transactions(_i);                                                                     \
    }

#endif
