/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes trees with libyaml's emitter. */
#include "kube-nftd/values.h"
#include "yaml_scalar.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* Whether @text needs no quotes: only letters, digits and a few others, and no YAML reader takes it
 * for anything but a string. */
static bool is_plain(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    double number;
    return !strchr("-.", *text) && !text[strspn(text, safe)] &&
           yaml_scalar_type(text, &number) == JSON_STRING;
}

/* Writes @event; @made: its allocation succeeded. The emitter reports errors. */
static bool emit(yaml_emitter_t *emitter, yaml_event_t *event, int made)
{
    if (!made)
        alloc_failed();
    return yaml_emitter_emit(emitter, event);
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool plain)
{
    yaml_event_t event;
    int style = plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return emit(emitter, &event,
                yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                             (int)strlen(text), 1, 1, style));
}

static bool emit_text(yaml_emitter_t *emitter, const char *text, struct error *err)
{
    if (utf8_is_valid(text))
        return emit_scalar(emitter, text, is_plain(text));
    error_set(err, "\"%s\" is not UTF-8", text);
    return false;
}

static bool emit_tree(yaml_emitter_t *emitter, const cJSON *value, struct error *err)
{
    yaml_event_t event;
    const cJSON *child;
    int made;
    if (cJSON_IsString(value))
        return emit_text(emitter, value->valuestring, err);
    bool is_object = cJSON_IsObject(value);
    if (!is_object && !cJSON_IsArray(value)) {
        char *text = cJSON_PrintUnformatted(value);
        bool written = emit_scalar(emitter, text, true);
        free(text);
        return written;
    }
    if (is_object)
        made = yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE);
    else
        made =
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE);
    if (!emit(emitter, &event, made))
        return false;
    cJSON_ArrayForEach (child, value)
        if ((is_object && !emit_text(emitter, child->string, err)) ||
            !emit_tree(emitter, child, err))
            return false;
    return emit(emitter, &event,
                is_object ? yaml_mapping_end_event_initialize(&event)
                          : yaml_sequence_end_event_initialize(&event));
}

int yaml_write(FILE *out, const cJSON *tree, struct error *err)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize(&emitter))
        alloc_failed();
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_width(&emitter, -1);
    bool written =
        emit(&emitter, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
        emit(&emitter, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
        emit_tree(&emitter, tree, err) &&
        emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1)) &&
        emit(&emitter, &event, yaml_stream_end_event_initialize(&event));
    if (!written && !err->text)
        error_set(err, "%s", emitter.problem ? emitter.problem : "no memory");
    yaml_emitter_delete(&emitter);
    return written ? 0 : -1;
}
