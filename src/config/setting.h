/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of all settings: fields of KubeProxyConfiguration v1alpha1 (docs/behaviour.md 8.2),
 * flags of kube-proxy and our own. It drives reading of flags and files, writing of files, and
 * --help. A value is kept in its flag's syntax; "" means unset.
 */
#ifndef KUBE_NFTD_CONFIG_SETTING_H
#define KUBE_NFTD_CONFIG_SETTING_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Types of values. Comments give the type of the member of struct options. */
enum setting_type {
    SETTING_TEXT,         /* char *; NULL if empty */
    SETTING_NAME,         /* the same; not only blanks */
    SETTING_INTERFACE,    /* the same: an interface name or prefix */
    SETTING_ADDRESS,      /* the same: an IP address */
    SETTING_TAINT,        /* the same: a taint pattern */
    SETTING_LISTEN,       /* the same: IP:port, or an IP with the default's port */
    SETTING_CHOICE,       /* an enum: the index of the word in the setting's choices */
    SETTING_SWITCH,       /* bool */
    SETTING_VERSION,      /* an enum version_request */
    SETTING_NUMBER,       /* int or uint32_t: from low to high */
    SETTING_FRACTION,     /* double: any number */
    SETTING_DURATION,     /* double: seconds */
    SETTING_SECONDS,      /* uint32_t: a duration cut to whole seconds */
    SETTING_CLUSTER_CIDR, /* CIDRs, comma-separated */
    /* Lists in a file; as flags, comma-separated entries that are added to earlier ones. */
    SETTING_CIDRS,
    SETTING_DEVICES,    /* char *, comma-separated; NULL if empty: names with "*" for any part */
    SETTING_NODE_PORTS, /* struct node_port_addresses: CIDRs, "primary", "localhost", "all" */
    SETTING_GATES,      /* NAME=true or NAME=false, the last one wins; a mapping in a file */
    SETTING_VMODULE,    /* PATTERN=VERBOSITY; a later flag replaces an earlier one */
};

enum setting_group {
    GROUP_IGNORED,
    GROUP_OBJECTS,
    GROUP_TRAFFIC,
    GROUP_PODS,
    GROUP_CONNTRACK,
    GROUP_SERVING,
    GROUP_RUNNING,
};

enum setting_trait {
    BESIDE_FILE = 1,     /* the flag applies despite a file, and overrides it */
    NOT_BESIDE_FILE = 2, /* the flag is ignored with a file although it has no field */
    ZERO_IS_DEFAULT = 4, /* in a file, 0 means unset */
    ABOVE_ZERO = 8,      /* of durations */
    NOT_EMPTY = 16,      /* the flag must not be empty */
    MAY_BE_NUMBER = 32,  /* a file may have a number; for durations: nanoseconds */
    OMIT_EMPTY = 64,     /* not in files that are written unless it has a value */
};

struct setting {
    enum setting_group group;
    const char *flag;  /* without dashes; NULL: none. One letter: one dash or two */
    const char *field; /* "conntrack.min"; NULL: none. Fields of one flag are set together */
    enum setting_type type;
    size_t offset;        /* in struct options; 0: no effect by itself */
    const char *standard; /* the default, in flag syntax; NULL: none */
    const char *value;    /* placeholder in --help; NULL for switches */
    const char *help;
    int64_t low, high;   /* of numbers */
    const char *choices; /* words separated by ", " */
    unsigned traits;
    const char *modes; /* modes in which the field applies, likewise; NULL: all */
    const char *as;    /* then the field of section nftables that takes its value */
};

extern const struct setting settings[];
extern const size_t settings_count;

#define settings_each(it)                                                                          \
    for (const struct setting *it = settings; it < settings + settings_count; it++)

/** The first setting with the flag @name (@length bytes, '_' equals '-'), or NULL. */
const struct setting *setting_by_flag(const char *name, size_t length);

/** Whether @setting is the first one with its flag. */
bool setting_is_first(const struct setting *setting);

/** The setting whose flag was meant by @text (@length bytes with dashes), or NULL: none is near. */
const struct setting *setting_near_flag(const char *text, size_t length);

