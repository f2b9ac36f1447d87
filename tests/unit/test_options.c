/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Flags: what they make of the options, and what is rejected. Cases are in cases/options. */
#include "options_text.h"

#include <errno.h>
#include <unistd.h>

/* The host's name; NULL: it cannot be read. */
static const char *host_name;

int gethostname(char *name, size_t length)
{
    if (!host_name || length <= strlen(host_name)) {
        errno = host_name ? ENAMETOOLONG : EPERM;
        return -1;
    }
    memcpy(name, host_name, strlen(host_name) + 1);
    return 0;
}

/* What is made of the words, and that nothing is left of it afterwards. */
COMMAND(flags)
{
    struct options options;
    struct error err = {0};
    script_bytes(words);
    int result = parse(words, &options, &err);
    ck_assert_int_eq(result == 0, err.text == NULL);
    char *text = options_text(&options);
    const char *shown = result ? err.text : text;
    fputs(result ? "error: " : "", out);
    write_bytes(out, shown, strlen(shown));
    fputs("\n", out);
    error_clear(&err);
    if (result == 0) {
        free(text);
        options_clear(&options);
        text = options_text(&options);
    }
    ck_assert_str_eq(text, "v=0");
    free(text);
}

COMMAND(notes)
{
    struct options options;
    struct error err = {0};
    const char *found = "none";
    ck_assert_msg(parse(words, &options, &err) == 0, "%s", err.text);
    vec_each (&options.notes, note)
        if (strstr(note->text, "without effect"))
            found = note->text;
    fprintf(out, "%s\n", found);
    options_clear(&options);
}

COMMAND(host)
{
    static char name[100];
    script_bytes(words);
    host_name = strcmp(words, "NULL") == 0 ? NULL : strcpy(name, words);
}

COMMAND(name)
{
    struct error err = {0};
    script_bytes(words);
    char *name = node_name(strcmp(words, "NULL") == 0 ? NULL : words, &err);
    fprintf(out, "%s\n", name ? name : err.text);
    ck_assert_int_eq(name == NULL, err.text != NULL);
    error_clear(&err);
    free(name);
}

CASES("options")

/* No line is longer than a terminal, of no command's help. */
TEST(usage_is_narrow)
{
    for (enum command command = 0; command <= COMMAND_VERSION; command++) {
        char *text;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        options_usage(&(struct options){.command = command}, out);
        fclose(out);
        ck_assert(length > 0);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
            ck_assert_msg(strcspn(line, "\n") <= 80, "%s", line);
        free(text);
    }
}
