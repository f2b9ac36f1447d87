/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whatever comes out of netlink sockets, each reader takes it or says what is wrong, and looks at
 * nothing behind it. A kernel of ours answers: an input is a letter
 * that picks the reader and then what the kernel answers, in pieces: a byte, the length (two
 * bytes, the lower first), and the messages. A piece whose byte is even ends an answer. Messages
 * with number and port 0 belong to any request.
 */
#include "cleanup/cleanup.h"
#include "conntrack/scan.h"
#include "kube-nftd/base.h"
#include "netlink/table_monitor.h"
#include "table/state.h"

#include <errno.h>
#include <ev.h>
#include <linux/netfilter/nf_tables.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

/* ---- the kernel ---- */

static struct {
    const uint8_t *at;
    size_t left;
    bool dump;  /* each answer is one to a dump: it ends with a message that says so */
    bool asked; /* that one is still to come */
    bool ended; /* it is next */
} answers;

struct piece {
    const uint8_t *bytes;
    size_t length;
    bool more;
};

static bool next_piece(struct piece *piece)
{
    if (answers.left < 3)
        return false;
    size_t length = answers.at[1] | (size_t)answers.at[2] << 8, left = answers.left - 3;
    *piece = (struct piece){answers.at + 3, length < left ? length : left, answers.at[0] & 1};
    answers.at = piece->bytes + piece->length;
    answers.left = left - piece->length;
    return true;
}

/* The next piece of what the kernel has to say, or -1 with errno. */
static ssize_t receive(void *buffer, size_t size)
{
    struct {
        struct nlmsghdr header;
        int32_t number;
    } end = {{.nlmsg_len = sizeof(end), .nlmsg_type = NLMSG_DONE}, 0};
    struct piece piece = {.length = 0};
    bool any = !answers.ended && (answers.asked || !answers.dump) && next_piece(&piece);
    if (!any && !answers.asked) {
        errno = EAGAIN;
        return -1;
    }
    answers.ended = any && !piece.more && answers.dump;
    answers.asked = answers.asked && any;
    if (!any)
        piece = (struct piece){(const void *)&end, sizeof(end), false};
    memcpy(buffer, piece.bytes, piece.length < size ? piece.length : size);
    return (ssize_t)piece.length;
}

/* What is behind the piece in the buffer is not to be looked at. */
ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    (void)fd;
    ASAN_UNPOISON_MEMORY_REGION(buffer, size);
    ssize_t n = receive(buffer, size);
    size_t got = n < 0 ? 0 : (size_t)n < size ? (size_t)n : size;
    ASAN_POISON_MEMORY_REGION((char *)buffer + got, size - got);
    return n > (ssize_t)size && !(flags & MSG_TRUNC) ? (ssize_t)size : n;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    (void)fd;
    (void)flags;
    return message->msg_iovlen > 0 ? 1 : 0;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *request, size_t size)
{
    (void)nl;
    (void)request;
    answers.asked = answers.dump;
    answers.ended = false;
    return (ssize_t)size;
}

int nanosleep(const struct timespec *wait, struct timespec *left)
{
    (void)wait;
    (void)left;
    return 0;
}

/* All modules are there. */
int access(const char *path, int mode)
{
    (void)path;
    (void)mode;
    return 0;
}

/* ---- readers of nf_tables ---- */

static unsigned sum; /* of all that was given out, so that it is looked at */

static void add(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++)
        sum += at[i];
}

static void take_element(void *ctx, const struct nft_element *element)
{
    (void)ctx;
    expect(element->key || element->flags & NFT_SET_ELEM_CATCHALL);
    add(element->key, element->key_length);
    add(element->data, element->data_length);
}

static int read_elements(struct nft_socket *nft, struct error *err)
{
    return nft_socket_read_elements(nft, FAMILY_IPV4, "t", "s", take_element, NULL, err);
}

static int get_element(struct nft_socket *nft, struct error *err)
{
    return nft_socket_get_element(nft, FAMILY_IPV4, "t", "s", "key", 4, take_element, NULL, err);
}

