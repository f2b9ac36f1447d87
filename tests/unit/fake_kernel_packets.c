/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first packet of a connection on its way through the rules, expression by expression. What
 * rules write into sets (affinity records) is not written: a packet changes nothing here.
 */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"

#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define REGISTERS 64 /* bytes */
#define MAX_DEPTH 16 /* of jumps and gotos; the kernel allows no more either */
#define INTERFACE_NAME 16
#define PORT_OFFSET 2

struct packet {
    enum family family;
    uint8_t protocol;
    uint8_t network[40], transport[4]; /* headers */
    struct address original;           /* destination */
    uint8_t original_port[2];
    char interface[INTERFACE_NAME];
    bool from_host, translated, masqueraded, rejected;
    uint32_t mark, priority, ct_mark;
};

struct machine {
    const struct fake_table *table;
    const struct fake_rule *rule; /* that is run */
    struct packet packet;
    unsigned choice, choices;     /* of a random number; how many there are */
    unsigned draws, last_choices; /* of such numbers; how many there were the last time */
    uint8_t registers[REGISTERS];
    int verdict;
    char chain[FAKE_NAME_SIZE]; /* of a jump or goto */
};

/* ---- headers ---- */

static const size_t source_offset[FAMILY_COUNT] = {12, 8},
                    destination_offset[FAMILY_COUNT] = {16, 24};

static struct packet make_packet(const struct frontend *to, const struct fake_client *from)
{
    struct packet packet = {.family = (enum family)to->family,
                            .protocol = to->protocol,
                            .original = to->address,
                            .original_port = {(uint8_t)(to->port >> 8), (uint8_t)to->port},
                            .from_host = from->is_host,
                            .mark = from->mark};
    size_t n = address_length(packet.family);
    memcpy(packet.network + source_offset[packet.family], from->address.bytes, n);
    memcpy(packet.network + destination_offset[packet.family], to->address.bytes, n);
    memcpy(packet.transport + PORT_OFFSET, packet.original_port, 2);
    if (from->interface)
        snprintf(packet.interface, sizeof(packet.interface), "%s", from->interface);
    return packet;
}

/* ---- registers ---- */

static uint8_t *place(struct machine *m, uint32_t reg, size_t length)
{
    size_t at = reg >= NFT_REG32_00 ? (size_t)(reg - NFT_REG32_00) * NFT_REG32_SIZE
                                    : (size_t)(reg - NFT_REG_1) * NFT_REG_SIZE;
    FAKE_ASSERT(reg != NFT_REG_VERDICT && at + length <= REGISTERS);
    return m->registers + at;
}

/* Fills whole words, with zeros behind. */
static void store(struct machine *m, uint32_t reg, const void *data, size_t length)
{
    size_t padded = (length + 3) / 4 * 4;
    uint8_t *to = place(m, reg, padded);
    memset(to, 0, padded);
    memcpy(to, data, length);
}

static uint32_t u32(const struct nftnl_expr *expr, uint16_t attribute)
{
    FAKE_ASSERT(nftnl_expr_is_set(expr, attribute));
    return nftnl_expr_get_u32(expr, attribute);
}

static const void *bytes(const struct nftnl_expr *expr, uint16_t attribute, uint32_t *length)
{
    const void *data = nftnl_expr_get(expr, attribute, length);
    FAKE_ASSERT(data);
    return data;
}

/* ---- expressions; they set the verdict if it is not to go on ---- */

static void run_payload(struct machine *m, const struct nftnl_expr *expr)
{
    uint32_t base = u32(expr, NFTNL_EXPR_PAYLOAD_BASE);
    bool network = base == NFT_PAYLOAD_NETWORK_HEADER;
    uint32_t offset = u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET);
    uint32_t length = u32(expr, NFTNL_EXPR_PAYLOAD_LEN);
    size_t size = network ? sizeof(m->packet.network) : sizeof(m->packet.transport);
    FAKE_ASSERT(network || base == NFT_PAYLOAD_TRANSPORT_HEADER);
    FAKE_ASSERT(offset + length <= size);
    store(m, u32(expr, NFTNL_EXPR_PAYLOAD_DREG),
          (network ? m->packet.network : m->packet.transport) + offset, length);
}

