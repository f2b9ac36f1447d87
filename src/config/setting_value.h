/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The syntax of values, which flags and files share. */
#ifndef KUBE_NFTD_CONFIG_SETTING_VALUE_H
#define KUBE_NFTD_CONFIG_SETTING_VALUE_H

#include "setting.h"

/** Copies the next comma-separated entry of *@list, which becomes NULL after the last one. The
 * caller frees it. NULL: none. */
char *setting_next_entry(const char **list);

/** Whether it is a list or mapping in a file. */
bool setting_is_list(const struct setting *setting);

/** "true" or "false" for what kube-proxy's flag parser accepts; NULL for anything else. */
const char *setting_switch(const char *text);

/** Of a valid duration; else 0. */
int64_t setting_nanoseconds(const char *value);

/** Checks the syntax of a list's entry, or of a whole value, in flag syntax. */
int setting_check_entry(enum setting_type type, const char *entry, struct error *err);
int setting_check_form(const struct setting *setting, const char *text, struct error *err);

#endif
