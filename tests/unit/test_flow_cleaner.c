/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stale UDP flows in the kernel's own conntrack table, in a user and network namespace of each
 * case's own: tests/unit/cases/flow_cleaner. What the kernel does only by chance (an interrupted
 * dump) is brought about in the system calls on the way: see "the way to the kernel".
 *
 * Flows have letters. They all come from one client; the letter is in its port.
 */
#include "namespaces.h"
#include "objects.h"
#include "script.h"

#include "conntrack/scan.h"
#include "kube-nftd/conntrack.h"
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct ev_loop *loop;
static struct flow_cleaner *cleaner;
static struct mnl_socket *sock; /* the test's own */
static struct error err;

/* ---- the way to the kernel ---- */

static int overruns;      /* reading the table fails for lack of room in so many scans */
static int interruptions; /* up to this one, scans are marked as interrupted */
static int deletions_are_bad, conntrack_is_missing;
static int filtered_scans, whole_scans, deletions;

static struct nlattr *filter_flags(struct nlmsghdr *request)
{
    struct nlattr *attribute;
    mnl_attr_for_each(attribute, request, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) == CTA_FILTER)
            return mnl_attr_get_payload(attribute);
    }
    return NULL;
}

static void tamper(struct nlmsghdr *request)
{
    struct nfgenmsg *about = mnl_nlmsg_get_payload(request);
    uint8_t type = NFNL_MSG_TYPE(request->nlmsg_type);
    if (type == IPCTNL_MSG_CT_GET && (request->nlmsg_flags & NLM_F_DUMP)) {
        struct nlattr *flags = filter_flags(request);
        filtered_scans += flags != NULL;
        whole_scans += flags == NULL;
    }
    deletions += type == IPCTNL_MSG_CT_DELETE;
    if (type == IPCTNL_MSG_CT_DELETE && deletions_are_bad)
        about->nfgen_family = NFPROTO_BRIDGE;
    if (conntrack_is_missing)
        request->nlmsg_type = (uint16_t)((NFNL_SUBSYS_COUNT + 1) << 8 | type);
}

/* Whoever makes an entry cannot say that a flowtable forwards it, or that it is translated, so a
 * mark says it. */
#define FORWARDED 0x77

static void show_forwarded(const void *messages, size_t length)
{
    netlink_each (message, messages, length) {
        const struct nlattr *status = nfnl_attribute(message, CTA_STATUS);
        if (status && netlink_number(nfnl_attribute(message, CTA_MARK), 0) == FORWARDED)
            *(uint32_t *)mnl_attr_get_payload(status) |= htonl(IPS_OFFLOAD | IPS_DST_NAT);
    }
}

/* These two take the place of the C library's. */
ssize_t sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to,
               socklen_t to_length)
{
    if (to && to->sa_family == AF_NETLINK && fd != mnl_socket_get_fd(sock))
        netlink_each (request, buffer, length)
            tamper((void *)request);
    return syscall(SYS_sendto, fd, buffer, length, flags, to, to_length);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
    struct nlmsghdr *message = buffer;
    if (n < (ssize_t)sizeof(*message) || message->nlmsg_type == NLMSG_ERROR ||
        NFNL_MSG_TYPE(message->nlmsg_type) == IPCTNL_MSG_CT_GET_STATS)
        return n;
    show_forwarded(buffer, (size_t)n);
    int scans = filtered_scans + whole_scans;
    if (scans <= overruns) {
        errno = ENOBUFS;
        return -1;
    }
    if (scans <= interruptions)
        message->nlmsg_flags |= NLM_F_DUMP_INTR;
    return n;
}

/* ---- a namespace ---- */

static void setup(void)
{
    enter_namespaces();
    log_set_verbosity(2);
    sock = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
    ck_assert(sock && mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) == 0);
    loop = ev_loop_new(EVFLAG_AUTO);
    cleaner = flow_cleaner_new(loop, &err);
    ck_assert_msg(cleaner, "%s", err.text);
}

static void teardown(void)
{
    flow_cleaner_free(cleaner);
    ev_loop_destroy(loop);
    mnl_socket_close(sock);
    error_clear(&err);
}

