/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/template.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *nft_family_name(enum family family)
{
    return family == FAMILY_IPV4 ? "ip" : "ip6";
}

/* FNV-1a over the text and its NUL, so that it matters where a text ends. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
    while (*text++);
    return hash;
}

uint64_t fingerprint_of(const char *base, const char *pick)
{
    return hash_text(hash_text(0xcbf29ce484222325, base), pick);
}

uint64_t template_fingerprint(void)
{
    return fingerprint_of(nft_template_base, nft_template_pick);
}

struct parser {
    struct layout *layout;
    struct error *err;
    unsigned n;
    int line;
    bool in_table, had_table;
    char *comment;          /* comment lines that stand right before this line; or NULL */
    struct layout_set *set; /* the one being read, or NULL */
    struct layout_chain *chain;
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

static const char *variable(const struct parser *p, const char *name, size_t length,
                            char number[16])
{
    if (length == 2 && memcmp(name, "ip", 2) == 0)
        return nft_family_name(p->layout->family);
    if (length == 7 && memcmp(name, "ip_addr", 7) == 0)
        return p->layout->family == FAMILY_IPV4 ? "ipv4_addr" : "ipv6_addr";
    if (length == 1 && *name == 'n') {
        snprintf(number, 16, "%u", p->n);
        return number;
    }
    if (length == 5 && memcmp(name, "n_hex", 5) == 0) {
        snprintf(number, 16, "%x", p->n);
        return number;
    }
    return NULL;
}

/* The line without comment and outer blanks and with variables filled in; NULL for an unknown one.
 */
static char *expand_line(struct parser *p, const char *line, size_t length)
{
    const char *comment = memchr(line, '#', length);
    if (comment)
        length = (size_t)(comment - line);
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    while (length > 0 && isspace((unsigned char)*line))
        line++, length--;

    char *out = xcalloc(1, 1);
    size_t size = 0;
    for (size_t i = 0; i < length;) {
        const char *piece = line + i;
        size_t piece_length = 1;
        char number[16];
        if (length - i > 2 && piece[0] == '$' && piece[1] == '{') {
            const char *end = memchr(piece, '}', length - i);
            const char *value =
                end ? variable(p, piece + 2, (size_t)(end - piece) - 2, number) : NULL;
            if (!value) {
                fail(p, "unknown variable: %.*s", (int)(length - i), piece);
                free(out);
                return NULL;
            }
            i += (size_t)(end - piece) + 1;
            piece = value;
            piece_length = strlen(value);
        } else {
            i++;
        }
        out = xreallocarray(out, size + piece_length + 1, 1);
        memcpy(out + size, piece, piece_length);
        size += piece_length;
        out[size] = '\0';
    }
    return out;
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

static int set_line(struct parser *p, const char *text)
{
    unsigned class_id, count;
    char chain[64];
    int end = 0;
    if (strncmp(text, "type ", 5) == 0 || strncmp(text, "typeof ", 7) == 0) {
        if (p->set->declaration)
            return fail(p, "a second type: %s", text);
        p->set->declaration = xstrdup(text);
        return 0;
    }
    if (sscanf(text, "elements = { %x:%x : goto %63s }%n", &class_id, &count, chain, &end) == 3 &&
        end > 0 && text[end] == '\0') {
        vec_push(&p->set->verdicts,
                 (struct layout_verdict){class_id << 16 | count, xstrdup(chain)});
        return 0;
    }
    return fail(p, "unknown line in a %s: %s", p->set->is_map ? "map" : "set", text);
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

int layout_parse(const char *text, const char *file, enum family family, unsigned n,
                 struct layout *layout, struct error *err)
{
    struct parser p = {.layout = layout, .err = err, .n = n};
    memset(layout, 0, sizeof(*layout));
    layout->file = file;
    layout->family = family;
    int result = 0;
    while (*text && result == 0) {
        size_t length = strcspn(text, "\n"), blanks = strspn(text, " \t");
        p.line++;
        char *line = expand_line(&p, text, length);
        result = line ? parse_line(&p, line) : -1;
        free(line);
        if (text[blanks] == '#')
            keep_comment(&p, text + blanks, length - blanks);
        else
            free(take_comment(&p));
        text += length + (text[length] == '\n');
    }
    free(take_comment(&p));
    if (result == 0 && (p.in_table || !p.had_table))
        result = fail(&p, p.in_table ? "the table does not end" : "there is no table");
    if (result)
        layout_free(layout);
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
