/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether there is a table, and whose it is. */
#include "state.h"

#include <string.h>

/* Whether the table has our maps and sets, and is ownable if configured. An existing table cannot
 * be made ownable. */
static bool is_like_ours(const struct ruleset *rs, const struct nft_table_state *state)
{
    return state->exists && state->comment && strcmp(state->comment, rs->comment) == 0 &&
           (!rs->config.owned || state->flags & NFT_TABLE_PERSISTENT);
}

bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct nft_table_state state;
    bool same = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, &err) == 0) {
        same = is_like_ours(rs, &state) && !state.owned_elsewhere &&
               !(state.flags & NFT_TABLE_DORMANT);
        free(state.comment);
    }
    error_clear(&err);
    return same;
}

/* Before the table is read, so that the result stays valid: claims it if configured, and clears the
 * dormant flag. */
static int set_flags(struct ruleset *rs, struct nft_socket *socket, uint32_t before,
                     struct error *err)
{
    const uint32_t flags = (before & ~NFT_TABLE_DORMANT) |
                           (rs->config.owned ? NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT : 0);
    if (flags == before)
        return 0;
    struct nft_batch batch;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    nft_batch_set_table_flags(&batch, flags);
    int result = nft_socket_commit(socket, &batch, err);
    rs->repaired += result == 0 && before & NFT_TABLE_DORMANT ? batch.used : 0;
    nft_batch_release(&batch);
    return result;
}

static int owned_elsewhere(enum family family, const struct nft_table_state *state,
                           struct error *err)
{
    return error_set(err,
                     "table %s " RULESET_TABLE
                     " is owned by a running program, most likely another kube-nftd; its netlink "
                     "port, often its process ID, is %u",
                     nft_family_name(family), state->owner);
}

int ruleset_look(struct ruleset *rs, struct nft_socket *socket, bool *exists, bool *ours,
                 struct error *err)
{
    struct nft_table_state state;
    *ours = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, err))
        return -1;
    *exists = state.exists;
    *ours = is_like_ours(rs, &state);
    free(state.comment);
    ruleset_enter(rs, state.owned_elsewhere ? TABLE_OWNED_ELSEWHERE : TABLE_UNKNOWN);
    if (state.owned_elsewhere)
        return owned_elsewhere(rs->family, &state, err);
    return *ours ? set_flags(rs, socket, state.flags, err) : 0;
}

int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err)
{
    bool exists;
    const int result = ruleset_look(rs, socket, &exists, ours, err);
    if (rs->state != TABLE_OWNED_ELSEWHERE)
        return result;
    *ours = false;
    error_clear(err);
    return 0;
}

int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed, struct error *err)
{
    struct nft_table_state state;
    if (nft_socket_read_table(socket, family, RULESET_TABLE, &state, err))
        return -1;
    free(state.comment);
    *existed = state.exists;
    if (!state.exists)
        return 0;
    if (state.owned_elsewhere)
        return owned_elsewhere(family, &state, err);
    struct nft_batch batch;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}
