/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text, in nft syntax: the templates with their elements filled in. */
#include "kube-nftd/ruleset/record.h"

#include <ctype.h>
#include <string.h>

static int compare_records(const void *a, const void *b)
{
    const struct record *p = *(struct record *const *)a, *q = *(struct record *const *)b;
    int order = memcmp(&p->frontend.address, &q->frontend.address, sizeof(p->frontend.address));
    if (order == 0)
        order = (int)p->frontend.port - (int)q->frontend.port;
    return order ? order : (int)p->frontend.protocol - (int)q->frontend.protocol;
}

static void print_protocol(FILE *out, uint8_t protocol)
{
    for (const char *s = protocol_name(protocol); *s; s++)
        fputc(tolower((unsigned char)*s), out);
}

static void print_frontend(FILE *out, const struct frontend *frontend)
{
    char address[ADDRESS_TEXT_SIZE];
    fputs(address_format((enum family)frontend->family, &frontend->address, address), out);
    fputs(" . ", out);
    print_protocol(out, frontend->protocol);
    fprintf(out, " . %u", frontend->port);
}

/* Begins the list of elements before the first one, a new line before the others. */
static void next_element(FILE *out, size_t *n)
{
    fputs((*n)++ ? ",\n            " : "        elements = {\n            ", out);
}

static void print_services(struct ruleset *rs, FILE *out, size_t *n)
{
    vec_each (&rs->pending, it) {
        const struct record *record = *it;
        if (record->n_wanted == 0)
            continue;
        uint32_t value = service_value(record->n_wanted);
        next_element(out, n);
        print_frontend(out, &record->frontend);
        fprintf(out, " : %x:%x", value >> 16, value & UINT16_MAX);
    }
}

static void print_endpoints(struct ruleset *rs, FILE *out, size_t *n)
{
    char address[ADDRESS_TEXT_SIZE];
    vec_each (&rs->pending, it) {
        const struct record *record = *it;
        for (uint32_t i = 0; i < record->n_wanted; i++) {
            const struct backend *backend = &record->wanted[i];
            next_element(out, n);
            print_frontend(out, &record->frontend);
            fprintf(out, " . %u : %s . %u", i,
                    address_format(rs->family, &backend->address, address), backend->port);
        }
    }
}

static void print_rejects(struct ruleset *rs, FILE *out, size_t *n)
{
    vec_each (&rs->pending, it) {
        if (!(*it)->wants_reject)
            continue;
        next_element(out, n);
        print_frontend(out, &(*it)->frontend);
    }
}

static void print_verdicts(const struct layout *picks, size_t n_picks, const char *map, FILE *out,
                           size_t *n)
{
    for (size_t i = 0; i < n_picks; i++) {
        vec_each (&picks[i].sets, set) {
            if (strcmp(set->name, map) != 0)
                continue;
            vec_each (&set->verdicts, verdict) {
                next_element(out, n);
                fprintf(out, "%x:%x : goto %s", verdict->key >> 16, verdict->key & UINT16_MAX,
                        verdict->chain);
            }
        }
    }
}

static void print_comment(FILE *out, const char *comment)
{
    while (comment && *comment) {
        size_t length = strcspn(comment, "\n") + 1;
        fprintf(out, "    %.*s", (int)length, comment);
        comment += length;
    }
}

static void print_set(struct ruleset *rs, const struct layout_set *set, const struct layout *picks,
                      size_t n_picks, FILE *out)
{
    static const struct {
        const char *name;
        void (*print)(struct ruleset *rs, FILE *out, size_t *n);
    } fillers[] = {{MAP_SERVICES, print_services},
                   {MAP_ENDPOINTS, print_endpoints},
                   {SET_REJECTS, print_rejects}};
    size_t n = 0;
    print_comment(out, set->comment);
    fprintf(out, "    %s %s {\n        %s\n", set->is_map ? "map" : "set", set->name,
            set->declaration);
    for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++)
        if (strcmp(set->name, fillers[i].name) == 0)
            fillers[i].print(rs, out, &n);
    print_verdicts(picks, n_picks, set->name, out, &n);
    fputs(n ? "\n        }\n    }\n\n" : "    }\n\n", out);
}

static void print_chains(const struct layout *layout, FILE *out)
{
    vec_each (&layout->chains, chain) {
        print_comment(out, chain->comment);
        fprintf(out, "    chain %s {\n", chain->name);
        if (chain->hook_text)
            fprintf(out, "        %s\n", chain->hook_text);
        vec_each (&chain->rules, rule)
            fprintf(out, "        %s\n", rule->text);
        fputs("    }\n\n", out);
    }
}

static struct layout *read_picks(struct ruleset *rs, size_t *n)
{
    count_vec counts = {0};
    ruleset_new_picks(rs, &counts);
    struct layout *picks = xcalloc(counts.n, sizeof(*picks));
    struct error err = {0};
    for (*n = 0; *n < counts.n; ++*n) {
        if (layout_parse(nft_template_pick, "pick.nft", rs->family, counts.v[*n], &picks[*n], &err))
            abort(); /* ruleset_commit() would not have passed either: the binary is broken */
    }
    vec_free(&counts);
    return picks;
}

void ruleset_dump(struct ruleset *rs, FILE *out)
{
    char comment[64];
    size_t n_picks;
    const char *family = nft_family_name(rs->family);
    struct layout *picks = read_picks(rs, &n_picks);
    ruleset_comment(comment);
    if (rs->pending.n)
        qsort(rs->pending.v, rs->pending.n, sizeof(*rs->pending.v), compare_records);

    fprintf(out, "add table %s %s\ndelete table %s %s\n", family, RULESET_TABLE, family,
            RULESET_TABLE);
    fprintf(out, "table %s %s {\n    comment \"%s\"\n\n", family, RULESET_TABLE, comment);
    vec_each (&rs->base.sets, set)
        print_set(rs, set, picks, n_picks, out);
    print_chains(&rs->base, out);
    for (size_t i = 0; i < n_picks; i++)
        print_chains(&picks[i], out);
    fputs("}\n", out);

    for (size_t i = 0; i < n_picks; i++)
        layout_free(&picks[i]);
    free(picks);
}