static int read_table(struct nft_socket *nft, struct error *err)
{
    struct nft_table_state state;
    int result = nft_socket_read_table(nft, FAMILY_IPV4, "t", &state, err);
    if (result == 0)
        free(state.comment);
    return result;
}

static int count(struct nft_socket *nft, struct error *err)
{
    uint32_t number;
    bool known;
    if (nft_socket_generation(nft, &number, err))
        return -1;
    return nft_socket_count_elements(nft, FAMILY_IPV4, "t", "s", &number, &known, err);
}

/* Elements alone: rules are taken apart by libnftnl, which ends the program when the kernel says
 * what it does not know. */
static int read_back(struct nft_socket *nft, bool by_keys, struct error *err)
{
    const struct ruleset_config config = {.mark = 0x4000, .dump_most = by_keys};
    struct ruleset *rs = ruleset_new(FAMILY_IPV4, &config, err);
    int result = 0;
    rs->adoption.state = ADOPTION_ELEMENTS;
    reading_begin(rs);
    while (result == 0 && rs->adoption.state != ADOPTION_RULES && answers.left > 0)
        result = reading_step(rs, nft, err);
    ruleset_free(rs);
    return result;
}

static int adopt(struct nft_socket *nft, struct error *err)
{
    return read_back(nft, false, err);
}

static int adopt_by_keys(struct nft_socket *nft, struct error *err)
{
    return read_back(nft, true, err);
}

static int commit(struct nft_socket *nft, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, FAMILY_IPV4, "t");
    nft_batch_add_table(&batch, false, "a comment");
    batch.sequence = 1; /* so that answers can name the messages that follow */
    for (uint32_t key = 0; key < 5; key++)
        nft_batch_element(&batch, ELEMENT_ADD, "s", &key, sizeof(key), NULL, 0);
    nft_batch_delete_chain(&batch, "c");
    int result = nft_socket_commit(nft, &batch, err);
    vec_each (&batch.rejections, rejection)
        expect(rejection->message == NFT_NO_MESSAGE || rejection->message < batch.used);
    nft_batch_release(&batch);
    return result;
}

static int look_for_chains(struct nft_socket *nft, struct error *err)
{
    struct cleanup cleanup = {.out = fopen("/dev/null", "we"), .dry_run = true};
    int result = cleanup_table(&cleanup, nft, FAMILY_IPV4, err);
    if (result == 0)
        cleanup_iptables_nft(&cleanup, nft, FAMILY_IPV4);
    fclose(cleanup.out);
    return result;
}

static void with_socket(int (*reader)(struct nft_socket *, struct error *))
{
    struct error err = {0};
    struct nft_socket *nft = nft_socket_open(&err);
    expect(nft != NULL);
    int result = reader(nft, &err);
    expect((result == 0) == (err.text == NULL));
    error_clear(&err);
    nft_socket_close(nft);
}

/* As an audit does, a piece at a time. */
static void dump_elements(void)
{
    struct error err = {0};
    struct element_dump *dump = NULL;
    while (answers.left >= 3 && element_dump_step(&dump, FAMILY_IPV4, "t", "s", take_element, NULL,
                                                  &err) == DUMP_GOES_ON)
        expect(dump && err.text == NULL);
    element_dump_close(&dump);
    error_clear(&err);
}

/* ---- events ---- */

static void on_changed(void *ctx, const struct table_change *change)
{
    (void)ctx;
    if (change->set)
        add(change->set, strlen(change->set));
    if (change->element)
        take_element(NULL, change->element);
}

static void on_lost(void *ctx)
{
    (void)ctx;
}

static void on_finished(void *ctx, enum family family, const struct table_program *program)
{
    (void)ctx;
    expect(family < FAMILY_COUNT);
    expect(memchr(program->name, '\0', sizeof(program->name)) != NULL);
}

static void *copy_of(const struct piece *piece)
{
    void *copy = xcalloc(piece->length, 1);
    memcpy(copy, piece->bytes, piece->length);
    return copy;
}

