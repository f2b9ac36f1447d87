/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The templates in nft-templates/: the table in nft syntax. They are read once into a struct
 * layout, which is both printed (ruleset_dump()) and turned into netlink messages: one source, not
 * two.
 *
 * Understood is what the templates need: a table of maps, sets and chains, one statement line a
 * rule, comments from # to the end of the line, and the variables of struct layout_vars. A line
 * with a variable that has no value is left out, with all of the block if it opens one. One with
 * ${source} stands for one line for each length that a prefix of the family may have, the longest
 * first: ${length} is that as a classid, ${source} so much of the source address.
 */
#ifndef KUBE_NFTD_TABLE_TEMPLATE_H
#define KUBE_NFTD_TABLE_TEMPLATE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

struct nftnl_rule;
struct nftnl_set;

/* An element of a verdict map: number -> goto chain. */
struct layout_verdict {
    uint32_t key;
    char *chain;
};

struct layout_set {
    char *name;
    char *comment;     /* the lines before it, each with its # and newline; or NULL */
    char *declaration; /* "type ..." or "typeof ..." as written, variables filled in */
    char *flags;       /* of the line "flags ...", without that word; or NULL */
    uint32_t size;     /* of the line "size ..."; 0: no limit */
    bool is_map;
    int line;
    VEC(struct layout_verdict) verdicts;
};

struct layout_rule {
    char *text;
    int line;
};

#define HOOK_TYPE_SIZE 16

struct layout_chain {
    char *name;
    char *comment;
    int line;
    char *hook_text; /* "type nat hook output priority -100;", NULL for a chain without a hook */
    char type[HOOK_TYPE_SIZE];
    int hook, priority; /* the kernel's numbers */
    VEC(struct layout_rule) rules;
};

struct layout {
    const char *file; /* of the template, for errors */
    enum family family;
    VEC(struct layout_set) sets;
    VEC(struct layout_chain) chains;
};

/* What the variables stand for. Texts are borrowed; NULL: the variable has no value. */
struct layout_vars {
    enum family family;       /* ${ip}, ${ip_addr} */
    const char *mark;         /* ${mark}: "0x4000" */
    const char *from_pod;     /* ${from_pod}: "ip saddr @pod_cidrs", "iifname \"cni0\"" */
    const char *not_from_pod; /* ${not_from_pod}: the reverse, or "" for every packet */
    const char *from_host;    /* ${from_host}: "fib saddr type local" */
    const char *reject;       /* ${reject}: "reject" */
    /* ${count_services}, ${count_endpoints}: "" to have what counts connections. */
    const char *count_services, *count_endpoints;
    uint32_t n; /* ${n}: 10; ${key}: the same as a classid, "0:a" */
};

/* A template: the name of its file in nft-templates/ and its text. */
struct template
{
    const char *file, *text;
};

/* All of them, the table's fixed part first. */
enum template_id {
    TEMPLATE_BASE,
    TEMPLATE_PICK,
    TEMPLATE_LOCAL_PICK,
    TEMPLATE_SOURCE_RANGES,
    TEMPLATE_AFFINITY,
    TEMPLATE_LEARN,
    TEMPLATE_COUNT
};
extern const struct template templates[TEMPLATE_COUNT];

/* What the kernel is asked for before there is a table: preflight.c. */
extern const struct template preflight_template;

/**
 * Reads a template. The error says file and line. The caller frees @layout; on failure nothing is
 * left in it.
 */
int layout_parse(const struct template *from, const struct layout_vars *vars, struct layout *layout,
                 struct error *err);

void layout_free(struct layout *layout);

/**
 * A number that changes whenever the declaration of a map or set does, or @meaning. It is in the
 * table's comment, so that a daemon finds out whether a table that it meets can hold what its own
 * would.
 */
uint64_t layout_fingerprint(const struct layout *layout, unsigned meaning);

/**
 * Puts the messages for @layout into @batch: @sets with maps and sets, for a new table; without,
 * for a table that has them. The error says file and line.
 */
int program_layout(const struct layout *layout, bool sets, struct nft_batch *batch,
                   struct error *err);

/** Puts the message for one chain into @batch; for all rules of a chain of @layout. */
void program_chain(const struct layout_chain *chain, struct nft_batch *batch);
int program_rules(const struct layout *layout, const struct layout_chain *chain,
                  struct nft_batch *batch, struct error *err);

/**
 * Adds the expressions of one rule, given as text, to @rule; anonymous sets that it needs go into
 * @batch, before the rule does. The error names the statement that is not known.
 */
int statements_add(const char *text, enum family family, struct nftnl_rule *rule,
                   struct nft_batch *batch, struct error *err);

/* What each anonymous set of a rule holds: "meta l4proto { tcp, udp, sctp }". */
#define ANONYMOUS_PROTOCOLS 3
extern const uint8_t anonymous_protocols[ANONYMOUS_PROTOCOLS];

/**
 * Fills in the types, lengths, flags, size and user data of @set from its declaration: "type A . B
 * : C" or "typeof EXPR . EXPR : EXPR". The user data is of the form that every nft since 1.0.6 can
 * list.
 */
int set_declare(const struct layout_set *layout, struct nftnl_set *set, struct error *err);

#endif
