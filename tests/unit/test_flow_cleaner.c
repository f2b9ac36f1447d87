/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stale UDP flows in the kernel's own conntrack table, in a user and network namespace of each
 * test's own. What the kernel does only by chance (an interrupted dump), or only an old one does
 * (refuse the filter), is brought about in the system calls on the way: see "the way to the
 * kernel".
 *
 * Flows have letters. They all come from one client; the letter is in its port.
 */
#include "namespaces.h"
#include "unit.h"

#include "kube-nftd/netlink/flow_cleaner.h"
#include "netlink/conntrack.h"
#include "netlink/flow_notes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdio.h>
#include <string.h>
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
static bool filter_is_bad, deletions_are_bad, conntrack_is_missing;
static int filtered_scans, whole_scans, deletion_sends;

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
    const uint32_t no_such_flag = 1U << 31;
    struct nfgenmsg *about = mnl_nlmsg_get_payload(request);
    uint8_t type = NFNL_MSG_TYPE(request->nlmsg_type);
    if (type == IPCTNL_MSG_CT_GET && (request->nlmsg_flags & NLM_F_DUMP)) {
        struct nlattr *flags = filter_flags(request);
        filtered_scans += flags != NULL;
        whole_scans += flags == NULL;
        if (flags && filter_is_bad)
            memcpy(mnl_attr_get_payload(flags), &no_such_flag, sizeof(no_such_flag));
    }
    deletion_sends += type == IPCTNL_MSG_CT_DELETE;
    if (type == IPCTNL_MSG_CT_DELETE && deletions_are_bad)
        about->nfgen_family = NFPROTO_BRIDGE;
    if (conntrack_is_missing)
        request->nlmsg_type = (uint16_t)((NFNL_SUBSYS_COUNT + 1) << 8 | type);
}

