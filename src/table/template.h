/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The templates in nft-templates/: the table in nft syntax. They are parsed into a struct layout,
 * which has both the text to print (ruleset_dump()) and the objects to send to the kernel.
 *
 * The parser supports what the templates need: a table of maps, sets, chains and a flowtable, one
 * line per rule, comments from # to the end of the line, and the variables of struct layout_vars. A
 * line with an unset variable is dropped, including its block if it opens one. A line with
 * ${source} is repeated for each prefix length of the family, longest first: ${length} is the
 * length as a classid,
 * ${source} that many bits of the source address.
 */
#ifndef KUBE_NFTD_TABLE_TEMPLATE_H
#define KUBE_NFTD_TABLE_TEMPLATE_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

/* An element of a verdict map: number -> goto chain. */
struct layout_verdict {
    uint32_t key;
    char *chain;
};

struct layout_set {
    char *name;
    char *comment;     /* preceding lines, each with # and newline; or NULL */
    char *declaration; /* "type ..." or "typeof ..." with variables expanded */
    char *flags;       /* the "flags" line without that word; or NULL */
    uint32_t size;     /* from the "size" line; 0: no limit */
    bool is_map, has_verdicts;
    struct nftnl_set *set;
    VEC(struct layout_verdict) verdicts;
};

struct layout_rule {
    char *text;
    struct nftnl_rule *rule;
};

struct layout_chain {
    char *name;
    char *comment;
    char *hook; /* "type nat hook output priority -100;", NULL without a hook */
    struct nftnl_chain *chain;
    VEC(struct layout_rule) rules;
};

/* A flowtable; a layout has one at most. */
struct layout_flowtable {
    char *name; /* NULL: there is none */
    char *comment;
    char *hook; /* "hook ingress priority 0;" */
    int32_t priority;
};

/* Starts zeroed. */
struct layout {
    struct layout_flowtable flowtable;
    VEC(struct layout_set) sets;
    VEC(struct layout_chain) chains;
};

/* Values of the variables. Strings are borrowed; NULL: unset. */
struct layout_vars {
    enum family family;       /* ${ip}, ${ip_addr}, ${ingress} */
    const char *mark;         /* ${mark}: "0x4000" */
    const char *from_pod;     /* ${from_pod}: "ip saddr @pod_cidrs", "iifname \"cni0\"" */
    const char *not_from_pod; /* ${not_from_pod}: the reverse, or "" for all packets */
    const char *from_host;    /* ${from_host}: "fib saddr type local" */
    const char *to_others;    /* ${to_others}: "fib daddr type != local", or "" for all packets */
    const char *reject;       /* ${reject}: "reject" */
    const char *to_localhost; /* ${to_localhost}: "ip6 daddr == ::1" */
    /* ${count_services}, ${count_endpoints}: "" to count connections. */
    const char *count_services, *count_endpoints;
    /* ${n}: 10; ${key}: the same as classid "0:a"; ${twice}: 20. ${octave}: octave_of(), unset if
     * that is 0; ${exact}: "" then. */
    uint32_t n;
};

/* A template: its file name in nft-templates/ and its text. */
struct template
{
    const char *file, *text;
};

/* All templates, the fixed part of the table first. */
enum template_id {
    TEMPLATE_BASE,
    TEMPLATE_PICK_FROM,
    TEMPLATE_LOCAL_PICK_FROM,
    TEMPLATE_PICK,
    TEMPLATE_LOCAL_PICK,
    TEMPLATE_SOURCE_RANGES,
    TEMPLATE_AFFINITY,
    TEMPLATE_LEARN,
    TEMPLATE_COUNT
};
extern const struct template templates[TEMPLATE_COUNT];

/* What the base also has while flowtables are in use. */
extern const struct template flowtable_template;

/* Kernel features to probe: preflight.c. */
extern const struct template preflight_template;

/**
 * Adds what a template declares to @layout. A set that the layout has already gets the elements.
 * Errors have file and line; then the caller only frees @layout.
 */
int layout_parse(const struct template *from, const struct layout_vars *vars, struct layout *layout,
                 struct error *err);

void layout_free(struct layout *layout);

/**
 * A hash of the declarations of maps and sets, and of @meaning. It is stored in the table's
 * comment, so that a daemon recognises whether a table can hold its elements.
 */
uint64_t layout_fingerprint(const struct layout *layout, unsigned meaning);

/* ---- program.c: layouts as messages ---- */

/** Sets type, lengths, flags, size and user data of @layout->set from its declaration: "type A . B
 * : C" or "typeof EXPR . EXPR : EXPR". All nft versions since 1.0.6 can list this user data. */
int set_declare(const struct layout_set *layout, struct error *err);

/** Adds the messages for @layout to @batch: with @sets, also those for its maps, sets and
 * flowtable. */
void program_layout(const struct layout *layout, bool sets, struct nft_batch *batch);

/** Likewise for all rules of a chain; the anonymous sets of a rule come ahead of it. */
void program_rules(const struct layout_chain *chain, struct nft_batch *batch);

/* ---- statements.c ---- */

/** Adds the expressions of one rule, given as text, to @rule. The error names the unknown
 * statement. */
int statements_add(const char *text, enum family family, struct nftnl_rule *rule,
                   struct error *err);

/* The name of an anonymous set in a rule of a layout; the kernel makes it unique. */
#define ANONYMOUS_SET "__set%d"

/* The contents of each anonymous set: "meta l4proto { tcp, udp, sctp }". */
#define ANONYMOUS_PROTOCOLS 3
extern const uint8_t anonymous_protocols[ANONYMOUS_PROTOCOLS];

#endif
