/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a table's rules and verdicts are the ones that the templates make. */
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/rule_image.h"

static int compare(const struct ruleset *rs, struct rule_image *found, bool *same,
                   struct error *err)
{
    struct rule_image expected = {0};
    int result = rule_image_expect(rs, &expected, err);
    *same = result == 0 && rule_image_same(found, &expected);
    rule_image_free(&expected);
    return result;
}

int ruleset_verify_rules(const struct ruleset *rs, struct nft_socket *socket, bool *same,
                         struct error *err)
{
    struct rule_image found = {0};
    int result = rule_image_read(rs, socket, &found, err);
    result = result ? result : compare(rs, &found, same, err);
    rule_image_free(&found);
    return result;
}

/* Notes the shapes that only chains tell of. */
static void take_shapes(struct shapes *shapes, const struct rule_image *found)
{
    vec_each (&found->chains, chain) {
        struct shape shape;
        if (shape_of_chain(chain->name, &shape))
            shapes_add(shapes, shape);
    }
}

int ruleset_take_over_rules(struct ruleset *rs, struct nft_socket *socket, bool *same,
                            struct error *err)
{
    struct rule_image found = {0};
    int result = rule_image_read(rs, socket, &found, err);
    if (result == 0) {
        take_shapes(&rs->shapes, &found);
        result = compare(rs, &found, same, err);
    }
    rule_image_free(&found);
    return result;
}
