/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sends batches, as one transaction or in pieces, and reads the kernel's answers. */
#include "nft_socket.h"

#include "table_monitor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/batch.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Netlink's overhead in the send buffer. */
#define SEND_RESERVE 64
/* Upper bound for batch begin and end. */
#define BATCH_FRAME ((size_t)128)
#define ANSWERS_SIZE ((size_t)8192) /* as MNL_SOCKET_BUFFER_SIZE, which calls sysconf() */
/* On ENOMEM a piece is split into this many, up to MOST_SPLITS times. */
#define SPLIT 8
#define MOST_SPLITS 3
/* An error message is below 100 bytes; this holds those of any batch that we retry. */
#define RECEIVE_BUFFER (1 << 20)

/* Some hundred elements. */
#define LARGE_BATCH ((size_t)32 * 1024)

struct nft_socket *nft_socket_open(struct error *err)
{
    struct nft_socket *s = xcalloc(1, sizeof(*s));
    s->answers = xcalloc(1, ANSWERS_SIZE);
    s->nl = netlink_open(NETLINK_NETFILTER, 0, RECEIVE_BUFFER, "nf_tables", err);
    if (!s->nl) {
        nft_socket_close(s);
        return NULL;
    }
    int one = 1;
    /* Errors do not quote the request. */
    mnl_socket_setsockopt(s->nl, NETLINK_CAP_ACK, &one, sizeof(one));
    s->sequence = (uint32_t)time(NULL);
    return s;
}

uint32_t nft_socket_port(const struct nft_socket *s)
{
    return mnl_socket_get_portid(s->nl);
}

void nft_socket_set_monitor(struct nft_socket *s, struct table_monitor *monitor)
{
    s->monitor = monitor;
}

void nft_socket_close(struct nft_socket *s)
{
    if (!s)
        return;
    if (s->nl)
        mnl_socket_close(s->nl);
    free(s->answers);
    free(s);
}

const char *nft_reason(int number)
{
    return number == EPERM ? "Operation not permitted (CAP_NET_ADMIN is missing, or another "
                             "program owns the table)"
                           : strerror(number);
}

/* ---- sending ---- */

/* Grows the send buffer for a message of @length bytes, as far as allowed. */
static void grow_send_buffer(struct nft_socket *s, size_t length)
{
    int fd = mnl_socket_get_fd(s->nl), size = 0;
    if (length + SEND_RESERVE <= s->send_limit)
        return;
    int limit = length > INT32_MAX / 4 ? INT32_MAX / 2 : (int)(length + SEND_RESERVE);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &limit, sizeof(limit)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &limit, sizeof(limit));
    socklen_t size_length = sizeof(size);
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &size_length);
    s->send_limit = (size_t)size;
}

/* Describes the first rejected message in nft's terms. */
static int rejected(const struct nft_batch *batch, struct error *err)
{
    static const struct {
        uint16_t type;
        const char *verb;
        uint16_t name; /* the attribute that names the object */
    } kinds[] = {
        {NFT_MSG_NEWTABLE, "add table", NFTA_TABLE_NAME},
        {NFT_MSG_DELTABLE, "delete table", NFTA_TABLE_NAME},
        {NFT_MSG_NEWSET, "add set", NFTA_SET_NAME},
        {NFT_MSG_NEWCHAIN, "add chain", NFTA_CHAIN_NAME},
        {NFT_MSG_NEWRULE, "add rule to chain", NFTA_RULE_CHAIN},
        {NFT_MSG_DELRULE, "delete rules of chain", NFTA_RULE_CHAIN},
        {NFT_MSG_DELCHAIN, "delete chain", NFTA_CHAIN_NAME},
        {NFT_MSG_NEWFLOWTABLE, "add flowtable", NFTA_FLOWTABLE_NAME},
        {NFT_MSG_DELFLOWTABLE, "delete flowtable", NFTA_FLOWTABLE_NAME},
        {NFT_MSG_NEWSETELEM, "add elements to", NFTA_SET_ELEM_LIST_SET},
        {NFT_MSG_DELSETELEM, "delete elements of", NFTA_SET_ELEM_LIST_SET},
    };
    const struct nft_rejection *first = &batch->rejections.v[0];
    const char *verb = "accept the transaction", *name = NULL;
    if (first->message != NFT_NO_MESSAGE) {
        const struct nlmsghdr *message = (const void *)(batch->buffer + first->message);
        verb = "process a message";
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            if (kinds[i].type != NFNL_MSG_TYPE(message->nlmsg_type))
                continue;
            verb = kinds[i].verb;
            name = netlink_text(nfnl_attribute(message, kinds[i].name));
        }
    }
    return error_set(err, "the kernel refused to %s%s%s: %s", verb, name ? " " : "",
                     name ? name : "", nft_reason(first->why));
}

