/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All values together: checks, defaults, results. */
#include "setting.h"

#include "kube-nftd/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void configuration_init(struct configuration *configuration, note_vec *notes)
{
    *configuration = (struct configuration){
        .values = xcalloc(settings_count, sizeof(*configuration->values)), .notes = notes};
}

void configuration_clear(struct configuration *configuration)
{
    for (size_t i = 0; i < settings_count; i++)
        free(configuration->values[i].value);
    free(configuration->values);
}

struct configured *configuration_of(const struct configuration *configuration,
                                    const struct setting *setting)
{
    return &configuration->values[setting - settings];
}

static const struct setting *named(const char *name)
{
    const struct setting *setting = setting_by_field(name);
    return setting ? setting : setting_by_flag(name, strlen(name));
}

const char *configuration_value(const struct configuration *configuration, const char *name)
{
    const char *value = configuration_of(configuration, named(name))->value;
    return value ? value : "";
}

void configuration_set(struct configuration *configuration, const struct setting *setting,
                       char *value, enum setting_source source)
{
    struct configured *configured = configuration_of(configuration, setting);
    free(configured->value);
    *configured = (struct configured){value, source};
}

void configuration_note(struct configuration *configuration, enum log_level level,
                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    vec_push(configuration->notes, (struct note){level, text});
}

/* "detectLocalMode" or "--detect-local-mode", depending on the source. The caller frees it. */
static char *name_of(const struct configuration *configuration, const struct setting *setting)
{
    enum setting_source source = configuration_of(configuration, setting)->source;
    bool in_file = source != FROM_FLAG && *configuration_value(configuration, "config");
    return in_file || !setting->flag ? xstrdup(setting->field) : setting_flag_name(setting);
}

/* Prepends the file to the text of @err. Always -1. */
static int blame_file(const struct configuration *configuration, struct error *err)
{
    const char *file = configuration_value(configuration, "config");
    return *file ? error_prefix(err, "--config %s", file) : -1;
}

/* Prepends the setting, and its file if any, to the text of @err. Always -1. */
static int blame(const struct configuration *configuration, const struct setting *setting,
                 struct error *err)
{
    char *name = name_of(configuration, setting);
    error_prefix(err, "%s", name);
    free(name);
    return configuration_of(configuration, setting)->source == FROM_FLAG
               ? -1
               : blame_file(configuration, err);
}

/* ---- modes ---- */

/* Whether @setting names @mode; "" means iptables, as in kube-proxy. */
static bool is_of_mode(const struct setting *setting, const char *mode)
{
    return setting->modes && setting_choice(setting->modes, mode) >= 0;
}

static bool has_effect(const struct setting *setting, const char *mode)
{
    const struct setting *target = setting->as ? setting_by_field(setting->as) : setting;
    return target->group != GROUP_IGNORED && (!setting->modes || is_of_mode(setting, mode));
}

/* Copies the values that kube-proxy would take from its mode's section (docs/behaviour.md 8.2). */
static void use_section(struct configuration *all, const char *mode)
{
    settings_each (setting) {
        const struct configured *configured = configuration_of(all, setting);
        if (setting->as && is_of_mode(setting, mode))
            configuration_set(all, setting_by_field(setting->as), xstrdup(configured->value),
                              configured->source);
    }
    const struct setting *field = setting_by_field("mode");
    const char *given = configuration_value(all, "mode");
    if (strcmp(mode, "nftables") != 0 && (*configuration_value(all, "config") || *given))
        configuration_note(
            all, LOG_LEVEL_INFO,
            "mode=\"%s\": nftables is used with the settings for %s; NodePorts are served on "
            "nodePortAddresses, by default the node's own addresses",
            given, mode);
    configuration_set(all, field, xstrdup("nftables"), configuration_of(all, field)->source);
}

/* ---- defaults ---- */

static void fill_in(struct configuration *all)
{
    settings_each (setting) {
        const struct configured *configured = configuration_of(all, setting);
        bool given = configured->value && *configured->value;
        if (!given && setting->standard && setting->type != SETTING_LISTEN)
            configuration_set(all, setting, xstrdup(setting->standard), FROM_DEFAULT);
    }
}

/* Adds a missing port: that of the deprecated flag @port_flag, or the default. Port 0 unsets the
 * address. */
static void complete_listen(struct configuration *all, const char *field, const char *port_flag)
{
    const struct setting *setting = setting_by_field(field);
    const char *given = configuration_value(all, field);
    const char *flag = configuration_value(all, port_flag);
    const char *port = *flag ? flag : strchr(setting->standard, ':') + 1;
    char *host =
        *given ? xstrdup(given) : xstrndup(setting->standard, strcspn(setting->standard, ":"));
    enum family family, bound;
    struct address address, bind_address;
    if (!address_parse(configuration_value(all, "bindAddress"), &bound, &bind_address))
        bound = FAMILY_IPV4;
    if (strtol(port, NULL, 10) == 0) {
        configuration_set(all, setting, NULL, FROM_FLAG);
    } else if (address_parse(host, &family, &address)) {
        bool to_ipv6 = !*given && bound == FAMILY_IPV6;
        if (to_ipv6) {
            free(host);
            host = xstrdup(address_is_loopback(family, &address) ? "::1" : "::");
        }
        char *whole = xasprintf(to_ipv6 || family == FAMILY_IPV6 ? "[%s]:%s" : "%s:%s", host, port);
        configuration_set(all, setting, whole, configuration_of(all, setting)->source);
    }
    free(host);
}

