/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Types of values: their syntax and range, in flags, and how they are stored in struct options. */
#include "setting_value.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/if.h>
#include <math.h>
#include <string.h>

#define NANOSECONDS 1000000000

char *setting_next_entry(const char **list)
{
    if (!*list)
        return NULL;
    size_t length = strcspn(*list, ",");
    char *entry = xstrndup(*list, length);
    *list = (*list)[length] ? *list + length + 1 : NULL;
    return entry;
}

int setting_choice(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int i = 0;; i++) {
        size_t n = strcspn(words, ",");
        if (n == length && memcmp(words, word, n) == 0)
            return i;
        if (!words[n])
            return -1;
        words += n + strlen(", ");
    }
}

/* ---- switches, numbers and durations ---- */

const char *setting_switch(const char *text)
{
    if (setting_choice("true, True, TRUE, t, T, 1", text) >= 0)
        return "true";
    return setting_choice("false, False, FALSE, f, F, 0", text) >= 0 ? "false" : NULL;
}

static bool is_integer(const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return isdigit((unsigned char)text[*text == '-']) && !*end && !errno &&
           llabs(number) <= UINT32_MAX;
}

static int fail_number(const struct setting *s, const char *text, struct error *err)
{
    return error_set(err, "\"%s\" is not a number from %" PRId64 " to %" PRId64, text, s->low,
                     s->high);
}

static bool is_fraction(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    return isdigit((unsigned char)text[*text == '-']) && !*end && isfinite(number);
}

int64_t setting_nanoseconds(const char *value)
{
    int64_t nanoseconds = 0;
    duration_parse(value, &nanoseconds);
    return nanoseconds;
}

/* ---- syntax ---- */

bool setting_is_list(const struct setting *s)
{
    return s->type >= SETTING_CIDRS;
}

static int check_interface(const char *text, struct error *err)
{
    if (strlen(text) >= IFNAMSIZ)
        return error_set(err, "\"%s\" is longer than %d bytes, the most for an interface name",
                         text, IFNAMSIZ - 1);
    for (const char *s = text; *s; s++)
        if (!isgraph((unsigned char)*s) || strchr("\"'\\/*:", *s))
            return error_set(err,
                             "\"%s\" is not an interface name: blanks, quotes, '\\', '/', '*', ':' "
                             "and non-ASCII characters are not allowed",
                             text);
    return 0;
}

/* "*" stands for any part of the name. */
static int check_device(const char *text, struct error *err)
{
    size_t length = 0;
    for (const char *s = text; *s; s++)
        length += *s != '*';
    if (length >= IFNAMSIZ)
        return error_set(err, "\"%s\" is longer than %d bytes, the most for an interface name",
                         text, IFNAMSIZ - 1);
    for (const char *s = text; *s; s++)
        if (!isgraph((unsigned char)*s) || strchr("\"'\\/:;{}[]?,", *s))
            return error_set(
                err, "\"%s\" is neither the name of an interface nor a pattern like veth*", text);
    return *text ? 0 : error_set(err, "\"\" is not the name of an interface");
}

static int check_cidr(const char *text, struct error *err)
{
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(text, &family, &cidr))
        return error_set(err, "\"%s\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64", text);
    return 0;
}

/* Words among NodePort addresses, as in kube-proxy 1.37. */
static const struct node_port_word {
    const char *word, *cidrs; /* that it stands for; NULL: the node's own addresses */
} node_port_words[] = {
    {"primary", NULL}, {"localhost", "127.0.0.0/8,::1/128"}, {"all", "0.0.0.0/0,::/0"}};

#define NODE_PORT_WORDS (sizeof(node_port_words) / sizeof(node_port_words[0]))

static const struct node_port_word *find_node_port_word(const char *text)
{
    for (size_t i = 0; i < NODE_PORT_WORDS; i++)
        if (strcmp(node_port_words[i].word, text) == 0)
            return &node_port_words[i];
    return NULL;
}

static int check_node_ports(const char *entry, struct error *err)
{
    if (find_node_port_word(entry) || check_cidr(entry, err) == 0)
        return 0;
    return error_set(err,
                     "\"%s\" is neither a CIDR like 192.0.2.0/24 or 2001:db8::/64 nor one of "
                     "primary, localhost, all",
                     entry);
}

