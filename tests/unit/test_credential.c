/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/credential.h"

#include "kube-nftd/base/log.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CERT(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"
#define KEY(text) "-----BEGIN EC PRIVATE KEY-----\n" text "\n-----END EC PRIVATE KEY-----\n"

static char path[64];
static int warnings, notices;

static void count_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    ck_assert_ptr_null(strstr(line, "AAAA")); /* nothing of what is inside */
    warnings += level == LOG_LEVEL_WARN;
    notices += level == LOG_LEVEL_INFO;
}

static void write_bytes(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

static void setup(void)
{
    strcpy(path, "/tmp/kube-nftd-credential.XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    warnings = notices = 0;
    log_set_sink(count_line, NULL);
}

static void teardown(void)
{
    log_set_sink(NULL, NULL);
    unlink(path);
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

START_TEST(none_and_fixed)
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
END_TEST

START_TEST(a_file_is_read_again)
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
        write_file(texts[i]);
        expect_text(&pem, texts[i]);
        expect_text(&pem, texts[i]);
        ck_assert_int_eq(notices, (int)i); /* the first is no replacement */
    }
    ck_assert_int_eq(warnings, 0);
    credential_clear(&pem);
}
END_TEST

START_TEST(last_good_one_is_used_on)
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
    write_file(CERT("AAAA"));
    expect_text(&pem, CERT("AAAA"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        write_file(bad[i]);
        expect_text(&pem, CERT("AAAA"));
    }
    unlink(path);
    expect_text(&pem, CERT("AAAA"));
    ck_assert_int_eq(warnings, 1);
    write_file(CERT("AAAB"));
    expect_text(&pem, CERT("AAAB"));
    write_file("");
    expect_text(&pem, CERT("AAAB"));
    ck_assert_int_eq(warnings, 2);
    credential_clear(&pem);
}
END_TEST

START_TEST(nothing_good_yet)
{
    struct credential pem;
    credential_init(&pem, CREDENTIAL_KEY, "client key", NULL, path);
    expect_error(&pem, "no client key: ");
    expect_error(&pem, "contains no private key in PEM format");
    write_file("-----BEGIN PRIVATE KEY-----\nAAAA\n");
    expect_error(&pem, "is cut off");
    write_file(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    expect_error(&pem, "is encrypted");
    write_file(KEY("Proc-Type: 4,ENCRYPTED\n\nAAAA"));
    expect_error(&pem, "is encrypted");
    FILE *file = fopen(path, "w");
    ck_assert_int_eq(ftruncate(fileno(file), 1024 * 1024 + 1), 0);
    fclose(file);
    expect_error(&pem, "is larger than 1048576 bytes");
    ck_assert_int_eq(truncate(path, 1024 * 1024), 0);
    expect_error(&pem, "is not text");
    unlink(path);
    expect_error(&pem, "No such file");
    write_file(KEY("AAAA"));
    expect_text(&pem, KEY("AAAA"));
    credential_clear(&pem);
}
END_TEST

START_TEST(not_a_file)
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
END_TEST

/* ---- tokens ---- */

START_TEST(token_none_and_fixed)
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
END_TEST

START_TEST(token_file_wins_and_is_read_again)
{
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", "fixed", path);
    write_file("\t one \r\n");
    expect_text(&token, "one");
    write_file("two");
    expect_text(&token, "two");
    credential_clear(&token);
}
END_TEST

START_TEST(token_last_good_one_is_used_on)
{
    static const struct {
        const char *text;
        size_t length;
    } bad[] = {{"", 0}, {" \n", 2}, {"a b", 3}, {"a\nb", 3}, {"a\0b", 3}, {"\x80", 1}};
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, path);
    write_file("good");
    expect_text(&token, "good");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        write_bytes(bad[i].text, bad[i].length);
        expect_text(&token, "good");
    }
    unlink(path);
    expect_text(&token, "good");
    ck_assert_int_eq(warnings, 1);
    write_file("new");
    expect_text(&token, "new");
    write_file("");
    expect_text(&token, "new");
    ck_assert_int_eq(warnings, 2);
    credential_clear(&token);
}
END_TEST

START_TEST(token_nothing_good_yet)
{
    struct credential token;
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, path);
    expect_error(&token, "no token: ");
    expect_error(&token, "is empty");
    unlink(path);
    expect_error(&token, "No such file");
    char *huge = malloc(70000);
    memset(huge, 'x', 70000);
    write_bytes(huge, 70000);
    free(huge);
    expect_error(&token, "is larger than 65536 bytes");
    credential_clear(&token);
    credential_init(&token, CREDENTIAL_TOKEN, "token", NULL, "/");
    expect_error(&token, "/: is not a plain file");
    credential_clear(&token);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, none_and_fixed);
    tcase_add_test(tcase, a_file_is_read_again);
    tcase_add_test(tcase, last_good_one_is_used_on);
    tcase_add_test(tcase, nothing_good_yet);
    tcase_add_test(tcase, not_a_file);
    tcase_add_test(tcase, token_none_and_fixed);
    tcase_add_test(tcase, token_file_wins_and_is_read_again);
    tcase_add_test(tcase, token_last_good_one_is_used_on);
    tcase_add_test(tcase, token_nothing_good_yet);
}

UNIT_MAIN("credential", add_tests)
