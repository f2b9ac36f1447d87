/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "http_clients.h"

#include "kube-nftd/base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

struct http_client {
    struct http_client *prev, *next; /* in the list, as long as it is not ended */
    double since;                    /* when it got on */
    int fd;
    bool ended;
};

static void append(struct http_clients *clients, struct http_client *client, double now)
{
    client->since = now;
    DL_APPEND(clients->first, client);
    clients->n++;
}

static void take_out(struct http_clients *clients, struct http_client *client)
{
    DL_DELETE(clients->first, client);
    clients->n--;
}

static void end_first(struct http_clients *clients)
{
    struct http_client *client = clients->first;
    take_out(clients, client);
    client->ended = true;
    shutdown(client->fd, SHUT_RDWR);
}

struct http_client *http_clients_came(struct http_clients *clients, int fd, size_t most, double now)
{
    struct http_client *client = xcalloc(1, sizeof(*client));
    client->fd = fd;
    if (clients->n > 0 && clients->n >= most)
        end_first(clients);
    append(clients, client, now);
    return client;
}

void http_clients_got_on(struct http_clients *clients, struct http_client *client, double now)
{
    if (client->ended)
        return;
    take_out(clients, client);
    append(clients, client, now);
}

void http_clients_went(struct http_clients *clients, struct http_client *client)
{
    if (!client->ended)
        take_out(clients, client);
    free(client);
}

double http_clients_end_slow(struct http_clients *clients, double now)
{
    while (clients->first && clients->first->since + HTTP_CLIENT_PATIENCE <= now)
        end_first(clients);
    return clients->first ? clients->first->since + HTTP_CLIENT_PATIENCE : 0;
}
