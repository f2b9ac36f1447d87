/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is said of things that kube-proxy left in the kernel, one line a thing:
 *
 *     removed: table ip kube-proxy
 *     would remove: table ip nat: chain KUBE-SERVICES
 *     left: IP set KUBE-CLUSTER-IP: ...why, and what a person can do
 *     not kube-proxy's: virtual servers of ipvs: 3
 *     warning: table ip filter: ...what will be different, and what a person can do
 */
#ifndef KUBE_NFTD_LEFTOVERS_REPORT_H
#define KUBE_NFTD_LEFTOVERS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct leftovers_report {
    FILE *out; /* borrowed */
    bool dry_run;
    size_t removed; /* lines of things that were, or would be */
    size_t left;    /* lines of things that stay */
};

/** Says that a thing is removed, or would be. */
void report_removed(struct leftovers_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Says that a thing that is near to kube-proxy's is taken for somebody else's. */
void report_others(struct leftovers_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Says what the removal, done or planned, makes different for others, and what a person can do. */
void report_warning(struct leftovers_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Says that a thing stays; the text ends with why, and what a person can do. */
void report_left(struct leftovers_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
