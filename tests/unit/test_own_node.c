/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is told of the own node, step by step. */
#include "kube-nftd/own_node.h"

#include "nodes.h"
#include "unit.h"

#define MOST_STEPS 12

static struct own_node *node;
static struct node_port_addresses wanted;
static FILE *out; /* of what is told */
static char *told;
static size_t told_length;

/* ---- what is told ---- */

static void next_fact(void)
{
    if (ftell(out) > 0)
        fputs("; ", out);
}

static void on_zone(void *ctx, const char *zone)
{
    ck_assert_ptr_eq(ctx, &node);
    next_fact();
    fprintf(out, "zone %s", zone ? zone : "none");
}

static void on_address(void *ctx, enum family family, const struct address *address)
{
    ck_assert_ptr_eq(ctx, &node);
    next_fact();
    fprintf(out, "%s address ", family_name(family));
    if (address)
        write_address(out, family, address);
    else
        fputs("none", out);
}

static void on_node_ports(void *ctx, enum family family,
                          const struct node_port_selection *selection)
{
    ck_assert_ptr_eq(ctx, &node);
    next_fact();
    fprintf(out, "%s ports%s", family_name(family), selection->all ? " all" : "");
    vec_each (&selection->addresses, address) {
        fputc(' ', out);
        write_address(out, family, address);
    }
}

static void on_pod_cidrs(void *ctx, enum family family, const range_vec *ranges)
{
    ck_assert_ptr_eq(ctx, &node);
    next_fact();
    fprintf(out, "%s pods ", family_name(family));
    write_ranges(out, family, ranges);
}

/* ---- what is done ---- */

static void configure(struct own_node_config *config, const char *word)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    enum family family;
    if (strcmp(word, "follow") == 0) {
        config->follow_pod_cidrs = true;
    } else if (strcmp(word, "optional") == 0) {
        config->required = false;
    } else if (strcmp(word, "held") == 0) {
        config->assume_held = true;
    } else if (strncmp(word, "bind=", 5) == 0) {
        struct address address = make_address(value, &family);
        config->has_bind_address[family] = true;
        config->bind_address[family] = address;
    } else {
        struct cidr cidr = make_cidr(value, &family);
        if (strncmp(word, "ports=", 6) == 0) {
            vec_push(&wanted.cidrs[family], cidr);
        } else {
            ck_assert_msg(strncmp(word, "pods=", 5) == 0, "%s", word);
            config->has_cluster_cidr[family] = true;
            config->cluster_cidr[family] = cidr;
        }
    }
}

static void begin(const char *words)
{
    const struct own_node_ops ops = {on_zone, on_address, on_node_ports, on_pod_cidrs,
                                     (void *)&node};
    struct own_node_config config = {.name = "n1", .required = true};
    wanted = (struct node_port_addresses){.primary = !strstr(words, "ports=")};
    each_word(words, word) configure(&config, word);
    config.node_port_addresses = wanted;
    out = open_memstream(&told, &told_length);
    node = own_node_new(&config, &ops);
}

static void end(void)
{
    own_node_free(node);
    fclose(out);
    free(told);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&wanted.cidrs[family]);
}

static void put(const char *id, const char *words)
{
    struct node *object = make_node(id, words);
    own_node_put(node, object);
    node_free(object);
}

static void hold(enum family family, const char *words)
{
    address_vec addresses = make_addresses(words);
    own_node_set_host_addresses(node, family, &addresses);
    vec_free(&addresses);
}

/* "host4 ADDRESSES", "host6 ADDRESSES", "node WORDS", "other WORDS" (another node), "gone ID",
 * "complete" */
static void take(const char *step)
{
    const char *rest = strchr(step, ' ') ? strchr(step, ' ') + 1 : "";
    if (strncmp(step, "host", 4) == 0)
        hold(step[4] == '4' ? FAMILY_IPV4 : FAMILY_IPV6, rest);
    else if (strncmp(step, "node", 4) == 0)
        put("n1", rest);
    else if (strncmp(step, "other", 5) == 0)
        put("n2", rest);
    else if (strcmp(step, "complete") == 0)
        own_node_complete(node);
    else
        own_node_remove(node, rest);
}

