/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tokens, certificates and keys whose files are replaced while they are used. Cases are in
 * cases/credential: "{AAAA}" is a certificate there and "[AAAA]" a key, each of lines of its own.
 */
#include "source/credential.h"

#include "script.h"

#include <sys/stat.h>
#include <unistd.h>

static struct credential credential;

static void set_up(void)
{
    put_file("pem", "");
}

static void tear_down(void)
{
    credential_clear(&credential);
}

static const char *pem_of(char mark)
{
    static const char *const lines[][2] = {{"{", "-----BEGIN CERTIFICATE-----\n"},
                                           {"}", "\n-----END CERTIFICATE-----\n"},
                                           {"[", "-----BEGIN EC PRIVATE KEY-----\n"},
                                           {"]", "\n-----END EC PRIVATE KEY-----\n"}};
    for (int i = 0; i < COUNT(lines); i++)
        if (*lines[i][0] == mark)
            return lines[i][1];
    return NULL;
}

/* What the words stand for. The caller frees it. */
static char *text_of(char *words, size_t *length)
{
    char *text;
    size_t n = script_bytes(words);
    FILE *out = open_memstream(&text, length);
    for (size_t i = 0; i < n; i++)
        if (pem_of(words[i]))
            fputs(pem_of(words[i]), out);
        else
            fputc(words[i], out);
    fclose(out);
    return text;
}

/* The text to use now, or why there is none; nothing of a key is in that. */
COMMAND(get)
{
    const char *text = NULL;
    struct error err = {0};
    int result = credential_get(&credential, &text, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    if (err.text) {
        const char *folder = strstr(err.text, test_folder());
        size_t before = folder ? (size_t)(folder - err.text) : 0;
        ck_assert_ptr_null(strstr(err.text, "AAAA"));
        fprintf(out, "error: %.*s%s\n", (int)before, err.text,
                err.text + (folder ? before + strlen(test_folder()) + 1 : 0));
    } else {
        write_bytes(out, text ? text : "none", strlen(text ? text : "none"));
        fputs("\n", out);
    }
    error_clear(&err);
    write_logged(out, LOG_LEVEL_INFO);
}

/* "token|CA|certificate|key FILE [FIXED]", FILE as "none" or "pem", which is the test's. */
COMMAND(use)
{
    static const char *const names[] = {"token", "CA", "certificate", "key"};
    const char *name = script_word(&words), *file = script_word(&words);
    size_t length;
    int kind = 0;
    while (strcmp(names[kind], name) != 0)
        kind++;
    if (strcmp(file, "pem") == 0)
        file = in_folder("pem");
    char *fixed = text_of(words, &length);
    credential_clear(&credential);
    credential_init(&credential, (enum credential_kind)kind, names[kind], *fixed ? fixed : NULL,
                    strcmp(file, "none") == 0 ? NULL : file);
    free(fixed);
    run_get(words, out);
}

/* What the file holds from now on, and what is used then. */
COMMAND(file)
{
    size_t length;
    char *text = text_of(words, &length);
    put_file_bytes("pem", text, length);
    free(text);
    run_get(words, out);
}

/* "N BYTE" */
COMMAND(filled)
{
    size_t n = (size_t)atol(script_word(&words));
    char *text = xcalloc(n, 1);
    script_bytes(words);
    memset(text, *words, n);
    put_file_bytes("pem", text, n);
    free(text);
    run_get(words, out);
}

COMMAND(remove)
{
    unlink(in_folder("pem"));
    run_get(words, out);
}

/* Nobody will ever write to it. */
COMMAND(fifo)
{
    unlink(in_folder("pem"));
    ck_assert_int_eq(mkfifo(in_folder("pem"), 0600), 0);
}

CASES("credential")

UNIT_FIXTURE(set_up, tear_down)
