/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "script.h"

#include "kube-nftd/base/alloc.h"

#include <string.h>

/* A line of a file, and the one it is at. */
struct reader {
    char path[512];
    FILE *file;
    char *line;
    size_t room;
    unsigned number;
    bool more;
};

static char *given; /* the text below a command */

const char *script_text(void)
{
    return given ? given : "";
}

char *script_word(char **words)
{
    char *word = *words + strspn(*words, " ");
    size_t length = strcspn(word, " ");
    *words = word + length + (word[length] != '\0');
    word[length] = '\0';
    return word;
}

bool script_option(char *word, const char *key, char **value)
{
    size_t length = strlen(key);
    if (strncmp(word, key, length) != 0 || word[length] != '=')
        return false;
    *value = word + length + 1;
    return true;
}

static void next_line(struct reader *reader)
{
    ssize_t length = getline(&reader->line, &reader->room, reader->file);
    reader->more = length >= 0;
    reader->number++;
    if (length > 0 && reader->line[length - 1] == '\n')
        reader->line[length - 1] = '\0';
}

static struct reader open_file(const char *file)
{
    struct reader reader = {0};
    snprintf(reader.path, sizeof(reader.path), "%s/%s", SOURCE_DIR "/tests/unit/cases", file);
    reader.file = fopen(reader.path, "re");
    if (!reader.file)
        abort();
    next_line(&reader);
    return reader;
}

static void close_file(struct reader *reader)
{
    fclose(reader->file);
    free(reader->line);
}

static bool begins_case(const struct reader *reader)
{
    return strncmp(reader->line, "= ", 2) == 0;
}

int script_cases(const char *file)
{
    struct reader reader = open_file(file);
    int n = 0;
    for (; reader.more; next_line(&reader))
        n += begins_case(&reader);
    close_file(&reader);
    return n;
}

/* The lines from here on that begin with @mark, without it. */
static char *take_lines(struct reader *reader, const char *mark)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (; reader->more && strncmp(reader->line, mark, strlen(mark)) == 0; next_line(reader))
        fprintf(out, "%s\n", reader->line + strlen(mark));
    fclose(out);
    return text;
}

static void write_lines(FILE *out, const char *mark, const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        fprintf(out, "%s%.*s\n", mark, (int)strcspn(line, "\n"), line);
}

static char *run_line(char *line, const char *where, const struct script_command *commands)
{
    char *text, *words = line;
    size_t length;
    const char *name = script_word(&words);
    while (commands->name && strcmp(commands->name, name) != 0)
        commands++;
    if (!commands->name)
        ck_abort_msg("%s: no command %s", where, name);
    FILE *out = open_memstream(&text, &length);
    commands->run(words, out);
    fclose(out);
    return text;
}

/* What a command must write: lines below it, or one behind " => ", which is cut off. */
static char *take_expected(struct reader *reader, char *line)
{
    char *arrow = strstr(line, " => ");
    if (!arrow)
        return take_lines(reader, "  ");
    *arrow = '\0';
    return xasprintf("%s\n", arrow + 4);
}

static void write_command(FILE *out, const char *line, bool in_line, const char *actual)
{
    if (in_line) {
        fprintf(out, "%s => %s", line, actual);
        return;
    }
    fprintf(out, "%s\n", line);
    write_lines(out, "|", given);
    write_lines(out, "  ", actual);
}

/* The command in the present line, and what is below it. */
static void run_command(struct reader *reader, const struct script_command *commands, FILE *writes)
{
    char *line = xstrdup(reader->line), *where = xasprintf("%s:%u", reader->path, reader->number);
    bool in_line = strstr(line, " => ");
    next_line(reader);
    given = take_lines(reader, "|");
    char *expected = take_expected(reader, line), *words = xstrdup(line);
    char *actual = run_line(words, where, commands);
    if (writes)
        write_command(writes, line, in_line, actual);
    else if (strcmp(actual, expected) != 0)
        ck_abort_msg("%s:\n%snot\n%s", where, actual, expected);
    free(given);
    given = NULL;
    free(actual);
    free(expected);
    free(words);
    free(line);
    free(where);
}

static void run_case(struct reader *reader, const struct script_command *commands, FILE *writes)
{
    do {
        if (*reader->line && *reader->line != '#' && !begins_case(reader)) {
            run_command(reader, commands, writes);
            continue;
        }
        if (writes)
            fprintf(writes, "%s\n", reader->line);
        next_line(reader);
    } while (reader->more && !begins_case(reader));
}

void script_run(const char *file, int number, const struct script_command *commands)
{
    struct reader reader = open_file(file);
    const char *only = getenv("UNIT_CASE"), *written = getenv("UNIT_WRITE");
    FILE *writes = written ? fopen(written, number == 0 ? "we" : "ae") : NULL;
    for (int passed = 0; !begins_case(&reader) || passed++ < number; next_line(&reader))
        if (writes && number == 0)
            fprintf(writes, "%s\n", reader.line);
    if (!only || strcmp(reader.line + 2, only) == 0)
        run_case(&reader, commands, writes);
    if (writes)
        fclose(writes);
    close_file(&reader);
}
