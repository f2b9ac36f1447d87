/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text. That nft loads it, and makes of it what the daemon programs, is for the netns
 * tests; here it is what stands where: see tests/unit/cases/dump. */
#include "objects.h"
#include "script.h"

#include "kube-nftd/table.h"
#include "table/state.h"

#include <netinet/in.h>

static struct ruleset *ruleset;
static char *text; /* of the last dump */
static char *kept; /* of an earlier one */

static void begin(enum family family, const struct ruleset_config *config)
{
    struct error err = {0};
    ruleset_free(ruleset);
    ruleset = ruleset_new(family, config, &err);
    ck_assert_msg(ruleset, "%s", err.text);
}

static void tear_down(void)
{
    ruleset_free(ruleset);
    ruleset = NULL;
    free(text);
    free(kept);
    text = kept = NULL;
}

static void dump(void)
{
    size_t size;
    free(text);
    FILE *out = open_memstream(&text, &size);
    ruleset_dump(ruleset, out);
    fclose(out);
}

/* ---- from words ---- */

/* More may stand behind the port. */
static struct backend backend(const char *word)
{
    enum family family;
    return make_backend(word, &family);
}

/* "10.96.0.1:80/tcp" */
static struct frontend frontend(const char *word)
{
    const struct backend b = backend(word);
    const char *slash = strchr(word, '/');
    uint8_t protocol = strcmp(slash, "/tcp") == 0   ? IPPROTO_TCP
                       : strcmp(slash, "/udp") == 0 ? IPPROTO_UDP
                                                    : IPPROTO_SCTP;
    return (struct frontend){b.address, b.port, protocol, (uint8_t)ruleset->family};
}

static struct address_range range(char *word)
{
    enum family family;
    char *dash = strchr(word, '-');
    *dash = '\0';
    return (struct address_range){make_address(word, &family), make_address(dash + 1, &family)};
}

static range_vec ranges(char *words)
{
    range_vec all = {0};
    for (char *word; *(word = script_word(&words));)
        vec_push(&all, range(word));
    return all;
}

/* ---- commands ---- */

/* ruleset FAMILY OPTION...: an empty one. */
COMMAND(ruleset)
{
    struct ruleset_config config = {.mark = 0x4000};
    enum family family = *script_word(&words) == '4' ? FAMILY_IPV4 : FAMILY_IPV6;
    for (char *word, *value; *(word = script_word(&words));) {
        config.masquerade_all |= strcmp(word, "masquerade-all") == 0;
        config.no_fib |= strcmp(word, "no-fib") == 0;
        config.no_reject |= strcmp(word, "no-reject") == 0;
        config.flowtable |= strcmp(word, "flowtable") == 0;
        if (script_option(word, "mark", &value))
            config.mark = (uint32_t)strtoul(value, NULL, 0);
        else if (script_option(word, "count", &value))
            config.counting = *value == 's' ? COUNT_SERVICES : COUNT_ENDPOINTS;
        else if (strcmp(word, "cidrs") == 0)
            config.detector = DETECT_CIDRS;
        else if (script_option(word, "interface", &value) || script_option(word, "prefix", &value))
            config.detector = *word == 'i' ? DETECT_INTERFACE : DETECT_INTERFACE_PREFIX;
        if (config.detector > DETECT_CIDRS && !config.interface)
            config.interface = value;
    }
    begin(family, &config);
}

/* Of the flowtable, in order. */
COMMAND(devices)
{
    device_vec devices = {0};
    for (const char *word; *(word = script_word(&words));) {
        struct device device = {.index = 1};
        snprintf(device.name, sizeof(device.name), "%s", word);
        vec_push(&devices, device);
    }
    ruleset_set_devices(ruleset, &devices);
    vec_free(&devices);
}

/* port ID BACKEND... local BACKEND... affinity=SECONDS from RANGE...; "10.0.0.0:80*26": so many,
 * one behind the other. */
