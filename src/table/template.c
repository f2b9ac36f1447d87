/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "template.h"

#include "element.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <string.h>

const char *nft_family_name(enum family family)
{
    return family == FAMILY_IPV4 ? "ip" : "ip6";
}

#define TEMPLATE(name) extern const char nft_template_##name[]
TEMPLATE(base);
TEMPLATE(pick);
TEMPLATE(local_pick);
TEMPLATE(pick_from);
TEMPLATE(local_pick_from);
TEMPLATE(source_ranges);
TEMPLATE(affinity);
TEMPLATE(learn);
TEMPLATE(flowtable);
TEMPLATE(preflight);

const struct template templates[TEMPLATE_COUNT] = {
    [TEMPLATE_BASE] = {"base.nft", nft_template_base},
    [TEMPLATE_PICK] = {"pick.nft", nft_template_pick},
    [TEMPLATE_LOCAL_PICK] = {"local-pick.nft", nft_template_local_pick},
    [TEMPLATE_PICK_FROM] = {"pick-from.nft", nft_template_pick_from},
    [TEMPLATE_LOCAL_PICK_FROM] = {"local-pick-from.nft", nft_template_local_pick_from},
    [TEMPLATE_SOURCE_RANGES] = {"source-ranges.nft", nft_template_source_ranges},
    [TEMPLATE_AFFINITY] = {"affinity.nft", nft_template_affinity},
    [TEMPLATE_LEARN] = {"learn.nft", nft_template_learn},
};
const struct template flowtable_template = {"flowtable.nft", nft_template_flowtable};
const struct template preflight_template = {"preflight.nft", nft_template_preflight};

/* Over NUL-terminated strings, so that their boundaries matter. */
uint64_t layout_fingerprint(const struct layout *layout, unsigned meaning)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = alloc_check(open_memstream(&text, &size));
    fprintf(out, "%u%c", meaning, 0);
    vec_each (&layout->sets, set)
        fprintf(out, "%s%c%s%c%s%c%s%c%u%c", set->is_map ? "map" : "set", 0, set->name, 0,
                set->declaration, 0, set->flags ? set->flags : "", 0, set->size, 0);
    if (fclose(out))
        alloc_failed();
    const uint64_t hash = fnv(FNV_START, text, size);
    free(text);
    return hash;
}

struct variable {
    const char *name, *value;
};

/* The first two are for lines that are repeated. */
enum { VARIABLE_SOURCE, VARIABLE_LENGTH, VARIABLES = 19 };

struct parser {
    struct layout *layout;
    enum family family;
    struct error *err;
    struct variable variables[VARIABLES];
    bool in_table, had_table;
    bool skips;             /* until the end of the block */
    char *comment;          /* comment lines directly above; or NULL */
    VEC(char) text;         /* the line, with variables expanded */
    struct layout_set *set; /* being read, or NULL */
    struct layout_chain *chain;
    struct layout_flowtable *flowtable;
};

/* ---- statements ---- */

static int unexpected(const struct parser *p, const char *text)
{
    return error_set(p->err, "unexpected line: %s", text);
}

static int table_line(struct parser *p, const char *text)
{
    char *expected = xasprintf("table %s " RULESET_TABLE " {", nft_family_name(p->family));
    p->in_table = !p->had_table && strcmp(text, expected) == 0;
    p->had_table = true;
    free(expected);
    return p->in_table ? 0 : unexpected(p, text);
}

static void open_set(struct parser *p, const char *name, bool is_map)
{
    p->set = NULL;
    vec_each (&p->layout->sets, set)
        if (set->is_map == is_map && strcmp(set->name, name) == 0)
            p->set = set;
    if (p->set)
        return;
    vec_push(&p->layout->sets, (struct layout_set){.name = xstrdup(name), .is_map = is_map});
    p->set = &p->layout->sets.v[p->layout->sets.n - 1];
    p->set->comment = p->comment;
    p->comment = NULL;
}

