/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of all settings: fields of KubeProxyConfiguration v1alpha1 (docs/behaviour.md 8.2),
 * flags of kube-proxy and our own ones. Who reads flags or files, writes files or prints --help
 * goes by it.
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

/* What a value may be, how a flag or file writes it, and how it is kept: as a JSON value of that
 * form. Behind it: the type of the member of struct options that it lands in. */
enum setting_type {
    SETTING_TEXT,         /* char *; NULL if empty */
    SETTING_PATH,         /* the same, but a flag for it must not be empty */
    SETTING_NAME,         /* the same; blanks alone are no name */
    SETTING_INTERFACE,    /* the same: an interface's name, or its beginning */
    SETTING_ADDRESS,      /* the same: an IP address */
    SETTING_TAINT,        /* the same: a taint's pattern; a flag for it must not be empty */
    SETTING_LISTEN,       /* the same: IP:port, or an IP that gets the setting's own port */
    SETTING_CHOICE,       /* an enum: the place of the word among the setting's choices */
    SETTING_CLUSTER_CIDR, /* struct options' own: CIDRs between commas */
    SETTING_SWITCH,       /* bool */
    SETTING_NUMBER,       /* int or uint32_t: from low to high */
    SETTING_FRACTION,     /* any number */
    SETTING_DURATION,     /* double: seconds */
    SETTING_SECONDS,      /* uint32_t: a duration cut to whole seconds */
    SETTING_FLUSH,        /* a duration; a file may say nanoseconds as a number, too */
    SETTING_QUANTITY,     /* a text; a file may have a number, too */
    SETTING_CIDRS,        /* a list of CIDRs */
    SETTING_NODE_PORTS,   /* struct node_port_addresses: the same, or "primary" alone */
    SETTING_GATES,        /* names, each with true or false */
    SETTING_VMODULE,      /* patterns of file names, each with a verbosity */
    SETTING_VERSION,      /* an enum version_wish */
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
    ABOVE_ZERO = 8       /* of durations */
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
    int64_t low, high;   /* of numbers; high is the port of SETTING_LISTEN */
    const char *choices; /* words between blanks */
    unsigned traits;
};

extern const struct setting settings[];
extern const size_t settings_count;

/** The first setting of the flag @name (@length bytes, '_' as good as '-'), or NULL. */
const struct setting *setting_by_flag(const char *name, size_t length);

/** The setting whose flag, with its dashes, @text (@length bytes) was probably meant to be, or
 * NULL.
 */
const struct setting *setting_near_flag(const char *text, size_t length);

/** The setting of a field, or NULL. */
const struct setting *setting_by_field(const char *path);

/** Whether fields are below @path. */
bool setting_is_section(const char *path);

/** "--flag" or "-v". The caller frees it. */
char *setting_flag_name(const struct setting *setting);

/** Prints what --help says of all settings. */
void settings_print(FILE *out);

/** Prints @text as what --help says below a name, in lines of up to 100 columns. */
void setting_print_help(FILE *out, const char *text);

/* ---- values, as JSON: from a flag's text, from a file, and into struct options ---- */

/* Errors say what is wrong with the value, but not of which setting. Reading tells whether a value
 * is of the setting's form; its range is checked apart, since some only count in a certain mode. */

/**
 * Reads a flag's @text; NULL is a switch without one. Lists and gates add to @before, the value
 * that an earlier flag gave, or NULL. The caller deletes what comes back: JSON null for a text
 * that is as good as none, NULL with an error.
 */
cJSON *setting_read_text(const struct setting *setting, const char *text, const cJSON *before,
                         struct error *err);

/** Reads what a file has, likewise. */
cJSON *setting_read_json(const struct setting *setting, const cJSON *json, struct error *err);

/** Says that @json stands where @wanted ("a text") belongs. Always -1. */
int setting_wrong_type(const cJSON *json, const char *wanted, struct error *err);

/** Whether @value is in the setting's range. */
int setting_check(const struct setting *setting, const cJSON *value, struct error *err);

/** Puts @value, which must be good, into the place of @options that the setting has, if it has one.
 * JSON null leaves it alone. */
void setting_land(const struct setting *setting, const cJSON *value, struct options *options);

/** Frees what setting_land() puts there. */
void setting_clear(const struct setting *setting, struct options *options);

/*
 * ---- all values together ----
 *
 * A value for each setting and where it is from; defaults, checks across settings, and what comes
 * out of it: struct options, and the effective KubeProxyConfiguration.
 */

enum setting_source { FROM_NOWHERE, FROM_FLAG, FROM_FILE, FROM_DEFAULT };

struct configured {
    cJSON *json; /* owned; NULL: nothing */
    enum setting_source source;
};

struct configuration {
    struct configured *values; /* one for each of settings[] */
    char *file;                /* what FROM_FILE is from; NULL: there is none */
};

void configuration_init(struct configuration *configuration);
void configuration_clear(struct configuration *configuration);

/** The value of @setting. */
struct configured *configuration_of(const struct configuration *configuration,
                                    const struct setting *setting);

/** Puts @json, which is taken, in place of what is there. */
void configuration_set(struct configuration *configuration, const struct setting *setting,
                       cJSON *json, enum setting_source source);

/** Puts the setting's name before the error: its flag or its field, whichever the value is from.
 * Always -1. */
int configuration_blame(const struct configuration *configuration, const struct setting *setting,
                        struct error *err);

/**
 * Checks what was given and fills in the rest (docs/behaviour.md 8.2). What an operator should know
 * of it goes into @notes. The mode is nftables from then on, and the section nftables holds what
 * that of the given mode says.
 */
int configuration_settle(struct configuration *configuration, note_vec *notes, struct error *err);

/** Fills in @options from settled values. */
void configuration_land(const struct configuration *configuration, struct options *options);

/** "name=value" of each flag as it is in effect, a line each, for the caller to free. */
char *configuration_flags(const struct configuration *configuration);

/** The values of all fields as a KubeProxyConfiguration, members sorted. The caller deletes it. */
cJSON *configuration_tree(const struct configuration *configuration);

/**
 * Reads @path into @configuration, over what flags gave except where these go before a file. Fields
 * that are unknown or there twice (the last one counts) become one note. -1 for a file that cannot
 * be read, is of another kind or version, or has a value of the wrong type: the error names file
 * and field.
 */
int config_file_read(const char *path, struct configuration *configuration, note_vec *notes,
                     struct error *err);

/** The same for a text; @name is what errors call it. */
int config_file_read_text(const char *name, const char *text, size_t length,
                          struct configuration *configuration, note_vec *notes, struct error *err);

/** Writes @tree as YAML to @path, in place of what is there. */
int config_file_write(const char *path, const cJSON *tree, struct error *err);

#endif