static void run_meta(struct machine *m, const struct nftnl_expr *expr)
{
    const struct {
        uint32_t key;
        void *value;
        size_t length;
        bool can_be_set;
    } keys[] = {{NFT_META_L4PROTO, &m->packet.protocol, 1, false},
                {NFT_META_PRIORITY, &m->packet.priority, 4, true},
                {NFT_META_MARK, &m->packet.mark, 4, true},
                {NFT_META_IIFNAME, m->packet.interface, INTERFACE_NAME, false}};
    const uint32_t key = u32(expr, NFTNL_EXPR_META_KEY);
    size_t i = 0;
    while (i < sizeof(keys) / sizeof(keys[0]) && keys[i].key != key)
        i++;
    FAKE_ASSERT(i < sizeof(keys) / sizeof(keys[0]));
    if (!nftnl_expr_is_set(expr, NFTNL_EXPR_META_SREG)) {
        store(m, u32(expr, NFTNL_EXPR_META_DREG), keys[i].value, keys[i].length);
        return;
    }
    FAKE_ASSERT(keys[i].can_be_set);
    memcpy(keys[i].value, place(m, u32(expr, NFTNL_EXPR_META_SREG), 4), 4);
}

static void run_ct(struct machine *m, const struct nftnl_expr *expr)
{
    const struct packet *packet = &m->packet;
    const uint32_t status = packet->translated ? IPS_DST_NAT : 0;
    const uint32_t key = u32(expr, NFTNL_EXPR_CT_KEY);
    if (nftnl_expr_is_set(expr, NFTNL_EXPR_CT_SREG)) {
        FAKE_ASSERT(key == NFT_CT_MARK);
        memcpy(&m->packet.ct_mark, place(m, u32(expr, NFTNL_EXPR_CT_SREG), 4), 4);
        return;
    }
    const uint32_t to = u32(expr, NFTNL_EXPR_CT_DREG);
    bool original = nftnl_expr_is_set(expr, NFTNL_EXPR_CT_DIR) &&
                    nftnl_expr_get_u8(expr, NFTNL_EXPR_CT_DIR) == 0;
    if (key == NFT_CT_STATUS)
        store(m, to, &status, sizeof(status));
    else if (key == NFT_CT_MARK)
        store(m, to, &packet->ct_mark, sizeof(packet->ct_mark));
    else if (original && (key == NFT_CT_DST || key == NFT_CT_DST_IP || key == NFT_CT_DST_IP6))
        store(m, to, packet->original.bytes, address_length(packet->family));
    else if (original && key == NFT_CT_PROTO_DST)
        store(m, to, packet->original_port, sizeof(packet->original_port));
    else
        ck_abort_msg("ct %u", key);
}

/* What kind of address the source or the destination has; no packet goes to this host. */
static void run_fib(struct machine *m, const struct nftnl_expr *expr)
{
    const uint32_t flags = u32(expr, NFTNL_EXPR_FIB_FLAGS);
    const bool of_host = flags == NFTA_FIB_F_SADDR && m->packet.from_host;
    const uint32_t type = of_host ? RTN_LOCAL : RTN_UNICAST;
    FAKE_ASSERT(u32(expr, NFTNL_EXPR_FIB_RESULT) == NFT_FIB_RESULT_ADDRTYPE);
    FAKE_ASSERT(flags == NFTA_FIB_F_SADDR || flags == NFTA_FIB_F_DADDR);
    store(m, u32(expr, NFTNL_EXPR_FIB_DREG), &type, sizeof(type));
}

static void run_numgen(struct machine *m, const struct nftnl_expr *expr)
{
    const uint32_t modulus = u32(expr, NFTNL_EXPR_NG_MODULUS);
    const uint32_t number = nftnl_expr_get_u32(expr, NFTNL_EXPR_NG_OFFSET) + m->choice % modulus;
    if (m->draws++ == 0)
        m->choices = modulus;
    m->last_choices = modulus;
    FAKE_ASSERT(m->choice < m->choices && modulus <= m->choices);
    store(m, u32(expr, NFTNL_EXPR_NG_DREG), &number, sizeof(number));
}

static void run_bitwise(struct machine *m, const struct nftnl_expr *expr)
{
    uint32_t length = u32(expr, NFTNL_EXPR_BITWISE_LEN), mask_length, xor_length;
    const uint8_t *mask = bytes(expr, NFTNL_EXPR_BITWISE_MASK, &mask_length);
    const uint8_t *toggle = bytes(expr, NFTNL_EXPR_BITWISE_XOR, &xor_length);
    const uint8_t *from = place(m, u32(expr, NFTNL_EXPR_BITWISE_SREG), length);
    uint8_t *to = place(m, u32(expr, NFTNL_EXPR_BITWISE_DREG), length);
    FAKE_ASSERT(mask_length == length && xor_length == length);
    for (uint32_t i = 0; i < length; i++)
        to[i] = (from[i] & mask[i]) ^ toggle[i];
}