static void open_chain(struct parser *p, const char *name)
{
    vec_push(&p->layout->chains, (struct layout_chain){.name = xstrdup(name)});
    p->chain = &p->layout->chains.v[p->layout->chains.n - 1];
    p->chain->chain = alloc_check(nftnl_chain_alloc());
    p->chain->comment = p->comment;
    p->comment = NULL;
    nftnl_chain_set_str(p->chain->chain, NFTNL_CHAIN_NAME, name);
}

static int open_flowtable(struct parser *p, const char *name)
{
    struct layout_flowtable *flowtable = &p->layout->flowtable;
    if (flowtable->name)
        return unexpected(p, name);
    flowtable->name = xstrdup(name);
    flowtable->comment = p->comment;
    p->comment = NULL;
    p->flowtable = flowtable;
    return 0;
}

static int open_block(struct parser *p, const char *text)
{
    char word[16], name[64];
    int end = 0;
    if (sscanf(text, "%15s %63[^ ] {%n", word, name, &end) != 2 || end == 0 || text[end] != '\0')
        return unexpected(p, text);
    if (strcmp(word, "chain") == 0)
        open_chain(p, name);
    else if (strcmp(word, "map") == 0 || strcmp(word, "set") == 0)
        open_set(p, name, *word == 'm');
    else
        return strcmp(word, "flowtable") == 0 ? open_flowtable(p, name) : unexpected(p, text);
    return 0;
}

static int close_block(struct parser *p)
{
    struct layout_set *set = p->set;
    if (p->flowtable && !p->flowtable->hook)
        return error_set(p->err, "no hook for %s", p->flowtable->name);
    p->in_table = set || p->chain || p->flowtable;
    p->set = NULL;
    p->chain = NULL;
    p->flowtable = NULL;
    if (!set || set->set)
        return 0;
    if (!set->declaration)
        return error_set(p->err, "no type for %s", set->name);
    set->has_verdicts = strstr(set->declaration, " : verdict") != NULL;
    set->set = alloc_check(nftnl_set_alloc());
    return set_declare(set, p->err) ? error_prefix(p->err, "%s", set->name) : 0;
}

/* Other templates repeat the declarations of the base. */
static int keep_same(const struct parser *p, char **where, const char *value)
{
    if (*where)
        return strcmp(*where, value) == 0 ? 0 : unexpected(p, value);
    *where = xstrdup(value);
    return 0;
}

static int set_line(struct parser *p, const char *text)
{
    struct layout_set *set = p->set;
    unsigned high, low;
    char chain[64];
    int end = 0;
    if (strncmp(text, "type ", 5) == 0 || strncmp(text, "typeof ", 7) == 0)
        return keep_same(p, &set->declaration, text);
    if (strncmp(text, "flags ", 6) == 0)
        return keep_same(p, &set->flags, text + 6);
    if (sscanf(text, "size %" SCNu32 "%n", &set->size, &end) == 1 && text[end] == '\0')
        return 0;
    if (sscanf(text, "elements = { %x:%x : goto %63s }%n", &high, &low, chain, &end) != 3 ||
        end == 0 || text[end] != '\0')
        return unexpected(p, text);
    vec_push(&set->verdicts, (struct layout_verdict){high << 16 | low, xstrdup(chain)});
    return 0;
}

static int hook_line(struct parser *p, const char *text)
{
    static const char *const hooks[] = {[NF_INET_PRE_ROUTING] = "prerouting",
                                        [NF_INET_LOCAL_IN] = "input",
                                        [NF_INET_FORWARD] = "forward",
                                        [NF_INET_LOCAL_OUT] = "output",
                                        [NF_INET_POST_ROUTING] = "postrouting"};
    const uint32_t n_hooks = sizeof(hooks) / sizeof(hooks[0]);
    struct nftnl_chain *chain = p->chain->chain;
    char type[16], hook[16];
    int32_t priority;
    uint32_t number = 0;
    int end = 0;
    if (p->chain->hook || p->chain->rules.n > 0 ||
        sscanf(text, "type %15s hook %15s priority %" SCNd32 ";%n", type, hook, &priority, &end) !=
            3 ||
        end == 0 || text[end] != '\0')
        return unexpected(p, text);
    while (number < n_hooks && strcmp(hooks[number], hook) != 0)
        number++;
    if (number == n_hooks)
        return unexpected(p, text);
    nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, type);
    nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, number);
    nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, priority);
    p->chain->hook = xstrdup(text);
    return 0;
}