int setting_check_entry(enum setting_type type, const char *entry, struct error *err)
{
    const char *equals = type == SETTING_GATES ? strchr(entry, '=') : strrchr(entry, '=');
    bool is_pair = equals && equals > entry;
    if (type == SETTING_GATES)
        return is_pair && setting_switch(equals + 1)
                   ? 0
                   : error_set(err, "\"%s\" is not NAME=true or NAME=false", entry);
    if (type == SETTING_VMODULE)
        return is_pair && equals[1] != '-' && is_integer(equals + 1)
                   ? 0
                   : error_set(err, "\"%s\" is not PATTERN=N", entry);
    return type == SETTING_NODE_PORTS ? check_node_ports(entry, err)
           : type == SETTING_DEVICES  ? check_device(entry, err)
                                      : check_cidr(entry, err);
}

/* Allows at most one CIDR per family. */
static int check_families(const char *list, struct error *err)
{
    bool seen[FAMILY_COUNT] = {false};
    int result = 0;
    for (char *entry; result == 0 && (entry = setting_next_entry(&list)); free(entry)) {
        enum family family;
        struct cidr cidr;
        char text[ADDRESS_TEXT_SIZE];
        if (!cidr_parse(entry, &family, &cidr))
            continue;
        if (seen[family])
            result = error_set(err, "%s/%u is a second %s CIDR, but only one per family is allowed",
                               address_format(family, &cidr.address, text), cidr.length,
                               family_name(family));
        seen[family] = true;
    }
    return result;
}

/* Among NodePort addresses, words must not repeat; CIDRs may. */
static int check_list(enum setting_type type, const char *list, struct error *err)
{
    int result = 0, n = 0;
    unsigned seen = 0;
    list = *list ? list : NULL;
    for (char *entry; result == 0 && (entry = setting_next_entry(&list)); free(entry)) {
        const struct node_port_word *word =
            type == SETTING_NODE_PORTS ? find_node_port_word(entry) : NULL;
        const unsigned bit = word ? 1U << (word - node_port_words) : 0;
        result = setting_check_entry(type, entry, err);
        n++;
        if (seen & bit)
            result = error_set(err, "entry %d: \"%s\" was given before", n, entry);
        seen |= bit;
    }
    return result;
}

int setting_check_form(const struct setting *s, const char *text, struct error *err)
{
    struct listen_address listen;
    enum family family;
    struct address address;
    struct taint taint = {0};
    int64_t nanoseconds;
    int result = 0;
    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_CIDRS: /* checked by setting_check() */
        return 0;
    case SETTING_NAME:
        return text[strspn(text, " \t\n\v\f\r")] ? 0 : error_set(err, "the name is empty");
    case SETTING_INTERFACE:
        return check_interface(text, err);
    case SETTING_ADDRESS:
        return address_parse(text, &family, &address)
                   ? 0
                   : error_set(err, "\"%s\" is not an IP address", text);
    case SETTING_TAINT:
        result = taint_parse(text, &taint, err);
        taint_clear(&taint);
        return result;
    case SETTING_LISTEN:
        return listen_address_parse(text, 1, &listen, err);
    case SETTING_CHOICE:
        return setting_choice(s->choices, text) >= 0
                   ? 0
                   : error_set(err, "\"%s\" is none of %s", text, s->choices);
    case SETTING_SWITCH:
    case SETTING_VERSION:
        return setting_switch(text) ? 0 : error_set(err, "\"%s\" is neither true nor false", text);
    case SETTING_NUMBER:
        return is_integer(text) ? 0 : fail_number(s, text, err);
    case SETTING_FRACTION:
        return is_fraction(text) ? 0 : error_set(err, "\"%s\" is not a number", text);
    case SETTING_DURATION:
    case SETTING_SECONDS:
        return duration_parse(text, &nanoseconds)
                   ? 0
                   : error_set(err, "\"%s\" is not a duration like 30s, 1h30m or 0s", text);
    default:
        return check_list(s->type, text, err);
    }
}

/* ---- from flags ---- */

char *setting_read_flag(const struct setting *s, const char *text, const char *before,
                        struct error *err)
{
    bool is_switch = s->type == SETTING_SWITCH || s->type == SETTING_VERSION;
    bool adds = setting_is_list(s) && s->type != SETTING_VMODULE && before && *before;
    text = text ? text : "true";
    if (s->type == SETTING_VERSION && strcmp(text, "raw") == 0)
        return xstrdup(text);
    /* kube-proxy would report this as its version */
    if (s->type == SETTING_VERSION && text[0] == 'v' && isdigit((unsigned char)text[1]))
        return xstrdup("false");
    if (!*text && (s->traits & NOT_EMPTY)) {
        error_set(err, "the value is empty");
        return NULL;
    }
    bool may_be_empty = s->type < SETTING_SWITCH || s->type >= SETTING_CLUSTER_CIDR;
    if (!*text && may_be_empty)
        return xstrdup(adds ? before : "");
    char *value = adds ? xasprintf("%s,%s", before, text) : xstrdup(text);
    if (setting_check_form(s, value, err)) {
        free(value);
        return NULL;
    }
    if (is_switch) {
        free(value);
        value = xstrdup(setting_switch(text));
    }
    return value;
}

