/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node info, step by step. */
#include "node_info.h"

#include "kube-nftd/policy.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/table.h"
#include "objects.h"
#include "script.h"

static struct node_info *node;
static struct options options;

/* ---- what is passed on: in place of the receivers in src ---- */

static struct policy *const the_policy = (struct policy *)(void *)&options;
static struct table *const the_tables[] = {(struct table *)(void *)&options.argc,
                                           (struct table *)(void *)&options.argv};
static address_vec node_ports; /* as last passed to the policy */

void policy_set_zone(struct policy *policy, const char *zone)
{
    ck_assert_ptr_eq(policy, the_policy);
    fprintf(script_out(), "zone %s\n", zone ? zone : "none");
}

void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    ck_assert_ptr_eq(policy, the_policy);
    fprintf(script_out(), "%s address %s\n", family_name(family),
            address ? address_format(family, address, text) : "none");
}

void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n)
{
    ck_assert_ptr_eq(policy, the_policy);
    vec_clear(&node_ports);
    vec_append(&node_ports, addresses, n);
}

void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n)
{
    char text[ADDRESS_TEXT_SIZE];
    ck_assert_uint_le(node_ports.n, n);
    fprintf(script_out(), "%s ports%s", family_name(family), all ? " all" : "");
    vec_each (&node_ports, address)
        fprintf(script_out(), " %s", address_format(family, address, text));
    for (size_t i = node_ports.n; i < n; i++) /* health checks alone have them */
        fprintf(script_out(), " (%s)", address_format(family, &addresses[i], text));
    fputc('\n', script_out());
}

struct ruleset *table_changing(struct table *table)
{
    return (struct ruleset *)table;
}

void ruleset_set_pod_cidrs(struct ruleset *ruleset, const range_vec *ranges)
{
    enum family family =
        (struct table *)ruleset == the_tables[FAMILY_IPV4] ? FAMILY_IPV4 : FAMILY_IPV6;
    fprintf(script_out(), "%s pods ", family_name(family));
    write_ranges(script_out(), family, ranges);
    fputc('\n', script_out());
}

/* ---- what is done ---- */

static void configure(const char *word)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    enum family family;
    if (strcmp(word, "follow") == 0) {
        options.detect_local_mode = DETECT_LOCAL_NODE_CIDR;
    } else if (strcmp(word, "optional") == 0) {
        options.manifests = (char *)"manifests";
    } else if (strncmp(word, "bind=", 5) == 0) {
        free(options.bind_address);
        options.bind_address = xstrdup(value);
    } else if (strcmp(word, "offline") != 0) {
        struct cidr cidr = make_cidr(value, &family);
        if (strncmp(word, "ports=", 6) == 0) {
            vec_push(&options.node_port_addresses.cidrs[family], cidr);
        } else {
            ck_assert_msg(strncmp(word, "pods=", 5) == 0, "%s", word);
            options.has_cluster_cidr[family] = true;
            options.cluster_cidr[family] = cidr;
        }
    }
}

static void begin(const char *words)
{
    options = (struct options){.node_port_addresses.primary = !strstr(words, "ports=")};
    each_word(words, word) configure(word);
    node = node_info_new(&(struct node_info_config){.options = &options,
                                                    .name = "n1",
                                                    .offline = strstr(words, "offline"),
                                                    .policy = the_policy,
                                                    .tables = {the_tables[0], the_tables[1]},
                                                    .health = (struct health *)(void *)&options});
}

static void end(void)
{
    node_info_free(node);
    node = NULL;
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&options.node_port_addresses.cidrs[family]);
    free(options.bind_address);
    options.bind_address = NULL;
    vec_free(&node_ports);
}

static void hold(enum family family, const char *words)
{
    address_vec addresses = make_addresses(words);
    node_info_set_host_addresses(node, family, &addresses);
    vec_free(&addresses);
}

/* ---- commands ---- */

/* All of them write what is passed on, and what is logged. */
COMMAND(begin)
{
    script_show_log(LOG_LEVEL_INFO);
    if (node)
        end();
    begin(words);
}

COMMAND(host4)
{
    hold(FAMILY_IPV4, words);
}

COMMAND(host6)
{
    hold(FAMILY_IPV6, words);
}

/* "ID WORDS" */
COMMAND(node)
{
    const char *id = script_word(&words);
    struct node *object = make_node(id, words);
    node_info_put(node, object);
    object_clear(&(struct object){.kind = KIND_NODE, .node = object});
}

COMMAND(gone)
{
    node_info_remove(node, words);
}

COMMAND(complete)
{
    node_info_complete(node);
}

COMMAND(node_is)
{
    fprintf(out, "%s\n", node_info_is_eligible(node) ? "eligible" : "not eligible");
}

CASES("node_info")

UNIT_FIXTURE(NULL, end)
