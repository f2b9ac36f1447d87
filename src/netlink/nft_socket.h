/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the socket share: nft_socket.c (transactions) and nft_reading.c. */
#ifndef KUBE_NFTD_NETLINK_NFT_SOCKET_H
#define KUBE_NFTD_NETLINK_NFT_SOCKET_H

#include "kube-nftd/netlink.h"

struct nft_socket {
    struct mnl_socket *nl;
    char *answers;     /* room for one piece of them: made once, since a change costs little more */
    uint32_t sequence; /* of requests that read */
    size_t send_limit; /* what the kernel takes in one message now */
    bool cut_logged;
    struct table_monitor *monitor; /* NULL: nobody listens */
};

/** An errno in words, with what to do about the one that people meet. */
const char *nft_reason(int number);

#endif