/* ---- flows ---- */

/* A flow from the client's port to an address and port, with replies from another. */
struct made {
    enum family family;
    uint8_t protocol;
    uint16_t client_port, zone;
    struct backend to, server;
    bool answer;    /* it goes to the client, and is not translated */
    bool forwarded; /* by a flowtable */
    bool reset;     /* of TCP: the entry stays as established, for ten seconds */
};

/* What has a letter, by its place in the alphabet. */
static struct made made[26];
static char letters[27];

static struct address client_of(enum family family)
{
    struct address address = {{192, 0, 2, 1}};
    if (family == FAMILY_IPV6)
        address = (struct address){{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    return address;
}

static void put_tuple(struct nlmsghdr *request, uint16_t type, const struct made *flow,
                      const struct backend *from, const struct backend *to)
{
    size_t length = address_length(flow->family);
    bool v4 = flow->family == FAMILY_IPV4;
    struct nlattr *tuple = mnl_attr_nest_start(request, type);
    struct nlattr *nest = mnl_attr_nest_start(request, CTA_TUPLE_IP);
    mnl_attr_put(request, v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, length, from->address.bytes);
    mnl_attr_put(request, v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, length, to->address.bytes);
    mnl_attr_nest_end(request, nest);
    nest = mnl_attr_nest_start(request, CTA_TUPLE_PROTO);
    mnl_attr_put_u8(request, CTA_PROTO_NUM, flow->protocol);
    mnl_attr_put_u16(request, CTA_PROTO_SRC_PORT, htons(from->port));
    mnl_attr_put_u16(request, CTA_PROTO_DST_PORT, htons(to->port));
    mnl_attr_nest_end(request, nest);
    mnl_attr_nest_end(request, tuple);
}

static void put_established(struct nlmsghdr *request)
{
    struct nlattr *info = mnl_attr_nest_start(request, CTA_PROTOINFO);
    struct nlattr *tcp = mnl_attr_nest_start(request, CTA_PROTOINFO_TCP);
    mnl_attr_put_u8(request, CTA_PROTOINFO_TCP_STATE, TCP_CONNTRACK_ESTABLISHED);
    mnl_attr_nest_end(request, tcp);
    mnl_attr_nest_end(request, info);
}

/* Sends a request about @flow. Returns the errno with which it is answered. */
static int ask(const struct made *flow, uint8_t type, uint16_t flags)
{
    char buffer[1024] = {0};
    struct backend client = {client_of(flow->family), flow->client_port};
    struct nlmsghdr *request =
        conntrack_request(buffer, type, flags | NLM_F_ACK,
                          flow->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6, 1);
    const struct backend *from = flow->answer ? &flow->to : &client;
    const struct backend *to = flow->answer ? &client : &flow->to;
    put_tuple(request, CTA_TUPLE_ORIG, flow, from, to);
    if (flow->zone)
        mnl_attr_put_u16(request, CTA_ZONE, htons(flow->zone));
    if (type == IPCTNL_MSG_CT_NEW) {
        put_tuple(request, CTA_TUPLE_REPLY, flow, flow->answer ? to : &flow->server, from);
        mnl_attr_put_u32(request, CTA_STATUS, htonl(IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED));
        mnl_attr_put_u32(request, CTA_TIMEOUT, htonl(flow->reset ? 10 : 3600));
        if (flow->forwarded)
            mnl_attr_put_u32(request, CTA_MARK, htonl(FORWARDED));
        if (flow->protocol == IPPROTO_TCP)
            put_established(request);
    }
    ck_assert_int_gt(mnl_socket_sendto(sock, request, request->nlmsg_len), 0);
    int result;
    do { /* an entry that is asked for comes before the acknowledgement */
        ssize_t n = mnl_socket_recvfrom(sock, buffer, sizeof(buffer));
        ck_assert_int_gt(n, 0);
        result = mnl_cb_run(buffer, (size_t)n, 1, mnl_socket_get_portid(sock), NULL, NULL);
    } while (result > MNL_CB_STOP);
    return result < 0 ? errno : 0;
}

static void create(const struct made *flow)
{
    int why = ask(flow, IPCTNL_MSG_CT_NEW, NLM_F_CREATE | NLM_F_EXCL);
    ck_assert_msg(why == 0, "port %u: %s", flow->client_port, strerror(why));
}

/* "10.96.0.1:53", of UDP, or "10.96.0.1:53/tcp". */
static struct frontend frontend_of(const char *word)
{
    enum family family;
    const char *slash = strchr(word, '/');
    char *address = xstrndup(word, strcspn(word, "/"));
    struct backend end = make_backend(address, &family);
    free(address);
    return (struct frontend){end.address, end.port, slash ? IPPROTO_TCP : IPPROTO_UDP,
                             (uint8_t)family};
}

/* ---- commands: flows ---- */

static struct made like; /* the flow that was added last */

static void add_made(char letter, const char *to, const char *server)
{
    struct made *flow = &made[letter - 'a'];
    *flow = like;
    flow->client_port = (uint16_t)(20000 + letter);
    flow->server = make_backend(server, &flow->family);
    flow->to = make_backend(to, &flow->family);
    create(flow);
    if (!strchr(letters, letter))
        letters[strlen(letters)] = letter;
}

static uint8_t protocol_of(const char *word)
{
    return strcmp(word, "tcp") == 0    ? IPPROTO_TCP
           : strcmp(word, "sctp") == 0 ? IPPROTO_SCTP
                                       : IPPROTO_UDP;
}

/* flow LETTER TO SERVER PROTOCOL zone=N forwarded reset: replies come from the server. */
COMMAND(flow)
{
    const char *letter = script_word(&words), *to = script_word(&words);
    const char *server = script_word(&words);
    like = (struct made){.protocol = IPPROTO_UDP};
    for (char *word, *value; *(word = script_word(&words));)
        if (script_option(word, "zone", &value))
            like.zone = (uint16_t)atoi(value);
        else if (strcmp(word, "forwarded") == 0)
            like.forwarded = true;
        else if (strcmp(word, "reset") == 0)
            like.reset = true;
        else
            like.protocol = protocol_of(word);
    add_made(*letter, to, server);
}

/* answer LETTER FROM: a flow that begins with what is sent to the client. */
COMMAND(answer)
{
    const char *letter = script_word(&words);
    like = (struct made){.protocol = IPPROTO_UDP, .answer = true};
    add_made(*letter, words, words);
}

/* copy LETTER OTHER: the first flow again, with the client's port of the other. */
COMMAND(copy)
{
    struct made *flow = &made[*words - 'a'];
    flow->client_port = made[words[2] - 'a'].client_port;
    create(flow);
}

/* many N PROTOCOL TO SERVER [forwarded]: from a client port each. */
COMMAND(many)
{
    struct made flow = {.client_port = 30000};
    int n = atoi(script_word(&words));
    flow.protocol = protocol_of(script_word(&words));
    flow.to = make_backend(script_word(&words), &flow.family);
    flow.server = make_backend(script_word(&words), &flow.family);
    flow.forwarded = *words;
    for (; n > 0; n--, flow.client_port++)
        create(&flow);
}

/* The letters of the flows that are left, in the order in which they were added. */
COMMAND(left)
{
    char left[27] = {0};
    for (const char *letter = letters; *letter; letter++) {
        int why = ask(&made[*letter - 'a'], IPCTNL_MSG_CT_GET, 0);
        ck_assert_msg(why == 0 || why == ENOENT, "%s", strerror(why));
        if (why == 0)
            left[strlen(left)] = *letter;
    }
    fprintf(out, "%s\n", *left ? left : "none");
}

/* ---- commands: the cleaner ---- */

/* FRONTEND BACKEND...: these serve, sorted. Returns their number. */
static size_t take_backends(char *words, struct backend backends[8])
{
    size_t n = 0;
    enum family family;
    for (char *word; *(word = script_word(&words));)
        backends[n++] = make_backend(word, &family);
    return n;
}

/* The id of a service port that only this frontend leads to. */
static uint32_t own_port(const struct frontend *frontend)
{
    static VEC(struct frontend) all;
    uint32_t id = 1000;
    vec_each (&all, it) {
        if (memcmp(it, frontend, sizeof(*it)) == 0)
            return id;
        id++;
    }
    vec_push(&all, *frontend);
    return id;
}

COMMAND(set)
{
    struct backend backends[8];
    const struct frontend to = frontend_of(script_word(&words));
    size_t n = take_backends(words, backends);
    flow_cleaner_set_port(cleaner, (enum family)to.family, own_port(&to), backends, n);
    flow_cleaner_set(cleaner, &to, own_port(&to));
}

/* port ID BACKEND...: an IPv4 service port. */
COMMAND(port)
{
    struct backend backends[8];
    const uint32_t id = (uint32_t)atoi(script_word(&words));
    size_t n = take_backends(words, backends);
    flow_cleaner_set_port(cleaner, FAMILY_IPV4, id, backends, n);
}

/* lead FRONTEND ID: to a service port. */
COMMAND(lead)
{
    const struct frontend to = frontend_of(script_word(&words));
    flow_cleaner_set(cleaner, &to, (uint32_t)atoi(words));
}

COMMAND(no_port)
{
    flow_cleaner_remove_port(cleaner, FAMILY_IPV4, (uint32_t)atoi(words));
}

COMMAND(gone)
{
    const struct frontend to = frontend_of(words);
    flow_cleaner_set(cleaner, &to, 0);
}

static enum family family_of(const char *words)
{
    return *words == '6' ? FAMILY_IPV6 : FAMILY_IPV4;
}

/* begin FAMILY TIMES: the loop does not run. */
COMMAND(begin)
{
    enum family family = family_of(script_word(&words));
    for (int times = *words ? atoi(words) : 1; times > 0; times--)
        flow_cleaner_run(cleaner, family);
}

/* Runs the loop until nothing is left to do. */
COMMAND(finish)
{
    ev_run(loop, 0);
}

COMMAND(run)
{
    run_begin(words, out);
    run_finish(words, out);
}

/* Runs the loop for one more scan over IPv4, if there is one. */
COMMAND(scan)
{
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, FAMILY_IPV4);
    const uint64_t before = stats->scans + stats->failed_scans;
    for (bool active = true; active && stats->scans + stats->failed_scans == before;)
        active = ev_run(loop, EVRUN_ONCE);
}

/* A scan of many flows, begun and not ended. */
COMMAND(long_scan)
{
    run_many((char[]){"1000 udp 10.9.0.0:9 10.9.0.0:9"}, out);
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    while (filtered_scans + whole_scans == 0)
        ev_run(loop, EVRUN_ONCE);
}

/* The cleaner is run in each iteration of the loop, as by the daemon. */
COMMAND(syncs)
{
    for (int n = atoi(words); n > 0; n--) {
        flow_cleaner_run(cleaner, FAMILY_IPV4);
        ev_run(loop, EVRUN_NOWAIT);
    }
    usleep(50000);
    ev_run(loop, EVRUN_NOWAIT);
}

COMMAND(free)
{
    flow_cleaner_free(cleaner);
    cleaner = NULL;
    ck_assert_int_eq(ev_run(loop, EVRUN_NOWAIT), 0);
}

/* What was counted of a family and sent to the kernel, and warnings. */
COMMAND(stats)
{
    const struct flow_cleaner_stats *now = flow_cleaner_stats(cleaner, family_of(words));
    fprintf(out, "scans %u deleted %u", (unsigned)now->scans, (unsigned)now->deleted);
    if (now->failed_scans + now->failed_deletions)
        fprintf(out, " failed %u and %u", (unsigned)now->failed_scans,
                (unsigned)now->failed_deletions);
    fprintf(out, "\n");
    write_logged(out, LOG_LEVEL_WARN);
}

COMMAND(kernel)
{
    fprintf(out, "filtered %d whole %d deletions %d\n", filtered_scans, whole_scans, deletions);
}

/* fault NAME NUMBER: see "the way to the kernel". */
COMMAND(fault)
{
    const struct {
        const char *name;
        int *number;
    } faults[] = {{"overruns", &overruns},
                  {"interruptions", &interruptions},
                  {"deletions", &deletions_are_bad},
                  {"conntrack", &conntrack_is_missing}};
    const char *name = script_word(&words);
    for (int i = 0; i < COUNT(faults); i++)
        if (strcmp(faults[i].name, name) == 0)
            *faults[i].number = atoi(words);
}

static enum { APPLIED, SKIPPED, APPLIED_SLOWLY } skipping;

static bool is_skipped(const void *ctx, const struct frontend *frontend, uint32_t id)
{
    ck_assert(frontend ? frontend->port == 53 : id > 0);
    if (skipping == APPLIED_SLOWLY)
        usleep(20000); /* longer than a scan waits for packets in flight */
    return skipping == SKIPPED;
}

/* skip on|off|slow: the latest changes are not applied; they are, and to find that takes long. */
COMMAND(skip)
{
    skipping = strcmp(words, "on") == 0     ? SKIPPED
               : strcmp(words, "slow") == 0 ? APPLIED_SLOWLY
                                            : APPLIED;
    flow_cleaner_skip(cleaner, FAMILY_IPV4, is_skipped, &skipping);
}

/* How many connections flowtables forward. */
COMMAND(forwarded)
{
    struct flowtable_flows flows;
    ck_assert(flowtable_flows(&flows));
    fprintf(out, "IPv4 %u IPv6 %u%s\n", (unsigned)flows.n[FAMILY_IPV4],
            (unsigned)flows.n[FAMILY_IPV6], flows.estimated ? ", estimated" : "");
}

CASES("flow_cleaner")

TEST(scans_are_logged)
{
    run_set((char[]){"10.96.0.1:53 10.244.0.1:53"}, NULL);
    run_run((char[]){"4"}, NULL);
    ck_assert_int_eq(logged_with(" scanned flows="), 1);
}

TEST(without_conntrack_there_is_no_cleaner)
{
    conntrack_is_missing = true;
    ck_assert_ptr_null(flow_cleaner_new(loop, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "CONFIG_NF_CT_NETLINK"));
}

static void keep_it(void *ctx, const struct conntrack_flow *flow)
{
    struct conntrack_flow *kept = ctx;
    kept[flow->original.source.port - (20000 + 'a')] = *flow;
}

TEST(an_entry_that_took_the_place_of_a_stale_one_stays)
{
    struct conntrack *conntrack = conntrack_open(&err);
    struct conntrack_flow kept[3];
    char *left;
    size_t length;
    run_flow((char[]){"a 10.96.0.1:53 10.244.0.1:53"}, NULL);
    run_flow((char[]){"b 10.96.0.1:53 10.244.0.2:53"}, NULL);
    run_flow((char[]){"c 10.96.0.1:53 10.244.0.3:53"}, NULL);
    ck_assert_int_eq(
        conntrack_scan_begin(conntrack, FAMILY_IPV4, false, false, keep_it, kept, &err), 0);
    ck_assert_int_eq(conntrack_scan_step(conntrack, &err), CONNTRACK_MORE);
    ck_assert_int_eq(ask(&made[0], IPCTNL_MSG_CT_DELETE, 0), 0);
    ck_assert_int_eq(ask(&made[1], IPCTNL_MSG_CT_DELETE, 0), 0);
    run_flow((char[]){"d 10.96.0.1:53 10.244.0.1:53"}, NULL);
    /* One of these takes the memory of b, whatever else makes entries meanwhile. */
    for (uint16_t i = 0; i < 64; i++) {
        struct made other = made['d' - 'a'];
        other.client_port = (uint16_t)(30000 + i);
        create(&other);
    }
    create(&made[1]);
    for (int i = 0; i < COUNT(kept); i++)
        conntrack_delete(conntrack, &kept[i]);
    conntrack_scan_step(conntrack, &err);
    const struct conntrack_deletions done = conntrack_take_deletions(conntrack);
    ck_assert_uint_eq(done.deleted, 1);
    ck_assert_uint_eq(done.failed, 0);
    FILE *out = open_memstream(&left, &length);
    run_left(NULL, out);
    fclose(out);
    expect_text(left, "bd\n");
    conntrack_close(conntrack);
}

UNIT_FIXTURE(setup, teardown)