static void run_cmp(struct machine *m, const struct nftnl_expr *expr)
{
    uint32_t length, op = u32(expr, NFTNL_EXPR_CMP_OP);
    const uint8_t *data = bytes(expr, NFTNL_EXPR_CMP_DATA, &length);
    int order = memcmp(place(m, u32(expr, NFTNL_EXPR_CMP_SREG), length), data, length);
    FAKE_ASSERT(op == NFT_CMP_EQ || op == NFT_CMP_NEQ);
    if ((order == 0) != (op == NFT_CMP_EQ))
        m->verdict = NFT_BREAK;
}

static void run_lookup(struct machine *m, const struct nftnl_expr *expr)
{
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET);
    bool anonymous = strcmp(name, "__set%d") == 0;
    const struct fake_set *set = fake_find_set(m->table, anonymous ? m->rule->anonymous : name);
    FAKE_ASSERT(set);
    const struct fake_element *found =
        fake_lookup(set, place(m, u32(expr, NFTNL_EXPR_LOOKUP_SREG), set->key_length));
    bool invert = nftnl_expr_is_set(expr, NFTNL_EXPR_LOOKUP_FLAGS) &&
                  nftnl_expr_get_u32(expr, NFTNL_EXPR_LOOKUP_FLAGS) & NFT_LOOKUP_F_INV;
    if (!found != invert) {
        m->verdict = NFT_BREAK;
    } else if (!found) {
        return;
    } else if (set->verdicts) {
        m->verdict = NFT_GOTO;
        fake_copy_name(m->chain, found->chain);
    } else if (set->is_map) {
        store(m, u32(expr, NFTNL_EXPR_LOOKUP_DREG), found->data, found->data_length);
    }
}

static void run_immediate(struct machine *m, const struct nftnl_expr *expr)
{
    uint32_t to = u32(expr, NFTNL_EXPR_IMM_DREG), length;
    if (to != NFT_REG_VERDICT) {
        const void *data = bytes(expr, NFTNL_EXPR_IMM_DATA, &length);
        store(m, to, data, length);
        return;
    }
    m->verdict = (int)u32(expr, NFTNL_EXPR_IMM_VERDICT);
    if (nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_CHAIN))
        fake_copy_name(m->chain, nftnl_expr_get_str(expr, NFTNL_EXPR_IMM_CHAIN));
}

static void run_nat(struct machine *m, const struct nftnl_expr *expr)
{
    struct packet *packet = &m->packet;
    size_t n = address_length(packet->family);
    FAKE_ASSERT(u32(expr, NFTNL_EXPR_NAT_TYPE) == NFT_NAT_DNAT);
    memcpy(packet->network + destination_offset[packet->family],
           place(m, u32(expr, NFTNL_EXPR_NAT_REG_ADDR_MIN), n), n);
    memcpy(packet->transport + PORT_OFFSET, place(m, u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MIN), 2),
           2);
    packet->translated = true;
    m->verdict = NF_ACCEPT;
}

static void run_masq(struct machine *m, const struct nftnl_expr *expr)
{
    m->packet.masqueraded = true;
    m->verdict = NF_ACCEPT;
}

static void run_reject(struct machine *m, const struct nftnl_expr *expr)
{
    m->packet.rejected = true;
    m->verdict = NF_DROP;
}

static void run_dynset(struct machine *m, const struct nftnl_expr *expr)
{
}

static const struct {
    const char *name;
    void (*run)(struct machine *m, const struct nftnl_expr *expr);
} expressions[] = {
    {"payload", run_payload}, {"meta", run_meta},     {"ct", run_ct},
    {"fib", run_fib},         {"numgen", run_numgen}, {"bitwise", run_bitwise},
    {"cmp", run_cmp},         {"lookup", run_lookup}, {"immediate", run_immediate},
    {"nat", run_nat},         {"masq", run_masq},     {"reject", run_reject},
    {"dynset", run_dynset},
};
#define EXPRESSIONS (sizeof(expressions) / sizeof(expressions[0]))

/* ---- rules, chains, hooks ---- */

/* Ends the walk over a rule's expressions when there is a verdict. */
static int run_expression(struct nftnl_expr *expr, void *data)
{
    struct machine *m = data;
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    size_t i = 0;
    while (i < EXPRESSIONS && strcmp(expressions[i].name, name) != 0)
        i++;
    if (i == EXPRESSIONS)
        ck_abort_msg("unknown expression: %s", name);
    expressions[i].run(m, expr);
    return m->verdict == NFT_CONTINUE ? 0 : -1;
}

static void run_rule(struct machine *m, struct fake_rule *from)
{
    m->rule = from;
    m->verdict = NFT_CONTINUE;
    nftnl_expr_foreach(fake_parsed_rule(from), run_expression, m);
}

