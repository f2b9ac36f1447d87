/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What follows from the settings that were given: defaults, and checks of one by another. */
#include "setting.h"

#include "kube-nftd/base.h"

#include <stdarg.h>
#include <string.h>

struct settling {
    struct configuration *all;
    note_vec *notes;
    const char *section; /* of the mode that was given */
};

__attribute__((format(printf, 3, 4))) static void note(struct settling *s, int importance,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct note entry = {.text = xvasprintf(format, args)};
    va_end(args);
    entry.importance = importance;
    vec_push(s->notes, entry);
}

static const struct setting *by_flag(const char *flag)
{
    return setting_by_flag(flag, strlen(flag));
}

static struct configured *of_field(const struct settling *s, const char *field)
{
    return configuration_of(s->all, setting_by_field(field));
}

static bool is_given(const struct configured *value)
{
    return value->json && !cJSON_IsNull(value->json);
}

/* The text of a field, "" if there is none. */
static const char *text_of(const struct settling *s, const char *field)
{
    const struct configured *value = of_field(s, field);
    return is_given(value) ? value->json->valuestring : "";
}

static void set_text(struct settling *s, const struct setting *setting, const char *text)
{
    cJSON *json = cJSON_CreateString(text);
    configuration_set(s->all, setting, json, configuration_of(s->all, setting)->source);
}

/* "detectLocalMode" or "--detect-local-mode", whichever the operator knows it by. The
 * caller frees it. */
static char *name_of(const struct settling *s, const char *field)
{
    const struct setting *setting = setting_by_field(field);
    enum setting_source source = configuration_of(s->all, setting)->source;
    bool in_file = source != FROM_FLAG && s->all->file;
    return in_file || !setting->flag ? xstrdup(field) : setting_flag_name(setting);
}

/* ---- defaults ---- */

static void fill_in(struct settling *s, const struct setting *setting)
{
    struct configured *value = configuration_of(s->all, setting);
    struct error err = {0};
    bool empty = cJSON_IsArray(value->json) && !value->json->child;
    if (!setting->standard || (is_given(value) && !empty))
        return;
    cJSON *json = setting_read_text(setting, setting->standard, NULL, &err);
    configuration_set(s->all, setting, json, FROM_DEFAULT);
}

static bool binds_ipv6(const struct settling *s)
{
    enum family family;
    struct address address;
    return address_parse(text_of(s, "bindAddress"), &family, &address) && family == FAMILY_IPV6;
}

/* The host of a setting's default address, for the family in use. */
static char *default_host(const struct settling *s, const struct setting *setting)
{
    enum family family;
    struct address address;
    char *host = xstrndup(setting->standard, strcspn(setting->standard, ":"));
    if (!binds_ipv6(s) || !address_parse(host, &family, &address))
        return host;
    bool loopback = address_is_loopback(family, &address);
    free(host);
    return xstrdup(loopback ? "::1" : "::");
}

/* Gives an address that has none a port: that of the deprecated flag @port, else the usual one. */
static void settle_listen(struct settling *s, const char *field, const char *port_flag)
{
    const struct setting *setting = setting_by_field(field);
    const struct configured *value = configuration_of(s->all, setting);
    const struct configured *flag = configuration_of(s->all, by_flag(port_flag));
    int port = flag->json ? flag->json->valueint : (int)setting->high;
    char *host = is_given(value) ? xstrdup(value->json->valuestring) : default_host(s, setting);
    enum family family;
    struct address address;
    if (port == 0) {
        configuration_set(s->all, setting, NULL, FROM_FLAG);
    } else if (address_parse(host, &family, &address)) {
        char *whole = xasprintf(family == FAMILY_IPV6 ? "[%s]:%d" : "%s:%d", host, port);
        set_text(s, setting, whole);
        free(whole);
    }
    free(host);
}

static void fill_in_defaults(struct settling *s)
{
    for (size_t i = 0; i < settings_count; i++)
        if (settings[i].type != SETTING_LISTEN)
            fill_in(s, &settings[i]);
    settle_listen(s, "healthzBindAddress", "healthz-port");
    settle_listen(s, "metricsBindAddress", "metrics-port");
}

/* ---- mode ---- */

static bool is_in_section(const struct setting *setting, const char *section)
{
    size_t length = strlen(section);
    return setting->field && strncmp(setting->field, section, length) == 0 &&
           setting->field[length] == '.';
}

/* Whether ranges of @setting are checked: those of two sections only if their mode is given. */
static bool counts(const struct settling *s, const struct setting *setting)
{
    if (is_in_section(setting, "nftables"))
        return strcmp(s->section, "nftables") == 0;
    return !is_in_section(setting, "ipvs") || strcmp(s->section, "ipvs") == 0;
}

/* "" means iptables, as in kube-proxy. */
static const char *section_of(const char *mode)
{
    static const char *const sections[] = {"nftables", "ipvs"};
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (strcmp(sections[i], mode) == 0)
            return sections[i];
    return "iptables";
}