static int flowtable_line(struct parser *p, const char *text)
{
    int end = 0;
    if (p->flowtable->hook ||
        sscanf(text, "hook ingress priority %" SCNd32 ";%n", &p->flowtable->priority, &end) != 1 ||
        end == 0 || text[end] != '\0')
        return unexpected(p, text);
    p->flowtable->hook = xstrdup(text);
    return 0;
}

static int rule_line(struct parser *p, const char *text)
{
    struct nftnl_rule *rule = alloc_check(nftnl_rule_alloc());
    vec_push(&p->chain->rules, (struct layout_rule){xstrdup(text), rule});
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, p->chain->name);
    return statements_add(text, p->family, rule, p->err);
}

static int parse_line(struct parser *p, const char *text)
{
    if (!*text)
        return 0;
    if (!p->in_table)
        return table_line(p, text);
    if (strcmp(text, "}") == 0)
        return close_block(p);
    if (p->set)
        return set_line(p, text);
    if (p->flowtable)
        return flowtable_line(p, text);
    if (!p->chain)
        return open_block(p, text);
    return strncmp(text, "type ", 5) == 0 ? hook_line(p, text) : rule_line(p, text);
}

/* ---- lines ---- */

/* The variable whose name and closing brace are at @text; NULL if unknown. */
static const struct variable *find_variable(const struct parser *p, const char *text, size_t length)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        size_t n = strlen(p->variables[i].name);
        if (n < length && memcmp(p->variables[i].name, text, n) == 0 && text[n] == '}')
            return &p->variables[i];
    }
    return NULL;
}

/* Sets @p->text to the line with variables expanded. 1: one of them is unset. */
static int fill_in(struct parser *p, const char *line, size_t length)
{
    vec_clear(&p->text);
    for (size_t i = 0; i < length; i++) {
        if (length - i < 2 || line[i] != '$' || line[i + 1] != '{') {
            vec_push(&p->text, line[i]);
            continue;
        }
        const struct variable *variable = find_variable(p, line + i + 2, length - i - 2);
        if (!variable) {
            error_set(p->err, "unknown variable: %.*s", (int)(length - i), line + i);
            return -1;
        }
        if (!variable->value)
            return 1;
        vec_append(&p->text, variable->value, strlen(variable->value));
        i += 2 + strlen(variable->name);
    }
    while (p->text.n > 0 && isspace((unsigned char)p->text.v[p->text.n - 1]))
        p->text.n--;
    vec_push(&p->text, '\0');
    return 0;
}

/* Handles a line, without its comment and surrounding blanks, unless it or its block is dropped. */
static int take_line(struct parser *p, const char *line, size_t length)
{
    const char *comment = memchr(line, '#', length);
    const int result = fill_in(p, line, comment ? (size_t)(comment - line) : length);
    const char *text = result == 0 ? p->text.v + strspn(p->text.v, " \t") : "";
    if (p->skips)
        p->skips = strcmp(text, "}") != 0;
    else if (result == 1)
        p->skips = line[length - 1] == '{';
    else if (result == 0)
        return parse_line(p, text);
    return result < 0 ? -1 : 0;
}

/* The first @length bits of a source address, in nft syntax. */
static char *source_text(enum family family, size_t length)
{
    struct address mask = {.bytes = {0}};
    char text[ADDRESS_TEXT_SIZE];
    if (length == 8 * address_length(family))
        return xasprintf("%s saddr", nft_family_name(family));
    for (size_t bit = 0; bit < length; bit++)
        mask.bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    return xasprintf("%s saddr and %s", nft_family_name(family),
                     address_format(family, &mask, text));
}

