/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects as lines of a script:
 *
 *     a/web 10.96.0.1 fd00::1 http/TCP:80+30080 created=7 external=192.0.2.1 balancer=203.0.113.1
 *           from=10.0.0.0/8 check=30000 affinity=60 external-local internal-local
 *           skipped version=1
 *     a/web-1 of=a/web http/TCP:8080 10.0.0.1@here 10.0.0.2=st version=2
 *
 * A Service has addresses and ports, a slice ports and endpoints, as in objects.h. A word with
 * "10.0.0.1*300" in it stands for 300, with that address and those behind it; "10.0.0.1*300x2"
 * takes every second one.
 */
#ifndef KUBE_NFTD_TESTS_SCRIPT_OBJECTS_H
#define KUBE_NFTD_TESTS_SCRIPT_OBJECTS_H

#include "objects.h"
#include "script.h"

#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"

/* @words with each word as often as it says. The caller frees it. */
char *script_many(char *words);

struct service *script_service(char *words);

struct endpoint_slice *script_slice(char *words);

/* "10.96.0.1|53/UDP"; the port is 80, and the protocol TCP, if they are left out. */
struct frontend script_frontend(char *word);

/* As "2 out=3 IPv4=1! IPv6=2": what came, was left out, and is held; ! where that is not it. */
void write_versions(FILE *out, const struct object_versions *versions);

#endif
