/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether this kernel can do what the table needs: each expression in use is put into a throwaway
 * batch that the kernel judges and forgets.
 */
#ifndef KUBE_NFTD_RULESET_PREFLIGHT_H
#define KUBE_NFTD_RULESET_PREFLIGHT_H

#include "kube-nftd/netlink/nft_socket.h"

#include <stdbool.h>
#include <stdio.h>

/* The table of the throwaway batches. */
#define PREFLIGHT_TABLE "kube-nftd-preflight"

enum preflight_need {
    NEED_ALWAYS, /* without it, the family cannot be proxied */
    NEED_FIB,    /* without it, see struct ruleset_config */
    NEED_REJECT,
    NEED_OWNER,
    NEED_COUNTERS, /* only where connections are counted */
};

/* One feature and what the kernel said to it. */
struct preflight_result {
    const char *feature; /* "random choice (numgen)" */
    const char *config;  /* the kernel's options: "CONFIG_NFT_NUMGEN" */
    const char *purpose; /* what it is needed for: "picking an endpoint" */
    enum preflight_need need;
    bool works; /* or cannot be told now, since memory is short or the kernel busy */
    int why;    /* errno; 0 if it works, and for what was not tried, since nf_tables is not there */
    char *error; /* the kernel's words; NULL if why is 0 */
};

struct preflight {
    enum family family;
    struct preflight_result *results;
    size_t n;
};

/** Probes everything for the families in use. Always fills in all of @out, which the caller clears;
 * of others it has nothing. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                   struct preflight out[FAMILY_COUNT]);
void preflight_clear(struct preflight *preflight);

/** Whether the family can be proxied; whether what @need says is there. */
bool preflight_passed(const struct preflight *preflight);
bool preflight_has(const struct preflight *preflight, enum preflight_need need);

/** Everything that is missing in one line: "random choice (numgen): CONFIG_NFT_NUMGEN; ...", with
 * the kernel's words instead of the option where they speak of something else (a capability that
 * is missing, say). The caller frees it; NULL if nothing is. */
char *preflight_missing(const struct preflight *preflight);

/** Prints the table of preflight: family, feature, option, what it is needed for, ok or what the
 * kernel said; then what follows from what is missing. */
void preflight_print(const struct preflight *preflight, FILE *out);

#endif
