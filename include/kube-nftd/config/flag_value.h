/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kinds of values that flags have. Each function reads @text and puts what it says in place of
 * what is in @out, or returns -1 and says what is wrong with the text, but not of which flag. Lists
 * add to what is there.
 */
#ifndef KUBE_NFTD_CONFIG_FLAG_VALUE_H
#define KUBE_NFTD_CONFIG_FLAG_VALUE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"

/** A copy. It must not be empty. */
int flag_text(const char *text, char **out, struct error *err);

/** A copy; NULL for an empty text. */
int flag_optional_text(const char *text, char **out, struct error *err);

/** A copy of the name of an interface or its beginning, fit to stand in a rule's text; NULL for an
 * empty one. */
int flag_interface(const char *text, char **out, struct error *err);

/** A copy of an IP address; NULL for an empty text. */
int flag_address(const char *text, char **out, struct error *err);

/** "true" or "false"; NULL is true. */
int flag_switch(const char *text, bool *out, struct error *err);

/** A number from 0 on, up to INT_MAX. */
int flag_number(const char *text, int *out, struct error *err);
int flag_count(const char *text, uint32_t *out, struct error *err);

/** A duration, cut to whole seconds as kube-proxy does it; so less than a second is 0. */
int flag_seconds(const char *text, uint32_t *out, struct error *err);

/** One of the names of the modes; the default for an empty text. */
int flag_detect_local_mode(const char *text, enum detect_local_mode *out, struct error *err);

/** CIDRs between commas, by family; an empty text has none. */
int flag_cidrs(const char *text, cidr_vec out[FAMILY_COUNT], struct error *err);

/** The same, or "primary" alone. */
int flag_node_port_addresses(const char *text, struct node_port_addresses *out, struct error *err);

#endif
