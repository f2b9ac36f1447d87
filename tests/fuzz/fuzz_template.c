/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any text is a template or rejected; what is taken becomes netlink messages. The
 * first byte of an input says which variables have no value, and the family. */
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "table/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void check_layout(const struct layout *layout)
{
    vec_each (&layout->sets, set)
        expect(set->name && *set->name && set->declaration && set->set);
    vec_each (&layout->chains, chain) {
        expect(chain->name && *chain->name && chain->chain);
        vec_each (&chain->rules, rule)
            expect(rule->text && *rule->text && rule->rule);
    }
}

static void program(const struct layout *layout, enum family family)
{
    for (int sets = 0; sets <= 1; sets++) {
        struct nft_batch batch;
        nft_batch_init(&batch, family, "t");
        program_layout(layout, sets, &batch);
        nft_batch_release(&batch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t without = data[0];
    char *text = xstrndup((const char *)data + 1, size - 1);
    const struct template from = {"fuzz.nft", text};
    const struct layout_vars vars = {.family = without & 1 ? FAMILY_IPV6 : FAMILY_IPV4,
                                     .mark = "0x4000",
                                     .from_pod = without & 2 ? NULL : "ip saddr @pod_cidrs",
                                     .not_from_pod = without & 4 ? "" : "ip saddr != @pod_cidrs",
                                     .from_host = without & 8 ? NULL : "fib saddr type local",
                                     .reject = without & 16 ? NULL : "reject",
                                     .to_localhost = without & 32 ? NULL : "ip6 daddr == ::1",
                                     .n = 7};
    struct layout layout = {.sets = {0}};
    struct error err = {0};
    int result = layout_parse(&from, &vars, &layout, &err);
    expect((result == 0) == (err.text == NULL));
    if (result == 0) {
        check_layout(&layout);
        program(&layout, vars.family);
    }
    layout_free(&layout);
    error_clear(&err);
    free(text);
    return 0;
}