/* What is taken from sections, and from which of them. */
static const struct {
    const char *name, *in_ipvs;
} sectioned[] = {
    {"masqueradeAll", "iptables"},
    {"masqueradeBit", "iptables"},
    {"syncPeriod", "ipvs"},
    {"minSyncPeriod", "ipvs"},
};

#define N_SECTIONED (sizeof(sectioned) / sizeof(sectioned[0]))

/* The field of the given mode. */
static const struct setting *sectioned_setting(const struct settling *s, size_t i)
{
    bool ipvs = strcmp(s->section, "ipvs") == 0;
    char *field = xasprintf("%s.%s", ipvs ? sectioned[i].in_ipvs : s->section, sectioned[i].name);
    const struct setting *setting = setting_by_field(field);
    free(field);
    return setting;
}

/* The field that stands for it from then on. */
static const struct setting *nftables_setting(size_t i)
{
    char *field = xasprintf("nftables.%s", sectioned[i].name);
    const struct setting *setting = setting_by_field(field);
    free(field);
    return setting;
}

static void take_over(struct settling *s, size_t i)
{
    const struct configured *value = configuration_of(s->all, sectioned_setting(s, i));
    cJSON *json = cJSON_Duplicate(value->json, true);
    configuration_set(s->all, nftables_setting(i), json, value->source);
}

/* What kube-proxy would take from the section of its mode (docs/behaviour.md 8.2). */
static void settle_mode(struct settling *s)
{
    const struct setting *mode = setting_by_field("mode");
    if (strcmp(s->section, "nftables") != 0) {
        for (size_t i = 0; i < N_SECTIONED; i++)
            take_over(s, i);
        if (s->all->file || is_given(configuration_of(s->all, mode)))
            note(s, NOTE_INFO,
                 "mode=\"%s\": nftables is used with the settings for %s; NodePorts are served on "
                 "nodePortAddresses, by default the node's own addresses",
                 text_of(s, "mode"), s->section);
    }
    set_text(s, mode, "nftables");
}

/* ---- checks ---- */

static int check_ranges(const struct settling *s, struct error *err)
{
    for (size_t i = 0; i < settings_count; i++) {
        const struct configured *value = &s->all->values[i];
        if (value->json && counts(s, &settings[i]) && setting_check(&settings[i], value->json, err))
            return configuration_blame(s->all, &settings[i], err);
    }
    return 0;
}

static int check_needed(const struct settling *s, const char *field, struct error *err)
{
    if (*text_of(s, field))
        return 0;
    char *mode = name_of(s, "detectLocalMode"), *needed = name_of(s, field);
    error_set(err, "%s %s needs %s", mode, text_of(s, "detectLocalMode"), needed);
    free(mode);
    free(needed);
    return s->all->file ? error_prefix(err, "--config %s", s->all->file) : -1;
}

/* At most one of each family. */
static int check_cluster_cidrs(const struct settling *s, struct error *err)
{
    char *copy = xstrdup(text_of(s, "clusterCIDR")), *rest = *copy ? copy : NULL, *entry;
    bool seen[FAMILY_COUNT] = {false};
    int result = 0;
    while (result == 0 && (entry = strsep(&rest, ","))) {
        enum family family;
        struct cidr cidr;
        char text[ADDRESS_TEXT_SIZE];
        if (!cidr_parse(entry, &family, &cidr))
            continue;
        if (seen[family]) {
            error_set(err, "%s/%u is a second %s CIDR, but only one per family is allowed",
                      address_format(family, &cidr.address, text), cidr.length,
                      family_name(family));
            result = configuration_blame(s->all, setting_by_field("clusterCIDR"), err);
        }
        seen[family] = true;
    }
    free(copy);
    return result;
}

/* What each way of telling pods needs. */
static int check_detection(const struct settling *s, struct error *err)
{
    const char *mode = text_of(s, "detectLocalMode");
    if (strcmp(mode, "BridgeInterface") == 0)
        return check_needed(s, "detectLocal.bridgeInterface", err);
    if (strcmp(mode, "InterfaceNamePrefix") == 0)
        return check_needed(s, "detectLocal.interfaceNamePrefix", err);
    return strcmp(mode, "ClusterCIDR") == 0 ? check_cluster_cidrs(s, err) : 0;
}

static int64_t nanoseconds_of(const struct settling *s, const char *field)
{
    int64_t nanoseconds = 0;
    duration_parse(text_of(s, field), &nanoseconds);
    return nanoseconds;
}

static int check_periods(const struct settling *s, struct error *err)
{
    if (nanoseconds_of(s, "nftables.minSyncPeriod") <= nanoseconds_of(s, "nftables.syncPeriod"))
        return 0;
    char *field = xasprintf("%s.minSyncPeriod", s->section);
    error_set(err, "\"%s\" is longer than syncPeriod, which is \"%s\"", text_of(s, field),
              text_of(s, "nftables.syncPeriod"));
    configuration_blame(s->all, setting_by_field(field), err);
    free(field);
    return -1;
}

