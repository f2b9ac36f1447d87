/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Values of settings as JSON: from a flag's text, from a file, and into struct options. Errors say
 * what is wrong with the value, but not of which setting.
 *
 * Reading tells whether a value is of the setting's form; whether it is in its range is asked
 * apart, since some ranges only count in a certain mode.
 */
#ifndef KUBE_NFTD_CONFIG_SETTING_VALUE_H
#define KUBE_NFTD_CONFIG_SETTING_VALUE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"
#include "setting.h"

#include <cjson/cJSON.h>

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

#endif
