/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "script.h"

#include <ctype.h>

/* A line of a file, and the one it is at. */
struct reader {
    char path[512];
    FILE *file;
    char *line;
    size_t room;
    unsigned number;
    bool more;
    char *each; /* what "$" stands for; NULL: itself */
};

static char *given; /* the text below a command */
static FILE *output;
static bool shows_log;
static enum log_level shown_level;

/* Numbers that are others each time. */
struct named_number {
    char digits[12];
    char name;
};
static VEC(struct named_number) named;

const char *script_text(void)
{
    return given ? given : "";
}

FILE *script_out(void)
{
    return output;
}

void script_show_log(enum log_level level)
{
    shows_log = true;
    shown_level = level;
}

char *script_word(char **words)
{
    char *word = *words + strspn(*words, " ");
    size_t length = strcspn(word, " ");
    *words = word + length + (word[length] != '\0');
    word[length] = '\0';
    return word;
}

unsigned script_number(char **words, unsigned otherwise)
{
    const char *word = script_word(words);
    return *word ? (unsigned)strtoul(word, NULL, 0) : otherwise;
}

bool script_option(char *word, const char *key, char **value)
{
    size_t length = strlen(key);
    if (strncmp(word, key, length) != 0 || word[length] != '=')
        return false;
    *value = word + length + 1;
    return true;
}

static bool is_byte(const char *text)
{
    return text[0] == '<' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2]) &&
           text[3] == '>';
}

size_t script_bytes(char *text)
{
    char *out = text;
    for (const char *from = text; *from; out++) {
        bool byte = is_byte(from);
        *out = byte ? (char)strtol(from + 1, NULL, 16) : *from;
        from += byte ? 4 : 1;
    }
    *out = '\0';
    return (size_t)(out - text);
}

void write_bytes(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        fprintf(out, byte >= ' ' && byte < 0x7f ? "%c" : "<%02x>", byte);
    }
}

void script_name_number(unsigned number, char name)
{
    struct named_number of = {.name = name};
    snprintf(of.digits, sizeof(of.digits), "%u", number);
    vec_push(&named, of);
}

/* @text with the names of numbers, in place. */
static void name_numbers(char *text)
{
    char *out = text;
    for (size_t length; *text; text += length) {
        bool is_named = false;
        length = strspn(text, "0123456789");
        vec_each (&named, it)
            if (length == strlen(it->digits) && strncmp(text, it->digits, length) == 0) {
                *out++ = it->name;
                is_named = true;
            }
        length = length ? length : 1;
        if (!is_named)
            out = (char *)memmove(out, text, length) + length;
    }
    *out = '\0';
}

static void next_line(struct reader *reader)
{
    ssize_t length = getline(&reader->line, &reader->room, reader->file);
    reader->more = length >= 0;
    reader->number++;
    if (length > 0 && reader->line[length - 1] == '\n')
        reader->line[length - 1] = '\0';
}

/* @line with what "$" stands for. */
static char *filled_in(const struct reader *reader, const char *line)
{
    const char *at = reader->each ? strchr(line, '$') : NULL;
    return at ? xasprintf("%.*s%s%s", (int)(at - line), line, reader->each, at + 1) : xstrdup(line);
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
    free(reader->each);
}

static bool begins_case(const struct reader *reader)
{
    return strncmp(reader->line, "= ", 2) == 0;
}

/* The words of "each WORD...", which may be the first line of a case; NULL: it is another line. */
static const char *words_of_each(const struct reader *reader)
{
    return reader->more && strncmp(reader->line, "each ", 5) == 0 ? reader->line + 5 : NULL;
}

/* Goes from a case's name to its first line. Returns how many cases it is. */
static int begin_case(struct reader *reader)
{
    int n = 1;
    next_line(reader);
    for (const char *at = words_of_each(reader); at && (at = strchr(at, ' ')); at++)
        n++;
    return n;
}

