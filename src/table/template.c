/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/table.h"

#include "kube-nftd/model.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
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

const struct template templates[TEMPLATE_COUNT] = {
    [TEMPLATE_BASE] = {"base.nft", nft_template_base},
    [TEMPLATE_PICK] = {"pick.nft", nft_template_pick},
    [TEMPLATE_LOCAL_PICK] = {"local-pick.nft", nft_template_local_pick},
    [TEMPLATE_SOURCE_RANGES] = {"source-ranges.nft", nft_template_source_ranges},
    [TEMPLATE_AFFINITY] = {"affinity.nft", nft_template_affinity},
    [TEMPLATE_LEARN] = {"learn.nft", nft_template_learn},
};

/* FNV-1a over the text and its NUL, so that it matters where a text ends. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
    while (*text++);
    return hash;
}

uint64_t layout_fingerprint(const struct layout *layout, unsigned meaning)
{
    char *number = xasprintf("%u", meaning);
    uint64_t hash = hash_text(0xcbf29ce484222325, number);
    free(number);
    vec_each (&layout->sets, set) {
        char *size = xasprintf("%u", set->size);
        const char *const texts[] = {set->is_map ? "map" : "set", set->name, set->declaration,
                                     set->flags ? set->flags : "", size};
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            hash = hash_text(hash, texts[i]);
        free(size);
    }
    return hash;
}

struct variable {
    const char *name, *value;
};

#define VARIABLES 13

struct parser {
    struct layout *layout;
    struct error *err;
    struct variable variables[VARIABLES];
    int line;
    bool in_table, had_table;
    char *comment;          /* comment lines that stand right before this line; or NULL */
    struct layout_set *set; /* the one being read, or NULL */
    struct layout_chain *chain;
    bool leaves_out; /* until the end of a block */
};

__attribute__((format(printf, 2, 3))) static int fail(struct parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *what = xvasprintf(format, args);
    va_end(args);
    error_set(p->err, "%s:%d: %s", p->layout->file, p->line, what);
    free(what);
    return -1;
}

/* ---- lines ---- */

/* The variable whose name and closing brace stand at @text; NULL if there is none. */
static const struct variable *find_variable(const struct parser *p, const char *text, size_t length)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        size_t n = strlen(p->variables[i].name);
        if (n < length && memcmp(p->variables[i].name, text, n) == 0 && text[n] == '}')
            return &p->variables[i];
    }
    return NULL;
}

/* Puts the line into @out, with the values of its variables. 1: one of them has none. */
static int fill_in(struct parser *p, const char *line, size_t length, FILE *out)
{
    for (size_t i = 0; i < length; i++) {
        if (length - i < 2 || line[i] != '$' || line[i + 1] != '{') {
            fputc(line[i], out);
            continue;
        }
        const struct variable *variable = find_variable(p, line + i + 2, length - i - 2);
        if (!variable)
            return fail(p, "unknown variable: %.*s", (int)(length - i), line + i);
        if (!variable->value)
            return 1;
        fputs(variable->value, out);
        i += 2 + strlen(variable->name);
    }
    return 0;
}

static char *without_blanks(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    return xstrndup(text, length);
}

/* The line without comment and outer blanks and with variables filled in; empty if one of them has
 * no value, NULL for an unknown one. The caller frees it. */
static char *expand_line(struct parser *p, const char *line, size_t length)
{
    char *text = NULL, *stripped = NULL;
    size_t size = 0;
    const char *comment = memchr(line, '#', length);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        alloc_failed();
    int result = fill_in(p, line, comment ? (size_t)(comment - line) : length, out);
    if (fclose(out))
        alloc_failed();
    if (result >= 0)
        stripped = without_blanks(result == 0 ? text : "");
    free(text);
    return stripped;
}

/* ---- comments ---- */

static void keep_comment(struct parser *p, const char *line, size_t length)
{
    char *text = xasprintf("%s%.*s\n", p->comment ? p->comment : "", (int)length, line);
    free(p->comment);
    p->comment = text;
}

