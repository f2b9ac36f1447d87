/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of src/serve/health.c: what it is told goes to receive(). */
#ifndef KUBE_NFTD_TESTS_RECEIVERS_H
#define KUBE_NFTD_TESTS_RECEIVERS_H

#include "kube-nftd/model.h"
#include "kube-nftd/serve.h"
#include "objects.h"

/* Takes both texts. @what replaces the text @about that before; NULL: nothing is left. The same of
 * health checks, of which there may have been nothing. */
static void receive(char *about, char *what);
static void receive_check(char *about, char *what);

void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    ck_assert_ptr_nonnull(health);
    receive_check(xasprintf("%s %s", service_id, family_name(family)),
                  port ? xasprintf("%u %zu", port, local_ready) : NULL);
}

void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n)
{
    char *text;
    size_t length;
    ck_assert_ptr_nonnull(health);
    FILE *out = open_memstream(&text, &length);
    fputs(all ? "all" : "at", out);
    for (size_t i = 0; i < n; i++) {
        fputc(' ', out);
        write_address(out, family, &addresses[i]);
    }
    fclose(out);
    receive(xstrdup(family_name(family)), text);
}

#endif