/* A file cannot express a minSyncPeriod of 0 (docs/behaviour.md 8.2), so it becomes a valid value.
 * It has no effect. */
static void complete_shortest_period(struct configuration *all)
{
    const struct setting *shortest = setting_by_field("nftables.minSyncPeriod");
    const char *period = configuration_value(all, "nftables.syncPeriod");
    int64_t least = 0, length = 0;
    duration_parse(configuration_value(all, shortest->field), &least);
    duration_parse(period, &length);
    if (least == 0)
        configuration_set(all, shortest, xstrdup(length < 1000000000 ? period : shortest->standard),
                          configuration_of(all, shortest)->source);
}

/* ---- checks ---- */

/* Whether kube-proxy checks the range of @setting: not in the section of another mode, and cluster
 * CIDRs only to detect local traffic by them. */
static bool is_checked(const struct configuration *all, const struct setting *setting,
                       const char *mode)
{
    if (setting_is_below(setting->field, "nftables") || setting_is_below(setting->field, "ipvs"))
        return setting_is_below(setting->field, mode);
    const char *detection = configuration_value(all, "detectLocalMode");
    return setting->type != SETTING_CLUSTER_CIDR || !*detection ||
           strcmp(detection, "ClusterCIDR") == 0;
}

static int check_ranges(const struct configuration *all, const char *mode, struct error *err)
{
    settings_each (setting) {
        const char *value = configuration_of(all, setting)->value;
        if (value && *value && is_checked(all, setting, mode) && setting_check(setting, value, err))
            return blame(all, setting, err);
    }
    return 0;
}

/* Reports a conflict of two fields, by the names of their sources. */
static int fail_both(const struct configuration *all, const char *first, const char *first_value,
                     const char *relation, const char *second, const char *rest, struct error *err)
{
    char *a = name_of(all, setting_by_field(first)), *b = name_of(all, setting_by_field(second));
    error_set(err, "%s %s %s %s%s", a, first_value, relation, b, rest);
    free(a);
    free(b);
    return blame_file(all, err);
}

/* Checks the settings that each detection mode requires. */
static int check_detection(const struct configuration *all, struct error *err)
{
    static const struct {
        const char *mode, *needs;
    } needs[] = {{"BridgeInterface", "detectLocal.bridgeInterface"},
                 {"InterfaceNamePrefix", "detectLocal.interfaceNamePrefix"}};
    const char *mode = configuration_value(all, "detectLocalMode");
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
        if (strcmp(mode, needs[i].mode) == 0 && !*configuration_value(all, needs[i].needs))
            return fail_both(all, "detectLocalMode", mode, "needs", needs[i].needs, "", err);
    return 0;
}

static int check_periods(const struct configuration *all, const char *mode, struct error *err)
{
    const char *shortest = configuration_value(all, "nftables.minSyncPeriod");
    const char *period = configuration_value(all, "nftables.syncPeriod");
    int64_t least = 0, most = 0;
    if (duration_parse(shortest, &least) && duration_parse(period, &most) && least <= most)
        return 0;
    char *field = xasprintf("%s.minSyncPeriod", mode);
    error_set(err, "\"%s\" is longer than syncPeriod, which is \"%s\"", shortest, period);
    blame(all, setting_by_field(field), err);
    free(field);
    return -1;
}

/* The two must not share a port on the same address. */
static int check_listens(const struct configuration *all, struct error *err)
{
    const char *healthz = configuration_value(all, "healthzBindAddress");
    const char *metrics = configuration_value(all, "metricsBindAddress");
    struct listen_address a, b;
    struct error ignored = {0};
    bool parsed = listen_address_parse(healthz, 0, &a, &ignored) == 0 &&
                  listen_address_parse(metrics, 0, &b, &ignored) == 0;
    error_clear(&ignored);
    if (!parsed || a.port != b.port)
        return 0;
    bool same = a.family == b.family && memcmp(&a.address, &b.address, sizeof(a.address)) == 0;
    if (!same && !a.both_families && !b.both_families)
        return 0;
    char *rest = xasprintf(" %s use the same port", metrics);
    fail_both(all, "healthzBindAddress", healthz, "and", "metricsBindAddress", rest, err);
    free(rest);
    return -1;
}

static cJSON *gates_of(const struct configuration *all)
{
    return setting_json(setting_by_field("featureGates"), configuration_value(all, "featureGates"));
}

