/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An API server without a network: canned_server.c has the functions of source/apiserver.h that
 * reflectors call, so the linker leaves the real ones in the library. Bytes handed over here are
 * what libcurl would have handed over.
 */
#ifndef KUBE_NFTD_BENCH_CANNED_SERVER_H
#define KUBE_NFTD_BENCH_CANNED_SERVER_H

#include "kube-nftd/source.h"

#include <stdbool.h>
#include <stddef.h>

/** Gives bytes to the answer that is open for @resource ("services", "endpointslices"). Returns
 * false if none is open, or if the reader ends it. */
bool canned_server_send(const char *resource, enum encoding encoding, const char *bytes,
                        size_t length);

#endif