static void monitor_table(void)
{
    const struct table_monitor_ops ops = {on_changed, on_lost, on_finished, NULL};
    struct table_monitor *monitor = table_monitor_detached("kube-nftd", 7, &ops);
    struct piece piece;
    while (next_piece(&piece)) {
        void *copy = copy_of(&piece);
        table_monitor_take(monitor, copy, piece.length);
        free(copy);
        if (!piece.more)
            table_monitor_finish(monitor);
    }
    table_monitor_free(monitor);
}

static void take_addresses(void *ctx, enum family family, const address_vec *addresses)
{
    (void)ctx;
    for (size_t i = 1; i < addresses->n; i++)
        expect(address_compare(&addresses->v[i - 1], &addresses->v[i]) < 0);
    expect(family < FAMILY_COUNT);
}

static void monitor_addresses(void)
{
    struct error err = {0};
    struct address_monitor *monitor =
        address_monitor_new(ev_default_loop(0), take_addresses, NULL, &err);
    expect((monitor == NULL) == (err.text != NULL));
    error_clear(&err);
    address_monitor_free(monitor);
}

/* The first read finds none; then they change. Nobody but the monitor has watchers in this loop. */
static void follow_addresses(void)
{
    struct error err = {0};
    size_t left = answers.left;
    answers.left = 0;
    struct address_monitor *monitor =
        address_monitor_new(ev_default_loop(0), take_addresses, NULL, &err);
    error_clear(&err);
    answers.left = left;
    answers.dump = false;
    for (int fd = 0; monitor && fd < 64; fd++)
        ev_feed_fd_event(ev_default_loop(0), fd, EV_READ);
    ev_invoke_pending(ev_default_loop(0));
    address_monitor_free(monitor);
}

/* ---- conntrack ---- */

static void take_flow(void *ctx, const struct conntrack_flow *flow)
{
    expect(flow->family == FAMILY_IPV4);
    conntrack_delete(ctx, flow);
}

static void scan_conntrack(void)
{
    struct error err = {0};
    struct conntrack *conntrack = conntrack_open(&err);
    if (conntrack)
        expect(conntrack_scan_begin(conntrack, FAMILY_IPV4, true, true, take_flow, conntrack,
                                    &err) == 0);
    while (conntrack && answers.left >= 3 && conntrack_scan_step(conntrack, &err) == CONNTRACK_MORE)
        continue;
    error_clear(&err);
    conntrack_close(conntrack);
}

/* ---- what kube-proxy left elsewhere ---- */

static void look_for_ipvs(void)
{
    struct cleanup cleanup = {.out = fopen("/dev/null", "we"), .dry_run = true};
    cleanup_ipvs(&cleanup);
    fclose(cleanup.out);
}

static void look_at_servers(void)
{
    struct piece piece;
    while (next_piece(&piece)) {
        struct virtual_server server;
        void *copy = copy_of(&piece);
        netlink_each (message, copy, piece.length)
            virtual_server_read(message, &server);
        free(copy);
    }
}

/* ---- inputs ---- */

static const struct {
    char letter;
    bool dump;
    int (*nf_tables)(struct nft_socket *nft, struct error *err); /* or: */
    void (*other)(void);
} readers[] = {
    {'e', true, read_elements, NULL},
    {'g', true, get_element, NULL},
    {'t', true, read_table, NULL},
    {'b', true, adopt, NULL},
    {'n', true, count, NULL},
    {'w', true, NULL, follow_addresses},
    {'p', true, NULL, look_for_ipvs},
    {'k', true, adopt_by_keys, NULL},
    {'d', false, NULL, dump_elements},
    {'c', false, commit, NULL},
    {'l', true, look_for_chains, NULL},
    {'m', false, NULL, monitor_table},
    {'a', true, NULL, monitor_addresses},
    {'f', false, NULL, scan_conntrack},
    {'v', false, NULL, look_at_servers},
};

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_sink(drop_line, NULL);
    for (size_t i = 0; size > 0 && i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (readers[i].letter != data[0])
            continue;
        answers.at = data + 1;
        answers.left = size - 1;
        answers.dump = readers[i].dump;
        answers.asked = answers.ended = false;
        if (readers[i].nf_tables)
            with_socket(readers[i].nf_tables);
        else
            readers[i].other();
    }
    return 0;
}
