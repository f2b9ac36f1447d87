/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of cases about a table, which tests/unit/cases/table explains. They are in files of
 * their own: table_commands_*.c.
 */
#ifndef KUBE_NFTD_TESTS_TABLE_COMMANDS_H
#define KUBE_NFTD_TESTS_TABLE_COMMANDS_H

#include "table_elements.h"

/* A case begins without other daemons, and what they said. */
void forget_daemons(void);

/* It has noted and explained nothing. */
void forget_noted(void);

/* What the kernel was sent since its counts were forgotten. */
void write_sent(FILE *out);

#endif