/* ---- ranges ---- */

int setting_check(const struct setting *s, const char *value, struct error *err)
{
    int64_t number = strtoll(value, NULL, 10), nanoseconds = setting_nanoseconds(value);
    switch (s->type) {
    case SETTING_NUMBER:
        return number >= s->low && number <= s->high ? 0 : fail_number(s, value, err);
    case SETTING_DURATION:
    case SETTING_SECONDS:
        if (nanoseconds < 0)
            return error_set(err, "\"%s\" is below zero", value);
        if (nanoseconds == 0 && (s->traits & ABOVE_ZERO))
            return error_set(err, "\"%s\" is not above zero", value);
        if (s->type == SETTING_SECONDS && nanoseconds / NANOSECONDS > INT_MAX)
            return error_set(err, "\"%s\" is more than %d seconds", value, INT_MAX);
        return 0;
    case SETTING_CIDRS:
        return check_list(s->type, value, err);
    case SETTING_CLUSTER_CIDR:
        return check_families(value, err);
    default:
        return 0;
    }
}

/* ---- into options ---- */

/* A CIDR, or a word that stands for some. */
static void store_node_ports(const char *entry, struct node_port_addresses *addresses)
{
    const struct node_port_word *word = find_node_port_word(entry);
    addresses->primary = addresses->primary || (word && !word->cidrs);
    for (const char *cidrs = word ? word->cidrs : entry; cidrs;) {
        char *text = setting_next_entry(&cidrs);
        enum family family;
        struct cidr cidr;
        if (cidr_parse(text, &family, &cidr))
            vec_push(&addresses->cidrs[family], cidr);
        free(text);
    }
}

/* Stores lists. Of cluster CIDRs, only the first of each family is used. */
static void store_list(const struct setting *s, const char *value, struct options *options)
{
    for (char *entry; (entry = setting_next_entry(&value)); free(entry)) {
        enum family family;
        struct cidr cidr;
        if (s->type == SETTING_GATES) {
            char *equals = strchr(entry, '=');
            *equals = '\0';
            feature_gate_store(entry, strcmp(setting_switch(equals + 1), "true") == 0, options);
        } else if (s->type == SETTING_NODE_PORTS) {
            store_node_ports(entry, &options->node_port_addresses);
        } else if (cidr_parse(entry, &family, &cidr) && !options->has_cluster_cidr[family]) {
            options->has_cluster_cidr[family] = true;
            options->cluster_cidr[family] = cidr;
        }
    }
}

void setting_store(const struct setting *s, const char *value, struct options *options)
{
    void *place = (char *)options + s->offset;
    if (s->offset == 0)
        return;
    switch (s->type) {
    case SETTING_CHOICE:
        *(int *)place = setting_choice(s->choices, value);
        break;
    case SETTING_VERSION:
        *(int *)place = setting_choice("false, true, raw", value);
        break;
    case SETTING_SWITCH:
        *(bool *)place = strcmp(value, "true") == 0;
        break;
    case SETTING_NUMBER:
        *(int *)place = (int)strtoll(value, NULL, 10);
        break;
    case SETTING_FRACTION:
        *(double *)place = strtod(value, NULL);
        break;
    case SETTING_DURATION:
        *(double *)place = (double)setting_nanoseconds(value) / NANOSECONDS;
        break;
    case SETTING_SECONDS:
        *(int *)place = (int)(setting_nanoseconds(value) / NANOSECONDS);
        break;
    case SETTING_CLUSTER_CIDR:
    case SETTING_NODE_PORTS:
    case SETTING_GATES:
        store_list(s, value, options);
        break;
    default:
        *(char **)place = xstrdup(value);
    }
}

void setting_clear(const struct setting *s, struct options *options)
{
    if (s->offset != 0 && (s->type <= SETTING_LISTEN || s->type == SETTING_DEVICES))
        free(*(char **)(void *)((char *)options + s->offset));
}