static char *take_comment(struct parser *p)
{
    char *comment = p->comment;
    p->comment = NULL;
    return comment;
}

/* ---- statements ---- */

static int open_block(struct parser *p, const char *text)
{
    char word[16], name[64];
    int end = 0;
    if (sscanf(text, "%15s %63[^ ] {%n", word, name, &end) != 2 || end == 0 || text[end] != '\0')
        return fail(p, "expected 'map', 'set' or 'chain', a name and '{': %s", text);
    if (strcmp(word, "chain") == 0) {
        vec_push(&p->layout->chains, (struct layout_chain){.name = xstrdup(name),
                                                           .comment = take_comment(p),
                                                           .line = p->line});
        p->chain = &p->layout->chains.v[p->layout->chains.n - 1];
        return 0;
    }
    if (strcmp(word, "map") != 0 && strcmp(word, "set") != 0)
        return fail(p, "unknown block: %s", word);
    vec_push(&p->layout->sets, (struct layout_set){.name = xstrdup(name),
                                                   .comment = take_comment(p),
                                                   .line = p->line,
                                                   .is_map = strcmp(word, "map") == 0});
    p->set = &p->layout->sets.v[p->layout->sets.n - 1];
    return 0;
}

static int table_line(struct parser *p, const char *text)
{
    char family[8], name[64];
    int end = 0;
    if (p->had_table)
        return fail(p, "something behind the table: %s", text);
    if (sscanf(text, "table %7s %63s {%n", family, name, &end) != 2 || end == 0 ||
        text[end] != '\0' || strcmp(family, nft_family_name(p->layout->family)) != 0 ||
        strcmp(name, "kube-nftd") != 0)
        return fail(p, "expected 'table %s kube-nftd {': %s", nft_family_name(p->layout->family),
                    text);
    p->in_table = p->had_table = true;
    return 0;
}

static int keep_once(struct parser *p, char **where, const char *what, const char *line,
                     const char *value)
{
    if (*where)
        return fail(p, "a second %s: %s", what, line);
    *where = xstrdup(value);
    return 0;
}

static int verdict_line(struct parser *p, const char *text)
{
    unsigned class_id, count;
    char chain[64];
    int end = 0;
    if (sscanf(text, "elements = { %x:%x : goto %63s }%n", &class_id, &count, chain, &end) != 3 ||
        end == 0 || text[end] != '\0')
        return fail(p, "unknown line in a %s: %s", p->set->is_map ? "map" : "set", text);
    vec_push(&p->set->verdicts, (struct layout_verdict){class_id << 16 | count, xstrdup(chain)});
    return 0;
}

static int set_line(struct parser *p, const char *text)
{
    struct layout_set *set = p->set;
    int end = 0;
    if (strncmp(text, "type ", 5) == 0 || strncmp(text, "typeof ", 7) == 0)
        return keep_once(p, &set->declaration, "type", text, text);
    if (strncmp(text, "flags ", 6) == 0)
        return keep_once(p, &set->flags, "flags", text, text + 6);
    if (sscanf(text, "size %" SCNu32 "%n", &set->size, &end) == 1 && text[end] == '\0')
        return 0;
    return verdict_line(p, text);
}

static int hook_line(struct parser *p, const char *text)
{
    char type[16], hook[16];
    int end = 0;
    if (p->chain->hook_text || p->chain->rules.n > 0)
        return fail(p, "a hook must come first and once: %s", text);
    if (sscanf(text, "type %15s hook %15s priority %d;%n", type, hook, &p->chain->priority, &end) !=
            3 ||
        end == 0 || text[end] != '\0')
        return fail(p, "expected 'type T hook H priority N;': %s", text);
    p->chain->hook_text = xstrdup(text);
    p->chain->type = xstrdup(type);
    p->chain->hook = xstrdup(hook);
    return 0;
}

