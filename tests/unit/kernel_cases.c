/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kernel_cases.h"

#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <ctype.h>
#include <errno.h>
#include <libnftnl/rule.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#define CASE_TOP 0x10000u /* the highest address */

struct nft_socket *sock;
struct nft_batch batch;
struct error err;

enum family case_family(void)
{
    return batch.nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* ---- keys and values ---- */

struct frontend case_frontend(enum family family, uint8_t number)
{
    struct frontend f = {.port = 80, .protocol = IPPROTO_TCP, .family = (uint8_t)family};
    f.address.bytes[0] = 11;
    f.address.bytes[3] = number;
    return f;
}

static struct backend case_backend(uint8_t number)
{
    return (struct backend){{{10, 0, 0, number}}, 8080};
}

uint32_t case_port(uint8_t number)
{
    return (uint32_t)number << PORT_LOW_BITS;
}

/* An address that ends with @last. */
static struct key case_address(enum family family, uint32_t last)
{
    struct key key = {.length = address_length(family)};
    memset(key.bytes, last == CASE_TOP ? 0xff : 10, key.length);
    if (last != CASE_TOP) {
        key.bytes[key.length - 2] = (uint8_t)(last >> 8);
        key.bytes[key.length - 1] = (uint8_t)last;
    }
    return key;
}

static struct key case_source(enum family family, uint32_t list, uint32_t last, uint32_t bits)
{
    struct key address = case_address(family, last);
    struct cidr prefix = {.length = (uint8_t)(8 * address.length - bits)};
    memcpy(prefix.address.bytes, address.bytes, address.length);
    return key_of_source(family, list, &prefix);
}

static struct key case_number(uint32_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    return key;
}

struct key case_word(enum family family, const char *word)
{
    const struct frontend frontend = case_frontend(family, (uint8_t)atoi(word + 1));
    const struct backend backend = case_backend((uint8_t)atoi(word + 1));
    struct key whole;
    unsigned a = 0, b = 0, c = 0;
    sscanf(word + !isdigit(*word), "%u/%i/%u", &a, (int *)&b, &c);
    switch (*word) {
    case 'f':
        return key_of_frontend(&frontend);
    case 'b':
        return value_of_backend(family, &backend);
    case 'a':
        return case_address(family, a);
    case 's':
        return case_source(family, a, b, c);
    case 'g':
    case 'h':
        whole = *word == 'g' ? key_of_frontend(&frontend) : value_of_backend(family, &backend);
        whole.length = address_length(family);
        return whole;
    case 't':
        return (struct key){{IPPROTO_TCP, [4] = (uint8_t)(a >> 8), (uint8_t)a}, 8};
    case 'x':
        return (struct key){{1}, a};
    default:
        return case_number(*word == 'p' ? case_port((uint8_t)a) | b : *word == 'l' ? a << 8 : a);
    }
}

struct key case_words(char **words, const char *end)
{
    struct key all = {.length = 0};
    for (char *word; *(word = script_word(words)) && strcmp(word, end) != 0;) {
        struct key one = case_word(case_family(), word);
        ck_assert_uint_le(all.length + one.length, KEY_SIZE);
        memcpy(all.bytes + all.length, one.bytes, one.length);
        all.length += one.length;
    }
    return all;
}

/* Batches borrow names of sets. */
static const char *case_name(const char *name)
{
    static VEC(char *) names;
    vec_each (&names, it)
        if (strcmp(*it, name) == 0)
            return *it;
    vec_push(&names, xstrdup(name));
    return names.v[names.n - 1];
}

/* ---- messages ---- */

static void case_element(enum nft_element_op op, char *words)
{
    const char *set = case_name(script_word(&words)), *dash = strchr(words, '-');
    const char *chain = strstr(words, " goto ");
    if (chain) {
        uint32_t number = (uint32_t)atoi(words);
        nft_batch_goto_element(&batch, set, &number, sizeof(number), chain + strlen(" goto "));
    } else if (dash) {
        struct key first = case_address(case_family(), (uint32_t)atoi(words));
        struct key last = case_address(
            case_family(), strcmp(dash, "-top") == 0 ? CASE_TOP : (uint32_t)atoi(dash + 1));
        nft_batch_range(&batch, op, set, first.bytes, last.bytes, first.length);
    } else {
        struct key key = case_words(&words, ":"), value = case_words(&words, "");
        nft_batch_element(&batch, op, set, key.bytes, key.length, value.length ? value.bytes : NULL,
                          value.length);
    }
}

COMMAND_AS("+", add)
{
    case_element(ELEMENT_ADD, words);
}

COMMAND_AS("-", delete)
{
    case_element(ELEMENT_DELETE, words);
}

COMMAND(rule)
{
    const char *chain = script_word(&words), *at = strchr(words, 'F');
    const char *ip = case_family() == FAMILY_IPV4 ? "ip" : "ip6";
    char *text = at ? xasprintf("%.*s%s daddr . meta l4proto . th dport%s", (int)(at - words),
                                words, ip, at + 1)
                    : xstrdup(words);
    struct nftnl_rule *rule = nftnl_rule_alloc();
    struct layout_chain rules = {.name = NULL};
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
    ck_assert_int_eq(statements_add(text, case_family(), rule, &err), 0);
    vec_push(&rules.rules, (struct layout_rule){.rule = rule});
    program_rules(&rules, &batch);
    vec_free(&rules.rules);
    nftnl_rule_free(rule);
    free(text);
}

struct layout_vars case_vars(unsigned n)
{
    const bool v4 = case_family() == FAMILY_IPV4;
    return (struct layout_vars){
        .family = case_family(),
        .mark = "0x4000",
        .from_pod = v4 ? "ip saddr @pod_cidrs" : "ip6 saddr @pod_cidrs",
        .not_from_pod = v4 ? "ip saddr != @pod_cidrs" : "ip6 saddr != @pod_cidrs",
        .from_host = "fib saddr type local",
        .reject = "reject",
        .to_localhost = v4 ? "ip daddr and 255.0.0.0 == 127.0.0.0" : "ip6 daddr == ::1",
        .count_services = "",
        .count_endpoints = "",
        .n = n};
}

void case_layout(enum template_id id, const struct layout_vars *vars)
{
    struct layout layout = {.sets = {0}};
    const bool sets = id == TEMPLATE_BASE;
    ck_assert_msg(layout_parse(&templates[id], vars, &layout, &err) == 0, "%s", err.text);
    program_layout(&layout, sets, &batch);
    layout_free(&layout);
}

COMMAND(instance)
{
    const char *file = script_word(&words);
    const struct layout_vars vars = case_vars((unsigned)atoi(words));
    int id = 0;
    while (strcmp(templates[id].file, file) != 0)
        id++;
    case_layout((enum template_id)id, &vars);
}

COMMAND(no_table)
{
    nft_batch_delete_table(&batch);
}

__attribute__((format(printf, 1, 2))) void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        script_line("%s", line);
    free(text);
}