/** The setting of a field, or NULL. */
const struct setting *setting_by_field(const char *path);

/** Whether @field is in @section; false for NULL. */
bool setting_is_below(const char *field, const char *section);

/** "--flag" or "-v". The caller frees it. */
char *setting_flag_name(const struct setting *setting);

/* What --help prints, in lines of up to 80 columns: all settings, one, any text at an indent (that
 * of a setting's help). "--conntrack-min N", and below "least number ... (conntrack.min; default
 * 131072)". */
void settings_print(FILE *out);
void setting_print(FILE *out, const struct setting *setting);
#define HELP_INDENT 8
void setting_print_text(FILE *out, int indent, const char *text);

/* ---- one value ---- */

/* Errors describe the fault of the value, without the setting's name. Reading checks only the
 * syntax; the range is checked later, since some settings apply only in a certain mode. */

/** Reads a value from a flag's @text (NULL: a switch without value), given the value @before of
 * earlier flags, or from a file. The caller frees it; NULL with an error. */
char *setting_read_flag(const struct setting *setting, const char *text, const char *before,
                        struct error *err);
char *setting_read_json(const struct setting *setting, const cJSON *json, struct error *err);

/** Reports that @json is not @expected ("a string"). Always -1. */
int setting_wrong_type(const cJSON *json, const char *expected, struct error *err);

/** Checks the range of a non-empty value. */
int setting_check(const struct setting *setting, const char *value, struct error *err);

/** The file's form of @value, which may be NULL. */
cJSON *setting_json(const struct setting *setting, const char *value);

/** Stores @value, valid and not empty, in @options if the setting has a member; frees that member.
 */
void setting_store(const struct setting *setting, const char *value, struct options *options);
void setting_clear(const struct setting *setting, struct options *options);

/** The index of @word in @words, "a, b", or -1. */
int setting_choice(const char *words, const char *word);

/* ---- all values together ---- */

enum setting_source { FROM_NOWHERE, FROM_FLAG, FROM_FILE, FROM_DEFAULT };

/* The value of each setting and its source. */
struct configuration {
    struct configured {
        char *value; /* owned; NULL: none */
        enum setting_source source;
    } * values; /* one for each of settings[] */
    note_vec *notes;
};

void configuration_init(struct configuration *configuration, note_vec *notes);

void configuration_clear(struct configuration *configuration);

struct configured *configuration_of(const struct configuration *configuration,
                                    const struct setting *setting);

/** The value of a field, or of a flag without field; "" if unset. */
const char *configuration_value(const struct configuration *configuration, const char *name);

/** Sets the value and takes ownership of it. */
void configuration_set(struct configuration *configuration, const struct setting *setting,
                       char *value, enum setting_source source);

void configuration_note(struct configuration *configuration, enum log_level level,
                        const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Reads a configuration file's @text. It overrides flags, except those that apply despite a file.
 * Unknown and duplicate fields (the last one wins) become one note, which names @path. -1 for a
 * wrong kind or version, or a value of the wrong type: the error names the field. */
int configuration_read(struct configuration *configuration, const char *path, const char *text,
                       size_t length, struct error *err);

/** Reads the file of --config, if any; errors name it. */
int configuration_read_file(struct configuration *configuration, struct error *err);

/** Checks all values and fills in defaults (docs/behaviour.md 8.2); adds remarks to the notes.
 * Afterwards the mode is nftables, and the section nftables has the values of the given mode's
 * section. */
int configuration_complete(struct configuration *configuration, struct error *err);

/** Stores all values in @options. */
void configuration_store(const struct configuration *configuration, struct options *options);

/** A "name=value" line for each flag's effective value. The caller frees it. */
char *configuration_flags(const struct configuration *configuration);

/* ---- feature gates ---- */

/** Stores the gate @name in @options, if it has a member there. */
void feature_gate_store(const char *name, bool on, struct options *options);

/** Adds notes about gates of the mapping @given that have no effect. */
void feature_gates_note(const cJSON *given, struct configuration *configuration);

/** The values of all fields as a KubeProxyConfiguration, members sorted. The caller deletes it. */
cJSON *configuration_tree(const struct configuration *configuration);

#endif
