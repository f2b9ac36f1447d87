/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libyaml's emitter, fed with a tree. */
#include "kube-nftd/base/yaml_writer.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/utf8.h"
#include "kube-nftd/base/yaml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

struct writer {
    yaml_emitter_t emitter;
    struct error *err;
};

static int write_value(struct writer *w, const cJSON *value);

/* Sends @event, which was made if @made. */
static int emit(struct writer *w, yaml_event_t *event, int made)
{
    if (!made)
        alloc_failed(); /* texts are checked before */
    if (yaml_emitter_emit(&w->emitter, event))
        return 0;
    return error_set(w->err, "%s", w->emitter.problem ? w->emitter.problem : "no memory");
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

static int write_scalar(struct writer *w, const char *text, bool plain)
{
    yaml_event_t event;
    yaml_scalar_style_t style = plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    int made = yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                            (int)strlen(text), 1, 1, style);
    return emit(w, &event, made);
}

static int write_text(struct writer *w, const char *text)
{
    if (!utf8_is_valid(text))
        return error_set(w->err, "\"%s\" is not UTF-8", text);
    return write_scalar(w, text, is_plain(text));
}

/* ---- everything else ---- */

static int write_members(struct writer *w, const cJSON *object)
{
    yaml_event_t event;
    const cJSON *member;
    if (emit(w, &event,
             yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)))
        return -1;
    cJSON_ArrayForEach (member, object)
        if (write_text(w, member->string) || write_value(w, member))
            return -1;
    return emit(w, &event, yaml_mapping_end_event_initialize(&event));
}

static int write_entries(struct writer *w, const cJSON *array)
{
    yaml_event_t event;
    const cJSON *entry;
    if (emit(
            w, &event,
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE)))
        return -1;
    cJSON_ArrayForEach (entry, array)
        if (write_value(w, entry))
            return -1;
    return emit(w, &event, yaml_sequence_end_event_initialize(&event));
}

static int write_value(struct writer *w, const cJSON *value)
{
    if (cJSON_IsObject(value))
        return write_members(w, value);
    if (cJSON_IsArray(value))
        return write_entries(w, value);
    if (cJSON_IsString(value))
        return write_text(w, value->valuestring);
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        alloc_failed();
    int result = write_scalar(w, text, true);
    free(text);
    return result;
}

static int write_document(struct writer *w, const cJSON *tree)
{
    yaml_event_t event;
    if (emit(w, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) ||
        emit(w, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) ||
        write_value(w, tree) || emit(w, &event, yaml_document_end_event_initialize(&event, 1)))
        return -1;
    return emit(w, &event, yaml_stream_end_event_initialize(&event));
}

int yaml_write(FILE *out, const cJSON *tree, struct error *err)
{
    struct writer w = {.err = err};
    if (!yaml_emitter_initialize(&w.emitter))
        alloc_failed();
    yaml_emitter_set_output_file(&w.emitter, out);
    yaml_emitter_set_width(&w.emitter, -1);
    int result = write_document(&w, tree);
    yaml_emitter_delete(&w.emitter);
    return result;
}
