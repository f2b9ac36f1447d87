/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "give_way.h"

#include "kube-nftd/table.h"
#include "state.h"

static void on_element(void *ctx, const struct nft_element *element)
{
    (void)element;
    *(bool *)ctx = true;
}

/* The deletions of what packets to @frontend meet first. */
static int encode(const struct ruleset *rs, struct nft_socket *socket,
                  const struct frontend *frontend, struct nft_batch *batch, struct error *err)
{
    static const enum table_set sets[] = {SET_SERVICES, SET_RESTRICTED};
    struct key key = key_of_frontend(frontend);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        bool held = false;
        if (nft_socket_get_element(socket, rs->family, RULESET_TABLE, set_name(sets[i]), key.bytes,
                                   key.length, on_element, &held, err))
            return -1;
        if (held)
            nft_batch_element(batch, ELEMENT_DELETE, set_name(sets[i]), key.bytes, key.length, NULL,
                              0);
    }
    return 0;
}

static int give_way(const struct ruleset *rs, struct nft_socket *socket,
                    const struct frontend *frontend, bool *gave, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    int result = encode(rs, socket, frontend, &batch, err);
    bool any = result == 0 && !nft_batch_is_empty(&batch);
    if (any)
        result = nft_socket_commit(socket, &batch, err);
    *gave = any && result == 0;
    nft_batch_release(&batch);
    return result;
}

int ruleset_give_way(struct ruleset *rs, struct nft_socket *socket, const struct frontend *frontend,
                     bool *gave, struct error *err)
{
    bool ours = false, cluster_ip = false;
    *gave = false;
    int result = ruleset_claim(rs, socket, &ours, err);
    if (rs->owned_elsewhere) {
        error_clear(err);
        return 0;
    }
    if (result || !ours)
        return result;
    if (ruleset_probe_address(rs, socket, set_name(SET_CLUSTER_IPS), &frontend->address,
                              &cluster_ip, err))
        return -1;
    return cluster_ip ? 0 : give_way(rs, socket, frontend, gave, err);
}
