/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes runs of plain tokens, for json_reader.c, which takes all others one by one: those that are
 * cut, escaped, odd or wrong. A run ends before the first token that is not plain, with nothing of
 * it taken, so that what is wrong is found and said in one place.
 */
#ifndef KUBE_NFTD_BASE_JSON_RUN_H
#define KUBE_NFTD_BASE_JSON_RUN_H

#include "kube-nftd/base/json.h"

/* So many bytes of 0 stand behind those that are there, and can be read. */
#define JSON_RUN_PAD 16

/* What may come next. */
enum json_state {
    JSON_STATE_TOP,        /* a top-level value, or nothing more */
    JSON_STATE_VALUE,      /* a value */
    JSON_STATE_FIRST_ITEM, /* a value, or the end of the array */
    JSON_STATE_KEY,        /* a key */
    JSON_STATE_FIRST_KEY,  /* a key, or the end of the object */
    JSON_STATE_COLON,      /* the colon after a key */
    JSON_STATE_NEXT,       /* a comma, or the end of the array or object */
    JSON_STATE_FAILED,
};

/* Where a reader is. All pointers are borrowed; the run moves them on. */
struct json_run {
    char *at;                  /* the first byte that was not taken */
    struct json_value *values; /* of which indices are told */
    struct json_value *end;    /* behind the last one that is there */
    struct json_value *most;   /* behind the last one that may be there */
    size_t *open;              /* the arrays and objects around; indices of values */
    size_t depth;              /* how many those are; at least 1 */
    struct json_value *around; /* the innermost one; the run sees to it itself */
    size_t lowest, deepest;    /* the run ends before it closes or opens one beyond these */
    size_t lines;              /* how many lines the run has ended */
    const char *line;          /* the begin of the last one; NULL if there is none */
    size_t no_array;           /* the depth at which the run ends before an array */
    enum json_state state;
};

/** Takes what is plain. To begin with, the state is JSON_STATE_KEY, _VALUE or _NEXT. */
void json_run_take(struct json_run *run);

#endif
