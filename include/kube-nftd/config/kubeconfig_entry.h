/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a cluster or a user of a kubeconfig says, and which entry an error is about. */
#ifndef KUBE_NFTD_CONFIG_KUBECONFIG_ENTRY_H
#define KUBE_NFTD_CONFIG_KUBECONFIG_ENTRY_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/client_config.h"

#include <cjson/cJSON.h>

/* One element of one of the three lists. Everything is borrowed. */
struct kubeconfig_entry {
    const char *path; /* of the kubeconfig */
    const char *list; /* clusters, contexts or users */
    const char *kind; /* cluster, context or user */
    int index;
    const cJSON *body; /* NULL if it says nothing */
};

/** The member @name of @object, NULL for null. */
const cJSON *kubeconfig_member(const cJSON *object, const char *name);

/** Puts file, entry and @field before the text in @err. Always returns -1. */
int kubeconfig_blame(const struct kubeconfig_entry *entry, const char *field, struct error *err);

/** Puts the text of @field in *@text, borrowed; NULL where there is none or an empty one. */
int kubeconfig_text(const struct kubeconfig_entry *entry, const char *field, const char **text,
                    struct error *err);

/** Adds what the cluster @entry says to @config. */
int kubeconfig_read_cluster(const struct kubeconfig_entry *entry, struct client_config *config,
                            struct error *err);

/** Adds the credentials of the user @entry to @config. */
int kubeconfig_read_user(const struct kubeconfig_entry *entry, struct client_config *config,
                         struct error *err);

#endif
