/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of nf_tables, made up: which pass the socket filter, and what the monitor reports of them,
 * which is in tests/unit/cases/table_monitor. */
#include "script.h"

#include "netlink/table_monitor.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUR_PORT 0x01020304u
#define OTHER_PORT 4711u
#define TABLE "kube-nftd"

static struct {
    _Alignas(struct nlmsghdr) char bytes[1 << 16];
    size_t length;
} datagram;

static struct table_monitor *monitor;
static char reported[4096]; /* a word or two for each call */

/* ---- reports ---- */

static void say(const char *text)
{
    size_t used = strlen(reported);
    snprintf(reported + used, sizeof(reported) - used, "%s%s", used ? " " : "", text);
}

static void on_changed(void *ctx, const struct table_change *change)
{
    char *text = xasprintf("%s:%s", family_name(change->family), change->set ? change->set : "*");
    ck_assert_int_eq(change->set != NULL, change->element != NULL);
    say(text);
    free(text);
    if (change->element && change->element->key_length == 4)
        say((const char *)change->element->key);
}

static void on_lost(void *ctx)
{
    say("lost");
}

static void on_finished(void *ctx, enum family family, const struct table_program *program)
{
    char *text = xasprintf("%s:by=%s/%u", family_name(family),
                           program->peer ? "peer" : program->name, program->pid);
    say(text);
    free(text);
}

static const struct table_monitor_ops ops = {on_changed, on_lost, on_finished, NULL};

static void expect(const char *text)
{
    ck_assert_str_eq(reported, text);
    reported[0] = 0;
}

/* ---- messages ---- */

static struct nlmsghdr *message(int type, uint8_t family, uint32_t port)
{
    struct nlmsghdr *header = mnl_nlmsg_put_header(datagram.bytes + datagram.length);
    header->nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
    header->nlmsg_pid = port;
    struct nfgenmsg *part = mnl_nlmsg_put_extra_header(header, sizeof(*part));
    part->nfgen_family = family;
    return header;
}

static void done(const struct nlmsghdr *header)
{
    datagram.length += MNL_ALIGN(header->nlmsg_len);
}

static void put_object(int type, uint8_t family, const char *table, uint32_t port)
{
    struct nlmsghdr *header = message(type, family, port);
    mnl_attr_put_strz(header, NFTA_TABLE_NAME, table);
    mnl_attr_put_u32(header, 2, 0);
    mnl_attr_put_u32(header, 3, 0);
    done(header);
}

static void put_element(int type, const char *table, const char *set, const char *key)
{
    struct nlmsghdr *header = message(type, NFPROTO_IPV4, OTHER_PORT);
    mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table);
    mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set);
    struct nlattr *list = mnl_attr_nest_start(header, NFTA_SET_ELEM_LIST_ELEMENTS);
    struct nlattr *element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
    struct nlattr *data = mnl_attr_nest_start(header, NFTA_SET_ELEM_KEY);
    mnl_attr_put(header, NFTA_DATA_VALUE, 4, key);
    mnl_attr_nest_end(header, data);
    mnl_attr_nest_end(header, element);
    mnl_attr_nest_end(header, list);
    done(header);
}

static void put_generation(uint32_t port, uint32_t pid, const char *name)
{
    struct nlmsghdr *header = message(NFT_MSG_NEWGEN, 0, port);
    mnl_attr_put_u32(header, NFTA_GEN_ID, htonl(7));
    mnl_attr_put_u32(header, NFTA_GEN_PROC_PID, htonl(pid));
    mnl_attr_put_strz(header, NFTA_GEN_PROC_NAME, name);
    done(header);
}

static void take(void)
{
    table_monitor_take(monitor, datagram.bytes, datagram.length);
    datagram.length = 0;
}

static void setup(void)
{
    reported[0] = 0;
    memset(&datagram, 0, sizeof(datagram));
    monitor = table_monitor_detached(TABLE, OUR_PORT, &ops);
}

static void teardown(void)
{
    table_monitor_free(monitor);
}

/* ---- commands ---- */

static void write_reported(FILE *out)
{
    if (*reported)
        fprintf(out, "%s\n", reported);
    reported[0] = 0;
}

/* TYPE FAMILY TABLE, and "ours" if we sent it. */
COMMAND(object)
{
    static const struct {
        const char *name;
        int number;
    } types[] = {{"new-rule", NFT_MSG_NEWRULE},
                 {"new-chain", NFT_MSG_NEWCHAIN},
                 {"del-chain", NFT_MSG_DELCHAIN},
                 {"del-table", NFT_MSG_DELTABLE},
                 {"unknown", 99}};
    const char *type = script_word(&words), *family = script_word(&words);
    const char *table = script_word(&words);
    int i = 0;
    while (strcmp(types[i].name, type) != 0)
        i++;
    put_object(types[i].number,
               *family == '4'   ? NFPROTO_IPV4
               : *family == '6' ? NFPROTO_IPV6
                                : NFPROTO_INET,
               table, *words ? OUR_PORT : OTHER_PORT);
}

