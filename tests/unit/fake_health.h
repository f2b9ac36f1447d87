/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of src/serve/health.c: what it is told goes to receive(). */
#ifndef KUBE_NFTD_TESTS_FAKE_HEALTH_H
#define KUBE_NFTD_TESTS_FAKE_HEALTH_H

/* Defined by the test. Takes both texts. @what replaces the text @about that before; NULL: nothing
 * is left. The same of health checks, of which there may have been nothing. */
void receive(char *about, char *what);
void receive_check(char *about, char *what);

#endif