/* As in kube-proxy 1.37, a gate rules out the mode ipvs. */
static int check_mode(const struct configuration *all, const char *mode, struct error *err)
{
    cJSON *gates = gates_of(all);
    const cJSON *ipvs = cJSON_GetObjectItemCaseSensitive(gates, "KubeProxyIPVS");
    const bool bad = strcmp(mode, "ipvs") == 0 && cJSON_IsFalse(ipvs);
    cJSON_Delete(gates);
    if (!bad)
        return 0;
    error_set(err,
              "\"ipvs\" is none of nftables, iptables, as feature gate KubeProxyIPVS is false");
    return blame(all, setting_by_field("mode"), err);
}

/* ---- notes ---- */

static void note_gates(struct configuration *all)
{
    cJSON *gates = gates_of(all);
    feature_gates_note(gates, all);
    cJSON_Delete(gates);
}

/* Whether a setting with @flag has an effect. */
static bool flag_has_effect(const char *flag, const char *mode)
{
    settings_each (setting)
        if (setting->flag && strcmp(setting->flag, flag) == 0 && has_effect(setting, mode))
            return true;
    return false;
}

/* Lists settings without effect that differ from their defaults. A flag with several settings is
 * listed once, and only if none of them has an effect. */
static void note_ignored(struct configuration *all, const char *mode)
{
    char *names = NULL;
    settings_each (setting) {
        const struct configured *configured = configuration_of(all, setting);
        const char *value = configured->value;
        const char *flag = configured->source == FROM_FLAG ? setting->flag : NULL;
        if (!value || !*value || (setting->standard && strcmp(value, setting->standard) == 0))
            continue;
        if (!flag && !has_effect(setting, mode)) {
            xjoin(&names, "%s", setting->field);
        } else if (flag && setting_is_first(setting) && !flag_has_effect(flag, mode)) {
            char *name = setting_flag_name(setting);
            xjoin(&names, "%s", name);
            free(name);
        }
    }
    if (names)
        configuration_note(all, LOG_LEVEL_DEBUG, "settings without effect here: %s", names);
    free(names);
}

int configuration_complete(struct configuration *all, struct error *err)
{
    const char *given = configuration_value(all, "mode");
    char *mode = xstrdup(*given ? given : "iptables");
    int result = -1;
    note_gates(all);
    note_ignored(all, mode);
    if (check_ranges(all, mode, err) == 0 && check_mode(all, mode, err) == 0) {
        fill_in(all);
        complete_listen(all, "healthzBindAddress", "healthz-port");
        complete_listen(all, "metricsBindAddress", "metrics-port");
        use_section(all, mode);
        if (check_detection(all, err) == 0 && check_periods(all, mode, err) == 0) {
            complete_shortest_period(all);
            result = check_listens(all, err);
        }
    }
    free(mode);
    return result;
}

/* ---- results ---- */

static bool is_given(const struct configuration *all, const char *field)
{
    enum setting_source source = configuration_of(all, setting_by_field(field))->source;
    return source == FROM_FLAG || source == FROM_FILE;
}

void configuration_store(const struct configuration *all, struct options *options)
{
    static const struct address none;
    enum family family;
    struct address address;
    settings_each (setting) {
        const char *value = configuration_of(all, setting)->value;
        if (value && *value)
            setting_store(setting, value, options);
    }
    options->conntrack.max_given =
        is_given(all, "conntrack.maxPerCore") || is_given(all, "conntrack.min");
    /* 0.0.0.0 and :: mean unset */
    if (options->bind_address && address_parse(options->bind_address, &family, &address) &&
        memcmp(&address, &none, sizeof(none)) == 0) {
        free(options->bind_address);
        options->bind_address = NULL;
    }
}

char *configuration_flags(const struct configuration *all)
{
    char *text = xstrdup("");
    settings_each (setting) {
        const char *value = configuration_of(all, setting)->value;
        if (!setting->flag || !setting_is_first(setting))
            continue;
        char *longer = xasprintf("%s%s=%s\n", text, setting->flag, value ? value : "");
        free(text);
        text = longer;
    }
    return text;
}

/* Adds @value (owned) at @path and creates sections on the way. */
static void put_at(cJSON *tree, const char *path, cJSON *value)
{
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        char *name = xstrndup(path, (size_t)(dot - path));
        cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, name);
        tree = section ? section : cJSON_AddObjectToObject(tree, name);
        free(name);
        path = dot + 1;
    }
    cJSON_AddItemToObject(tree, path, value);
}

/* The setting with the next field after *@field in sorted order, and stores that; NULL at the end.
 */
static const struct setting *next_field(const char **field)
{
    const struct setting *next = NULL;
    const char *least = NULL;
    settings_each (setting) {
        const char *own = setting->field;
        if (own && strcmp(own, *field) > 0 && (!least || strcmp(own, least) < 0)) {
            next = setting;
            least = own;
        }
    }
    *field = least;
    return next;
}

cJSON *configuration_tree(const struct configuration *all)
{
    cJSON *tree = cJSON_CreateObject();
    const struct setting *setting;
    for (const char *field = ""; (setting = next_field(&field));) {
        const char *value = configuration_of(all, setting)->value;
        if (!(setting->traits & OMIT_EMPTY) || (value && *value))
            put_at(tree, field, setting_json(setting, value));
    }
    return tree;
}
