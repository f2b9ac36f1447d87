/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/credential.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CERT(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"
#define KEY(text) "-----BEGIN EC PRIVATE KEY-----\n" text "\n-----END EC PRIVATE KEY-----\n"

static const char *path;

static void setup(void)
{
    path = in_folder("pem");
    put_file("pem", "");
}

static void expect_text(struct credential *pem, const char *expected)
{
    const char *text = "not set";
    struct error err = {0};
    ck_assert_msg(credential_get(pem, &text, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    ck_assert_pstr_eq(text, expected);
}

static void expect_error(struct credential *pem, const char *part)
{
    const char *text;
    struct error err = {0};
    ck_assert_int_eq(credential_get(pem, &text, &err), -1);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
    ck_assert_ptr_null(strstr(err.text, "AAAA"));
    error_clear(&err);
}

TEST(none_and_fixed)
{
    struct credential pem;
    credential_init(&pem, CREDENTIAL_CERTIFICATES, "CA", NULL, NULL);
    expect_text(&pem, NULL);
    credential_clear(&pem);
    credential_init(&pem, CREDENTIAL_CERTIFICATES, "CA", CERT("AAAA"), "/no/such/file");
    expect_text(&pem, CERT("AAAA"));
    credential_clear(&pem);
    credential_init(&pem, CREDENTIAL_KEY, "client key", CERT("AAAA"), NULL);
    expect_error(&pem, "kubeconfig: client key contains no private key");
    credential_clear(&pem);
}

TEST(a_file_is_read_again)
{
    static const char *const texts[] = {
        CERT("AAAA"),
        CERT("AAAB"),
        "# a bundle\n" CERT("AAAA") "\n\n# and\r\n" CERT("AAAB"),
        KEY("AAAA") CERT("AAAA"), /* both in one */
        "-----BEGIN TRUSTED CERTIFICATE-----\r\nAAAA\r\n-----END TRUSTED CERTIFICATE-----",
    };
    struct credential pem;
    credential_init(&pem, CREDENTIAL_CERTIFICATES, "CA", NULL, path);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        put_file("pem", texts[i]);
        expect_text(&pem, texts[i]);
        expect_text(&pem, texts[i]);
        ck_assert_int_eq(logged(LOG_LEVEL_INFO), (int)i); /* the first is no replacement */
    }
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    credential_clear(&pem);
}

TEST(last_good_one_is_used_on)
{
    static const char *const bad[] = {
        "",
        "garbage\n",
        "-----BEGIN CERTIFICATE-----\nAAAA",
        CERT("AAAA") "-----BEGIN CERTIFICATE-----\nAAAA",
        "-----BEGIN CERTIFICATE-----\nAAAA\n" CERT("AAAA"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE",
        KEY("AAAA"),
        "x" CERT("AAAA"), /* not at the begin of a line */
    };
    struct credential pem;
    credential_init(&pem, CREDENTIAL_CERTIFICATES, "CA", NULL, path);
    put_file("pem", CERT("AAAA"));
    expect_text(&pem, CERT("AAAA"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        put_file("pem", bad[i]);
        expect_text(&pem, CERT("AAAA"));
    }
    unlink(path);
    expect_text(&pem, CERT("AAAA"));
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    put_file("pem", CERT("AAAB"));
    expect_text(&pem, CERT("AAAB"));
    put_file("pem", "");
    expect_text(&pem, CERT("AAAB"));
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 2);
    credential_clear(&pem);
}

TEST(nothing_good_yet)
{
    struct credential pem;
    credential_init(&pem, CREDENTIAL_KEY, "client key", NULL, path);
    expect_error(&pem, "no client key: ");
    expect_error(&pem, "contains no private key in PEM format");
    put_file("pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n");
    expect_error(&pem, "is cut off");
    put_file("pem",
             "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    expect_error(&pem, "is encrypted");
    put_file("pem", KEY("Proc-Type: 4,ENCRYPTED\n\nAAAA"));
    expect_error(&pem, "is encrypted");
    FILE *file = fopen(path, "w");
    ck_assert_int_eq(ftruncate(fileno(file), 1024 * 1024 + 1), 0);
    fclose(file);
    expect_error(&pem, "is larger than 1048576 bytes");
    ck_assert_int_eq(truncate(path, 1024 * 1024), 0);
    expect_error(&pem, "is not text");
    unlink(path);
    expect_error(&pem, "No such file");
    put_file("pem", KEY("AAAA"));
    expect_text(&pem, KEY("AAAA"));
    credential_clear(&pem);
}

TEST(not_a_file)
{
    struct credential pem;
    credential_init(&pem, CREDENTIAL_KEY, "client key", NULL, "/");
    expect_error(&pem, "/: is not a plain file");
    credential_clear(&pem);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody will ever write to it */
    credential_init(&pem, CREDENTIAL_KEY, "client key", NULL, path);
    expect_error(&pem, "is not a plain file");
    credential_clear(&pem);
}

/* ---- tokens ---- */

TEST(token_none_and_fixed)
{
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, NULL);
    expect_text(&token, NULL);
    credential_clear(&token);
    credential_init(&token, CREDENTIAL_TOKEN, "token", " abc\n", NULL);
    expect_text(&token, "abc");
    credential_clear(&token);
    credential_init(&token, CREDENTIAL_TOKEN, "token", "abc\r\nEvil: 1", NULL);
    expect_error(&token, "not a token");
    credential_clear(&token);
}

TEST(token_file_wins_and_is_read_again)
{
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", "fixed", path);
    put_file("pem", "\t one \r\n");
    expect_text(&token, "one");
    put_file("pem", "two");
    expect_text(&token, "two");
    credential_clear(&token);
}

TEST(token_last_good_one_is_used_on)
{
    static const struct {
        const char *text;
        size_t length;
    } bad[] = {{"", 0}, {" \n", 2}, {"a b", 3}, {"a\nb", 3}, {"a\0b", 3}, {"\x80", 1}};
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, path);
    put_file("pem", "good");
    expect_text(&token, "good");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        put_file_bytes("pem", bad[i].text, bad[i].length);
        expect_text(&token, "good");
    }
    unlink(path);
    expect_text(&token, "good");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    put_file("pem", "new");
    expect_text(&token, "new");
    put_file("pem", "");
    expect_text(&token, "new");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 2);
    credential_clear(&token);
}

TEST(token_nothing_good_yet)
{
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, path);
    expect_error(&token, "no token: ");
    expect_error(&token, "is empty");
    unlink(path);
    expect_error(&token, "No such file");
    char *huge = malloc(70000);
    memset(huge, 'x', 70000);
    put_file_bytes("pem", huge, 70000);
    free(huge);
    expect_error(&token, "is larger than 65536 bytes");
    credential_clear(&token);
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, "/");
    expect_error(&token, "/: is not a plain file");
    credential_clear(&token);
}

UNIT_FIXTURE(setup, NULL)
