/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Elements of a table in the words of a case: fields with dots between them.
 *
 *     f1      frontend 1                        p1, p1+2   its service port, and what is below
 *     b1, b   backend 1, one without a port     #3, P77+2  a number, a number of a service port
 *     c1, a1  the addresses of client 1 and of frontend 1, and h1 backend 1 to itself
 *     r1      the first address of the range "1-top"; "zero" is the lowest of all
 *     n1:3    what affinity_numbers has for backend 3 of the service port of frontend 1
 *     l6:10-11, L7:10-11  a prefix in the list of sources of frontend 6, in list 7
 *
 * "p1.#0" is a slot. "<4" and ">4" behind all of it make that shorter or longer by so many bytes;
 * "|1" sets its last byte.
 */
#ifndef KUBE_NFTD_TESTS_TABLE_ELEMENTS_H
#define KUBE_NFTD_TESTS_TABLE_ELEMENTS_H

#include "table_model.h"

/* The one that the first word is, which is cut off; of no length without one. */
struct key next_key(char **words);

#endif
