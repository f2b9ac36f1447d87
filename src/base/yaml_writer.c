/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/yaml_writer.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/yaml.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The highest number that a character has. */
#define MOST_CODE 0x10ffffU

static void write_value(FILE *out, const cJSON *value, int depth);

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

/* Writes the character at @s, which is not ASCII, by its number, since some of them are line breaks
 * to YAML. Returns its length. A byte that is not UTF-8 is written as a character of its own. */
static size_t write_by_number(FILE *out, const unsigned char *s)
{
    size_t length = *s >= 0xf8 ? 0 : *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : *s >= 0xc0 ? 2 : 0;
    uint32_t code = length ? *s & (0x7fU >> length) : *s;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) { /* the text's end, too */
            fprintf(out, "\\x%02X", *s);
            return 1;
        }
        code = code << 6 | (s[i] & 0x3f);
    }
    if (length == 0 || code > MOST_CODE) {
        fprintf(out, "\\x%02X", *s);
        return 1;
    }
    fprintf(out, "\\U%08X", code);
    return length;
}

static void write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        if (*s >= 0x80) {
            s += write_by_number(out, s);
            continue;
        }
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(out, "\\x%02X", *s);
        else
            fputc(*s, out);
        s++;
    }
    fputc('"', out);
}

static void write_text(FILE *out, const char *text)
{
    if (is_plain(text))
        fputs(text, out);
    else
        write_quoted(out, text);
}

/* ---- everything else ---- */

static void indent(FILE *out, int depth)
{
    fprintf(out, "%*s", 2 * depth, "");
}

static void write_members(FILE *out, const cJSON *object, int depth)
{
    const cJSON *member;
    cJSON_ArrayForEach (member, object) {
        if (member != object->child) /* the first one stands where we are */
            indent(out, depth);
        write_text(out, member->string);
        fputc(':', out);
        write_value(out, member, depth);
    }
}

static void write_entries(FILE *out, const cJSON *array, int depth)
{
    const cJSON *entry;
    cJSON_ArrayForEach (entry, array) {
        indent(out, depth);
        fputc('-', out);
        if (cJSON_IsObject(entry) && entry->child) {
            fputc(' ', out);
            write_members(out, entry, depth + 1);
        } else {
            write_value(out, entry, depth);
        }
    }
}

static void write_scalar(FILE *out, const cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        alloc_failed();
    fputs(text, out);
    free(text);
}

/* What stands behind "key:" or "-", up to the end of the last line. */
static void write_value(FILE *out, const cJSON *value, int depth)
{
    if (cJSON_IsArray(value) && value->child) {
        fputc('\n', out);
        write_entries(out, value, depth + 1);
        return;
    }
    if (cJSON_IsObject(value) && value->child) {
        fputc('\n', out);
        indent(out, depth + 1);
        write_members(out, value, depth + 1);
        return;
    }
    fputc(' ', out);
    if (cJSON_IsString(value))
        write_text(out, value->valuestring);
    else
        write_scalar(out, value); /* [] and {}, too */
    fputc('\n', out);
}

void yaml_write(FILE *out, const cJSON *object)
{
    if (object->child)
        write_members(out, object, 0);
    else
        fputs("{}\n", out);
}
