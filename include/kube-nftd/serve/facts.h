/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trees of facts, as cJSON: what a page of the daemon says, and a command prints (client/view.h).
 * Adding to one never fails; texts become UTF-8, whatever they are. */
#ifndef KUBE_NFTD_SERVE_FACTS_H
#define KUBE_NFTD_SERVE_FACTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct fact {
    const char *key;
    enum { FACT_NULL, FACT_TEXT, FACT_NUMBER, FACT_FLAG } type;
    const char *text;
    double number;
};

/** @text NULL: null. */
static inline struct fact fact_text(const char *key, const char *text)
{
    return (struct fact){key, text ? FACT_TEXT : FACT_NULL, text, 0};
}

static inline struct fact fact_number(const char *key, double number)
{
    return (struct fact){key, FACT_NUMBER, NULL, number};
}

/** @number 0: null. */
static inline struct fact fact_nonzero(const char *key, double number)
{
    return (struct fact){key, number != 0 ? FACT_NUMBER : FACT_NULL, NULL, number};
}

static inline struct fact fact_flag(const char *key, bool value)
{
    return (struct fact){key, FACT_FLAG, NULL, value};
}

/* Adds facts to the object @to. */
#define facts_add(to, ...)                                                                         \
    facts_add_all((to), (const struct fact[]){__VA_ARGS__},                                        \
                  sizeof((const struct fact[]){__VA_ARGS__}) / sizeof(struct fact))
void facts_add_all(cJSON *to, const struct fact *facts, size_t n);

/** An object of nothing, for the caller to delete. */
cJSON *facts_new(void);

/** A new object, or array, in the object @to. */
cJSON *facts_object(cJSON *to, const char *key);
cJSON *facts_array(cJSON *to, const char *key);

/** A new object, or text, at the end of an array. */
cJSON *facts_append(cJSON *array);
void facts_append_text(cJSON *array, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** A text in the object @to. */
void facts_format(cJSON *to, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** What @id, "namespace/name", is made of: "namespace" and "name". */
void facts_add_id(cJSON *to, const char *id);

/** A member of @object; NULL if there is none, or no object. */
const cJSON *facts_at(const cJSON *object, const char *key);

/** The text that it is, or "". */
const char *facts_text_at(const cJSON *object, const char *key);

/** The JSON, on one line, for the caller to free. */
char *facts_print(const cJSON *facts);

#endif