/* What was told since the last time. */
static void expect_told(const char *step, const char *expected)
{
    fclose(out);
    ck_assert_msg(strcmp(told, expected) == 0, "after \"%s\": \"%s\", not \"%s\"", step, told,
                  expected);
    free(told);
    out = open_memstream(&told, &told_length);
}

struct step {
    const char *does, *tells;
};

static const struct {
    const char *config, *tells;
    struct step steps[MOST_STEPS];
} histories[] = {
    /* facts of the Node object, each told when it becomes another */
    {"",
     "",
     {{"node", ""},
      {"node zone=a 192.0.2.7", "zone a; IPv4 address 192.0.2.7"},
      {"node zone=a 192.0.2.7", ""},
      {"node zone=b 192.0.2.7", "zone b"},
      {"node zone=b 192.0.2.8 fd00::8", "IPv4 address 192.0.2.8; IPv6 address fd00::8"},
      {"node zone=b fd00::8", "IPv4 address none"},
      {"node", "zone none; IPv6 address none"}}},
    {"",
     "",
     {{"other zone=a 192.0.2.7 pods=10.244.1.0/24", ""},
      {"node zone=a", "zone a"},
      {"other zone=b", ""},
      {"gone n2", ""},
      {"gone n1", ""},
      {"node zone=a 192.0.2.7", "IPv4 address 192.0.2.7"}}},

    /* the node's own address, where the host holds it */
    {"",
     "",
     {{"host4", "IPv4 ports"},
      {"host4 192.0.2.7", ""},
      {"node 192.0.2.7", "IPv4 address 192.0.2.7; IPv4 ports 192.0.2.7"},
      {"host4 10.0.0.1 192.0.2.7", ""},
      {"host4 10.0.0.1", "IPv4 ports"},
      {"host4 10.0.0.1 192.0.2.7", "IPv4 ports 192.0.2.7"},
      {"node 10.0.0.1", "IPv4 address 10.0.0.1; IPv4 ports 10.0.0.1"},
      {"node 10.0.0.2", "IPv4 address 10.0.0.2; IPv4 ports"},
      {"gone n1", ""},
      {"host4 10.0.0.2", "IPv4 ports 10.0.0.2"},
      {"host6 fd00::2", "IPv6 ports"},
      {"node 10.0.0.2 fd00::2", "IPv6 address fd00::2; IPv6 ports fd00::2"}}},
    {"",
     "",
     {{"node 192.0.2.7", "IPv4 address 192.0.2.7"},
      {"host6 fd00::7", "IPv6 ports"},
      {"host4 192.0.2.7", "IPv4 ports 192.0.2.7"}}},

    /* addresses in CIDRs; a family without one has node ports everywhere */
    {"ports=10.0.0.0/8 ports=192.0.2.0/24",
     "",
     {{"host4 172.16.0.1", "IPv4 ports"},
      {"host4 10.0.0.1 172.16.0.1", "IPv4 ports 10.0.0.1"},
      {"host4 10.0.0.1 10.0.0.2 172.16.0.1", "IPv4 ports 10.0.0.1 10.0.0.2"},
      {"host4 10.0.0.1 10.0.0.2", ""},
      {"host4 10.0.0.2", "IPv4 ports 10.0.0.2"},
      {"host4 192.0.2.7", "IPv4 ports 192.0.2.7"},
      {"node 192.0.2.8", "IPv4 address 192.0.2.8"},
      {"host6", "IPv6 ports all"},
      {"host6 fd00::1 fe80::1", "IPv6 ports all fd00::1"},
      {"host6 fd00::1", ""},
      {"host6 fe80::1", "IPv6 ports all"}}},
    {"ports=0.0.0.0/0",
     "",
     {{"host4 10.0.0.1 127.0.0.1", "IPv4 ports all 10.0.0.1"}, {"host4 10.0.0.1", ""}}},

    /* an address that is given takes the place of its family's in the Node object */
    {"bind=192.0.2.9",
     "IPv4 address 192.0.2.9",
     {{"node 192.0.2.7 fd00::7", "IPv6 address fd00::7"},
      {"host4 192.0.2.7", "IPv4 ports"},
      {"host4 192.0.2.7 192.0.2.9", "IPv4 ports 192.0.2.9"},
      {"node", "IPv6 address none"}}},
    {"bind=fd00::9",
     "IPv6 address fd00::9",
     {{"host6 fd00::9", "IPv6 ports fd00::9"},
      {"host4 192.0.2.7", "IPv4 ports"},
      {"node 192.0.2.7 fd00::7", "IPv4 address 192.0.2.7; IPv4 ports 192.0.2.7"}}},

    /* the node's own address counts as held, others do not */
    {"held",
     "",
     {{"host4 10.0.0.1", "IPv4 ports"},
      {"node 192.0.2.7", "IPv4 address 192.0.2.7; IPv4 ports 192.0.2.7"},
      {"host4 10.0.0.1 192.0.2.7", ""},
      {"node 9.0.0.1", "IPv4 address 9.0.0.1; IPv4 ports 9.0.0.1"}}},
    {"held ports=192.0.0.0/16 ports=10.0.0.0/8",
     "",
     {{"host4 10.0.0.1 198.51.100.1", "IPv4 ports 10.0.0.1"},
      {"node 192.0.2.7", "IPv4 address 192.0.2.7; IPv4 ports 10.0.0.1 192.0.2.7"},
      {"node 9.0.0.1", "IPv4 address 9.0.0.1; IPv4 ports 10.0.0.1"}}},
    {"held ports=0.0.0.0/0",
     "",
     {{"host4 10.0.0.1", "IPv4 ports all 10.0.0.1"},
      {"node 9.0.0.1", "IPv4 address 9.0.0.1; IPv4 ports all 9.0.0.1 10.0.0.1"}}},
    {"held bind=192.0.2.9",
     "IPv4 address 192.0.2.9",
     {{"host4", "IPv4 ports 192.0.2.9"}, {"host6", "IPv6 ports"}}},

    /* addresses of pods: given, followed, or of no interest */
    {"pods=10.244.0.0/16 pods=fd00:1::/48",
     "IPv4 pods 10.244.0.0-10.244.255.255; "
     "IPv6 pods fd00:1::-fd00:1:0:ffff:ffff:ffff:ffff:ffff",
     {{"node pods=10.244.1.0/24", ""}}},
    {"", "", {{"node pods=10.244.1.0/24 pods=fd00:1::/64", ""}}},
    {"follow",
     "",
     {{"node", ""},
      {"node pods=10.244.1.0/24", "IPv4 pods 10.244.1.0-10.244.1.255"},
      {"node pods=10.244.1.0/24", ""},
      {"node pods=10.244.1.0/25 pods=fd00:1::/127",
       "IPv4 pods 10.244.1.0-10.244.1.127; IPv6 pods fd00:1::-fd00:1::1"},
      {"gone n1", ""},
      {"node pods=10.244.2.0/25 pods=fd00:1::/127", "IPv4 pods 10.244.2.0-10.244.2.127"},
      {"node pods=fd00:1::/127", "IPv4 pods "}}},
};