/* new or del, TABLE SET KEY */
COMMAND(element)
{
    int type = *script_word(&words) == 'n' ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM;
    const char *table = script_word(&words), *set = script_word(&words);
    put_element(type, table, set, words);
}

/* PID NAME: the end of a transaction; "self": our own name. */
COMMAND(generation)
{
    char name[16];
    uint32_t pid = (uint32_t)atoi(script_word(&words));
    ck_assert_int_eq(prctl(PR_GET_NAME, name), 0);
    put_generation(OTHER_PORT, pid, strcmp(words, "self") == 0 ? name : words);
}

COMMAND(take)
{
    take();
    write_reported(out);
}

COMMAND(finish)
{
    table_monitor_finish(monitor);
    write_reported(out);
}

CASES("table_monitor")

/* Messages that are cut, or not what they should be, are left out. */
TEST(broken_messages)
{
    put_element(NFT_MSG_NEWSETELEM, TABLE, "services", "abc");
    size_t whole = datagram.length;
    for (size_t length = 0; length < whole; length++) {
        char *copy = xcalloc(1, length + 1); /* so that sanitizers see where it ends */
        memcpy(copy, datagram.bytes, length);
        table_monitor_take(monitor, copy, length);
        free(copy);
    }
    expect("");
    put_object(99, NFPROTO_IPV4, TABLE, OTHER_PORT); /* of a newer kernel, about our table */
    take();
    expect("IPv4:services abc IPv4:*");
    struct nlmsghdr *header = message(NFT_MSG_NEWGEN, 0, OTHER_PORT);
    mnl_attr_put_u8(header, NFTA_GEN_PROC_PID, 1);
    mnl_attr_put_strz(header, NFTA_GEN_PROC_NAME, "a name that is longer than a name can be");
    done(header);
    take();
    table_monitor_finish(monitor);
    expect("IPv4:by=a name that is /0");
}

/* ---- the filter ---- */

/* Whether the datagram passes, by the kernel's own reading of the filter. */
static bool passes(void)
{
    struct sock_filter steps[TABLE_MONITOR_FILTER_SIZE];
    int pair[2];
    char buffer[1 << 16];
    const struct sock_fprog program = {
        .len = (unsigned short)table_monitor_filter(TABLE, OUR_PORT, steps), .filter = steps};
    ck_assert_uint_lt(program.len, TABLE_MONITOR_FILTER_SIZE);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    ck_assert_int_eq(setsockopt(pair[1], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
                     0);
    /* What is dropped is not an error, or is one, depending on the kernel. */
    ssize_t sent = send(pair[0], datagram.bytes, datagram.length, 0);
    ssize_t n = recv(pair[1], buffer, sizeof(buffer), 0);
    ck_assert(n < 0 || (sent == n && (size_t)n == datagram.length));
    close(pair[0]);
    close(pair[1]);
    datagram.length = 0;
    return n > 0;
}

TEST(our_table_passes_wherever_it_is)
{
    for (int before = 0; before < 60; before++) {
        for (int i = 0; i < before; i++)
            put_object(NFT_MSG_NEWRULE, NFPROTO_IPV4, &"another-table"[i % 13], OTHER_PORT);
        put_object(NFT_MSG_DELTABLE, NFPROTO_IPV6, TABLE, OTHER_PORT);
        put_object(NFT_MSG_DELTABLE, NFPROTO_IPV4, "behind", OTHER_PORT);
        ck_assert_msg(passes(), "%d messages before it", before);
    }
}

TEST(other_tables_do_not_pass)
{
    static const char *const others[] = {"kube-nft",  "kube-nftd-preflight", "kube-nftx", "a",
                                         "cube-nftd", "kube-proxy",          "kube-nf",   ""};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        for (int n = 1; n < 40; n += 7) {
            for (int k = 0; k < n; k++)
                put_object(NFT_MSG_NEWRULE, NFPROTO_IPV4, others[i], OTHER_PORT);
            ck_assert_msg(!passes(), "%d of %s", n, others[i]);
        }
        put_element(NFT_MSG_NEWSETELEM, others[i], TABLE, TABLE);
        ck_assert(!passes());
    }
}

TEST(our_own_changes_do_not_pass)
{
    put_object(NFT_MSG_NEWRULE, NFPROTO_IPV4, TABLE, OUR_PORT);
    ck_assert(!passes());
    put_generation(OUR_PORT, 1, "kube-nftd");
    ck_assert(!passes());
}

TEST(ends_of_other_transactions_pass)
{
    put_generation(OTHER_PORT, 1, "nft");
    ck_assert(passes());
    put_generation(0, 1, "kernel");
    ck_assert(passes());
}

/* More than the filter looks at: the daemon does. */
TEST(a_crowd_passes)
{
    for (int i = 0; i < 200; i++)
        put_object(NFT_MSG_NEWRULE, NFPROTO_IPV4, "other", OTHER_PORT);
    ck_assert(passes());
}

UNIT_FIXTURE(setup, teardown)
