/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From flags to the proxy's configuration, and what kernels that lack something leave of it:
 * cases/proxy_options. */
#include "proxy.h"

#include "objects.h"
#include "script.h"

#define MOST_FLAGS 8

/* ---- flags ---- */

static const char *const detectors[] = {
    [DETECT_NONE] = "none",
    [DETECT_CIDRS] = "cidrs",
    [DETECT_INTERFACE] = "interface",
    [DETECT_INTERFACE_PREFIX] = "prefix",
};

/* A letter for each: f fib, r reject, o an owner of tables, c counters, l flowtables. */
static const char *lack_text(const struct ruleset_config *ruleset)
{
    static char text[6];
    snprintf(text, sizeof(text), "%s%s%s%s%s", ruleset->no_fib ? "f" : "",
             ruleset->no_reject ? "r" : "", ruleset->owned ? "" : "o",
             ruleset->no_counters ? "c" : "", ruleset->no_flowtable ? "l" : "");
    return text;
}

static void lack(struct ruleset_config *ruleset, const char *letters)
{
    ruleset->no_fib = strchr(letters, 'f');
    ruleset->no_reject = strchr(letters, 'r');
    ruleset->owned = !strchr(letters, 'o');
    ruleset->no_counters = strchr(letters, 'c');
    ruleset->no_flowtable = strchr(letters, 'l');
}

static void write_family(FILE *out, const struct ruleset_config *ruleset, enum family family)
{
    fprintf(out, "%s%s", family == FAMILY_IPV4 ? "" : "; ", detectors[ruleset->detector]);
    if (ruleset->interface)
        fprintf(out, " %s", ruleset->interface);
    if (ruleset->masquerade_all)
        fputs(" all", out);
    if (ruleset->mark != 0x4000)
        fprintf(out, " mark=%x", ruleset->mark);
    if (ruleset->counting)
        fprintf(out, " counts=%s", ruleset->counting == COUNT_SERVICES ? "services" : "endpoints");
    if (ruleset->flowtable)
        fputs(" flowtable", out);
    if (lack_text(ruleset)[0])
        fprintf(out, " lacks=%s", lack_text(ruleset));
}

/* What the configuration has before flags are applied. */
static struct proxy_config config;

static void set_up(void)
{
    config = (struct proxy_config){.families = {true, false}};
    for (int i = 0; i < FAMILY_COUNT; i++)
        lack(&config.rulesets[i], "");
    script_show_log(LOG_LEVEL_INFO);
}

/* @flags as main() takes them from the command line, without the name of the program. */
static void parse(const char *flags, struct options *options)
{
    char program[] = "kube-nftd", *argv[MOST_FLAGS + 1] = {program};
    int argc = 1;
    struct error err = {0};
    each_word(flags, word)
    {
        ck_assert_int_le(argc, MOST_FLAGS);
        argv[argc++] = xstrdup(word);
    }
    int result = options_parse(argc, argv, options, &err);
    ck_assert_msg(result == 0, "%s: %s", flags, err.text);
    while (--argc > 0)
        free(argv[argc]);
}

/* What there was for other reasons stays. */
COMMAND(flags)
{
    struct options options;
    struct proxy_config configured = config;
    parse(words, &options);
    configured.options = &options;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        proxy_configure_ruleset(&configured, (enum family)i);
        write_family(out, &configured.rulesets[i], (enum family)i);
    }
    fputs("\n", out);
    options_clear(&options);
}

/* "IPv4 LETTERS": what the kernel lacks of a family may be known before the flags are. */
COMMAND(lacks)
{
    enum family family = strcmp(script_word(&words), "IPv6") == 0 ? FAMILY_IPV6 : FAMILY_IPV4;
    lack(&config.rulesets[family], words);
}

/* Which families are in use. */
COMMAND(families)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        config.families[i] = strstr(words, family_name((enum family)i));
}

/* Whether the CIDRs of flags are of these families. */
COMMAND(check)
{
    struct options options;
    struct error err = {0};
    parse(words, &options);
    config.options = &options;
    int result = proxy_check_cluster_cidr(&config, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    fprintf(out, "%s\n", err.text ? err.text : "fine");
    error_clear(&err);
    options_clear(&options);
}

/* ---- kernels ---- */

/* What the kernel lacks of a family: f fib, r reject, o an owner of tables, x a requirement. */
static const char *lacks[FAMILY_COUNT];
static unsigned runs[FAMILY_COUNT], cleared;
static bool asked_for_flowtables;
static struct nft_socket *const the_socket = (struct nft_socket *)(void *)lacks;

/* In place of src/ruleset/preflight.c. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT], bool flowtables,
                   struct preflight out[FAMILY_COUNT])
{
    ck_assert_ptr_eq(socket, the_socket);
    asked_for_flowtables = flowtables;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        runs[i] += families[i];
        out[i] = (struct preflight){.family = (enum family)i};
    }
}

void preflight_clear(struct preflight *preflight)
{
    cleared++;
}

bool preflight_passed(const struct preflight *preflight)
{
    return !strchr(lacks[preflight->family], 'x');
}

bool preflight_has(const struct preflight *preflight, enum preflight_need need)
{
    static const char letters[] = {[NEED_FIB] = 'f',
                                   [NEED_REJECT] = 'r',
                                   [NEED_OWNER] = 'o',
                                   [NEED_COUNTERS] = 'c',
                                   [NEED_FLOWTABLE] = 'l'};
    ck_assert(need != NEED_ALWAYS);
    return !strchr(lacks[preflight->family], letters[need]);
}

char *preflight_missing(const struct preflight *preflight)
{
    return xasprintf("X of %s", family_name(preflight->family));
}

/* "LETTERS LETTERS [FLAG]...": what is lacking of IPv4 and of IPv6, "." for nothing; "-": the
 * family is not in use before. Families left, with what they do without. */
COMMAND(kernel)
{
    struct error err = {0};
    struct options options;
    struct proxy_config left = {.options = &options};
    cleared = 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        lacks[i] = script_word(&words);
        runs[i] = 0;
        left.families[i] = *lacks[i] != '-';
    }
    parse(words, &options);
    int result = proxy_check_kernel(the_socket, &left, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    ck_assert_uint_eq(cleared, FAMILY_COUNT);
    ck_assert_int_eq(asked_for_flowtables, options.flowtable_devices != NULL);
    const char *between = "";
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const char *without = lack_text(&left.rulesets[i]);
        ck_assert_uint_eq(runs[i], *lacks[i] != '-');
        if (!left.families[i])
            continue;
        fprintf(out, "%s%s%s%s", between, family_name((enum family)i), *without ? "-" : "",
                without);
        between = " ";
    }
    fprintf(out, "%s\n", err.text ? err.text : "");
    error_clear(&err);
    options_clear(&options);
}

CASES("proxy_options")

UNIT_FIXTURE(set_up, NULL)
