/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much libcurl reads from its connections in one call. It reads HTTP/2 frames until some data
 * of a request has come, or nothing is left to read; a server that sends others as fast as they are
 * read (WINDOW_UPDATE, GOAWAY, empty DATA, unknown types) would hold up the loop for as long as it
 * likes. libcurl 7.88.1 has no option for that, and calls nobody meanwhile.
 */
#ifndef KUBE_NFTD_SOURCE_READ_BUDGET_H
#define KUBE_NFTD_SOURCE_READ_BUDGET_H

/** libcurl is about to be called: from now on, recv() in this thread returns a bounded number of
 * bytes in sum, then EAGAIN. What is left makes the descriptor ready again. No callback of libcurl
 * reads a socket of its own. */
void read_budget_begin(void);

/** It has returned: recv() is the C library's again. */
void read_budget_end(void);

#endif
