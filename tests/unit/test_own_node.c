/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is told of the own node, step by step. */
#include "kube-nftd/own_node.h"

#include "nodes.h"
#include "script.h"

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
    node = NULL;
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

/* ---- commands ---- */

/* What was told since the last time, and what was logged. */
static void write_told(FILE *to)
{
    fclose(out);
    fprintf(to, "%s%s", told, *told ? "\n" : "");
    free(told);
    out = open_memstream(&told, &told_length);
    write_logged(to, LOG_LEVEL_INFO);
}

static void run_begin(char *words, FILE *to)
{
    if (node)
        end();
    begin(words);
    write_told(to);
}

static void run_host4(char *words, FILE *to)
{
    hold(FAMILY_IPV4, words);
    write_told(to);
}

static void run_host6(char *words, FILE *to)
{
    hold(FAMILY_IPV6, words);
    write_told(to);
}

static void run_node(char *words, FILE *to)
{
    put("n1", words);
    write_told(to);
}

static void run_other(char *words, FILE *to)
{
    put("n2", words);
    write_told(to);
}

static void run_gone(char *words, FILE *to)
{
    own_node_remove(node, words);
    write_told(to);
}

static void run_complete(char *words, FILE *to)
{
    own_node_complete(node);
    write_told(to);
}

static void run_facts(char *words, FILE *to)
{
    fprintf(to, "%s%s\n", own_node_is_seen(node) ? "seen" : "not seen",
            own_node_is_leaving(node) ? ", leaving" : "");
}

static const struct script_command commands[] = {
    {"begin", run_begin},       {"host4", run_host4}, {"host6", run_host6},
    {"node", run_node},         {"other", run_other}, {"gone", run_gone},
    {"complete", run_complete}, {"facts", run_facts}, {NULL, NULL},
};

SCRIPT("own_node", commands)

UNIT_FIXTURE(NULL, end)