TEST_ROWS(told_when_it_becomes_another, histories)
{
    begin(row->config);
    expect_told("", row->tells);
    for (size_t i = 0; i < MOST_STEPS && row->steps[i].does; i++) {
        take(row->steps[i].does);
        expect_told(row->steps[i].does, row->steps[i].tells);
    }
    end();
}

TEST(seen_and_leaving)
{
    static const struct {
        const char *step;
        bool seen, leaving;
    } rows[] = {
        {"other deleting", false, false},
        {"gone n1", false, false},
        {"node 192.0.2.7", true, false},
        {"node 192.0.2.7 tainted", true, true},
        {"other", true, true},
        {"gone n1", true, true},
        {"node", true, false},
        {"other tainted", true, false},
        {"node deleting", true, true},
        {"node", true, false},
    };
    begin("");
    ck_assert(!own_node_is_seen(node) && !own_node_is_leaving(node));
    for (size_t i = 0; i < COUNT(rows); i++) {
        take(rows[i].step);
        ck_assert_msg(own_node_is_seen(node) == rows[i].seen &&
                          own_node_is_leaving(node) == rows[i].leaving,
                      "row %zu", i);
    }
    end();
}

/* ---- the log ---- */

struct line {
    const char *step;
    unsigned warnings; /* since the start */
    const char *last;  /* in the last line; NULL: whatever */
};

