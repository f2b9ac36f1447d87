/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The devices of a network namespace of each test's own: tests/unit/cases/device_monitor. */
#include "kube-nftd/netlink.h"

#include "namespaces.h"
#include "script.h"

#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

/* Longer than the monitor's pause after it has read. */
#define PAUSE_MICROSECONDS 120000

static struct ev_loop *loop;
static struct device_monitor *monitor;
static struct mnl_socket *sock;
static char buffer[4096];
static struct error err;
static unsigned reports;
static char *now; /* the last report */

static void take(void *ctx, const device_vec *devices)
{
    size_t length;
    ck_assert_ptr_eq(ctx, &reports);
    free(now);
    FILE *out = open_memstream(&now, &length);
    vec_each (devices, device)
        fprintf(out, "%s%s#%u", device == devices->v ? "" : " ", device->name, device->index);
    fclose(out);
    reports++;
}

/* ---- changes ---- */

static void talk(struct nlmsghdr *request, const char *what)
{
    char answer[4096];
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | request->nlmsg_flags;
    ck_assert_int_gt(mnl_socket_sendto(sock, request, request->nlmsg_len), 0);
    ssize_t n = mnl_socket_recvfrom(sock, answer, sizeof(answer));
    ck_assert_int_gt(n, 0);
    ck_assert_msg(mnl_cb_run(answer, (size_t)n, 0, 0, NULL, NULL) >= 0, "%s: %s", what,
                  strerror(errno));
}

static struct nlmsghdr *link_message(uint16_t type, uint16_t flags, unsigned index)
{
    struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);
    header->nlmsg_type = type;
    header->nlmsg_flags = flags;
    struct ifinfomsg *body = mnl_nlmsg_put_extra_header(header, sizeof(*body));
    body->ifi_index = (int)index;
    return header;
}

/* Two interfaces that are connected with each other; numbers INDEX and the next one. */
static void add_pair(unsigned index, const char *name, const char *other_name)
{
    const struct ifinfomsg other = {.ifi_index = (int)index + 1};
    struct nlmsghdr *header = link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, index);
    mnl_attr_put_strz(header, IFLA_IFNAME, name);
    struct nlattr *info = mnl_attr_nest_start(header, IFLA_LINKINFO);
    mnl_attr_put_strz(header, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(header, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(header, VETH_INFO_PEER);
    memcpy(mnl_nlmsg_get_payload_tail(header), &other, sizeof(other));
    header->nlmsg_len += sizeof(other);
    mnl_attr_put_strz(header, IFLA_IFNAME, other_name);
    mnl_attr_nest_end(header, peer);
    mnl_attr_nest_end(header, data);
    mnl_attr_nest_end(header, info);
    talk(header, name);
}

/* ---- begin and end ---- */

static void setup(void)
{
    enter_namespaces();
    loop = ev_loop_new(EVFLAG_AUTO);
    sock = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    ck_assert(loop && sock && mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) == 0);
    now = xstrdup("nothing reported");
    reports = 0;
}

static void teardown(void)
{
    device_monitor_free(monitor);
    monitor = NULL;
    free(now);
    mnl_socket_close(sock);
    ev_loop_destroy(loop);
    error_clear(&err);
}

/* ---- commands ---- */

/* pair INDEX NAME NAME */
COMMAND(pair)
{
    unsigned index = (unsigned)atoi(script_word(&words));
    const char *name = script_word(&words);
    add_pair(index, name, script_word(&words));
}

/* pairs INDEX N: with the names "vethN" and "peerN". */
COMMAND(pairs)
{
    unsigned index = (unsigned)atoi(script_word(&words));
    for (int i = 0, n = atoi(words); i < n; i++) {
        char *name = xasprintf("veth%d", i), *other = xasprintf("peer%d", i);
        add_pair(index + 2 * (unsigned)i, name, other);
        free(name);
        free(other);
    }
}

COMMAND(del)
{
    talk(link_message(RTM_DELLINK, 0, (unsigned)atoi(words)), words);
}

COMMAND(rename)
{
    struct nlmsghdr *header = link_message(RTM_NEWLINK, 0, (unsigned)atoi(script_word(&words)));
    mnl_attr_put_strz(header, IFLA_IFNAME, words);
    talk(header, words);
}

/* It is up then, which is an event without another name. */
COMMAND(up)
{
    struct nlmsghdr *header = link_message(RTM_NEWLINK, 0, (unsigned)atoi(words));
    struct ifinfomsg *body = mnl_nlmsg_get_payload(header);
    body->ifi_flags = body->ifi_change = IFF_UP;
    talk(header, words);
}

/* start PATTERNS */
COMMAND(start)
{
    monitor = device_monitor_new(loop, words, take, &reports, &err);
    ck_assert_msg(monitor != NULL, "%s", err.text);
}

/* After one more loop iteration, how often was reported and what last. */
COMMAND(reports)
{
    usleep(PAUSE_MICROSECONDS);
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
    fprintf(out, "%u: %s\n", reports, now);
}

/* How often were reported how many. */
COMMAND(report_count)
{
    unsigned n;
    usleep(PAUSE_MICROSECONDS);
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
    n = *now != '\0';
    for (const char *at = now; *at; at++)
        n += *at == ' ';
    fprintf(out, "%u: %u\n", reports, n);
}

/* matches PATTERNS NAME */
COMMAND(matches)
{
    const char *patterns = script_word(&words);
    fputs(device_matches(patterns, words) ? "yes\n" : "no\n", out);
}

CASES("device_monitor")

UNIT_FIXTURE(setup, teardown)