COMMAND(port)
{
    VEC(struct backend) all[2] = {0};
    struct port_route route = {.has_any = false};
    range_vec sources = {0};
    uint32_t id = (uint32_t)atoi(script_word(&words));
    for (char *word, *value; *(word = script_word(&words));) {
        if (strcmp(word, "from") == 0) {
            sources = ranges(words);
            break;
        } else if (strcmp(word, "local") == 0) {
            route.needs_local = true;
        } else if (script_option(word, "affinity", &value)) {
            route.affinity_timeout = (uint32_t)atoi(value);
        } else {
            struct backend b = backend(word);
            const char *times = strchr(word, '*');
            for (int n = times ? atoi(times + 1) : 1; n > 0; n--, b.address.bytes[3]++)
                vec_push(&all[route.needs_local], b);
        }
    }
    route.has_any = all[0].n > 0 || route.needs_local;
    route.needs_cluster = all[0].n > 0 || !route.needs_local;
    route.backends = all[0].v;
    route.n_backends = all[0].n;
    route.local_backends = all[1].v;
    route.n_local = all[1].n;
    route.sources = sources.v;
    route.n_sources = sources.n;
    ruleset_set_port(ruleset, id, &route);
    vec_free(&sources);
    vec_free(&all[0]);
    vec_free(&all[1]);
}

COMMAND(no_port)
{
    ruleset_remove_port(ruleset, (uint32_t)atoi(words));
}

/* to ID FRONTEND external local affine restricted */
COMMAND(to)
{
    struct route route = {.port = (uint32_t)atoi(script_word(&words))};
    struct frontend f = frontend(script_word(&words));
    for (char *word; *(word = script_word(&words));) {
        route.class |= strcmp(word, "external") == 0 ? CLASS_EXTERNAL : 0u;
        route.class |= strcmp(word, "local") == 0 ? CLASS_LOCAL : 0u;
        route.class |= strcmp(word, "affine") == 0 ? CLASS_AFFINE : 0u;
        route.class |= strcmp(word, "restricted") == 0 ? CLASS_RESTRICTED : 0u;
    }
    ruleset_set(ruleset, &f, &route);
}

COMMAND(no_frontend)
{
    const struct frontend f = frontend(words);
    ruleset_remove(ruleset, &f);
}

COMMAND(cluster_ip)
{
    enum family family;
    const struct address address = make_address(words, &family);
    ruleset_use_cluster_ip(ruleset, &address, true);
}

COMMAND(hairpin)
{
    enum family family;
    const struct address address = make_address(words, &family);
    ruleset_use_hairpin(ruleset, &address, true);
}

COMMAND(no_hairpin)
{
    enum family family;
    const struct address address = make_address(words, &family);
    ruleset_use_hairpin(ruleset, &address, false);
}

COMMAND(service_cidrs)
{
    range_vec all = ranges(words);
    ruleset_set_service_cidrs(ruleset, &all);
    vec_free(&all);
}

COMMAND(pod_cidrs)
{
    range_vec all = ranges(words);
    ruleset_set_pod_cidrs(ruleset, &all);
    vec_free(&all);
}

/* What is before the first set. The comment has numbers that change with the templates. */
COMMAND(head)
{
    dump();
    const char *comment = strstr(text, ruleset->comment);
    ck_assert_ptr_nonnull(comment);
    fprintf(out, "%.*s...\"\n", (int)(comment - text), text);
    ck_assert_int_eq(strncmp(comment + strlen(ruleset->comment), "\"\n\n", 3), 0);
}

/* show NAME...: the blocks of maps, sets and chains. */
COMMAND(show)
{
    dump();
    for (const char *name; *(name = script_word(&words));) {
        char *begins = xasprintf(" %s {\n", name);
        const char *at = strstr(text, begins), *end = at ? strstr(at, "\n    }\n") : NULL;
        while (at && at[-1] != '\n')
            at--;
        if (end)
            fprintf(out, "%.*s\n", (int)(end - at), at);
        else
            fprintf(out, "no %s\n", name);
        free(begins);
    }
}

/* lines TEXT: those that have it. */
COMMAND(lines)
{
    dump();
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (strstr(line, words))
            fprintf(out, "%s\n", line + strspn(line, " "));
}

