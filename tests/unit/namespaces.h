/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A user and network namespace of a test's own: no privileges are needed, and nothing of the
 * machine is touched. */
#ifndef KUBE_NFTD_TESTS_NAMESPACES_H
#define KUBE_NFTD_TESTS_NAMESPACES_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void enter_user_namespace(int more);

void enter_namespaces(void);

/* The same, where loopback addresses can be used: no other program takes its ports. */
void enter_network(void);

#endif
