/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the kernel's state, on the batch socket, or in pieces on a socket of its own. */
#include "nft_socket.h"

#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_ROOM 1024

/* The attribute numbers of the table and of its object are the same in all message types. */
static struct nlmsghdr *begin(char *buffer, enum family family, uint16_t flags, uint32_t sequence,
                              const struct nft_dump *what)
{
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, what->type, netlink_family(family), flags, sequence);
    mnl_attr_put_strz(request, NFTA_TABLE_NAME, what->table);
    if (what->set)
        mnl_attr_put_strz(request, NFTA_SET_NAME, what->set);
    return request;
}

/* A missing object is an error only for dumps. @interrupted as in netlink_ask(). */
static int run_dump(struct nft_socket *s, const struct nlmsghdr *request,
                    const struct nft_dump *what, mnl_cb_t fn, void *ctx, bool *interrupted,
                    struct error *err)
{
    int why = netlink_ask(s->nl, request, fn, ctx, interrupted);
    if (why == 0 || (why == ENOENT && !(request->nlmsg_flags & NLM_F_DUMP)))
        return 0;
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(request);
    const char *noun = what->type == NFT_MSG_GETSETELEM      ? "the elements of"
                       : what->type == NFT_MSG_GETSET        ? "set"
                       : what->type == NFT_MSG_GETRULE       ? "the rules of"
                       : what->type == NFT_MSG_GETCHAIN      ? "the chains of"
                       : what->type == NFT_MSG_GETFLOWTABLE  ? "the flowtables of"
                       : about->nfgen_family == NFPROTO_IPV4 ? "table ip"
                                                             : "table ip6";
    return error_set(err, "cannot read %s %s: %s", noun, what->set ? what->set : what->table,
                     nft_reason(why));
}

static int ask(struct nft_socket *s, enum family family, uint16_t flags,
               const struct nft_dump *what, mnl_cb_t fn, void *ctx, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    struct nlmsghdr *request = begin(buffer, family, flags, s->sequence++, what);
    return run_dump(s, request, what, fn, ctx, NULL, err);
}

int nft_socket_dump(struct nft_socket *s, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *interrupted, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    struct nlmsghdr *request = begin(buffer, family, NLM_F_DUMP, s->sequence++, what);
    return run_dump(s, request, what, fn, ctx, interrupted, err);
}

/* ---- tables ---- */

static int on_generation(const struct nlmsghdr *header, void *data)
{
    *(uint32_t *)data = netlink_number(nfnl_attribute(header, NFTA_GEN_ID), 0);
    return MNL_CB_OK;
}

int nft_socket_generation(struct nft_socket *s, uint32_t *generation, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, NFT_MSG_GETGEN, AF_UNSPEC, NLM_F_ACK, s->sequence++);
    *generation = 0;
    int why = netlink_ask(s->nl, request, on_generation, generation, NULL);
    return why ? error_set(err, "cannot read the ruleset's generation: %s", nft_reason(why)) : 0;
}

static int on_table(const struct nlmsghdr *header, void *data)
{
    struct nft_table_state *state = data;
    const struct nlattr *user_data = nfnl_attribute(header, NFTA_TABLE_USERDATA);
    const uint8_t *bytes = user_data ? mnl_attr_get_payload(user_data) : NULL;
    size_t length = user_data ? mnl_attr_get_payload_len(user_data) : 0;
    state->exists = true;
    state->flags = netlink_number(nfnl_attribute(header, NFTA_TABLE_FLAGS), 0);
    state->owner = netlink_number(nfnl_attribute(header, NFTA_TABLE_OWNER), 0);
    if (length > 2 && bytes[0] == NFTNL_UDATA_TABLE_COMMENT && bytes[1] == length - 2 &&
        !state->comment)
        state->comment = xstrndup((const char *)bytes + 2, bytes[1]);
    return MNL_CB_OK;
}

int nft_socket_read_table(struct nft_socket *s, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETTABLE, table, NULL};
    memset(state, 0, sizeof(*state));
    int result = ask(s, family, NLM_F_ACK, &what, on_table, state, err);
    state->owned_elsewhere = state->owner != 0 && state->owner != mnl_socket_get_portid(s->nl);
    if (result) {
        free(state->comment);
        state->comment = NULL;
    }
    return result;
}

/* ---- elements ---- */

struct element_reading {
    nft_element_fn fn;
    void *ctx;
    bool is_dump;
    uint16_t generation; /* of the ruleset when the dump began */
    size_t messages, found;
};

/* The kernel flags interrupted dumps of rules, but not of elements. There the generation in each
 * message reveals a change. */