static int parse_line(struct parser *p, const char *text)
{
    if (!*text)
        return 0;
    if (!p->in_table)
        return table_line(p, text);
    if (strcmp(text, "}") == 0) {
        if (p->set && !p->set->declaration)
            return fail(p, "no type for %s", p->set->name);
        if (!p->set && !p->chain)
            p->in_table = false;
        p->set = NULL;
        p->chain = NULL;
        return 0;
    }
    if (p->set)
        return set_line(p, text);
    if (!p->chain)
        return open_block(p, text);
    if (strncmp(text, "type ", 5) == 0)
        return hook_line(p, text);
    vec_push(&p->chain->rules, (struct layout_rule){xstrdup(text), p->line});
    return 0;
}

/* What is left of @text if its line is left out, or the block that it stands in. */
static const char *leave_out(struct parser *p, const char *text, const char *line, size_t length)
{
    bool opens = length > 0 && line[length - 1] == '{', ends = strcmp(text, "}") == 0;
    const char *left = p->leaves_out ? "" : text;
    p->leaves_out = p->leaves_out ? !ends : opens && !*text;
    return left;
}

static int take_line(struct parser *p, const char *line, size_t length)
{
    char *expanded = expand_line(p, line, length);
    int result = expanded ? parse_line(p, leave_out(p, expanded, line, length)) : -1;
    free(expanded);
    return result;
}

static void set_variable(struct parser *p, const char *name, const char *value)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strcmp(p->variables[i].name, name) == 0)
            p->variables[i].value = value;
}

/* The first @length bits of a source address, in nft's words. */
static char *source_text(enum family family, unsigned length)
{
    struct address all;
    char mask[ADDRESS_TEXT_SIZE];
    memset(&all, 0xff, sizeof(all));
    const struct cidr none = {.length = (uint8_t)length};
    struct address_range host = cidr_range(family, &none);
    for (size_t i = 0; i < sizeof(all.bytes); i++)
        all.bytes[i] &= (uint8_t)~host.last.bytes[i];
    return length == 8 * address_length(family)
               ? xasprintf("%s saddr", nft_family_name(family))
               : xasprintf("%s saddr and %s", nft_family_name(family),
                           address_format(family, &all, mask));
}

/* Once for each length of a prefix. */
static int take_line_for_each(struct parser *p, const char *line, size_t length)
{
    enum family family = p->layout->family;
    int result = 0;
    for (size_t bits = 8 * address_length(family); bits > 0 && result == 0; bits--) {
        char *source = source_text(family, (unsigned)bits), *text = xasprintf("0:%zx", bits);
        set_variable(p, "source", source);
        set_variable(p, "length", text);
        result = take_line(p, line, length);
        free(source);
        free(text);
    }
    set_variable(p, "source", NULL);
    set_variable(p, "length", NULL);
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
        if (text[blanks] == '#')
            keep_comment(p, text + blanks, length - blanks);
        else
            free(take_comment(p));
        text += length + (text[length] == '\n');
    }
    free(take_comment(p));
    if (result == 0 && (p->in_table || !p->had_table))
        result = fail(p, p->in_table ? "the table does not end" : "there is no table");
    return result;
}

int layout_parse(const struct template *from, const struct layout_vars *vars, struct layout *layout,
                 struct error *err)
{
    char *n = xasprintf("%u", vars->n);
    char *key = xasprintf("%x:%x", vars->key >> 16, vars->key & UINT16_MAX);
    struct parser p = {
        .layout = layout,
        .err = err,
        .variables = {{"ip", nft_family_name(vars->family)},
                      {"ip_addr", vars->family == FAMILY_IPV4 ? "ipv4_addr" : "ipv6_addr"},
                      {"mark", vars->mark},
                      {"from_pod", vars->from_pod},
                      {"not_from_pod", vars->not_from_pod},
                      {"from_host", vars->from_host},
                      {"reject", vars->reject},
                      {"count_services", vars->count_services},
                      {"count_endpoints", vars->count_endpoints},
                      {"n", n},
                      {"key", key},
                      {"source", NULL},
                      {"length", NULL}}};
    memset(layout, 0, sizeof(*layout));
    layout->file = from->file;
    layout->family = vars->family;
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
        free(chain->type);
        free(chain->hook);
    }
    vec_free(&layout->sets);
    vec_free(&layout->chains);
}
