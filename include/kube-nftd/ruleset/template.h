/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The templates in nft-templates/: the table's shape in nft syntax. They are read once into a
 * struct layout, which is both printed (dump.h) and turned into netlink messages (program.h):
 * one source, not two.
 *
 * Understood is what the templates need: a table of maps, sets and chains, one statement line a
 * rule, comments from # to the end of the line, and the variables ${ip}, ${ip_addr}, ${n} and
 * ${n_hex}.
 */
#ifndef KUBE_NFTD_RULESET_TEMPLATE_H
#define KUBE_NFTD_RULESET_TEMPLATE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"

/* An element of a verdict map: class:count -> goto chain. */
struct layout_verdict {
    uint32_t key;
    char *chain;
};

struct layout_set {
    char *name;
    char *comment;     /* the lines before it, each with its # and newline; or NULL */
    char *declaration; /* "type ..." or "typeof ..." as written, variables filled in */
    bool is_map;
    int line;
    VEC(struct layout_verdict) verdicts;
};

struct layout_rule {
    char *text;
    int line;
};

struct layout_chain {
    char *name;
    char *comment;
    int line;
    char *hook_text; /* "type nat hook output priority -100;", NULL for a chain without a hook */
    char *type, *hook;
    int priority;
    VEC(struct layout_rule) rules;
};

struct layout {
    const char *file; /* of the template, for errors */
    enum family family;
    VEC(struct layout_set) sets;
    VEC(struct layout_chain) chains;
};

/** The text of nft-templates/base.nft and pick.nft. */
extern const char nft_template_base[];
extern const char nft_template_pick[];

/**
 * Reads the template @text for @family, with @n for ${n}. @file is its name, for errors, which
 * say file and line. The caller frees @layout; on failure nothing is left in it.
 */
int layout_parse(const char *text, const char *file, enum family family, unsigned n,
                 struct layout *layout, struct error *err);

void layout_free(struct layout *layout);

/** "ip" or "ip6", as nft names the family. */
const char *nft_family_name(enum family family);

/**
 * A number that changes whenever a template does. It is in the table's comment, so that a daemon
 * finds out whether a table that it meets has its own shape.
 */
uint64_t template_fingerprint(void);

/** The same for any two texts. */
uint64_t fingerprint_of(const char *base, const char *pick);

#endif