static const struct {
    const char *config;
    struct line lines[MOST_STEPS];
} logs[] = {
    {"optional", {{"complete", 0, "node=n1: no Node object"}}},
    {"", {{"complete", 1, "node=n1: no Node object has this name"}}},
    /* node ports on an address that is not here, in the order of a start and the other way */
    {"",
     {{"host4 10.0.0.1", 0, ""},
      {"node 192.0.2.7", 1,
       "family=IPv4 NodePorts are not served: no interface of this host has address=192.0.2.7 of "
       "node=n1"},
      {"node 192.0.2.7 zone=a", 1, "zone=a"},
      {"host4 10.0.0.1 10.0.0.2", 1, NULL},
      {"host4 192.0.2.7", 1, "family=IPv4 NodePorts are served on addresses=1"},
      {"host4 10.0.0.1", 2, "address=192.0.2.7"},
      {"node zone=a 192.0.2.8", 3, "address=192.0.2.8 of node=n1"},
      {"node zone=a", 3, "node=n1 has no address of this family"}}},
    {"",
     {{"node 192.0.2.7", 0, "address=192.0.2.7"}, {"host4 10.0.0.1", 1, "has address=192.0.2.7"}}},
    {"ports=192.0.2.0/24",
     {{"node 198.51.100.1", 0, NULL},
      {"host4 198.51.100.1", 1, "no interface of this host has an address in --nodeport-addresses"},
      {"host4 198.51.100.1 198.51.100.2", 1, NULL},
      {"host6", 1, NULL},
      {"host4 192.0.2.1 192.0.2.2", 1, "IPv4 NodePorts are served on addresses=2"},
      {"host6 fd00::1", 1, "IPv6 NodePorts are served on addresses=1, all of this host"}}},
    {"bind=192.0.2.9",
     {{"host4 10.0.0.1", 1, "has address=192.0.2.9"}, {"node 10.0.0.1", 1, NULL}}},

    /* a Node object that is not there, or gone */
    {"",
     {{"other", 0, NULL},
      {"host4 10.0.0.1", 0, ""},
      {"complete", 1, "family=IPv4 NodePorts are not served: node=n1 has no address"},
      {"complete", 1, NULL},
      {"node", 1, NULL},
      {"gone n1", 2, NULL},
      {"complete", 2, NULL}}},
    {"", {{"node", 0, NULL}, {"complete", 0, NULL}}},
    {"", {{"gone n2", 0, NULL}, {"gone n1", 1, "node=n1: the Node object was deleted"}}},
};

TEST_ROWS(said, logs)
{
    begin(row->config);
    for (size_t i = 0; i < MOST_STEPS && row->lines[i].step; i++) {
        const struct line *line = &row->lines[i];
        take(line->step);
        ck_assert_msg(logged(LOG_LEVEL_WARN) == line->warnings,
                      "after \"%s\": %u warnings, last \"%s\"", line->step, logged(LOG_LEVEL_WARN),
                      last_logged(LOG_LEVEL_INFO));
        ck_assert_msg(!line->last || strstr(last_logged(LOG_LEVEL_INFO), line->last),
                      "after \"%s\": \"%s\"", line->step, last_logged(LOG_LEVEL_INFO));
    }
    end();
}
