/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A KubeProxyConfiguration v1alpha1 in YAML or JSON (docs/behaviour.md 8.1). */
#ifndef KUBE_NFTD_CONFIG_CONFIG_FILE_H
#define KUBE_NFTD_CONFIG_CONFIG_FILE_H

#include "configuration.h"

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