static int on_elements(const struct nlmsghdr *header, void *data)
{
    struct element_reading *reading = data;
    const struct nfgenmsg *part = mnl_nlmsg_get_payload(header);
    if (reading->messages++ == 0)
        reading->generation = part->res_id;
    if (reading->is_dump && reading->generation != part->res_id) {
        errno = EINTR;
        return MNL_CB_ERROR;
    }
    reading->found += nft_element_each(header, reading->fn, reading->ctx);
    return MNL_CB_OK;
}

int nft_socket_read_elements(struct nft_socket *s, enum family family, const char *table,
                             const char *set, nft_element_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSETELEM, table, set};
    struct element_reading reading = {.fn = fn, .ctx = ctx, .is_dump = true};
    return ask(s, family, NLM_F_DUMP, &what, on_elements, &reading, err);
}

#define KEY_LENGTH_MOST 256
/* Overhead of an element in a request. */
#define KEY_FRAME ((size_t)32)

int nft_socket_get_elements(struct nft_socket *s, enum family family, const char *table,
                            const char *set, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err)
{
    char buffer[REQUEST_ROOM + NFT_KEYS_MOST * (KEY_LENGTH_MOST + KEY_FRAME)] = {0};
    const struct nft_dump what = {NFT_MSG_GETSETELEM, table, set};
    struct element_reading reading = {.fn = fn, .ctx = ctx};
    *found = 0;
    if (keys->length > KEY_LENGTH_MOST || keys->n > NFT_KEYS_MOST)
        return error_set(err, "cannot look up elements of %s: %zu keys of %zu bytes", set, keys->n,
                         keys->length);
    struct nlmsghdr *request = begin(buffer, family, NLM_F_ACK, s->sequence++, &what);
    struct nlattr *list = mnl_attr_nest_start(request, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < keys->n; i++) {
        struct nlattr *element = mnl_attr_nest_start(request, NFTA_LIST_ELEM);
        struct nlattr *key = mnl_attr_nest_start(request, NFTA_SET_ELEM_KEY);
        mnl_attr_put(request, NFTA_DATA_VALUE, keys->length, keys->bytes + i * keys->length);
        mnl_attr_nest_end(request, key);
        mnl_attr_nest_end(request, element);
    }
    mnl_attr_nest_end(request, list);
    int result = run_dump(s, request, &what, on_elements, &reading, NULL, err);
    *found = reading.found;
    return result;
}

int nft_socket_get_element(struct nft_socket *s, enum family family, const char *table,
                           const char *set, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err)
{
    const struct nft_keys one = {key, key_length, 1};
    size_t found;
    return nft_socket_get_elements(s, family, table, set, &one, fn, ctx, &found, err);
}

/* NFTA_SET_COUNT; Debian 12's headers lack it. */
#define SET_COUNT 20

struct element_count {
    uint32_t count;
    bool known;
};

static int on_count(const struct nlmsghdr *header, void *data)
{
    const struct nlattr *count = nfnl_attribute(header, SET_COUNT);
    *(struct element_count *)data = (struct element_count){netlink_number(count, 0), count};
    return MNL_CB_OK;
}

int nft_socket_count_elements(struct nft_socket *s, enum family family, const char *table,
                              const char *set, uint32_t *count, bool *known, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSET, table, set};
    struct element_count elements = {.count = 0};
    int result = ask(s, family, NLM_F_ACK, &what, on_count, &elements, err);
    *count = elements.count;
    *known = elements.known;
    return result;
}

/* ---- elements in pieces ---- */

/* The kernel sends no larger pieces. */
#define PIECE_SIZE ((size_t)32 * 1024)

struct element_dump {
    struct netlink_reply reply;
    struct element_reading reading;
    _Alignas(struct nlmsghdr) char buffer[PIECE_SIZE];
};

void element_dump_close(struct element_dump **dump)
{
    if (*dump && (*dump)->reply.nl)
        mnl_socket_close((*dump)->reply.nl);
    free(*dump);
    *dump = NULL;
}

static struct element_dump *open_dump(enum family family, const char *table, const char *set,
                                      struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSETELEM, table, set};
    struct element_dump *dump = xcalloc(1, sizeof(*dump));
    struct nlmsghdr *request = begin(dump->buffer, family, NLM_F_DUMP, 1, &what);
    struct mnl_socket *nl = netlink_open(NETLINK_NETFILTER, 0, 0, "nf_tables", err);
    dump->reply = (struct netlink_reply){.nl = nl,
                                         .buffer = dump->buffer,
                                         .size = PIECE_SIZE,
                                         .sequence = request->nlmsg_seq,
                                         .fn = on_elements,
                                         .ctx = &dump->reading};
    if (nl && mnl_socket_sendto(nl, request, request->nlmsg_len) > 0)
        return dump;
    if (nl)
        error_set(err, "cannot request the elements of %s: %s", set, strerror(errno));
    element_dump_close(&dump);
    return NULL;
}