/* The offset of the message with @sequence between two offsets, or NFT_NO_MESSAGE. */
static size_t find_message(const struct nft_batch *batch, size_t from, size_t to, uint32_t sequence)
{
    for (size_t at = from; at < to;) {
        const struct nlmsghdr *message = (const void *)(batch->buffer + at);
        if (message->nlmsg_seq == sequence)
            return at;
        at += MNL_ALIGN(message->nlmsg_len);
    }
    return NFT_NO_MESSAGE;
}

/* Reads the answers to the messages between two offsets. The acknowledgement of the message @last
 * comes last. */
static int read_answers(struct nft_socket *s, struct nft_batch *batch, size_t from, size_t to,
                        uint32_t last, struct error *err)
{
    bool acknowledged = false, lost = false;
    int why = 0;
    while (!acknowledged) {
        ssize_t n =
            recv(mnl_socket_get_fd(s->nl), s->answers, ANSWERS_SIZE, MSG_DONTWAIT | MSG_TRUNC);
        why = n < 0 ? errno : n == 0 ? EAGAIN : 0;
        lost = lost || why == ENOBUFS || n > (ssize_t)ANSWERS_SIZE;
        if (why && !netlink_is_transient(why)) /* after ENOBUFS the queue can still be read */
            break;
        size_t length = why ? 0 : (size_t)n < ANSWERS_SIZE ? (size_t)n : ANSWERS_SIZE;
        netlink_each (answer, s->answers, length) {
            if (answer->nlmsg_type != NLMSG_ERROR)
                continue;
            const int number = netlink_errno(answer);
            acknowledged = acknowledged || (number == 0 && answer->nlmsg_seq == last);
            if (number == 0)
                continue;
            size_t message = find_message(batch, from, to, answer->nlmsg_seq);
            vec_push(&batch->rejections, (struct nft_rejection){message, number});
            from = message == NFT_NO_MESSAGE ? from : message; /* answers come in order */
        }
    }
    if (!acknowledged)
        netlink_drain(s->nl, s->answers, ANSWERS_SIZE);
    if (batch->rejections.n > 0)
        return rejected(batch, err);
    if (acknowledged)
        return 0;
    if (why != EAGAIN)
        return error_set(err, "cannot read the kernel's answer: %s", strerror(why));
    return error_set(err, lost ? "the kernel's answers did not fit the receive buffer"
                               : "the kernel did not acknowledge the transaction");
}

/* Requests an acknowledgement of the last message between two offsets and returns its sequence
 * number. The kernel sends it after the commit. (Older kernels do not acknowledge the batch end.)
 */
static uint32_t request_answer(struct nft_batch *batch, size_t from, size_t to)
{
    struct nlmsghdr *last = (void *)(batch->buffer + from);
    for (size_t at = from; at < to;) {
        last = (void *)(batch->buffer + at);
        at += MNL_ALIGN(last->nlmsg_len);
    }
    last->nlmsg_flags |= NLM_F_ACK;
    return last->nlmsg_seq;
}

/* Sends the messages between two offsets as one transaction. Without @ends the batch end is
 * omitted: the kernel checks the messages, answers and aborts. 0 or an errno. */