/* These two take the place of the C library's. */
ssize_t sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to,
               socklen_t to_length)
{
    if (to && to->sa_family == AF_NETLINK && fd != mnl_socket_get_fd(sock))
        tamper((void *)buffer);
    return syscall(SYS_sendto, fd, buffer, length, flags, to, to_length);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
    struct nlmsghdr *message = buffer;
    if (n < (ssize_t)sizeof(*message) || message->nlmsg_type == NLMSG_ERROR)
        return n;
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
    bool answer; /* it goes to the client, and is not translated */
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
        mnl_attr_put_u32(request, CTA_TIMEOUT, htonl(3600));
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

/* "10.96.0.1 53" or "fd00::1 53" */
static struct backend end_of(const char *text, enum family *family)
{
    char *address = xstrdup(text);
    struct backend end = {.port = 0};
    char *space = strchr(address, ' ');
    ck_assert_ptr_nonnull(space);
    *space = '\0';
    end.port = (uint16_t)atoi(space + 1);
    ck_assert_msg(address_parse(address, family, &end.address), "%s", text);
    free(address);
    return end;
}

static void add_made(char letter, struct made like, const char *to, const char *server)
{
    enum family family;
    struct made *flow = &made[letter - 'a'];
    *flow = like;
    flow->client_port = (uint16_t)(20000 + letter);
    flow->server = end_of(server, &family);
    flow->to = end_of(to, &flow->family);
    create(flow);
    if (!strchr(letters, letter))
        letters[strlen(letters)] = letter;
}

static void add_of(char letter, uint8_t protocol, uint16_t zone, const char *to, const char *server)
{
    add_made(letter, (struct made){.protocol = protocol, .zone = zone}, to, server);
}

static void add(char letter, const char *to, const char *server)
{
    add_of(letter, IPPROTO_UDP, 0, to, server);
}

/* A flow that begins with what @from sends to the client. */
static void add_answer(char letter, const char *from)
{
    add_made(letter, (struct made){.protocol = IPPROTO_UDP, .answer = true}, from, from);
}

/* @expected: the letters of the flows that are left, in the order in which they were added. */
static void expect_left(const char *expected)
{
    char left[27] = {0};
    for (const char *letter = letters; *letter; letter++) {
        int why = ask(&made[*letter - 'a'], IPCTNL_MSG_CT_GET, 0);
        ck_assert_msg(why == 0 || why == ENOENT, "%s", strerror(why));
        if (why == 0)
            left[strlen(left)] = *letter;
    }
    ck_assert_str_eq(left, expected);
}

/* ---- what is told to the cleaner ---- */

/* @backends: "10.244.0.1 53, 10.244.0.2 53", sorted. Returns their number. */
static size_t parse_backends(const char *text, struct backend *backends)
{
    size_t n = 0;
    char *copy = xstrdup(text), *rest;
    for (char *end = strtok_r(copy, ",", &rest); end; end = strtok_r(NULL, ",", &rest)) {
        enum family family;
        backends[n++] = end_of(end + strspn(end, " "), &family);
    }
    free(copy);
    return n;
}

static struct frontend frontend_of(const char *text)
{
    enum family family;
    struct backend end = end_of(text, &family);
    return (struct frontend){end.address, end.port, IPPROTO_UDP, (uint8_t)family};
}

static void note(const char *frontend, const char *serving)
{
    struct backend backends[8];
    struct frontend to = frontend_of(frontend);
    size_t n = parse_backends(serving, backends);
    flow_cleaner_note(cleaner, &to, true, backends, n);
}

static void note_gone(const char *frontend)
{
    struct frontend to = frontend_of(frontend);
    flow_cleaner_note(cleaner, &to, false, NULL, 0);
}

/* Runs the loop until nothing is left to do. */
static void settle(void)
{
    ev_run(loop, 0);
}

static void run(enum family family)
{
    flow_cleaner_run(cleaner, family);
    settle();
}

static void expect_stats(enum family family, uint64_t scans, uint64_t deleted)
{
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, family);
    ck_assert_uint_eq(stats->scans, scans);
    ck_assert_uint_eq(stats->deleted, deleted);
    ck_assert_uint_eq(stats->failed_deletions, 0);
    ck_assert_uint_eq(stats->failed_scans, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

/* ---- which flows ---- */

TEST(flows_to_backends_that_do_not_serve_go)
{
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.244.0.2 53");
    add('c', "10.96.0.1 53", "10.244.0.3 53");   /* another address */
    add('d', "10.96.0.1 53", "10.244.0.1 5353"); /* another port */
    add('e', "10.96.0.1 53", "10.96.0.1 53");    /* from before the service */
    add('f', "10.96.0.1 54", "10.244.0.3 53");   /* other frontends */
    add('g', "10.96.0.2 53", "10.244.0.3 53");
    add_of('h', IPPROTO_TCP, 0, "10.96.0.1 53", "10.244.0.3 53");
    add_of('i', IPPROTO_SCTP, 0, "10.96.0.1 53", "10.244.0.3 53");
    add('j', "10.244.0.3 53", "10.96.0.1 53"); /* the frontend is where replies come from */
    add('k', "fd00::1 53", "fd00:1::3 53");
    note("10.96.0.1 53", "10.244.0.1 53, 10.244.0.2 53");
    run(FAMILY_IPV4);
    expect_left("abfghijk");
    expect_stats(FAMILY_IPV4, 6, 3); /* some more because of e */
    expect_stats(FAMILY_IPV6, 0, 0);
    ck_assert_int_eq(logged_with(" scanned flows="), 6);
}

TEST(of_a_frontend_that_nobody_has_translated_flows_go)
{
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.96.0.1 53");
    add('c', "10.96.0.1 53", "10.96.0.1 5353");
    add('d', "10.96.0.2 53", "10.244.0.1 53");
    add('e', "fd00::1 53", "fd00:1::1 53");
    add('f', "fd00::1 53", "fd00::1 53");
    note_gone("10.96.0.1 53");
    note_gone("fd00::1 53");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    run(FAMILY_IPV6);
    expect_left("bdf");
    expect_stats(FAMILY_IPV4, 1, 2);
    expect_stats(FAMILY_IPV6, 1, 1);
}

/* The answer to a question whose entry has gone. */
TEST(flows_from_a_claimed_frontend_go)
{
    add_answer('a', "10.96.0.1 53");
    add_answer('b', "10.96.0.1 54"); /* other frontends */
    add_answer('c', "10.96.0.2 53");
    add_answer('d', "10.96.0.3 53"); /* one that nobody has any more */
    add_answer('e', "192.0.2.7 53"); /* one that is its own backend */
    add_answer('f', "fd00::1 53");
    note("10.96.0.1 53", "10.244.0.1 53");
    note_gone("10.96.0.3 53");
    note("192.0.2.7 53", "192.0.2.7 53");
    note("fd00::1 53", "");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    run(FAMILY_IPV6);
    expect_left("bcde");
    expect_stats(FAMILY_IPV4, 6, 1);
    expect_stats(FAMILY_IPV6, 6, 1);
}

/* An answer on its way makes an entry after the scan. */
TEST(untranslated_flows_are_looked_for_some_times)
{
    add('a', "10.96.0.1 53", "10.96.0.1 53");
    note("10.96.0.1 53", "10.244.0.1 53");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    while (flow_cleaner_stats(cleaner, FAMILY_IPV4)->scans == 0)
        ev_run(loop, EVRUN_ONCE);
    add_answer('b', "10.96.0.1 53");
    settle();
    expect_left("");
    expect_stats(FAMILY_IPV4, 6, 2);
    /* And then the frontend is forgotten. */
    add('c', "10.96.0.1 53", "10.96.0.1 53");
    run(FAMILY_IPV4);
    expect_left("c");
}

TEST(a_host_that_talks_on_is_left_alone_after_a_while)
{
    note("10.96.0.1 53", "10.244.0.1 53");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    uint64_t scans = 0;
    for (char letter = 'a'; letter <= 'h'; letter++) {
        bool active = true;
        add_answer(letter, "10.96.0.1 53");
        while (flow_cleaner_stats(cleaner, FAMILY_IPV4)->scans == scans && active)
            active = ev_run(loop, EVRUN_ONCE);
        scans = flow_cleaner_stats(cleaner, FAMILY_IPV4)->scans;
    }
    expect_left("gh");
    expect_stats(FAMILY_IPV4, 6, 6);
}

/* What comes into force meanwhile does not wait for them, and takes none of them away. */
TEST(rechecks_delay_nothing)
{
    add('a', "10.96.0.1 53", "10.96.0.1 53");
    note("10.96.0.1 53", "10.244.0.1 53");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    while (flow_cleaner_stats(cleaner, FAMILY_IPV4)->scans < 3)
        ev_run(loop, EVRUN_ONCE); /* the next one comes in 0.4 s */
    for (int i = 0; i < 10; i++)
        flow_cleaner_run(cleaner, FAMILY_IPV4);
    add('b', "10.96.0.2 53", "10.244.0.2 53");
    note("10.96.0.2 53", "10.244.0.1 53");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    while (flow_cleaner_stats(cleaner, FAMILY_IPV4)->scans < 4)
        ev_run(loop, EVRUN_ONCE);
    expect_left("");
    add_answer('c', "10.96.0.1 53"); /* the others still come */
    settle();
    expect_left("");
}

TEST(entries_of_zones_are_told_apart)
{
    add_of('a', IPPROTO_UDP, 0, "10.96.0.1 53", "10.244.0.1 53");
    add_of('b', IPPROTO_UDP, 7, "10.96.0.1 53", "10.244.0.2 53");
    made[1].client_port = made[0].client_port;
    create(&made[1]);
    note("10.96.0.1 53", "10.244.0.1 53");
    run(FAMILY_IPV4);
    expect_left("a");
    expect_stats(FAMILY_IPV4, 1, 2); /* b twice, by both ports */
}

/* ---- when ---- */

/* A scan of many flows, begun and not ended. */
static void begin_long_scan(void)
{
    for (uint16_t i = 0; i < 1000; i++) {
        struct made flow = {.family = FAMILY_IPV4,
                            .protocol = IPPROTO_UDP,
                            .client_port = (uint16_t)(1000 + i),
                            .to = {{{10, 9}}, 9},
                            .server = {{{10, 9}}, 9}};
        create(&flow);
    }
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    while (filtered_scans + whole_scans == 0)
        ev_run(loop, EVRUN_ONCE);
}

TEST(a_new_note_narrows_no_scan_before_its_run)
{
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.244.0.2 53");
    add('c', "10.96.0.1 53", "10.244.0.3 53");
    add('d', "10.96.0.1 53", "10.96.0.1 53");
    note("10.96.0.1 53", "10.244.0.1 53");
    begin_long_scan();
    note_gone("10.96.0.1 53");
    note("10.96.0.1 53", "10.244.0.2 53");
    settle();
    expect_left("abd");
    expect_stats(FAMILY_IPV4, 1, 1);
    run(FAMILY_IPV4);
    expect_left("b");
    expect_stats(FAMILY_IPV4, 7, 3);
}

TEST(what_came_into_force_during_a_scan_is_scanned_for)
{
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.244.0.2 53");
    add('c', "fd00::1 53", "fd00:1::2 53");
    note("10.96.0.1 53", "10.244.0.1 53, 10.244.0.2 53");
    begin_long_scan();
    note("10.96.0.1 53", "10.244.0.1 53");
    note("fd00::1 53", "");
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    flow_cleaner_run(cleaner, FAMILY_IPV6);
    settle();
    expect_left("a");
    expect_stats(FAMILY_IPV4, 2, 1);
    expect_stats(FAMILY_IPV6, 1, 1);
}

TEST(a_cleaner_may_go_in_a_scan)
{
    note("10.96.0.1 53", "10.244.0.1 53, 10.244.0.2 53");
    begin_long_scan();
    note("10.96.0.1 53", "10.244.0.1 53");
    flow_cleaner_free(cleaner);
    cleaner = NULL;
    ck_assert_int_eq(ev_run(loop, EVRUN_NOWAIT), 0);
}

/* ---- notes alone: what is in force when ---- */

static struct flow_notes notes;

static void say(bool claimed, const char *serving)
{
    struct backend backends[8];
    struct frontend to = frontend_of("10.96.0.1 53");
    size_t n = parse_backends(serving, backends);
    flow_notes_say(&notes, &to, claimed, backends, n);
}

/* Which of the flows to these servers are stale: a letter for each. @ is the frontend itself. */
static void expect_stale(const char *expected)
{
    static const char *const servers[] = {"10.96.0.1 53", "10.244.0.1 53", "10.244.0.2 53",
                                          "10.244.0.3 53"};
    static const char names[] = "@123";
    static const struct nlattr nothing = {.nla_len = sizeof(nothing)};
    char stale[8] = {0};
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        enum family family;
        struct conntrack_flow flow = {.to = frontend_of("10.96.0.1 53"),
                                      .server = end_of(servers[i], &family),
                                      .original = &nothing,
                                      .reply = &nothing};
        if (flow_notes_are_against(&notes, &flow))
            stale[strlen(stale)] = names[i];
    }
    ck_assert_str_eq(stale, expected);
}

TEST(only_what_is_stale_by_each_word_since_the_last_run)
{
    say(true, "10.244.0.1 53");
    expect_stale("");
    ck_assert(flow_notes_put_in_force(&notes));
    expect_stale("@23");
    flow_notes_begin_scan(&notes, true);
    say(true, "10.244.0.2 53");
    expect_stale("@3");
    say(true, "10.244.0.1 53, 10.244.0.3 53");
    expect_stale("@");
    say(false, "");
    expect_stale("");
    ck_assert(flow_notes_put_in_force(&notes));
    expect_stale("123");
    flow_notes_end_scan(&notes, true);
    expect_stale("123"); /* another scan is owed */
    flow_notes_begin_scan(&notes, true);
    flow_notes_end_scan(&notes, true);
    expect_stale("");
    ck_assert(!flow_notes_put_in_force(&notes));
    ck_assert_uint_eq(notes.by_frontend.n, 0);
}

static bool hold_all_back(const void *ctx, const struct frontend *frontend)
{
    ck_assert_uint_eq(frontend->port, 53);
    return *(const bool *)ctx;
}

/* The kernel refused it: the endpoints of before are in force still. */
TEST(what_is_held_back_judges_nothing)
{
    bool held = true;
    notes.held_back = hold_all_back;
    notes.ctx = &held;
    say(true, "10.244.0.1 53");
    ck_assert(!flow_notes_put_in_force(&notes));
    expect_stale("");
    held = false;
    ck_assert(flow_notes_put_in_force(&notes));
    expect_stale("@23");
    held = true;
    say(true, "10.244.0.2 53");
    flow_notes_put_in_force(&notes);
    expect_stale("@3"); /* by both */
    held = false;
    ck_assert(flow_notes_put_in_force(&notes));
    expect_stale("@13");
    flow_notes_free(&notes);
    notes.held_back = NULL;
}

/* Scans for others do not use them up. */
TEST(rechecks_are_counted_by_their_own_scans)
{
    say(true, "10.244.0.1 53");
    ck_assert(flow_notes_put_in_force(&notes));
    flow_notes_begin_scan(&notes, false);
    expect_stale("@23");
    ck_assert(flow_notes_end_scan(&notes, true));
    ck_assert(!flow_notes_put_in_force(&notes));
    for (int i = 0; i < 20; i++) {
        flow_notes_begin_scan(&notes, false);
        ck_assert(flow_notes_end_scan(&notes, true));
    }
    for (int i = 0; i < 4; i++) {
        flow_notes_begin_scan(&notes, true);
        ck_assert(flow_notes_end_scan(&notes, true));
    }
    flow_notes_begin_scan(&notes, true);
    ck_assert(!flow_notes_end_scan(&notes, true));
    ck_assert_uint_eq(notes.by_frontend.n, 0);
}

/* ---- the kernel ---- */

static void note_and_add_stale(void)
{
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.244.0.2 53");
    note("10.96.0.1 53", "10.244.0.1 53");
}

TEST(an_interrupted_scan_is_begun_again)
{
    note_and_add_stale();
    overruns = 2;
    interruptions = 5;
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 6);
    expect_left("a");
    expect_stats(FAMILY_IPV4, 1, 1);
}

