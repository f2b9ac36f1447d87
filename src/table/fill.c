/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fill.h"

#include "state.h"

#include <errno.h>

/* Nothing is inserted. */
static bool is_full(const struct ruleset *rs, struct nft_socket *socket, const char *set,
                    const struct key *element, bool is_map)
{
    struct nft_batch batch;
    struct error err = {0};
    const uint32_t value = 0;
    int why = 0;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    nft_batch_element(&batch, ELEMENT_ADD, set, element->bytes, element->length,
                      is_map ? &value : NULL, is_map ? sizeof(value) : 0);
    const bool rejected = nft_socket_check(socket, &batch, &why, &err) != 0;
    nft_batch_release(&batch);
    error_clear(&err);
    return rejected && why == ENFILE;
}

enum fill set_fill(struct ruleset *rs, struct nft_socket *socket, const char *set,
                   const struct key *element, bool is_map, uint32_t *n)
{
    struct error err = {0};
    bool counted = true;
    const bool failed =
        nft_socket_count_elements(socket, rs->family, RULESET_TABLE, set, n, &counted, &err) != 0;
    error_clear(&err);
    rs->uncounted = !counted;
    if (failed || counted)
        return failed ? FILL_UNKNOWN : FILL_COUNTED;
    return is_full(rs, socket, set, element, is_map) ? FILL_FULL : FILL_UNKNOWN;
}
