/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of all settings: fields of KubeProxyConfiguration v1alpha1 (docs/behaviour.md 8.2),
 * flags of kube-proxy and our own ones. Who reads flags or files, writes files or prints --help
 * goes by it. The value of a setting is kept as the text that its flag has; "" is as good as none.
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

/* What a value may be. Behind it: the type of the member of struct options that it lands in. */
enum setting_type {
    SETTING_TEXT,         /* char *; NULL if empty */
    SETTING_NAME,         /* the same; blanks alone are no name */
    SETTING_INTERFACE,    /* the same: an interface's name, or its beginning */
    SETTING_ADDRESS,      /* the same: an IP address */
    SETTING_TAINT,        /* the same: a taint's pattern */
    SETTING_LISTEN,       /* the same: IP:port, or an IP that gets the port of the default */
    SETTING_CHOICE,       /* an enum: the place of the word among the setting's choices */
    SETTING_SWITCH,       /* bool */
    SETTING_VERSION,      /* an enum version_request */
    SETTING_NUMBER,       /* int or uint32_t: from low to high */
    SETTING_FRACTION,     /* double: any number */
    SETTING_DURATION,     /* double: seconds */
    SETTING_SECONDS,      /* uint32_t: a duration cut to whole seconds */
    SETTING_CLUSTER_CIDR, /* struct options' own: CIDRs between commas */
    /* A list in a file, entries between commas as a flag, which adds to what it had before. */
    SETTING_CIDRS,
    SETTING_NODE_PORTS, /* struct node_port_addresses: CIDRs, or "primary" alone */
    SETTING_GATES,      /* NAME=true or NAME=false, of which later ones win; a mapping in a file */
    SETTING_VMODULE,    /* PATTERN=VERBOSITY; the flag replaces what it had before */
};

enum setting_group {
    GROUP_IGNORED, /* without effect here */
    GROUP_OBJECTS,
    GROUP_TRAFFIC,
    GROUP_PODS,
    GROUP_CONNTRACK,
    GROUP_SERVING,
    GROUP_RUNNING,
};

/* What is special about a setting. */
enum setting_trait {
    BESIDE_FILE = 1,     /* the flag counts although there is a file, and goes before it */
    NOT_BESIDE_FILE = 2, /* the flag does not count beside a file although no field is its own */
    ZERO_IS_DEFAULT = 4, /* in a file, 0 is as good as nothing */
    ABOVE_ZERO = 8,      /* of durations */
    NOT_EMPTY = 16,      /* the flag must not be empty */
    MAY_BE_NUMBER = 32,  /* a file may have a number, too; of a duration: nanoseconds */
};

struct setting {
    enum setting_group group;
    const char *flag;  /* without dashes; NULL: none. One letter: with one dash or two */
    const char *field; /* "conntrack.min"; NULL: none. Fields may share a flag, which sets all */
    enum setting_type type;
    size_t offset;        /* in struct options; 0, where none is: it has no effect by itself */
    const char *standard; /* the default, as a flag has it; NULL: none */
    const char *value;    /* what --help calls the value; NULL for switches */
    const char *help;
    int64_t low, high;   /* of numbers */
    const char *choices; /* words between commas and blanks */
    unsigned traits;
    const char *modes; /* the modes in which the field counts, likewise; NULL: all */
    const char *as;    /* and the field of the section nftables that gets its value then */
};

extern const struct setting settings[];
extern const size_t settings_count;

#define settings_each(it)                                                                          \
    for (const struct setting *it = settings; it < settings + settings_count; it++)

/** The first setting of the flag @name (@length bytes, '_' as good as '-'), or NULL. */
const struct setting *setting_by_flag(const char *name, size_t length);

/** Whether no setting before @setting has its flag. */
bool setting_is_first(const struct setting *setting);

/** The setting whose flag @text (@length bytes with dashes) probably means, or NULL. */
const struct setting *setting_near_flag(const char *text, size_t length);

/** The setting of a field, or NULL. */
const struct setting *setting_by_field(const char *path);

/** Whether @field is below @section; NULL is not. */
bool setting_is_below(const char *field, const char *section);

/** "--flag" or "-v". The caller frees it. */
char *setting_flag_name(const struct setting *setting);

/** Prints what --help says of all settings, and @text below a name, in lines of up to 100 columns.
 */
void settings_print(FILE *out);
void setting_print_help(FILE *out, const char *text);

/* ---- one value ---- */

/* Errors say what is wrong with the value, but not of which setting. Reading checks a value's form;
 * its range is checked apart, since some only count in a certain mode. */

/** The value by a flag's @text (NULL: a switch without one) and @before, what earlier flags gave,
 * or by what a file has. The caller frees it; NULL with an error. */
char *setting_read_flag(const struct setting *setting, const char *text, const char *before,
                        struct error *err);
char *setting_read_json(const struct setting *setting, const cJSON *json, struct error *err);

/** Says that @json stands where @wanted ("a string") belongs. Always -1. */
int setting_wrong_type(const cJSON *json, const char *wanted, struct error *err);

/** Whether a value that is not empty is in the setting's range. */
int setting_check(const struct setting *setting, const char *value, struct error *err);

/** What a file has for @value, which may be NULL. */
cJSON *setting_json(const struct setting *setting, const char *value);

/** Puts @value, which is good and not empty, into the setting's place in @options, if it has one;
 * frees what is there. */
void setting_land(const struct setting *setting, const char *value, struct options *options);
void setting_clear(const struct setting *setting, struct options *options);

/** The place of @word among @words, "a, b", or -1. */
int setting_choice(const char *words, const char *word);

/* ---- all values together ---- */

enum setting_source { FROM_NOWHERE, FROM_FLAG, FROM_FILE, FROM_DEFAULT };

/* A value for each setting and where it is from. */
struct configuration {
    struct configured {
        char *value; /* owned; NULL: none */
        enum setting_source source;
    } * values; /* one for each of settings[] */
    char *file; /* what FROM_FILE is from; NULL: there is none */
    note_vec *notes;
};

void configuration_init(struct configuration *configuration, note_vec *notes);

void configuration_clear(struct configuration *configuration);

struct configured *configuration_of(const struct configuration *configuration,
                                    const struct setting *setting);

/** The value of a field, or of a flag that has none; "" if it has none. */
const char *configuration_value(const struct configuration *configuration, const char *name);

/** Sets the value, which is taken. */
void configuration_set(struct configuration *configuration, const struct setting *setting,
                       char *value, enum setting_source source);

/** Adds to the notes. */
void configuration_note(struct configuration *configuration, enum log_level level,
                        const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Reads the file @name with the text @text, over what flags gave except where these go before a
 * file. Fields that are unknown or there twice (the last one counts) become one note. -1 for
 * another kind or version, or a value of the wrong type: the error names file and field. */
int configuration_read(struct configuration *configuration, const char *name, const char *text,
                       size_t length, struct error *err);

/** Checks what was given and fills in the rest (docs/behaviour.md 8.2). What an operator should
 * know of it goes into the notes. The mode is nftables from then on, and the section nftables holds
 * what that of the given mode says. */
int configuration_complete(struct configuration *configuration, struct error *err);

/** Fills in what flags and fields say of @options. */
void configuration_land(const struct configuration *configuration, struct options *options);

/** "name=value" of each flag as it is in effect, a line each, for the caller to free. */
char *configuration_flags(const struct configuration *configuration);

/** The values of all fields as a KubeProxyConfiguration, members sorted. The caller deletes it. */
cJSON *configuration_tree(const struct configuration *configuration);

#endif
