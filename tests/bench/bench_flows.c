/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a scan for stale UDP flows costs, and for how long it keeps the loop from other work. Prints
 * numbers; judges nothing.
 *
 *     bench_flows [FLOWS [OTHERS]]     so many UDP flows (100,000), so many entries of TCP (0)
 *
 * Works in a network namespace of its own. Only the first namespace of a machine may set how many
 * entries each may have (net.netfilter.nf_conntrack_max); flows beyond that do not come about.
 */
#include "conntrack/scan.h"
#include "kube-nftd/base.h"
#include "kube-nftd/conntrack.h"
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define N_FRONTENDS 1000U
#define N_BACKENDS 5000U
#define N_CHANGED 10U
#define BATCH_SIZE ((size_t)32 * 1024)
#define MESSAGE_ROOM 256U

static struct error err;

static void die(const char *what)
{
    fprintf(stderr, "bench_flows: %s: %s\n", what, err.text ? err.text : strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- the flows ---- */

static struct backend end_of(unsigned network, unsigned number, uint16_t port)
{
    return (struct backend){
        {{(uint8_t)network, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}},
        port};
}

static void put_tuple(struct nlmsghdr *request, uint16_t type, uint8_t protocol,
                      const struct backend *from, const struct backend *to)
{
    struct nlattr *tuple = mnl_attr_nest_start(request, type);
    struct nlattr *nest = mnl_attr_nest_start(request, CTA_TUPLE_IP);
    mnl_attr_put(request, CTA_IP_V4_SRC, 4, from->address.bytes);
    mnl_attr_put(request, CTA_IP_V4_DST, 4, to->address.bytes);
    mnl_attr_nest_end(request, nest);
    nest = mnl_attr_nest_start(request, CTA_TUPLE_PROTO);
    mnl_attr_put_u8(request, CTA_PROTO_NUM, protocol);
    mnl_attr_put_u16(request, CTA_PROTO_SRC_PORT, htons(from->port));
    mnl_attr_put_u16(request, CTA_PROTO_DST_PORT, htons(to->port));
    mnl_attr_nest_end(request, nest);
    mnl_attr_nest_end(request, tuple);
}

/* Writes a flow that was translated from a frontend to a backend. Returns its length. */
static size_t put_flow(char *buffer, uint8_t protocol, unsigned i)
{
    struct backend client = end_of(11, i / 32, (uint16_t)(1024 + i % 32));
    struct backend frontend = end_of(10, i % N_FRONTENDS, 53);
    struct backend backend = end_of(12, i % N_BACKENDS, 53);
    struct nlmsghdr *request =
        conntrack_request(buffer, IPCTNL_MSG_CT_NEW, NLM_F_CREATE, NFPROTO_IPV4, 1);
    put_tuple(request, CTA_TUPLE_ORIG, protocol, &client, &frontend);
    put_tuple(request, CTA_TUPLE_REPLY, protocol, &backend, &client);
    mnl_attr_put_u32(request, CTA_STATUS, htonl(IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED));
    mnl_attr_put_u32(request, CTA_TIMEOUT, htonl(24 * 3600));
    return MNL_ALIGN(request->nlmsg_len);
}

static void send_flows(struct mnl_socket *nl, char *buffer, size_t used)
{
    if (used > 0 && mnl_socket_sendto(nl, buffer, used) < 0)
        die("cannot send flows");
    while (recv(mnl_socket_get_fd(nl), buffer, BATCH_SIZE, MSG_DONTWAIT) > 0 || errno == ENOBUFS)
        errno = 0; /* those that there was no room for */
}

static void make_flows(uint8_t protocol, unsigned n)
{
    char *buffer = xcalloc(1, BATCH_SIZE);
    struct mnl_socket *nl = netlink_open(NETLINK_NETFILTER, 0, 0, "bench", &err);
    size_t used = 0;
    if (!nl)
        die("netlink");
    for (unsigned i = 0; i < n; i++) {
        used += put_flow(buffer + used, protocol, i);
        if (used + MESSAGE_ROOM <= BATCH_SIZE)
            continue;
        send_flows(nl, buffer, used);
        used = 0;
    }
    send_flows(nl, buffer, used);
    mnl_socket_close(nl);
    free(buffer);
}

static uint32_t count_entries(void)
{
    uint32_t n = 0;
    struct conntrack *conntrack = conntrack_open(&err);
    if (!conntrack || conntrack_count(conntrack, &n, &err))
        die("conntrack");
    conntrack_close(conntrack);
    return n;
}

/* ---- measuring ---- */

/* In KiB, from /proc/self/status. */
static long memory(const char *field)
{
    char *line = NULL;
    size_t size = 0, length = strlen(field);
    long value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && getline(&line, &size, status) > 0) {
        if (strncmp(line, field, length) == 0)
            value = strtol(line + length + 1, NULL, 10);
    }
    free(line);
    if (status)
        fclose(status);
    return value;
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* How long the loop was not asleep at a stretch, by the clock and on the CPU. On a busy machine the
 * first holds what others took. */
static struct iterations {
    double woke, longest;
    double cpu_woke, cpu_longest;
    unsigned n;
} iterations;

static void on_wake(struct ev_loop *loop, ev_check *check, int revents)
{
    (void)loop;
    (void)check;
    (void)revents;
    iterations.woke = clock_monotonic();
    iterations.cpu_woke = cpu_seconds();
}

static void on_sleep(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    (void)loop;
    (void)prepare;
    (void)revents;
    if (iterations.woke == 0)
        return;
    double seconds = clock_monotonic() - iterations.woke, cpu = cpu_seconds() - iterations.cpu_woke;
    iterations.longest = seconds > iterations.longest ? seconds : iterations.longest;
    iterations.cpu_longest = cpu > iterations.cpu_longest ? cpu : iterations.cpu_longest;
    iterations.n++;
}

/* Of the first @n_changed frontends all but @n_stale backends serve. */
static void scan(struct ev_loop *loop, struct flow_cleaner *cleaner, const char *what,
                 unsigned n_changed, unsigned n_stale)
{
    const struct flow_cleaner_stats *stats = flow_cleaner_stats(cleaner, FAMILY_IPV4);
    struct flow_cleaner_stats before = *stats;
    struct backend backends[N_BACKENDS / N_FRONTENDS];
    const unsigned n = sizeof(backends) / sizeof(backends[0]);
    long resident = memory("VmRSS");
    uint32_t entries = count_entries();
    for (unsigned i = 0; i < n_changed; i++) {
        struct backend end = end_of(10, i, 53);
        struct frontend frontend = {end.address, end.port, IPPROTO_UDP, FAMILY_IPV4};
        for (unsigned b = 0; b < n; b++)
            backends[b] = end_of(12, i + b * N_FRONTENDS, 53);
        flow_cleaner_set_port(cleaner, FAMILY_IPV4, i + 1, backends, n - n_stale);
        flow_cleaner_set(cleaner, &frontend, i + 1);
    }
    iterations = (struct iterations){0};
    double cpu = cpu_seconds();
    flow_cleaner_run(cleaner, FAMILY_IPV4);
    ev_run(loop, 0);
    cpu = cpu_seconds() - cpu;
    if (stats->scans != before.scans + 1)
        die("the scan failed");
    double seconds = stats->total_scan_seconds - before.total_scan_seconds;
    printf("%s: %.3f s (CPU %.3f s), %.0f entries/s, %llu deleted\n", what, seconds, cpu,
           entries / seconds, (unsigned long long)(stats->deleted - before.deleted));
    printf(
        "    %u iterations of the loop, longest %.3f ms (CPU %.3f ms); memory %ld KiB before, %ld "
        "after, peak %ld\n",
        iterations.n, iterations.longest * 1e3, iterations.cpu_longest * 1e3, resident,
        memory("VmRSS"), memory("VmHWM"));
}

static void measure(void)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ev_check check;
    ev_prepare prepare;
    ev_check_init(&check, on_wake);
    ev_set_priority(&check, EV_MAXPRI);
    ev_prepare_init(&prepare, on_sleep);
    ev_check_start(loop, &check);
    ev_prepare_start(loop, &prepare);
    ev_unref(loop); /* neither keeps it going */
    ev_unref(loop);
    struct flow_cleaner *cleaner = flow_cleaner_new(loop, &err);
    if (!cleaner)
        die("start");
    scan(loop, cleaner, "first scan", N_CHANGED, 0);
    scan(loop, cleaner, "another", N_CHANGED, 0);
    scan(loop, cleaner, "with stale flows", N_CHANGED, 1);
    scan(loop, cleaner, "with stale flows only", N_FRONTENDS, N_BACKENDS / N_FRONTENDS);
    flow_cleaner_free(cleaner);
    ev_loop_destroy(loop);
}

static unsigned number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value > 10000000) {
        fputs("Usage: bench_flows [FLOWS [OTHERS]]\n", stderr);
        exit(EXIT_FAILURE);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    unsigned flows = argc > 1 ? number(argv[1]) : 100000;
    unsigned others = argc > 2 ? number(argv[2]) : 0;
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        die("cannot make a network namespace");
    make_flows(IPPROTO_UDP, flows);
    make_flows(IPPROTO_TCP, others);
    uint32_t entries = count_entries();
    printf("%u UDP flows and %u entries of TCP asked for, %u came about\n", flows, others, entries);
    measure();
    return EXIT_SUCCESS;
}
