/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_health.h"

#include "kube-nftd/serve.h"
#include "objects.h"

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
