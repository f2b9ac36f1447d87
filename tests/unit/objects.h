/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * API objects from words and back, so that a test reads as a table.
 *
 *     addresses   "10.96.0.1 fd00::1"
 *     CIDRs       "10.0.0.0/8 fd00::/64"
 *     ports       "http/TCP:80+30080 /UDP:53"              name/protocol:number+node port
 *     endpoints   "10.0.0.1 10.0.0.2=st 10.0.0.3=rs@n1"    address=conditions@node
 *                 "10.0.0.1~n1,n2^z1"                      address~hinted nodes^hinted zones
 *     a Node      "zone=a 192.0.2.7 fd00::7 pods=10.244.1.0/24 deleting tainted"
 *
 * Conditions are letters: r ready, s serving, t terminating, - none; left out they are "rs".
 */
#ifndef KUBE_NFTD_TESTS_OBJECTS_H
#define KUBE_NFTD_TESTS_OBJECTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the statement with @word naming each word of the string @text in turn. */
#define each_word(text, word)                                                                      \
    for (char *copy_ = xstrdup(text), *rest_, *word = strtok_r(copy_, " ", &rest_);                \
         word || (free(copy_), false); word = strtok_r(NULL, " ", &rest_))

/* Frees @actual, which must be @expected. */
void expect_text(char *actual, const char *expected);

/* ---- from words ---- */

struct address make_address(const char *text, enum family *family);

/* "10.0.0.1:80", "[fd00::1]:80" */
struct backend make_backend(const char *word, enum family *family);

struct cidr make_cidr(const char *text, enum family *family);

struct service_port make_port(const char *word);

void add_address(struct service *service, const char *word);

/* A Service created at second 1. */
struct service *make_service(const char *id, const char *addresses, const char *ports);

/* Appends them to those of their families. */
void add_addresses(address_vec to[FAMILY_COUNT], const char *addresses);

/* They go on to what the Service has. */
void add_external_ips(struct service *service, const char *addresses);

void add_load_balancer_ips(struct service *service, const char *addresses);

void add_source_ranges(struct service *service, const char *cidrs);

struct service_cidr *make_service_cidr(const char *id, const char *cidrs);

struct endpoint_hints *make_hints(const char *word);

uint8_t make_flags(const char *letters);

struct slice_endpoint make_endpoint(const char *word, enum family family);

void add_slice_port(struct endpoint_slice *slice, const char *word);

/* A slice of the Service @service_id, which may be NULL. */
struct endpoint_slice *make_slice(const char *id, const char *service_id, enum family family,
                                  const char *ports, const char *endpoints);

struct node *make_node(const char *id, const char *words);

/* Of one family, in ascending order. The caller frees it. */
address_vec make_addresses(const char *words);

/* ---- back to words; the caller frees them ---- */

void write_address(FILE *out, enum family family, const struct address *address);

/* " 10.0.0.1:80 10.0.0.2:80" */
void write_backends(FILE *out, enum family family, const struct backend *backends, size_t n);

/* To which backends flows may go on. */
char *flows_text(enum family family, const struct backend *serving, size_t n);

void write_cidr(FILE *out, enum family family, const struct cidr *cidr);

void write_port(FILE *out, const char *name, uint8_t protocol, uint16_t port);

void write_conditions(FILE *out, uint8_t flags, const char *node_name);

void write_hints(FILE *out, const struct endpoint_hints *hints);

/* "10.0.0.0-10.0.0.255 10.0.2.0-10.0.2.0" */
void write_ranges(FILE *out, enum family family, const range_vec *ranges);

/* "10.0.0.1:80 10.0.0.2:80=st@n1" */
void write_endpoints(FILE *out, enum family family, const endpoint_vec *endpoints);

/* ---- chance, the same in every run ---- */

/* A number below @n. */
unsigned dice(uint64_t *state, unsigned n);

#endif
