/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "template.h"

#include <ctype.h>
#include <inttypes.h>
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
TEMPLATE(source_ranges);
TEMPLATE(affinity);
TEMPLATE(learn);
TEMPLATE(preflight);

const struct template templates[TEMPLATE_COUNT] = {
    [TEMPLATE_BASE] = {"base.nft", nft_template_base},
    [TEMPLATE_PICK] = {"pick.nft", nft_template_pick},
    [TEMPLATE_LOCAL_PICK] = {"local-pick.nft", nft_template_local_pick},
    [TEMPLATE_SOURCE_RANGES] = {"source-ranges.nft", nft_template_source_ranges},
    [TEMPLATE_AFFINITY] = {"affinity.nft", nft_template_affinity},
    [TEMPLATE_LEARN] = {"learn.nft", nft_template_learn},
};
const struct template preflight_template = {"preflight.nft", nft_template_preflight};

/* FNV-1a over NUL-terminated strings, so that their boundaries matter. */
uint64_t layout_fingerprint(const struct layout *layout, unsigned meaning)
{
    char *text = NULL;
    size_t size = 0;
    uint64_t hash = 0xcbf29ce484222325;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        alloc_failed();
    fprintf(out, "%u%c", meaning, 0);
    vec_each (&layout->sets, set)
        fprintf(out, "%s%c%s%c%s%c%s%c%u%c", set->is_map ? "map" : "set", 0, set->name, 0,
                set->declaration, 0, set->flags ? set->flags : "", 0, set->size, 0);
    if (fclose(out))
        alloc_failed();
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3;
    free(text);
    return hash;
}

struct variable {
    const char *name, *value;
};

/* The first two are for lines that are repeated. */
enum { VARIABLE_SOURCE, VARIABLE_LENGTH, VARIABLES = 13 };

struct parser {
    struct layout *layout;
    struct error *err;
    struct variable variables[VARIABLES];
    int line;
    bool in_table, had_table;
    char *comment;          /* comment lines directly above; or NULL */
    struct layout_set *set; /* being read, or NULL */
    struct layout_chain *chain;
    bool leaves_out; /* skips until the end of the block */
};

/* ---- statements ---- */

static int open_block(struct parser *p, const char *text)
{
    char word[16], name[64];
    int end = 0;
    if (sscanf(text, "%15s %63[^ ] {%n", word, name, &end) != 2 || end == 0 || text[end] != '\0')
        return error_set(p->err, "expected 'map', 'set' or 'chain', a name and '{': %s", text);
    const bool is_map = strcmp(word, "map") == 0;
    if (strcmp(word, "chain") == 0) {
        vec_push(&p->layout->chains, (struct layout_chain){.name = xstrdup(name), .line = p->line});
        p->chain = &p->layout->chains.v[p->layout->chains.n - 1];
        p->chain->comment = p->comment;
    } else if (is_map || strcmp(word, "set") == 0) {
        vec_push(&p->layout->sets, (struct layout_set){.name = xstrdup(name), .line = p->line});
        p->set = &p->layout->sets.v[p->layout->sets.n - 1];
        p->set->is_map = is_map;
        p->set->comment = p->comment;
    } else {
        return error_set(p->err, "unknown block: %s", word);
    }
    p->comment = NULL;
    return 0;
}

static int close_block(struct parser *p)
{
    if (p->set && !p->set->declaration)
        return error_set(p->err, "no type for %s", p->set->name);
    p->in_table = p->set || p->chain;
    p->set = NULL;
    p->chain = NULL;
    return 0;
}

static int table_line(struct parser *p, const char *text)
{
    char family[8], name[64];
    int end = 0;
    const char *ip = nft_family_name(p->layout->family);
    if (p->had_table)
        return error_set(p->err, "something behind the table: %s", text);
    if (sscanf(text, "table %7s %63s {%n", family, name, &end) != 2 || end == 0 ||
        text[end] != '\0' || strcmp(family, ip) != 0 || strcmp(name, RULESET_TABLE) != 0)
        return error_set(p->err, "expected 'table %s " RULESET_TABLE " {': %s", ip, text);
    p->in_table = p->had_table = true;
    return 0;
}