enum element_dump_state element_dump_step(struct element_dump **dump, enum family family,
                                          const char *table, const char *set, nft_element_fn fn,
                                          void *ctx, struct error *err)
{
    if (!*dump)
        *dump = open_dump(family, table, set, err);
    if (!*dump)
        return DUMP_FAILED;
    (*dump)->reading.fn = fn;
    (*dump)->reading.ctx = ctx;
    const int result = netlink_receive(&(*dump)->reply);
    if (result > 0 || (result < 0 && errno == EAGAIN))
        return DUMP_GOES_ON;
    const bool missing = result < 0 && errno == ENOENT;
    if (result < 0)
        error_set(err, "cannot read the elements of %s: %s", set, nft_reason(errno));
    element_dump_close(dump);
    return result == 0 ? DUMP_ENDED : missing ? DUMP_MISSING : DUMP_FAILED;
}

/* ---- rules and chains ---- */

struct rule_reading {
    nft_rule_fn fn;
    void *ctx;
};

static int pass_rule(const struct nlmsghdr *header, void *data)
{
    const struct rule_reading *reading = data;
    struct nftnl_rule *rule = alloc_check(nftnl_rule_alloc());
    int result = nftnl_rule_nlmsg_parse(header, rule);
    if (result == 0)
        reading->fn(reading->ctx, rule);
    nftnl_rule_free(rule);
    return result == 0 ? MNL_CB_OK : MNL_CB_ERROR;
}

int nft_socket_read_rules(struct nft_socket *s, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETRULE, table, NULL};
    struct rule_reading reading = {fn, ctx};
    return ask(s, family, NLM_F_DUMP, &what, pass_rule, &reading, err);
}

struct chain_reading {
    const char *table;
    nft_chain_fn fn;
    void *ctx;
};

/* The kernel dumps the chains of all tables. */
static int pass_chain(const struct nlmsghdr *header, void *data)
{
    const struct chain_reading *reading = data;
    struct nftnl_chain *chain = alloc_check(nftnl_chain_alloc());
    int result = nftnl_chain_nlmsg_parse(header, chain);
    if (result == 0 && strcmp(nftnl_chain_get_str(chain, NFTNL_CHAIN_TABLE), reading->table) == 0)
        reading->fn(reading->ctx, chain);
    nftnl_chain_free(chain);
    return result == 0 ? MNL_CB_OK : MNL_CB_ERROR;
}

int nft_socket_read_chains(struct nft_socket *s, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETCHAIN, table, NULL};
    struct chain_reading reading = {table, fn, ctx};
    return ask(s, family, NLM_F_DUMP, &what, pass_chain, &reading, err);
}

/* ---- flowtables ---- */

struct flowtable_reading {
    const char *flowtable;
    bool exists;
    void (*fn)(void *ctx, const char *device);
    void *ctx;
};

static int on_flowtable(const struct nlmsghdr *header, void *data)
{
    struct flowtable_reading *reading = data;
    const char *name = netlink_text(nfnl_attribute(header, NFTA_FLOWTABLE_NAME));
    const struct nlattr *device,
        *devices =
            netlink_inside(nfnl_attribute(header, NFTA_FLOWTABLE_HOOK), NFTA_FLOWTABLE_HOOK_DEVS);
    if (!name || strcmp(name, reading->flowtable) != 0)
        return MNL_CB_OK;
    reading->exists = true;
    if (!devices)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(device, devices)
    {
        const char *text = netlink_text(device);
        if (text && mnl_attr_get_type(device) == NFTA_DEVICE_NAME)
            reading->fn(reading->ctx, text);
    }
    return MNL_CB_OK;
}

/* Not by name: the answer to that has less room. */
int nft_socket_read_flowtable(struct nft_socket *s, enum family family, const char *table,
                              const char *flowtable, bool *exists,
                              void (*fn)(void *ctx, const char *device), void *ctx,
                              struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETFLOWTABLE, table, NULL};
    struct flowtable_reading reading = {.flowtable = flowtable, .fn = fn, .ctx = ctx};
    const int result = ask(s, family, NLM_F_DUMP, &what, on_flowtable, &reading, err);
    *exists = reading.exists;
    return result;
}
