/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The addresses of a network namespace of each test's own: tests/unit/cases/address_monitor. */
#include "kube-nftd/netlink.h"

#include "kube-nftd/model.h"
#include "namespaces.h"
#include "objects.h"
#include "script.h"

#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define LOOPBACK 1
/* More than the monitor's queue holds the messages of. */
#define MANY 8000
/* Longer than the monitor's pause after it has read. */
#define PAUSE_MICROSECONDS 30000
/* Longer than anything takes; only a test that fails waits for it. */
#define PATIENCE 30.0

static struct ev_loop *loop;
static struct address_monitor *monitor;
static struct mnl_socket *sock;
static char buffer[32 * 1024];
static struct error err;
static int reports[FAMILY_COUNT];
static char *now[FAMILY_COUNT]; /* the last report */
static size_t how_many[FAMILY_COUNT];

/* ---- reports ---- */

static void take(void *ctx, enum family family, const address_vec *addresses)
{
    char *text, address_text[ADDRESS_TEXT_SIZE];
    size_t length;
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_eq(ctx, &reports);
    vec_each (addresses, address)
        fprintf(out, "%s%s", address == addresses->v ? "" : " ",
                address_format(family, address, address_text));
    fclose(out);
    free(now[family]);
    now[family] = text;
    how_many[family] = addresses->n;
    reports[family]++;
}

static void on_late(struct ev_loop *l, ev_timer *timer, int events)
{
    *(bool *)timer->data = true;
    ev_break(l, EVBREAK_ONE);
}

/* Runs the loop once more. Fails if that takes too long. */
static void wait_for_something(void)
{
    bool late = false;
    ev_timer timer;
    ev_now_update(loop);
    ev_timer_init(&timer, on_late, PATIENCE, 0);
    timer.data = &late;
    ev_timer_start(loop, &timer);
    ev_run(loop, EVRUN_ONCE);
    ev_timer_stop(loop, &timer);
    ck_assert_msg(!late, "nothing more comes after: %s, %s", now[FAMILY_IPV4], now[FAMILY_IPV6]);
}

/* Runs the loop until @expected was reported. */
static void wait_for(enum family family, const char *expected)
{
    while (strcmp(now[family], expected) != 0)
        wait_for_something();
}

/* An acknowledged change is reported once: at once, or when the pause is over. */
static void iterate(void)
{
    usleep(PAUSE_MICROSECONDS);
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
}

static void start(void)
{
    monitor = address_monitor_new(loop, take, &reports, &err);
    ck_assert_msg(monitor != NULL, "%s", err.text);
    ck_assert_int_eq(reports[FAMILY_IPV4], 1);
    ck_assert_int_eq(reports[FAMILY_IPV6], 1);
}

/* ---- changes ---- */

/* Sends what is in the buffer up to @end, of which the last message asks for an answer, and returns
 * what the kernel says to it: 0 or an errno. */
static int talk(const void *end)
{
    char answer[4096];
    size_t length = (size_t)((const char *)end - buffer);
    ck_assert_int_eq(mnl_socket_sendto(sock, buffer, length), (ssize_t)length);
    ssize_t n = mnl_socket_recvfrom(sock, answer, sizeof(answer));
    ck_assert_int_gt(n, 0);
    return mnl_cb_run(answer, (size_t)n, 0, 0, NULL, NULL) < 0 ? errno : 0;
}

/* "10.0.0.1/24", or without its length */
static struct address parse(const char *text, enum family *family, unsigned *prefix)
{
    const char *slash = strchr(text, '/');
    char *copy = xstrndup(text, strcspn(text, "/"));
    const struct address address = make_address(copy, family);
    *prefix = slash ? (unsigned)atoi(slash + 1) : (unsigned)address_length(*family) * 8;
    free(copy);
    return address;
}

/* A message about an address ("10.0.0.1/24", or without its length) at @at. */
static struct nlmsghdr *message(void *at, uint16_t type, uint16_t flags, unsigned interface,
                                const char *text, const char *peer)
{
    enum family family;
    unsigned prefix;
    struct address address = parse(text, &family, &prefix), other = address;
    if (peer)
        other = parse(peer, &family, &prefix);
    struct nlmsghdr *header = mnl_nlmsg_put_header(at);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | flags;
    struct ifaddrmsg *body = mnl_nlmsg_put_extra_header(header, sizeof(*body));
    body->ifa_family = family == FAMILY_IPV4 ? AF_INET : AF_INET6;
    body->ifa_prefixlen = (uint8_t)prefix;
    body->ifa_index = interface;
    mnl_attr_put(header, IFA_LOCAL, address_length(family), address.bytes);
    mnl_attr_put(header, IFA_ADDRESS, address_length(family), other.bytes);
    return header;
}