static int keep_once(struct parser *p, char **where, const char *what, const char *line,
                     const char *value)
{
    if (*where)
        return error_set(p->err, "a second %s: %s", what, line);
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
        return keep_once(p, &set->declaration, "type", text, text);
    if (strncmp(text, "flags ", 6) == 0)
        return keep_once(p, &set->flags, "flags", text, text + 6);
    if (sscanf(text, "size %" SCNu32 "%n", &set->size, &end) == 1 && text[end] == '\0')
        return 0;
    if (sscanf(text, "elements = { %x:%x : goto %63s }%n", &high, &low, chain, &end) != 3 ||
        end == 0 || text[end] != '\0')
        return error_set(p->err, "unknown line in a %s: %s", set->is_map ? "map" : "set", text);
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
    const int n_hooks = sizeof(hooks) / sizeof(hooks[0]);
    struct layout_chain *chain = p->chain;
    char hook[16];
    int end = 0;
    if (chain->hook_text || chain->rules.n > 0)
        return error_set(p->err, "a hook must come first and once: %s", text);
    if (sscanf(text, "type %15s hook %15s priority %d;%n", chain->type, hook, &chain->priority,
               &end) != 3 ||
        end == 0 || text[end] != '\0')
        return error_set(p->err, "expected 'type T hook H priority N;': %s", text);
    while (chain->hook < n_hooks && strcmp(hooks[chain->hook], hook) != 0)
        chain->hook++;
    if (chain->hook == n_hooks)
        return error_set(p->err, "unknown hook: %s", hook);
    chain->hook_text = xstrdup(text);
    return 0;
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
    if (!p->chain)
        return open_block(p, text);
    if (strncmp(text, "type ", 5) == 0)
        return hook_line(p, text);
    vec_push(&p->chain->rules, (struct layout_rule){xstrdup(text), p->line});
    return 0;
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

/* Writes the line to @out with variables expanded. 1: one of them is unset. */
static int fill_in(struct parser *p, const char *line, size_t length, FILE *out)
{
    for (size_t i = 0; i < length; i++) {
        if (length - i < 2 || line[i] != '$' || line[i + 1] != '{') {
            fputc(line[i], out);
            continue;
        }
        const struct variable *variable = find_variable(p, line + i + 2, length - i - 2);
        if (!variable)
            return error_set(p->err, "unknown variable: %.*s", (int)(length - i), line + i);
        if (!variable->value)
            return 1;
        fputs(variable->value, out);
        i += 2 + strlen(variable->name);
    }
    return 0;
}

/* Handles a line, without its comment and surrounding blanks, unless it or its block is dropped. */
static int take_line(struct parser *p, const char *line, size_t length)
{
    char *text = NULL;
    size_t size = 0;
    const char *comment = memchr(line, '#', length);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        alloc_failed();
    int result = fill_in(p, line, comment ? (size_t)(comment - line) : length, out);
    if (fclose(out))
        alloc_failed();
    char *begin = text + strspn(text, " \t"), *end = text + size;
    while (end > begin && isspace((unsigned char)end[-1]))
        *--end = '\0';
    if (p->leaves_out)
        p->leaves_out = strcmp(begin, "}") != 0;
    else if (result == 1)
        p->leaves_out = line[length - 1] == '{';
    else if (result == 0)
        result = parse_line(p, begin);
    free(text);
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

/* Repeats a line for each prefix length. */
static int take_line_for_each(struct parser *p, const char *line, size_t length)
{
    enum family family = p->layout->family;
    int result = 0;
    for (size_t bits = 8 * address_length(family); bits > 0 && result == 0; bits--) {
        char *source = source_text(family, bits), *text = xasprintf("0:%zx", bits);
        p->variables[VARIABLE_SOURCE].value = source;
        p->variables[VARIABLE_LENGTH].value = text;
        result = take_line(p, line, length);
        free(source);
        free(text);
    }
    return result;
}

static int parse_text(struct parser *p, const char *text)
{
    static const char each[] = "${source}";
    int result = 0;
    while (*text && result == 0) {
        size_t length = strcspn(text, "\n"), blanks = strspn(text, " \t");
        p->line++;
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
    if (result == 0 && (p->in_table || !p->had_table))
        result = error_set(p->err, p->in_table ? "the table does not end" : "there is no table");
    return result ? error_prefix(p->err, "%s:%d", p->layout->file, p->line) : 0;
}

int layout_parse(const struct template *from, const struct layout_vars *vars, struct layout *layout,
                 struct error *err)
{
    char *n = xasprintf("%u", vars->n);
    char *key = xasprintf("%x:%x", vars->n >> 16, vars->n & UINT16_MAX);
    struct parser p = {
        .layout = layout,
        .err = err,
        .variables = {[VARIABLE_SOURCE] = {"source", NULL},
                      [VARIABLE_LENGTH] = {"length", NULL},
                      {"ip", nft_family_name(vars->family)},
                      {"ip_addr", vars->family == FAMILY_IPV4 ? "ipv4_addr" : "ipv6_addr"},
                      {"mark", vars->mark},
                      {"from_pod", vars->from_pod},
                      {"not_from_pod", vars->not_from_pod},
                      {"from_host", vars->from_host},
                      {"reject", vars->reject},
                      {"count_services", vars->count_services},
                      {"count_endpoints", vars->count_endpoints},
                      {"n", n},
                      {"key", key}}};
    *layout = (struct layout){.file = from->file, .family = vars->family};
    int result = parse_text(&p, from->text);
    if (result)
        layout_free(layout);
    free(n);
    free(key);
    return result;
}

void layout_free(struct layout *layout)
{
    vec_each (&layout->sets, set) {
        vec_each (&set->verdicts, verdict)
            free(verdict->chain);
        vec_free(&set->verdicts);
        free(set->name);
        free(set->comment);
        free(set->declaration);
        free(set->flags);
    }
    vec_each (&layout->chains, chain) {
        vec_each (&chain->rules, rule)
            free(rule->text);
        vec_free(&chain->rules);
        free(chain->name);
        free(chain->comment);
        free(chain->hook_text);
    }
    vec_free(&layout->sets);
    vec_free(&layout->chains);
}