/* Repeats a line for each prefix length, longest first. */
static int take_line_for_each(struct parser *p, const char *line, size_t length)
{
    const enum family family = p->family;
    int result = 0;
    for (size_t bits = 8 * address_length(family); bits > 0 && result == 0; bits--) {
        char *source = source_text(family, bits), *text = xasprintf("0:%zx", bits);
        p->variables[VARIABLE_SOURCE].value = source;
        p->variables[VARIABLE_LENGTH].value = text;
        result = take_line(p, line, length);
        free(source);
        free(text);
    }
    p->variables[VARIABLE_SOURCE].value = p->variables[VARIABLE_LENGTH].value = NULL;
    return result;
}

static int parse_text(struct parser *p, const struct template *from)
{
    static const char each[] = "${source}";
    int result = 0, line = 0;
    for (const char *text = from->text; *text && result == 0; line++) {
        const size_t length = strcspn(text, "\n"), blanks = strspn(text, " \t");
        result = (memmem(text, length, each, strlen(each)) ? take_line_for_each
                                                           : take_line)(p, text, length);
        char *before = p->comment;
        p->comment = text[blanks] == '#' ? xasprintf("%s%.*s\n", before ? before : "",
                                                     (int)(length - blanks), text + blanks)
                                         : NULL;
        free(before);
        text += length + (text[length] == '\n');
    }
    free(p->comment);
    vec_free(&p->text);
    if (result == 0 && (p->in_table || !p->had_table))
        result = error_set(p->err, "the table does not end");
    return result ? error_prefix(p->err, "%s:%d", from->file, line) : 0;
}

int layout_parse(const struct template *from, const struct layout_vars *vars, struct layout *layout,
                 struct error *err)
{
    char *n = xasprintf("%u", vars->n);
    char *key = xasprintf("%x:%x", vars->n >> 16, vars->n & UINT16_MAX);
    char *twice = xasprintf("%u", 2 * vars->n);
    char *octave = octave_of(vars->n) ? xasprintf("%u", octave_of(vars->n)) : NULL;
    struct parser p = {
        .layout = layout,
        .family = vars->family,
        .err = err,
        .variables = {[VARIABLE_SOURCE] = {"source", NULL},
                      [VARIABLE_LENGTH] = {"length", NULL},
                      {"ip", nft_family_name(vars->family)},
                      {"ip_addr", vars->family == FAMILY_IPV4 ? "ipv4_addr" : "ipv6_addr"},
                      {"ingress", vars->family == FAMILY_IPV4 ? "0" : "1"},
                      {"mark", vars->mark},
                      {"from_pod", vars->from_pod},
                      {"not_from_pod", vars->not_from_pod},
                      {"from_host", vars->from_host},
                      {"to_others", vars->to_others},
                      {"reject", vars->reject},
                      {"to_localhost", vars->to_localhost},
                      {"count_services", vars->count_services},
                      {"count_endpoints", vars->count_endpoints},
                      {"n", n},
                      {"key", key},
                      {"twice", twice},
                      {"octave", octave},
                      {"exact", octave ? NULL : ""}}};
    const int result = parse_text(&p, from);
    free(n);
    free(key);
    free(twice);
    free(octave);
    return result;
}

void layout_free(struct layout *layout)
{
    vec_each (&layout->sets, set) {
        vec_each (&set->verdicts, verdict)
            free(verdict->chain);
        vec_free(&set->verdicts);
        if (set->set)
            nftnl_set_free(set->set);
        free(set->name);
        free(set->comment);
        free(set->declaration);
        free(set->flags);
    }
    vec_each (&layout->chains, chain) {
        vec_each (&chain->rules, rule) {
            nftnl_rule_free(rule->rule);
            free(rule->text);
        }
        vec_free(&chain->rules);
        nftnl_chain_free(chain->chain);
        free(chain->name);
        free(chain->comment);
        free(chain->hook);
    }
    vec_free(&layout->sets);
    vec_free(&layout->chains);
    free(layout->flowtable.name);
    free(layout->flowtable.comment);
    free(layout->flowtable.hook);
    layout->flowtable = (struct layout_flowtable){.name = NULL};
}
