/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's maps and sets hold, put into a ruleset. */
#include "record.h"

struct adoption {
    struct ruleset *ruleset;
    bool by_keys;    /* may be asked for slots by their keys */
    size_t elements; /* but for verdicts */
    size_t held;     /* all that the kernel gave */
    bool torn;       /* an element came twice: the kernel was moving them to a larger table, and may
                      * have left out others as well */
    bool foreign;    /* an element that we cannot have written */
    enum table_set set;           /* the one that is being read */
    struct boundaries boundaries; /* of a set of ranges, likewise */
};

static void on_element(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    a->held++;
    if (set_is_ranged(a->set))
        boundaries_take(&a->boundaries, a->ruleset->family, element);
    else if (held_adopt(a->ruleset, a->set, element, &a->torn))
        a->elements++;
    else
        a->foreign = true;
}

static void take_ranges(struct adoption *a)
{
    range_vec ranges = {0};
    enum boundaries_verdict verdict = boundaries_pair(&a->boundaries, a->ruleset->family, &ranges);
    a->torn = a->torn || verdict == BOUNDARIES_TORN;
    a->foreign = a->foreign || verdict == BOUNDARIES_FOREIGN;
    a->elements += ranges.n;
    held_adopt_ranges(a->ruleset, a->set, &ranges, &a->torn);
    vec_free(&ranges);
    boundaries_clear(&a->boundaries);
}

static int read_set(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    bool done = false;
    if (a->by_keys && set_owner(a->set) == OWNER_SLOTS &&
        ruleset_read_slots(a->ruleset, socket, a->set, on_element, a, &done, err))
        return -1;
    if (!done && nft_socket_read_elements(socket, a->ruleset->family, RULESET_TABLE,
                                          set_name(a->set), on_element, a, err))
        return -1;
    if (set_is_ranged(a->set))
        take_ranges(a);
    return 0;
}

static int read_all(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    for (unsigned set = 0; set < TABLE_SETS; set++) {
        a->set = (enum table_set)set;
        if (read_set(a, socket, err))
            return -1;
    }
    return a->torn ? error_set(err, "the kernel returned elements twice") : 0;
}

int ruleset_read_back(struct ruleset *rs, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err)
{
    struct adoption a = {.ruleset = rs, .by_keys = by_keys};
    int result = read_all(&a, socket, err);
    found->elements = a.elements;
    found->held = a.held;
    found->foreign = a.foreign;
    boundaries_clear(&a.boundaries);
    return result;
}