static void change(uint16_t type, uint16_t flags, unsigned interface, const char *text,
                   const char *peer)
{
    struct nlmsghdr *header = message(buffer, type, NLM_F_ACK | flags, interface, text, peer);
    int why = talk(mnl_nlmsg_get_payload_tail(header));
    ck_assert_msg(why == 0, "%s: %s", text, strerror(why));
}

static void add(unsigned interface, const char *text)
{
    change(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, interface, text, NULL);
}

static void del(unsigned interface, const char *text)
{
    change(RTM_DELADDR, 0, interface, text, NULL);
}

/* The address number @i of those that there are many of. */
static char *one_of_many(unsigned i)
{
    return xasprintf("10.8.%u.%u", i / 250, i % 250 + 1);
}

/* Adds @n of them on the loopback interface. */
static void add_many(unsigned n)
{
    char *at = buffer;
    for (unsigned i = 0; i < n; i++) {
        bool last = i == n - 1 || at > buffer + sizeof(buffer) - 256;
        char *text = one_of_many(i), *full = xasprintf("%s/16", text);
        struct nlmsghdr *header =
            message(at, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | (last ? NLM_F_ACK : 0), LOOPBACK,
                    full, NULL);
        at = mnl_nlmsg_get_payload_tail(header);
        if (last) {
            ck_assert_int_eq(talk(at), 0);
            at = buffer;
        }
        free(full);
        free(text);
    }
}

static struct nlmsghdr *link_message(uint16_t type, uint16_t flags, unsigned interface, bool up)
{
    struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    struct ifinfomsg *body = mnl_nlmsg_put_extra_header(header, sizeof(*body));
    body->ifi_index = (int)interface;
    body->ifi_flags = up ? IFF_UP : 0;
    body->ifi_change = up ? IFF_UP : 0;
    return header;
}

static void set_up(unsigned interface)
{
    ck_assert_int_eq(
        talk(mnl_nlmsg_get_payload_tail(link_message(RTM_NEWLINK, 0, interface, true))), 0);
}

/* Makes a pair of interfaces that are connected with each other; they have @index and the next
 * number. */
static void add_pair(unsigned index)
{
    const struct ifinfomsg other = {.ifi_index = (int)index + 1};
    struct nlmsghdr *header = link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, index, false);
    struct nlattr *info = mnl_attr_nest_start(header, IFLA_LINKINFO);
    mnl_attr_put_strz(header, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(header, IFLA_INFO_DATA);
    mnl_attr_put(header, VETH_INFO_PEER, sizeof(other), &other);
    mnl_attr_nest_end(header, data);
    mnl_attr_nest_end(header, info);
    int why = talk(mnl_nlmsg_get_payload_tail(header));
    ck_assert_msg(why == 0, "veth: %s", strerror(why));
}

/* ---- begin and end ---- */

static void setup(void)
{
    enter_namespaces();
    log_set_verbosity(2);
    loop = ev_loop_new(EVFLAG_AUTO);
    sock = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    ck_assert(loop && sock && mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) == 0);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        reports[family] = 0;
        now[family] = xstrdup("nothing reported");
    }
}

static void teardown(void)
{
    address_monitor_free(monitor);
    monitor = NULL;
    for (int family = 0; family < FAMILY_COUNT; family++)
        free(now[family]);
    mnl_socket_close(sock);
    ev_loop_destroy(loop);
    error_clear(&err);
    log_set_verbosity(0);
}

/* ---- commands; INTERFACE: a number, 1 is the loopback interface ---- */

/* add INTERFACE ADDRESS PEER, and replace with another peer; del. */
static void change_words(uint16_t type, uint16_t flags, char *words)
{
    unsigned interface = (unsigned)atoi(script_word(&words));
    const char *address = script_word(&words);
    change(type, flags, interface, address, *words ? words : NULL);
}

COMMAND(add)
{
    change_words(RTM_NEWADDR, NLM_F_CREATE, words);
}

COMMAND(replace)
{
    change_words(RTM_NEWADDR, NLM_F_REPLACE, words);
}

COMMAND(del)
{
    change_words(RTM_DELADDR, 0, words);
}

COMMAND(pair)
{
    add_pair((unsigned)atoi(words));
}

COMMAND(up)
{
    set_up((unsigned)atoi(words));
}

COMMAND(del_link)
{
    struct nlmsghdr *header = link_message(RTM_DELLINK, 0, (unsigned)atoi(words), false);
    ck_assert_int_eq(talk(mnl_nlmsg_get_payload_tail(header)), 0);
}

COMMAND(start)
{
    start();
}

/* reports FAMILY: after one more loop iteration, how often and what last. */
COMMAND(reports)
{
    enum family family = *words == '4' ? FAMILY_IPV4 : FAMILY_IPV6;
    iterate();
    fprintf(out, "%d: %s\n", reports[family], now[family]);
}