int script_cases(const char *file)
{
    struct reader reader = open_file(file);
    int n = 0;
    while (reader.more) {
        if (begins_case(&reader)) {
            unit_chooses_case(reader.line + 2);
            n += begin_case(&reader);
        } else {
            next_line(&reader);
        }
    }
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

struct command {
    const char *name;
    void (*run)(char *words, FILE *out);
};

static VEC(struct command) commands;

void script_add_command(const char *name, void (*run)(char *words, FILE *out))
{
    char *dashed = xstrdup(name);
    for (char *c = dashed; *c; c++)
        *c = *c == '_' ? '-' : *c;
    vec_push(&commands, (struct command){dashed, run});
}

/* NULL: there is none of that name. */
static const struct command *find_command(const char *name)
{
    vec_each (&commands, it)
        if (strcmp(it->name, name) == 0)
            return it;
    return NULL;
}

static char *run_line(char *line, const char *where)
{
    char *text, *words = line;
    size_t length;
    const char *name = script_word(&words);
    const struct command *command = find_command(name);
    if (!command)
        ck_abort_msg("%s: no command %s", where, name);
    FILE *outer = output;
    output = open_memstream(&text, &length);
    command->run(words, output);
    if (shows_log)
        write_logged(output, shown_level);
    fclose(output);
    output = outer;
    name_numbers(text);
    return text;
}

bool script_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line = xvasprintf(format, args), *text = run_line(line, "script_line()");
    va_end(args);
    bool any = *text;
    free(text);
    free(line);
    return any;
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
static void run_command(struct reader *reader, FILE *writes)
{
    char *line = xstrdup(reader->line), *where = xasprintf("%s:%u", reader->path, reader->number);
    bool in_line = strstr(line, " => ");
    next_line(reader);
    given = take_lines(reader, "|");
    char *expected = take_expected(reader, line), *words = filled_in(reader, line);
    char *actual = run_line(words, where);
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

static void run_case(struct reader *reader, FILE *writes)
{
    while (reader->more && !begins_case(reader)) {
        if (*reader->line && *reader->line != '#') {
            run_command(reader, writes);
            continue;
        }
        if (writes)
            fprintf(writes, "%s\n", reader->line);
        next_line(reader);
    }
}

/* Takes the line "each WORD...", if it is one, for its word @number. */
static void take_each(struct reader *reader, int number, FILE *writes)
{
    const char *words = words_of_each(reader);
    if (!words)
        return;
    for (; number > 0; number--)
        words = strchr(words, ' ') + 1;
    reader->each = xstrndup(words, strcspn(words, " "));
    if (writes)
        fprintf(writes, "%s\n", reader->line);
    next_line(reader);
}

/* Goes to the first line of case *@number and returns its name; *@number is then which one of its
 * words is meant. Lines before the first case go to @writes, if it is that one. */
static char *find_case(struct reader *reader, int *number, FILE *writes)
{
    const bool is_first = *number == 0;
    for (;;) {
        for (; !begins_case(reader); next_line(reader))
            if (writes && is_first)
                fprintf(writes, "%s\n", reader->line);
        char *name = xstrdup(reader->line + 2);
        const int n = begin_case(reader);
        if (*number < n)
            return name;
        *number -= n;
        free(name);
    }
}

void script_run(const char *file, int number)
{
    struct reader reader = open_file(file);
    vec_free(&named);
    const char *written = getenv("UNIT_WRITE");
    FILE *writes = written ? fopen(written, number == 0 ? "we" : "ae") : NULL;
    char *name = find_case(&reader, &number, writes);
    if (writes && number > 0) /* the first word stands for all */
        writes = freopen("/dev/null", "we", writes);
    if (unit_chooses_case(name)) {
        if (writes)
            fprintf(writes, "= %s\n", name);
        take_each(&reader, number, writes);
        run_case(&reader, writes);
    }
    if (writes)
        fclose(writes);
    free(name);
    close_file(&reader);
}
