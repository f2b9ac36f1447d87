/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by nft_socket.c (transactions) and nft_reading.c. */
#ifndef KUBE_NFTD_NETLINK_NFT_SOCKET_H
#define KUBE_NFTD_NETLINK_NFT_SOCKET_H

#include "kube-nftd/netlink.h"

struct nft_socket {
    struct mnl_socket *nl;
    char *answers;     /* receive buffer, kept: allocating it per change would show */
    uint32_t sequence; /* of read requests */
    size_t send_limit; /* current send buffer size in bytes */
    bool cut_logged;
    struct table_monitor *monitor; /* NULL: none */
};

/** Describes an errno, with a hint for EPERM. */
const char *nft_reason(int number);

#endif
