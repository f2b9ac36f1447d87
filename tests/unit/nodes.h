/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node objects and addresses of hosts from words. */
#ifndef KUBE_NFTD_TESTS_NODES_H
#define KUBE_NFTD_TESTS_NODES_H

#include "kube-nftd/netlink/address_monitor.h"
#include "objects.h"

static inline void add_node_word(struct node *node, const char *word)
{
    enum family family;
    if (strncmp(word, "zone=", 5) == 0) {
        node->zone = xstrdup(word + 5);
    } else if (strncmp(word, "pods=", 5) == 0) {
        struct cidr cidr = make_cidr(word + 5, &family);
        node->has_pod_cidr[family] = true;
        node->pod_cidr[family] = cidr;
    } else if (strcmp(word, "deleting") == 0) {
        node->deleting = true;
    } else if (strcmp(word, "tainted") == 0) {
        node->to_be_deleted = true;
    } else {
        struct address address = make_address(word, &family);
        node->has_ip[family] = true;
        node->ip[family] = address;
    }
}

/* "zone=a 192.0.2.7 fd00::7 pods=10.244.1.0/24 deleting tainted" */
static inline struct node *make_node(const char *id, const char *words)
{
    struct node *node = xcalloc(1, sizeof(*node));
    node->id = xstrdup(id);
    each_word(words, word) add_node_word(node, word);
    return node;
}

/* Of one family, in ascending order. The caller frees it. */
static inline address_vec make_addresses(const char *words)
{
    address_vec addresses = {0};
    each_word(words, word)
    {
        enum family family;
        vec_push(&addresses, make_address(word, &family));
    }
    return addresses;
}

#endif
