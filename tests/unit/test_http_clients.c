/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who must end: by when each connection got on. */
#include "unit.h"

#include "serve/http_clients.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 4

static struct http_clients clients;
static struct http_client *known[2 * MOST];
static int fds[2 * MOST][2]; /* ours and the client's */

static void come(int i, double now)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]), 0);
    known[i] = http_clients_came(&clients, fds[i][0], MOST, now);
}

static void go(int i)
{
    http_clients_went(&clients, known[i]);
    known[i] = NULL;
    close(fds[i][0]);
    close(fds[i][1]);
}

static void go_all(void)
{
    for (int i = 0; i < 2 * MOST; i++)
        if (known[i])
            go(i);
    ck_assert_uint_eq(clients.n, 0);
    ck_assert_ptr_null(clients.first);
}

static bool is_ended(int i)
{
    char byte;
    return recv(fds[i][1], &byte, 1, MSG_DONTWAIT) == 0;
}

/* Which of them are, as digits. */
static void ended(const char *expected)
{
    char text[2 * MOST + 1] = "";
    size_t n = 0;
    for (int i = 0; i < 2 * MOST; i++)
        if (known[i] && is_ended(i))
            text[n++] = (char)('0' + i);
    ck_assert_str_eq(text, expected);
}

TEST(patience_ends)
{
    ck_assert_double_eq(http_clients_end_slow(&clients, 100), 0);
    come(0, 100);
    come(1, 101);
    ck_assert_double_eq(http_clients_end_slow(&clients, 102), 100 + HTTP_CLIENT_PATIENCE);
    ended("");
    ck_assert_double_eq(http_clients_end_slow(&clients, 100 + HTTP_CLIENT_PATIENCE),
                        101 + HTTP_CLIENT_PATIENCE);
    ended("0");
    ck_assert_double_eq(http_clients_end_slow(&clients, 200), 0);
    ended("01");
}

TEST(who_gets_on_has_it_anew)
{
    come(0, 100);
    come(1, 101);
    come(2, 102);
    http_clients_got_on(&clients, known[0], 105);
    http_clients_got_on(&clients, known[2], 106);
    ck_assert_double_eq(http_clients_end_slow(&clients, 101 + HTTP_CLIENT_PATIENCE),
                        105 + HTTP_CLIENT_PATIENCE);
    ended("1");
    http_clients_got_on(&clients, known[1], 107); /* too late */
    ck_assert_double_eq(http_clients_end_slow(&clients, 105 + HTTP_CLIENT_PATIENCE),
                        106 + HTTP_CLIENT_PATIENCE);
    ended("01");
}

TEST(the_slowest_makes_room)
{
    for (int i = 0; i < MOST; i++)
        come(i, 100 + i);
    ended("");
    http_clients_got_on(&clients, known[0], 104);
    come(MOST, 105);
    ended("1");
    come(MOST + 1, 105);
    ended("12");
    ck_assert_uint_eq(clients.n, MOST);
}

TEST(who_goes_makes_room)
{
    for (int i = 0; i < MOST; i++)
        come(i, 100);
    go(0);
    go(2);
    go(3);
    for (int i = MOST; i < 2 * MOST - 1; i++)
        come(i, 101);
    ended("");
    ck_assert_double_eq(http_clients_end_slow(&clients, 102), 100 + HTTP_CLIENT_PATIENCE);
}

UNIT_FIXTURE(NULL, go_all)
