/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/pem_file.h"

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

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void setup(void)
{
    strcpy(path, "/tmp/kube-nftd-pem.XXXXXX");
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

static void expect_text(struct pem_file *pem, const char *expected)
{
    const char *text = "not set";
    struct error err = {0};
    ck_assert_msg(pem_file_get(pem, &text, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    ck_assert_pstr_eq(text, expected);
}

static void expect_error(struct pem_file *pem, const char *part)
{
    const char *text;
    struct error err = {0};
    ck_assert_int_eq(pem_file_get(pem, &text, &err), -1);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
    ck_assert_ptr_null(strstr(err.text, "AAAA"));
    error_clear(&err);
}

START_TEST(none_and_fixed)
{
    struct pem_file pem;
    pem_file_init(&pem, PEM_CERTIFICATES, "CA", NULL, NULL);
    expect_text(&pem, NULL);
    pem_file_clear(&pem);
    pem_file_init(&pem, PEM_CERTIFICATES, "CA", CERT("AAAA"), "/no/such/file");
    expect_text(&pem, CERT("AAAA"));
    pem_file_clear(&pem);
    pem_file_init(&pem, PEM_KEY, "client key", CERT("AAAA"), NULL);
    expect_error(&pem, "kubeconfig: client key holds no private key");
    pem_file_clear(&pem);
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
    struct pem_file pem;
    pem_file_init(&pem, PEM_CERTIFICATES, "CA", NULL, path);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        write_file(texts[i]);
        expect_text(&pem, texts[i]);
        expect_text(&pem, texts[i]);
        ck_assert_int_eq(notices, (int)i); /* the first is no replacement */
    }
    ck_assert_int_eq(warnings, 0);
    pem_file_clear(&pem);
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
    struct pem_file pem;
    pem_file_init(&pem, PEM_CERTIFICATES, "CA", NULL, path);
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
    pem_file_clear(&pem);
}
END_TEST

START_TEST(nothing_good_yet)
{
    struct pem_file pem;
    pem_file_init(&pem, PEM_KEY, "client key", NULL, path);
    expect_error(&pem, "no client key: ");
    expect_error(&pem, "holds no private key in PEM form");
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
    pem_file_clear(&pem);
}
END_TEST

START_TEST(not_a_file)
{
    struct pem_file pem;
    pem_file_init(&pem, PEM_KEY, "client key", NULL, "/");
    expect_error(&pem, "cannot read /: not a plain file");
    pem_file_clear(&pem);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody will ever write to it */
    pem_file_init(&pem, PEM_KEY, "client key", NULL, path);
    expect_error(&pem, "not a plain file");
    pem_file_clear(&pem);
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
}

UNIT_MAIN("pem_file", add_tests)
