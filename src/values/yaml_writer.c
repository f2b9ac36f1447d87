/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libyaml's emitter, fed with a tree. */
#include "kube-nftd/values.h"

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

struct writer {
    yaml_document_t document;
    struct error *err;
};

/* The number of a node that was added to the document, 0 if there is no memory for it; -1 after an
 * error. */
static int add_value(struct writer *w, const cJSON *value);

static int checked(int node)
{
    if (node == 0)
        alloc_failed();
    return node;
}

/* ---- texts ---- */

/* What other readers of YAML take for something else than a text. */
static bool is_ambiguous(const char *text)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    /* .inf, 1_000 */
    return *text == '.' || (strchr("0123456789", *text) && strchr(text, '_'));
}

/* Whether @text may stand without quotes: nothing but letters, digits and a little else, and read
 * back it is a text. */
static bool is_plain(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    struct error err = {0};
    if (!*text || *text == '-' || text[strspn(text, safe)] || is_ambiguous(text))
        return false;
    cJSON *read = yaml_parse(text, strlen(text), &err);
    bool same = cJSON_IsString(read) && strcmp(read->valuestring, text) == 0;
    cJSON_Delete(read);
    error_clear(&err);
    return same;
}

static int add_scalar(struct writer *w, const char *text, bool plain)
{
    return checked(yaml_document_add_scalar(
        &w->document, NULL, (const yaml_char_t *)text, (int)strlen(text),
        plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE));
}

static int add_text(struct writer *w, const char *text)
{
    if (!utf8_is_valid(text))
        return error_set(w->err, "\"%s\" is not UTF-8", text);
    return add_scalar(w, text, is_plain(text));
}

/* ---- everything else ---- */

static int add_members(struct writer *w, const cJSON *object)
{
    const cJSON *member;
    int node = checked(yaml_document_add_mapping(&w->document, NULL, YAML_BLOCK_MAPPING_STYLE));
    cJSON_ArrayForEach (member, object) {
        int key = add_text(w, member->string), value = key < 0 ? -1 : add_value(w, member);
        if (value < 0)
            return -1;
        checked(yaml_document_append_mapping_pair(&w->document, node, key, value));
    }
    return node;
}

static int add_entries(struct writer *w, const cJSON *array)
{
    const cJSON *entry;
    int node = checked(yaml_document_add_sequence(&w->document, NULL, YAML_BLOCK_SEQUENCE_STYLE));
    cJSON_ArrayForEach (entry, array) {
        int value = add_value(w, entry);
        if (value < 0)
            return -1;
        checked(yaml_document_append_sequence_item(&w->document, node, value));
    }
    return node;
}

static int add_value(struct writer *w, const cJSON *value)
{
    if (cJSON_IsObject(value))
        return add_members(w, value);
    if (cJSON_IsArray(value))
        return add_entries(w, value);
    if (cJSON_IsString(value))
        return add_text(w, value->valuestring);
    char *text = cJSON_PrintUnformatted(value);
    int node = add_scalar(w, text, true);
    free(text);
    return node;
}

int yaml_write(FILE *out, const cJSON *tree, struct error *err)
{
    struct writer w = {.err = err};
    yaml_emitter_t emitter;
    checked(yaml_emitter_initialize(&emitter));
    checked(yaml_document_initialize(&w.document, NULL, NULL, NULL, 1, 1));
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_width(&emitter, -1);
    int result = add_value(&w, tree) < 0 ? -1 : 0;
    if (result)
        yaml_document_delete(&w.document);
    else if (!yaml_emitter_open(&emitter) || !yaml_emitter_dump(&emitter, &w.document) ||
             !yaml_emitter_close(&emitter))
        result = error_set(err, "%s", emitter.problem ? emitter.problem : "no memory");
    yaml_emitter_delete(&emitter);
    return result;
}
