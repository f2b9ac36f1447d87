/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether there is a table, whose it is, and whether its maps and sets are declared as ours. */
#include "state.h"
#include "template.h"

#include <linux/netfilter/nf_tables.h>
#include <string.h>

/* Whether the table has our maps and sets, and is ownable if configured. An existing table cannot
 * be made ownable. */
static bool is_like_ours(const struct ruleset *rs, const struct nft_table_state *state)
{
    return state->exists && state->comment && strcmp(state->comment, rs->comment) == 0 &&
           (!rs->config.owned || state->flags & NFT_TABLE_PERSISTENT);
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

/* ---- declarations ----
 *
 * All that NEWSET has of maps and sets is compared with the templates. The kernel lets other
 * programs change some of a set in use (the size from Linux 6.12 on), and nft declares sets anew
 * when it restores a table.
 */

/* Both are 0 if absent. */
static const struct number {
    uint16_t attribute;
    const char *name;
} numbers[] = {
    {NFTA_SET_FLAGS, "flags"},           {NFTA_SET_KEY_TYPE, "key type"},
    {NFTA_SET_KEY_LEN, "key length"},    {NFTA_SET_DATA_TYPE, "value type"},
    {NFTA_SET_DATA_LEN, "value length"}, {NFTA_SET_OBJ_TYPE, "object type"},
    {NFTA_SET_POLICY, "policy"},         {NFTA_SET_GC_INTERVAL, "gc-interval"},
};

/* Templates have neither. */
static const struct number extras[] = {
    {NFTA_SET_TIMEOUT, "timeout"},
    {NFTA_SET_EXPR, "expression"},
    {NFTA_SET_EXPRESSIONS, "expressions"},
};

static uint32_t size_of(const struct nlmsghdr *set)
{
    return netlink_number(netlink_inside(nfnl_attribute(set, NFTA_SET_DESC), NFTA_SET_DESC_SIZE),
                          0);
}

/* The kernel gives a set without a size this one as soon as a rule adds elements to it. */
#define DYNAMIC_SIZE 65535

static bool same_size(const struct nlmsghdr *expected, const struct nlmsghdr *found)
{
    const uint32_t size = size_of(expected);
    return size_of(found) == size ||
           (size == 0 && size_of(found) == DYNAMIC_SIZE &&
            netlink_number(nfnl_attribute(expected, NFTA_SET_FLAGS), 0) & NFT_SET_EVAL);
}

static bool same_user_data(const struct nlmsghdr *a, const struct nlmsghdr *b)
{
    const struct nlattr *left = nfnl_attribute(a, NFTA_SET_USERDATA),
                        *right = nfnl_attribute(b, NFTA_SET_USERDATA);
    if (!left || !right)
        return left == right;
    return left->nla_len == right->nla_len &&
           memcmp(left + 1, right + 1, left->nla_len - sizeof(*left)) == 0;
}

/* The kernel returns the length of its own verdicts, which depends on the architecture. */
static bool depends_on_kernel(const struct nlmsghdr *set, uint16_t attribute)
{
    return attribute == NFTA_SET_DATA_LEN &&
           netlink_number(nfnl_attribute(set, NFTA_SET_DATA_TYPE), 0) == NFT_DATA_VERDICT;
}

/* The first difference between two declarations of the set @name as text, or NULL. */
static char *compare_declarations(const char *name, const struct nlmsghdr *expected,
                                  const struct nlmsghdr *found)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const uint16_t attribute = numbers[i].attribute;
        const uint32_t is = netlink_number(nfnl_attribute(found, attribute), 0),
                       should_be = netlink_number(nfnl_attribute(expected, attribute), 0);
        if (is != should_be && !depends_on_kernel(expected, attribute))
            return xasprintf("%s has %s %u, not %u", name, numbers[i].name, is, should_be);
    }
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++)
        if (nfnl_attribute(found, extras[i].attribute))
            return xasprintf("%s has a default %s", name, extras[i].name);
    if (!same_size(expected, found))
        return xasprintf("%s has size %u, not %u", name, size_of(found), size_of(expected));
    if (!same_user_data(found, expected))
        return xasprintf("%s has other user data", name);
    return NULL;
}

struct comparing {
    struct nft_batch expected; /* the declarations of all sets */
    size_t found;
    char *difference; /* the first one */
};

static int on_set(const struct nlmsghdr *found, void *ctx)
{
    struct comparing *c = ctx;
    const char *name = netlink_text(nfnl_attribute(found, NFTA_SET_NAME));
    netlink_each (expected, c->expected.buffer, c->expected.used) {
        if (!name || strcmp(netlink_text(nfnl_attribute(expected, NFTA_SET_NAME)), name) != 0)
            continue;
        c->found++;
        if (!c->difference)
            c->difference = compare_declarations(name, expected, found);
    }
    return MNL_CB_OK;
}

int declarations_check(const struct ruleset *rs, struct nft_socket *socket, char **difference,
                       struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSET, RULESET_TABLE, NULL};
    struct comparing c = {.found = 0};
    nft_batch_init(&c.expected, rs->family, RULESET_TABLE);
    vec_each (&rs->base.sets, set)
        nft_batch_add_set(&c.expected, set->set);
    const int result = nft_socket_dump(socket, rs->family, &what, on_set, &c, NULL, err);
    nft_batch_release(&c.expected);
    if (!c.difference && c.found < rs->base.sets.n)
        c.difference = xstrdup("a map or set is missing");
    *difference = result ? NULL : c.difference;
    if (result)
        free(c.difference);
    return result;
}

/* ---- later ---- */

bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct nft_table_state state;
    char *difference = NULL;
    bool same = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, &err) == 0) {
        same = is_like_ours(rs, &state) && !state.owned_elsewhere &&
               !(state.flags & NFT_TABLE_DORMANT) &&
               declarations_check(rs, socket, &difference, &err) == 0 && !difference;
        free(state.comment);
        free(difference);
    }
    error_clear(&err);
    return same;
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