COMMAND(keep)
{
    dump();
    free(kept);
    kept = xstrdup(text);
}

COMMAND(as_kept)
{
    dump();
    ck_assert_str_eq(text, kept);
}

CASES("dump")

/* ---- the templates ---- */

static const struct ruleset_config configs[] = {
    {.mark = 0x4000},
    {.detector = DETECT_CIDRS, .mark = 0x80000000},
    {.detector = DETECT_INTERFACE, .interface = "cni0", .mark = 1},
    {.detector = DETECT_INTERFACE_PREFIX, .interface = "cali", .mark = 1},
    {.masquerade_all = true, .no_fib = true, .mark = 1},
    {.detector = DETECT_CIDRS, .masquerade_all = true, .no_reject = true, .mark = 1},
    {.counting = COUNT_SERVICES, .mark = 1},
    {.counting = COUNT_ENDPOINTS, .mark = 1},
    {.flowtable = true, .mark = 1},
};

static size_t checked;

static void check_has(const char *part)
{
    ck_assert_msg(!part || strstr(text, part), "not in the dump: %s", part);
    checked += part != NULL;
}

/* Each line that begins like that. */
static void check_lines(const char *all, const char *like)
{
    char *copy = xstrdup(all);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, like, strlen(like)) == 0)
            check_has(line);
    free(copy);
}

/* Nothing of the template is lost on the way. */
TESTS(the_template_is_in_it, (COUNT(configs) * FAMILY_COUNT))
{
    const struct ruleset_config *config = &configs[_i / FAMILY_COUNT];
    struct layout layout = {.sets = {0}};
    begin((enum family)(_i % FAMILY_COUNT), config);
    ck_assert_int_eq(ruleset_add_base(ruleset, &layout, NULL), 0);
    dump();
    checked = 0;
    vec_each (&layout.sets, set) {
        check_lines(set->comment, "#");
        check_has(set->declaration);
        check_has(set->flags);
    }
    vec_each (&layout.chains, chain) {
        check_lines(chain->comment, "#");
        check_has(chain->hook);
        vec_each (&chain->rules, rule)
            check_has(rule->text);
    }
    if (config->flowtable) {
        check_lines(layout.flowtable.comment, "#");
        check_has(layout.flowtable.hook);
        ck_assert_ptr_nonnull(strstr(text, "flow add @fast"));
    }
    if (config->counting == COUNT_ENDPOINTS) /* which has all blocks */
        check_lines(templates[TEMPLATE_BASE].text, "    #");
    ck_assert_uint_gt(checked, 80);
    ck_assert_ptr_null(strstr(text, "${"));
    layout_free(&layout);
}

/* ---- equal contents, equal text ---- */

static void lead_many(int number, int backends)
{
    char *line = xasprintf("%d %s", 1000 - number, backends ? "10.0.0.1:80*" : "");
    char *whole = backends ? xasprintf("%s%d", line, backends) : xstrdup(line);
    char *to = xasprintf("%d 10.96.0.%d:80/tcp", 1000 - number, number);
    run_port(whole, NULL);
    run_to(to, NULL);
    free(line);
    free(whole);
    free(to);
}

/* In whatever order they came and whatever was there before. */
TEST(order_does_not_matter)
{
    char gone[] = "10.96.0.99:80/tcp";
    begin(FAMILY_IPV4, &configs[0]);
    for (int i = 0; i < 50; i++)
        lead_many(i, i % 4);
    run_keep(NULL, NULL);
    begin(FAMILY_IPV4, &configs[0]);
    lead_many(99, 1);
    for (int i = 49; i >= 0; i--) {
        lead_many(i, 2);
        lead_many(i, i % 4);
    }
    run_no_frontend(gone, NULL);
    ruleset_remove_port(ruleset, 1000 - 99);
    run_as_kept(NULL, NULL);
    ck_assert_ptr_null(strstr(kept, "10.96.0.99"));
}

UNIT_FIXTURE(NULL, tear_down)
