/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_health.h"

#include "kube-nftd/serve.h"
#include "objects.h"

void health_set_checks(struct health *health, enum family family, const struct health_check *checks,
                       size_t n)
{
    ck_assert_ptr_nonnull(health);
    for (const struct health_check *it = checks; it < checks + n; it++)
        receive_check(xasprintf("%s %s", it->service_id, family_name(family)),
                      it->port ? xasprintf("%u %zu", it->port, it->local_ready) : NULL);
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
