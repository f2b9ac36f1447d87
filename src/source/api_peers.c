/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source.h"

#include <linux/in.h>
#include <string.h>

void api_peers_clear(struct api_peers *peers)
{
    vec_free(&peers->list);
}

static void tell(const struct api_peers *peers)
{
    struct frontend all[API_PEERS_MOST];
    size_t n = 0;
    vec_each (&peers->list, peer)
        all[n++] = peer->frontend;
    if (peers->ops.changed)
        peers->ops.changed(peers->ops.ctx, all, n);
}

/* Returns whether some peer was. */
static bool forget_old(struct api_peers *peers, double now)
{
    size_t kept = 0, before = peers->list.n;
    vec_each (&peers->list, peer)
        if (now - peer->used_at < API_PEERS_KEPT)
            peers->list.v[kept++] = *peer;
    peers->list.n = kept;
    return kept < before;
}

static struct api_peer *find(const struct api_peers *peers, const struct frontend *frontend)
{
    vec_each (&peers->list, peer)
        if (memcmp(&peer->frontend, frontend, sizeof(*frontend)) == 0)
            return peer;
    return NULL;
}

static struct api_peer *add(struct api_peers *peers, const struct frontend *frontend)
{
    if (peers->list.n < API_PEERS_MOST) {
        vec_push(&peers->list, (struct api_peer){.frontend = *frontend});
        return &peers->list.v[peers->list.n - 1];
    }
    struct api_peer *oldest = peers->list.v;
    vec_each (&peers->list, peer)
        if (peer->used_at < oldest->used_at)
            oldest = peer;
    *oldest = (struct api_peer){.frontend = *frontend};
    return oldest;
}

void api_peers_note(struct api_peers *peers, const char *address, int port, bool reached,
                    double now)
{
    struct frontend frontend = {.protocol = IPPROTO_TCP, .port = (uint16_t)port};
    enum family family;
    if (!address_parse(address, &family, &frontend.address))
        return;
    frontend.family = (uint8_t)family;
    bool changed = forget_old(peers, now);
    struct api_peer *peer = find(peers, &frontend);
    changed = changed || !peer;
    if (!peer)
        peer = add(peers, &frontend);
    peer->used_at = now;
    peer->reached = reached;
    if (changed)
        tell(peers);
}

void api_peers_failed(const struct api_peers *peers)
{
    vec_each (&peers->list, peer)
        if (!peer->reached && peers->ops.unreachable)
            peers->ops.unreachable(peers->ops.ctx, &peer->frontend);
}