/* wait FAMILY ADDRESS... */
COMMAND(wait)
{
    enum family family = *script_word(&words) == '4' ? FAMILY_IPV4 : FAMILY_IPV6;
    wait_for(family, words);
}

CASES("address_monitor")

TEST(no_socket)
{
    struct rlimit limit, none_left;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none_left = limit;
    none_left.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none_left), 0);
    monitor = address_monitor_new(loop, take, &reports, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_ptr_null(monitor);
    ck_assert_str_eq(err.text, "addresses: cannot open a netlink socket: Too many open files");
    ck_assert_int_eq(reports[FAMILY_IPV4], 0);
}

/* The flags of an IPv6 address of interface @interface; 0 if it has none of them or not the
 * address. @address is as the file writes it. */
static unsigned flags_of(unsigned interface, const char *address)
{
    char text[64];
    unsigned index, length, scope, flags, found = 0;
    FILE *file = fopen("/proc/self/net/if_inet6", "re");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%63s %x %x %x %x %*s", text, &index, &length, &scope, &flags) == 5)
        if (index == interface && strcmp(text, address) == 0)
            found = flags;
    fclose(file);
    return found;
}

/* An address that the other end of the cable has already does not count. */
TEST(address_of_another_host)
{
    static const char address[] = "fd000000000000000000000000000001";
    add_pair(10);
    set_up(10);
    set_up(11);
    struct nlmsghdr *header =
        message(buffer, RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK, 10, "fd00::1/64", NULL);
    ((struct ifaddrmsg *)mnl_nlmsg_get_payload(header))->ifa_flags = IFA_F_NODAD;
    ck_assert_int_eq(talk(mnl_nlmsg_get_payload_tail(header)), 0);
    start();
    add(11, "fd00::1/64");
    for (int i = 0; i < PATIENCE * 100 && !(flags_of(11, address) & IFA_F_DADFAILED); i++)
        usleep(10000);
    ck_assert(flags_of(11, address) & IFA_F_DADFAILED);
    iterate();
    ck_assert_ptr_nonnull(strstr(now[FAMILY_IPV6], "fd00::1"));
    del(10, "fd00::1/64");
    while (strstr(now[FAMILY_IPV6], "fd00::1"))
        wait_for_something();
    address_monitor_free(monitor);
    monitor = NULL;
    reports[FAMILY_IPV4] = reports[FAMILY_IPV6] = 0;
    start();
    ck_assert(flags_of(11, address) & IFA_F_DADFAILED);
    ck_assert_ptr_null(strstr(now[FAMILY_IPV6], "fd00::1"));
}

/* ---- many ---- */

/* More changes than the monitor is notified of: it reads everything again. */
TEST(lost_messages)
{
    start();
    add(LOOPBACK, "192.0.2.1");
    add_many(MANY);
    iterate();
    ck_assert_uint_eq(how_many[FAMILY_IPV4], MANY + 1);
    ck_assert_int_eq(reports[FAMILY_IPV4], 2);
    /* With its first address a subnet loses all others. */
    del(LOOPBACK, "10.8.0.1/16");
    iterate();
    ck_assert_str_eq(now[FAMILY_IPV4], "192.0.2.1");
    ck_assert_int_eq(reports[FAMILY_IPV4], 3);
    /* And it is notified of changes as before. */
    add(LOOPBACK, "192.0.2.2");
    iterate();
    ck_assert_str_eq(now[FAMILY_IPV4], "192.0.2.1 192.0.2.2");
}

static atomic_bool enough;

/* Adds and deletes an address without a pause, ends with none. */
static void *flap(void *ctx)
{
    struct mnl_socket *own = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    char request[256], answer[1024];
    mnl_socket_bind(own, 0, MNL_SOCKET_AUTOPID);
    for (bool present = false; present || !enough; present = !present) {
        struct nlmsghdr *header = message(request, present ? RTM_DELADDR : RTM_NEWADDR,
                                          NLM_F_CREATE | NLM_F_ACK, LOOPBACK, "10.9.9.9", NULL);
        mnl_socket_sendto(own, header, header->nlmsg_len);
        mnl_socket_recvfrom(own, answer, sizeof(answer));
    }
    mnl_socket_close(own);
    return NULL;
}

/* Changes while everything is read, so that the kernel may leave out others: in the end none is
 * missing. */
TEST(changes_while_reading)
{
    pthread_t thread;
    const unsigned n = 2000;
    add_many(n);
    enough = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, flap, NULL), 0);
    while (logged_with("changed while they were read") == 0) {
        address_monitor_free(monitor);
        reports[FAMILY_IPV4] = reports[FAMILY_IPV6] = 0;
        start();
    }
    enough = true;
    pthread_join(thread, NULL);
    while (how_many[FAMILY_IPV4] != n || strstr(now[FAMILY_IPV4], "10.9.9.9"))
        wait_for_something();
}

UNIT_FIXTURE(setup, teardown)
