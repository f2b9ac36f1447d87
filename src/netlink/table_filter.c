/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket filter: which events wake us. One datagram holds several messages, so the program goes
 * from one to the next; it has no loops, so that is written out for as many as usually fit, and
 * what has more is let through. What is sorted out here costs the others nothing but these steps.
 */
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <string.h>

/* Kernels before 6.7 charge the program to 20 KiB of memory; each step takes 8 bytes or twice that.
 */
#define MESSAGES 40

#define PASS 0xffffffffu
#define DROP 0u

/* The name is the first attribute in all messages but those of generations. */
#define NAME_AT (NLMSG_HDRLEN + sizeof(struct nfgenmsg) + NLA_HDRLEN)

/* Where the two lower bytes of a number are, which netlink writes as the processor does. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_BYTE 0
#define NEXT_BYTE 1
#define TYPE_LOW 0
#define TYPE_HIGH 1
#else
#define LOW_BYTE 3
#define NEXT_BYTE 2
#define TYPE_LOW 1
#define TYPE_HIGH 0
#endif

struct program {
    struct sock_filter *steps;
    size_t n;
};

static void add(struct program *p, unsigned code, size_t k)
{
    p->steps[p->n++] = (struct sock_filter){.code = (uint16_t)code, .k = (uint32_t)k};
}

/* Goes on if the accumulator is @k (for BPF_JGE: at least), else skips @otherwise steps. */
static void unless(struct program *p, unsigned test, size_t k, size_t otherwise)
{
    p->steps[p->n++] = (struct sock_filter){
        .code = (uint16_t)(BPF_JMP | test | BPF_K), .jf = (uint8_t)otherwise, .k = (uint32_t)k};
}

/* Our own changes out, the ends of others' transactions in. */
static void add_beginning(struct program *p, uint32_t own_port)
{
    const size_t type = offsetof(struct nlmsghdr, nlmsg_type);
    add(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_pid));
    unless(p, BPF_JEQ, htonl(own_port), 1);
    add(p, BPF_RET | BPF_K, DROP);
    add(p, BPF_LD | BPF_B | BPF_ABS, type + TYPE_HIGH);
    unless(p, BPF_JEQ, NFNL_SUBSYS_NFTABLES, 3);
    add(p, BPF_LD | BPF_B | BPF_ABS, type + TYPE_LOW);
    unless(p, BPF_JEQ, NFT_MSG_NEWGEN, 1);
    add(p, BPF_RET | BPF_K, PASS);
    add(p, BPF_LDX | BPF_IMM, 0);
}

/* How many bytes of a name are compared at once, when @left of them are left. */
static size_t piece(size_t left)
{
    return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

static size_t pieces(size_t length)
{
    size_t n = 0;
    for (size_t at = 0; at < length; at += piece(length - at))
        n++;
    return n;
}

static void add_piece(struct program *p, const char *name, size_t at, size_t size, size_t otherwise)
{
    size_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | (unsigned char)name[at + i];
    add(p, BPF_LD | BPF_IND | (size == 4 ? BPF_W : size == 2 ? BPF_H : BPF_B), NAME_AT + at);
    unless(p, BPF_JEQ, value, otherwise);
}

/* The message at X: lets the datagram pass if it is of the table; drops it if that was the end. */
static void add_message(struct program *p, const char *name)
{
    const size_t length = strlen(name) + 1;
    size_t steps = 2 * pieces(length) + 1;
    add(p, BPF_LD | BPF_W | BPF_LEN, 0);
    add(p, BPF_ALU | BPF_SUB | BPF_X, 0);
    p->steps[p->n++] = (struct sock_filter){
        .code = BPF_JMP | BPF_JGE | BPF_K, .jt = 1, .k = (uint32_t)(NAME_AT + length)};
    add(p, BPF_RET | BPF_K, DROP);
    for (size_t at = 0; at < length; at += piece(length - at)) {
        steps -= 2;
        add_piece(p, name, at, piece(length - at), steps);
    }
    add(p, BPF_RET | BPF_K, PASS);
}

/* X goes to the next message: the length, rounded up to four. */
static void add_advance(struct program *p)
{
    add(p, BPF_LD | BPF_B | BPF_IND, NEXT_BYTE);
    add(p, BPF_ALU | BPF_LSH | BPF_K, 8);
    add(p, BPF_ALU | BPF_ADD | BPF_X, 0);
    add(p, BPF_ST, 0);
    add(p, BPF_LD | BPF_B | BPF_IND, LOW_BYTE);
    add(p, BPF_ALU | BPF_ADD, NLMSG_ALIGNTO - 1);
    add(p, BPF_ALU | BPF_AND | BPF_K, ~(uint32_t)(NLMSG_ALIGNTO - 1));
    add(p, BPF_LDX | BPF_W | BPF_MEM, 0);
    add(p, BPF_ALU | BPF_ADD | BPF_X, 0);
    add(p, BPF_MISC | BPF_TAX, 0);
}

size_t table_monitor_filter(const char *table, uint32_t own_port,
                            struct sock_filter out[TABLE_MONITOR_FILTER_SIZE])
{
    struct program p = {out, 0};
    const size_t each = 4 + 2 * pieces(strlen(table) + 1) + 1 + 10;
    add_beginning(&p, own_port);
    for (int i = 0; i < MESSAGES && p.n + each < TABLE_MONITOR_FILTER_SIZE; i++) {
        add_message(&p, table);
        add_advance(&p);
    }
    add(&p, BPF_RET | BPF_K, PASS);
    return p.n;
}