/* A file cannot say a shortest time of 0 (docs/behaviour.md 8.2): makes it what a file can. It has
 * no effect. */
static void settle_shortest_period(struct settling *s)
{
    const struct setting *shortest = setting_by_field("nftables.minSyncPeriod");
    const char *period = text_of(s, "nftables.syncPeriod");
    bool is_short = nanoseconds_of(s, "nftables.syncPeriod") < 1000000000;
    if (nanoseconds_of(s, shortest->field) == 0)
        set_text(s, shortest, is_short ? period : shortest->standard);
}

/* Whether both want one port of one address. */
static bool overlap(const char *first, const char *second)
{
    struct listen_address a, b;
    struct error err = {0};
    bool parsed = listen_address_parse(first, 0, &a, &err) == 0 &&
                  listen_address_parse(second, 0, &b, &err) == 0;
    error_clear(&err);
    if (!parsed || a.port != b.port)
        return false;
    return a.both_families || b.both_families ||
           (a.family == b.family && memcmp(&a.address, &b.address, sizeof(a.address)) == 0);
}

static int check_listens(const struct settling *s, struct error *err)
{
    const char *healthz = text_of(s, "healthzBindAddress");
    const char *metrics = text_of(s, "metricsBindAddress");
    if (!*healthz || !overlap(healthz, metrics))
        return 0;
    char *first = name_of(s, "healthzBindAddress"), *second = name_of(s, "metricsBindAddress");
    error_set(err, "%s %s and %s %s use the same port", first, healthz, second, metrics);
    free(first);
    free(second);
    return s->all->file ? error_prefix(err, "--config %s", s->all->file) : -1;
}

/* ---- what an operator should know ---- */

static void note_gates(struct settling *s)
{
    const cJSON *gate, *gates = of_field(s, "featureGates")->json;
    char *names = NULL;
    cJSON_ArrayForEach (gate, gates)
        if (strcmp(gate->string, "AllowServiceExternalIPs") != 0)
            xjoin(&names, "%s", gate->string);
    if (names)
        note(s, NOTE_WARNING, "feature gates without effect here: %s", names);
    free(names);
}

/* Whether the mode gives @setting, of one of the sections of modes, an effect. */
static bool has_effect_by_mode(const struct settling *s, const struct setting *setting)
{
    for (size_t i = 0; i < N_SECTIONED; i++)
        if (sectioned_setting(s, i) == setting)
            return nftables_setting(i)->group != GROUP_IGNORED;
    return false;
}

static bool has_effect(const struct settling *s, const struct setting *setting)
{
    if (is_in_section(setting, "nftables") || is_in_section(setting, "iptables") ||
        is_in_section(setting, "ipvs"))
        return has_effect_by_mode(s, setting);
    return setting->group != GROUP_IGNORED;
}

/* Whether @value, which was given, is just the default. */
static bool is_standard(const struct setting *setting, const cJSON *value)
{
    struct error err = {0};
    if (!setting->standard)
        return cJSON_IsString(value) && !*value->valuestring;
    cJSON *standard = setting_read_text(setting, setting->standard, NULL, &err);
    bool same = cJSON_Compare(value, standard, true);
    cJSON_Delete(standard);
    return same;
}

/* Whether something else than the default was asked for, of a setting that has no effect. */
static bool is_ignored(const struct settling *s, const struct setting *setting)
{
    const struct configured *value = configuration_of(s->all, setting);
    return is_given(value) && !has_effect(s, setting) && !is_standard(setting, value->json);
}

/* Whether the flag of @setting stands for the setting before it, too, or has an effect on another
 * one: it is named once then, or not at all. */
static bool flag_counts(const struct settling *s, const struct setting *setting)
{
    if (by_flag(setting->flag) != setting)
        return true;
    for (size_t i = 0; i < settings_count; i++)
        if (settings[i].flag && strcmp(settings[i].flag, setting->flag) == 0 &&
            has_effect(s, &settings[i]))
            return true;
    return false;
}

static void note_ignored(struct settling *s)
{
    char *names = NULL;
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *setting = &settings[i];
        bool by_flag_alone = s->all->values[i].source == FROM_FLAG;
        if (!is_ignored(s, setting) || (by_flag_alone && flag_counts(s, setting)))
            continue;
        char *name = by_flag_alone ? setting_flag_name(setting) : xstrdup(setting->field);
        xjoin(&names, "%s", name);
        free(name);
    }
    if (names)
        note(s, NOTE_DETAIL, "settings without effect here: %s", names);
    free(names);
}

int configuration_settle(struct configuration *configuration, note_vec *notes, struct error *err)
{
    struct settling s = {.all = configuration, .notes = notes};
    s.section = section_of(text_of(&s, "mode"));
    note_gates(&s);
    note_ignored(&s);
    if (check_ranges(&s, err))
        return -1;
    fill_in_defaults(&s);
    settle_mode(&s);
    if (check_detection(&s, err) || check_periods(&s, err))
        return -1;
    settle_shortest_period(&s);
    return check_listens(&s, err);
}
