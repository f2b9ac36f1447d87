/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of this process is in memory. */
#ifndef KUBE_NFTD_HOST_RESIDENT_H
#define KUBE_NFTD_HOST_RESIDENT_H

/**
 * A part of the start is over: gives back to the system what was freed in its course, and lets go
 * of code and constants, of this program and of its libraries. Most of that only a start needs
 * (symbols, flags, the check of certificates, TLS handshakes), and the kernel would keep it as part
 * of this process while memory is not short. What is needed again comes back by itself, a page
 * fault for each 64 KiB, mostly out of the page cache.
 */
void resident_let_go(void);

#endif