/* What is there before each case: frontend 1 with backends 1 and 2, service port 2 rejected, which
 * frontend 2 leads to. With words: the comment alone. */
COMMAND(table)
{
    nft_batch_add_table(&batch, false, *words ? words : "of a test");
    if (!*words)
        put("instance base.nft 0\n"
            "instance pick.nft 2\n"
            "+ endpoints p1 0 : b1\n"
            "+ endpoints p1 1 : b2\n"
            "+ ports p1 : p1/2\n"
            "+ services f1 : p1/0x7ff0\n"
            "+ rejected_ports p2\n"
            "+ services f2 : p2/0x7ff0\n"
            "+ service_cidrs 10-19\n"
            "+ service_cidrs 50-top\n"
            "+ allowed_sources s1/12/2");
}

/* ---- transactions ---- */

void commit(void)
{
    int result = nft_socket_commit(sock, &batch, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    nft_batch_clear(&batch);
}

void begin(enum family family)
{
    nft_batch_init(&batch, family, RULESET_TABLE);
    put("table");
    commit();
}

void case_open(void)
{
    sock = nft_socket_open(&err);
    ck_assert_msg(sock, "%s", err.text);
}

void case_close(void)
{
    nft_batch_release(&batch);
    nft_socket_close(sock);
    error_clear(&err);
}

/* ---- reading ---- */

/* What keys and values are made of, as kernel_cases.h says; n: a number. */
static const struct {
    const char *set, *key, *value;
} case_kinds[] = {
    {"services", "f", "p"},      {"ports", "p", "p"},        {"endpoints", "pn", "b"},
    {"rejected_ports", "p", ""}, {"service_cidrs", "a", ""}, {"allowed_sources", "s", ""},
    {"affinity", "pa", "p"},     {"learners", "n", ""},      {"picks", "n", ""},
    {"local_picks", "n", ""},
};

static uint32_t case_u32(const uint8_t *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof(number));
    return number;
}

/* Writes one part of a key or value. Returns its length. */
static size_t case_write_part(FILE *out, char kind, const uint8_t *bytes)
{
    const size_t n = address_length(case_family());
    const uint32_t number = case_u32(bytes), list = case_u32(bytes + n);
    const unsigned last = (unsigned)bytes[n - 2] << 8 | bytes[n - 1];
    const unsigned bits = 8 * (unsigned)n - (list & 0xff);
    if (kind == 'p' || kind == 'n')
        fprintf(out,
                kind == 'n'              ? " %u"
                : number & PORT_LOW_MASK ? " p%u/%u"
                                         : " p%u",
                kind == 'n' ? number : number >> PORT_LOW_BITS, number & PORT_LOW_MASK);
    else if (kind == 's')
        fprintf(out, " s%u/%u/%u", list >> 8, last, bits);
    else
        fprintf(out, " %c%u", kind, kind == 'a' ? last : bytes[3]);
    return kind == 'p' || kind == 'n' ? 4 : kind == 'a' ? n : n + (kind == 'f' ? 8 : 4);
}

static void case_write(FILE *out, const char *kinds, const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    for (; *kinds && at < length; kinds++)
        at += case_write_part(out, *kinds, bytes + at);
    ck_assert_uint_eq(at, length);
    ck_assert_int_eq(*kinds, '\0');
}