TEST(a_scan_that_is_always_interrupted_counts_as_far_as_it_came)
{
    note_and_add_stale();
    interruptions = 1000;
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 6);
    expect_left("a");
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, FAMILY_IPV4);
    ck_assert_uint_eq(stats->scans, 0);
    ck_assert_uint_eq(stats->deleted, 1);
    ck_assert_uint_eq(stats->failed_scans, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_WARN), "family=IPv4"));
    run(FAMILY_IPV4); /* nothing is owed */
    ck_assert_int_eq(filtered_scans, 6);
}

TEST(a_kernel_that_does_not_know_the_filter)
{
    note_and_add_stale();
    filter_is_bad = true;
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 1);
    ck_assert_int_eq(whole_scans, 1);
    expect_left("a");
    expect_stats(FAMILY_IPV4, 1, 1);
    note("10.96.0.1 53", "");
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 1);
    ck_assert_int_eq(whole_scans, 2);
    expect_left("");
}

TEST(a_failed_scan_is_made_up_for)
{
    note_and_add_stale();
    conntrack_is_missing = true;
    run(FAMILY_IPV4);
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, FAMILY_IPV4);
    ck_assert_uint_eq(stats->failed_scans, 1);
    ck_assert_uint_eq(stats->scans, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    expect_left("ab");
    conntrack_is_missing = false;
    run(FAMILY_IPV4);
    expect_left("a");
    ck_assert_uint_eq(stats->scans, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
}

/* Whoever runs it each turn of the loop, as the daemon does, does not keep it busy. */
TEST(after_a_failed_scan_it_waits)
{
    note_and_add_stale();
    conntrack_is_missing = true;
    run(FAMILY_IPV4);
    for (int turn = 0; turn < 100; turn++) {
        flow_cleaner_run(cleaner, FAMILY_IPV4);
        ev_run(loop, EVRUN_NOWAIT);
    }
    usleep(50000);
    ev_run(loop, EVRUN_NOWAIT);
    ck_assert_uint_eq(flow_cleaner_stats(cleaner, FAMILY_IPV4)->failed_scans, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
}

TEST(failed_deletions_are_counted_and_said_once)
{
    note_and_add_stale();
    add('c', "10.96.0.1 53", "10.244.0.3 53");
    deletions_are_bad = true; /* spoils the first one in a message */
    run(FAMILY_IPV4);
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, FAMILY_IPV4);
    ck_assert_uint_eq(stats->failed_deletions, 1);
    ck_assert_uint_eq(stats->deleted, 1);
    ck_assert_uint_eq(stats->scans, 1);
    ck_assert_int_eq(deletion_sends, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_WARN), "flows=1"));
}