static int send_messages(struct nft_socket *s, struct nft_batch *batch, size_t from, size_t to,
                         bool ends)
{
    char begin[64] = {0}, end[64] = {0};
    struct nlmsghdr *begin_header = nftnl_batch_begin(begin, 0);
    struct nlmsghdr *end_header = nftnl_batch_end(end, batch->sequence++);
    struct iovec parts[] = {{begin, begin_header->nlmsg_len},
                            {batch->buffer + from, to - from},
                            {end, end_header->nlmsg_len}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct msghdr message = {.msg_name = &kernel,
                             .msg_namelen = sizeof(kernel),
                             .msg_iov = parts,
                             .msg_iovlen = ends ? 3 : 2};
    ssize_t sent;
    do
        sent = sendmsg(mnl_socket_get_fd(s->nl), &message, 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/* Sends the messages between two offsets as one transaction and reads the answers. Without @commit
 * the kernel only checks them. On -1 @why is the errno, or 0 if no answer gave one; then the
 * messages may be applied. */
static int transact(struct nft_socket *s, struct nft_batch *batch, size_t from, size_t to,
                    bool commit, int *why, struct error *err)
{
    uint32_t last = request_answer(batch, from, to);
    vec_clear(&batch->rejections);
    *why = send_messages(s, batch, from, to, commit);
    if (*why)
        return error_set(err, "cannot send %zu bytes to nf_tables: %s", to - from,
                         nft_reason(*why));
    int result = read_answers(s, batch, from, to, last, err);
    *why = batch->rejections.n > 0 ? batch->rejections.v[0].why : 0;
    return result;
}

/* The last cut within @limit bytes of @from, else the first one after it, else the end. */
static size_t next_cut(const struct nft_batch *batch, size_t from, size_t limit)
{
    size_t best = 0;
    vec_each (&batch->cuts, cut) {
        if (*cut > from && (best == 0 || *cut - from <= limit))
            best = *cut;
    }
    return best ? best : batch->used;
}

/* Where the transaction from @from ends: about @size bytes, within the socket's limit. Returns
 * @from if there is no such cut. */
static size_t end_of_piece(struct nft_socket *s, const struct nft_batch *batch, size_t from,
                           size_t size)
{
    size_t limit = s->send_limit - BATCH_FRAME - SEND_RESERVE, left = batch->used - from;
    if (left <= limit && left <= size)
        return batch->used;
    if (left > limit && !s->cut_logged) {
        log_info("netlink",
                 "a batch of %zu bytes is split into several transactions: the send buffer is "
                 "limited to %zu",
                 batch->used, s->send_limit);
        s->cut_logged = true;
    }
    size_t to = next_cut(batch, from, size < limit ? size : limit);
    return to - from > limit ? from : to;
}

/* Whether smaller pieces may succeed. */
static bool is_short_of_memory(const struct nft_batch *batch, int why)
{
    vec_each (&batch->rejections, rejection)
        if (rejection->why == ENOMEM)
            return true;
    return why == ENOMEM || why == ENOBUFS;
}

/* The part from @from on cannot be cut to the size of the send buffer. */
static int too_large(const struct nft_socket *s, struct nft_batch *batch, size_t from,
                     struct error *err)
{
    batch->short_of_memory = from == 0;
    return error_set(err,
                     "cannot send %zu bytes as one transaction: the send buffer of %zu bytes is "
                     "too small, and growing it takes CAP_NET_ADMIN in the initial user namespace "
                     "or a larger net.core.wmem_max",
                     next_cut(batch, from, 0) - from, s->send_limit);
}

/* Counts applied transactions in @done. */
static int commit_pieces(struct nft_socket *s, struct nft_batch *batch, uint32_t *done,
                         struct error *err)
{
    grow_send_buffer(s, batch->used + BATCH_FRAME);
    size_t size = batch->piece ? batch->piece : batch->used;
    unsigned splits = 0;
    batch->short_of_memory = false;
    for (size_t from = 0; from < batch->used;) {
        int why;
        size_t to = end_of_piece(s, batch, from, size);
        batch->nothing_applied = from == 0;
        if (to == from)
            return too_large(s, batch, from, err);
        if (transact(s, batch, from, to, true, &why, err) == 0) {
            from = to;
            ++*done;
            continue;
        }
        bool can_split = batch->piece != NFT_PIECE_FITTING && splits < MOST_SPLITS &&
                         next_cut(batch, from, 0) < to;
        if (!can_split || !is_short_of_memory(batch, why)) {
            batch->nothing_applied = from == 0 && why != 0;
            batch->short_of_memory = batch->nothing_applied && is_short_of_memory(batch, why);
            return -1;
        }
        log_debug(2, "netlink", "sending %zu bytes in smaller transactions: %s", to - from,
                  err->text);
        error_clear(err);
        size = (to - from) / SPLIT;
        splits++;
    }
    return 0;
}

int nft_socket_commit(struct nft_socket *s, struct nft_batch *batch, struct error *err)
{
    uint32_t done = 0;
    nft_batch_finish(batch);
    struct table_monitor *monitor = batch->used >= LARGE_BATCH ? s->monitor : NULL;
    if (monitor)
        table_monitor_leave(monitor);
    int result = commit_pieces(s, batch, &done, err);
    if (monitor)
        table_monitor_rejoin(monitor, done);
    return result;
}

int nft_socket_check(struct nft_socket *s, struct nft_batch *batch, int *why, struct error *err)
{
    int first = 0;
    nft_batch_finish(batch);
    if (batch->used == 0)
        return 0;
    grow_send_buffer(s, batch->used + BATCH_FRAME);
    int result = transact(s, batch, 0, batch->used, false, &first, err);
    if (result && first == 0)
        first = EINVAL; /* no usable answer */
    if (result && why)
        *why = first;
    return result;
}