void case_see(void *ctx, const struct nft_element *e)
{
    struct case_lines *seen = ctx;
    char *line;
    size_t length, i = 0;
    FILE *out = open_memstream(&line, &length);
    while (strcmp(case_kinds[i].set, seen->set) != 0)
        i++;
    ck_assert(e->data || e->data_length == 0);
    case_write(out, case_kinds[i].key, e->key, e->key_length);
    fprintf(out, e->data ? " :" : "");
    case_write(out, case_kinds[i].value, e->data, e->data_length);
    fprintf(out, e->flags & NFT_SET_ELEM_INTERVAL_END ? " end" : "");
    fclose(out);
    vec_push(&seen->lines, line);
}

static int case_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, in one line; "none". */
static void case_print(FILE *out, struct case_lines *seen)
{
    if (seen->lines.n > 0)
        qsort(seen->lines.v, seen->lines.n, sizeof(*seen->lines.v), case_compare);
    for (size_t i = 0; i < seen->lines.n; i++) {
        fprintf(out, "%s%s", i ? "," : "", seen->lines.v[i] + (i == 0));
        free(seen->lines.v[i]);
    }
    fprintf(out, seen->lines.n ? "\n" : "none\n");
    vec_free(&seen->lines);
}

/* show SET: all elements, or why not. */
COMMAND(show)
{
    struct case_lines seen = {.set = words};
    int result =
        nft_socket_read_elements(sock, case_family(), RULESET_TABLE, words, case_see, &seen, &err);
    if (result == 0)
        case_print(out, &seen);
    else
        fprintf(out, "%s\n", strrchr(err.text, ':') + 2);
    ck_assert(result == 0 || seen.lines.n == 0);
    error_clear(&err);
}

/* get SET KEY, or several keys with a comma between: those that are found; and how many, up to the
 * first one that is not. */
COMMAND(get)
{
    struct case_lines seen = {.set = script_word(&words)};
    uint8_t bytes[8 * KEY_SIZE];
    struct nft_keys keys = {bytes, 0, 0};
    size_t found;
    while (*words) {
        struct key key = case_words(&words, ",");
        keys.length = key.length;
        memcpy(bytes + keys.n++ * key.length, key.bytes, key.length);
    }
    int result = keys.n == 1 ? nft_socket_get_element(sock, case_family(), RULESET_TABLE, seen.set,
                                                      bytes, keys.length, case_see, &seen, &err)
                             : nft_socket_get_elements(sock, case_family(), RULESET_TABLE, seen.set,
                                                       &keys, case_see, &seen, &found, &err);
    ck_assert_int_eq(result, 0);
    ck_assert(keys.n == 1 || found == seen.lines.n);
    ck_assert_ptr_null(err.text);
    case_print(out, &seen);
}

size_t size_of(const char *set)
{
    struct case_lines seen = {.set = set};
    int result =
        nft_socket_read_elements(sock, case_family(), RULESET_TABLE, set, case_see, &seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    size_t n = seen.lines.n;
    vec_each (&seen.lines, line)
        free(*line);
    vec_free(&seen.lines);
    return n;
}

COMMAND(commit)
{
    commit();
}

/* The table's comment; "none" without a table. */
COMMAND(comment)
{
    enum family family = *words ? 1 - case_family() : case_family();
    struct nft_table_state state;
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(state.exists == (state.comment != NULL));
    fprintf(out, "%s\n", state.exists ? state.comment : "none");
    free(state.comment);
}

/* try OBJECT: why the kernel rejects the transaction, which begins with an element that is fine,
 * and, unless it is the fake one, which says less, what it refused to do. Checking says the same
 * and does nothing. All or nothing is applied, and nothing is left for the next one. */
COMMAND(try)
{
    const char *object = words;
    int why = 0;
    char *expected = NULL;
    int result = nft_socket_check(sock, &batch, &why, &err);
    ck_assert_int_eq(result, why ? -1 : 0);
    ck_assert_uint_eq(size_of("rejected_ports"), 1);
    if (why) {
        fprintf(out, "%s\n", strerror(why));
        expected = xasprintf("the kernel refused to %s: %s", object, strerror(why));
        ck_assert(strstr(err.text, "fake") || strcmp(err.text, expected) == 0);
        ck_assert_ptr_nonnull(strstr(err.text, strerror(why)));
    }
    error_clear(&err);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), result);
    ck_assert(!why || strstr(err.text, "fake") || strcmp(err.text, expected) == 0);
    ck_assert(!why || strstr(err.text, strerror(why)));
    error_clear(&err);
    nft_batch_clear(&batch);
    ck_assert_uint_eq(size_of("rejected_ports"), why ? 1 : 2);
    ck_assert_uint_eq(size_of("endpoints"), 2);
    put("+ rejected_ports p9");
    commit();
    put("- rejected_ports p9");
    commit();
    put("+ rejected_ports p99");
    free(expected);
}

void case_transactions(int i)
{
    begin((enum family)(i / script_cases("kernel")));
    put("+ rejected_ports p99");
    script_run("kernel", i % script_cases("kernel"));
}
