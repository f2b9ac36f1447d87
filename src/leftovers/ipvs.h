/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtual servers of kube-proxy's mode ipvs, and the device kube-ipvs0 that has their
 * addresses. kube-proxy's virtual servers are those at an address of this device, and those at one
 * of its node ports (see ip_sets.h); others, of a load balancer on the node say, stay.
 */
#ifndef KUBE_NFTD_LEFTOVERS_IPVS_H
#define KUBE_NFTD_LEFTOVERS_IPVS_H

#include "kube-nftd/model/address.h"
#include "report.h"

#include <libmnl/libmnl.h>

struct virtual_server {
    enum family family;
    uint8_t protocol;
    struct address address;
    uint16_t port;   /* host byte order */
    uint32_t fwmark; /* 0: told by the others */
};

/** Reads one message of the kernel's list of virtual servers. False if it is none. */
bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server);

/**
 * Removes kube-proxy's virtual servers and then kube-ipvs0, or says that it would. False if one of
 * the servers stays: then the device stays too, and so must the IP sets: they tell whose it is.
 */
bool leftovers_remove_ipvs(struct leftovers_report *report);

#endif