TEST(without_conntrack_there_is_no_cleaner)
{
    conntrack_is_missing = true;
    ck_assert_ptr_null(flow_cleaner_new(loop, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "CONFIG_NF_CT_NETLINK"));
}

static void delete_it(void *ctx, const struct conntrack_flow *flow)
{
    conntrack_delete(ctx, flow);
}

TEST(an_entry_that_took_the_place_of_a_stale_one_stays)
{
    struct conntrack *conntrack = conntrack_open(&err);
    add('a', "10.96.0.1 53", "10.244.0.1 53");
    add('b', "10.96.0.1 53", "10.244.0.2 53");
    add('c', "10.96.0.1 53", "10.244.0.3 53");
    struct conntrack_scan *scan = conntrack_scan_new(FAMILY_IPV4, false, &err);
    while (conntrack_scan_step(scan, delete_it, conntrack, &err) == CONNTRACK_MORE)
        ;
    ck_assert_int_eq(ask(&made[0], IPCTNL_MSG_CT_DELETE, 0), 0);
    ck_assert_int_eq(ask(&made[1], IPCTNL_MSG_CT_DELETE, 0), 0);
    add('d', "10.96.0.1 53", "10.244.0.1 53");
    /* One of these takes the memory of b, whatever else makes entries meanwhile. */
    for (uint16_t i = 0; i < 64; i++) {
        struct made other = made['d' - 'a'];
        other.client_port = (uint16_t)(30000 + i);
        create(&other);
    }
    create(&made[1]);
    struct conntrack_deletions done = conntrack_flush(conntrack);
    expect_left("bd");
    ck_assert_uint_eq(done.deleted, 1);
    ck_assert_uint_eq(done.failed, 0);
    conntrack_scan_free(scan);
    conntrack_close(conntrack);
}