/* The verdict is NF_ACCEPT or NF_DROP, or NFT_CONTINUE if the chain has none. */
static int run_chain(struct machine *m, const char *name, int depth)
{
    FAKE_ASSERT(depth <= MAX_DEPTH);
    vec_each (&m->table->rules, rule) {
        char chain[FAKE_NAME_SIZE];
        if (strcmp(rule->chain, name) != 0)
            continue;
        run_rule(m, rule);
        int verdict = m->verdict;
        if (verdict == NF_ACCEPT || verdict == NF_DROP)
            return verdict;
        if (verdict == NFT_RETURN)
            return NFT_CONTINUE;
        if (verdict != NFT_JUMP && verdict != NFT_GOTO)
            continue;
        fake_copy_name(chain, m->chain);
        int result = run_chain(m, chain, depth + 1);
        if (verdict == NFT_GOTO || result != NFT_CONTINUE)
            return result;
    }
    return NFT_CONTINUE;
}

static int compare_priorities(const void *a, const void *b)
{
    return (*(const struct fake_chain *const *)a)->priority -
           (*(const struct fake_chain *const *)b)->priority;
}

/* Whether one of the hook's chains has translated the packet. */
static bool is_done(const struct packet *packet, int hook)
{
    return hook == NF_INET_POST_ROUTING ? packet->masqueraded : packet->translated;
}

/* Whether the packet gets past the chains of a hook, all of type nat: the first that translates
 * ends the walk. */
static bool passes(struct machine *m, int hook)
{
    VEC(const struct fake_chain *) chains = {0};
    bool dropped = false;
    vec_each (&m->table->chains, chain)
        if (chain->hook == hook)
            vec_push(&chains, chain);
    if (chains.n > 0)
        qsort(chains.v, chains.n, sizeof(*chains.v), compare_priorities);
    for (size_t i = 0; i < chains.n && !dropped && !is_done(&m->packet, hook); i++)
        dropped = run_chain(m, chains.v[i]->name, 0) == NF_DROP || chains.v[i]->drops;
    vec_free(&chains);
    return !dropped;
}

/* Forwarded, which clears the priority in IPv4, or sent by this host. */
static enum fake_fate run_packet(struct machine *m)
{
    bool arrives = passes(m, m->packet.from_host ? NF_INET_LOCAL_OUT : NF_INET_PRE_ROUTING);
    if (!m->packet.from_host && m->packet.family == FAMILY_IPV4)
        m->packet.priority = 0;
    bool leaves = arrives && passes(m, NF_INET_POST_ROUTING);
    /* The scratch fields are put back. */
    FAKE_ASSERT(!leaves || (m->packet.priority == 0 && m->packet.ct_mark == 0));
    if (leaves)
        return m->packet.translated ? FAKE_BALANCED : FAKE_UNTOUCHED;
    return m->packet.rejected ? FAKE_REJECTED : FAKE_DROPPED;
}

static struct fake_destination destination_of(const struct packet *packet)
{
    struct fake_destination to = {.masqueraded = packet->masqueraded, .mark = packet->mark};
    memcpy(to.backend.address.bytes, packet->network + destination_offset[packet->family],
           address_length(packet->family));
    to.backend.port =
        (uint16_t)(packet->transport[PORT_OFFSET] << 8 | packet->transport[PORT_OFFSET + 1]);
    return to;
}

static bool leads_there(const struct fake_route *route, const struct fake_destination *to)
{
    for (size_t i = 0; i < route->n; i++)
        if (backend_equal(&route->to[i].backend, &to->backend) && route->to[i].mark == to->mark &&
            route->to[i].masqueraded == to->masqueraded)
            return true;
    return false;
}

/* Numbers that are drawn again lead to where others led, else they count like any other. */
static void add_destination(struct fake_route *route, const struct machine *m)
{
    const struct fake_destination to = destination_of(&m->packet);
    if (m->draws > 1) {
        route->most_draws = m->draws;
        route->last_choices = m->last_choices;
        if (leads_there(route, &to))
            return;
    }
    route->to = xreallocarray(route->to, route->n + 1, sizeof(*route->to));
    route->to[route->n++] = to;
}

struct fake_route fake_follow(const struct fake_table *table, const struct frontend *to,
                              const struct fake_client *from)
{
    struct fake_route route = {.n = 0};
    unsigned choices = 1;
    for (unsigned i = 0; i < choices; i++) {
        struct machine m = {.table = table, .packet = make_packet(to, from), .choice = i};
        enum fake_fate fate = run_packet(&m);
        if (i > 0 && fate != route.fate)
            ck_abort_msg("fate %d, then %d", route.fate, fate);
        route.fate = fate;
        choices = m.choices > 0 ? m.choices : 1;
        if (fate == FAKE_BALANCED)
            add_destination(&route, &m);
    }
    route.choices = choices;
    return route;
}
