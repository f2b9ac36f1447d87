/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A value for each setting and where it is from; defaults, checks across settings, and what comes
 * out of it: struct options, and the effective KubeProxyConfiguration.
 */
#ifndef KUBE_NFTD_CONFIG_CONFIGURATION_H
#define KUBE_NFTD_CONFIG_CONFIGURATION_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"
#include "setting.h"

#include <cjson/cJSON.h>

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