/* ---- many ---- */

/* @n flows of @protocol to one frontend and backend, from a client port each. */
static void add_many(uint8_t protocol, uint16_t n, const char *to, const char *server)
{
    enum family family;
    struct made flow = {.family = FAMILY_IPV4,
                        .protocol = protocol,
                        .to = end_of(to, &family),
                        .server = end_of(server, &family)};
    for (uint16_t i = 0; i < n; i++) {
        flow.client_port = (uint16_t)(30000 + i);
        create(&flow);
    }
}

/* So that the kernel does not go through a long row of what it leaves out. */
TEST(the_kernel_filters_small_tables_and_where_much_is_wanted)
{
    add_many(IPPROTO_TCP, 4000, "10.96.0.1 53", "10.244.0.1 53");
    note("10.96.0.1 53", "");
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 1);
    add_many(IPPROTO_TCP, 500, "10.96.0.2 53", "10.244.0.2 53");
    note("10.96.0.1 53", "");
    run(FAMILY_IPV4);
    ck_assert_int_eq(whole_scans, 1);
    add_many(IPPROTO_UDP, 1000, "10.96.0.3 53", "10.244.0.1 53");
    note("10.96.0.1 53", "");
    run(FAMILY_IPV4);
    ck_assert_int_eq(whole_scans, 2); /* finds that many are wanted */
    note("10.96.0.1 53", "");
    run(FAMILY_IPV4);
    ck_assert_int_eq(filtered_scans, 2);
    ck_assert_int_eq(whole_scans, 2);
    for (int i = 0; i < 2; i++) { /* of the other family nothing is */
        note("fd00::1 53", "");
        run(FAMILY_IPV6);
    }
    ck_assert_int_eq(whole_scans, 4);
    expect_stats(FAMILY_IPV4, 4, 0);
}

UNIT_FIXTURE(setup, teardown)
