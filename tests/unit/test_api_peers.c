/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/api_peers.h"

#include "unit.h"

#include <stdio.h>

static struct api_peers peers;
static char told[4096]; /* what was, a line each */

static void append(const char *what, const struct frontend *frontends, size_t n)
{
    size_t used = strlen(told);
    char text[FRONTEND_TEXT_SIZE];
    used += (size_t)snprintf(told + used, sizeof(told) - used, "%s", what);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(told + used, sizeof(told) - used, " %s",
                                 frontend_format(&frontends[i], text));
    snprintf(told + used, sizeof(told) - used, "\n");
}

static void on_changed(void *ctx, const struct frontend *all, size_t n)
{
    ck_assert_ptr_eq(ctx, &peers);
    append("known", all, n);
}

static void on_unreachable(void *ctx, const struct frontend *peer)
{
    ck_assert_ptr_eq(ctx, &peers);
    append("lost", peer, 1);
}

static void set_up(void)
{
    peers = (struct api_peers){.ops = {on_changed, on_unreachable, &peers}};
    told[0] = '\0';
}

static void tear_down(void)
{
    api_peers_clear(&peers);
}

static void try_one(const char *address, double now)
{
    api_peers_note(&peers, address, 6443, false, now);
}

static void reach(const char *address, double now)
{
    api_peers_note(&peers, address, 6443, true, now);
}

static void expect(const char *expected)
{
    ck_assert_str_eq(told, expected);
    told[0] = '\0';
}

TEST(tried_and_reached)
{
    try_one("192.0.2.1", 1);
    expect("known 192.0.2.1:6443/TCP\n");
    reach("192.0.2.1", 1);
    reach("::ffff:192.0.2.1", 2);
    reach("", 2);
    expect("");
    try_one("2001:db8::1", 3);
    expect("known 192.0.2.1:6443/TCP [2001:db8::1]:6443/TCP\n");
    api_peers_failed(&peers);
    expect("lost [2001:db8::1]:6443/TCP\n");
    try_one("192.0.2.1", 4); /* what was reached once may be lost */
    api_peers_failed(&peers);
    expect("lost 192.0.2.1:6443/TCP\nlost [2001:db8::1]:6443/TCP\n");
}

TEST(not_used_any_more)
{
    reach("192.0.2.1", 1);
    reach("192.0.2.2", 2);
    told[0] = '\0';
    reach("192.0.2.2", API_PEERS_KEPT);
    expect("");
    reach("192.0.2.2", API_PEERS_KEPT + 1);
    expect("known 192.0.2.2:6443/TCP\n");
}

/* A name server may give ever new addresses: who was used longest ago makes room. */
TEST(very_many)
{
    char address[ADDRESS_TEXT_SIZE];
    reach("192.0.2.200", 0);
    for (int i = 0; i < 3 * API_PEERS_MOST; i++) {
        reach("192.0.2.200", 2 * i);
        snprintf(address, sizeof(address), "192.0.2.%d", i);
        told[0] = '\0';
        try_one(address, 2 * i + 1);
    }
    ck_assert_uint_eq(peers.list.n, API_PEERS_MOST);
    ck_assert_ptr_nonnull(strstr(told, " 192.0.2.200:"));
    ck_assert_ptr_nonnull(strstr(told, " 192.0.2.95:"));
    ck_assert_ptr_null(strstr(told, " 192.0.2.64:"));
    ck_assert_ptr_nonnull(strstr(told, " 192.0.2.65:"));
}

TEST(nobody_wants_to_know)
{
    peers.ops = (struct api_peers_ops){0};
    try_one("192.0.2.1", 1);
    api_peers_failed(&peers);
    expect("");
}

UNIT_FIXTURE(set_up, tear_down)
