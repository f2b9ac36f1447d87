/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/bearer.h"

#include "kube-nftd/base/log.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static int warnings;

static void count_warning(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)line;
    warnings += level == LOG_LEVEL_WARN;
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    fclose(file);
}

static void setup(void)
{
    strcpy(path, "/tmp/kube-nftd-bearer.XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    warnings = 0;
    log_set_sink(count_warning, NULL);
}

static void teardown(void)
{
    log_set_sink(NULL, NULL);
    unlink(path);
}

static const char *expect_token(struct bearer *bearer)
{
    const char *token = NULL;
    struct error err = {0};
    ck_assert_int_eq(bearer_get(bearer, &token, &err), 0);
    ck_assert_ptr_null(err.text);
    return token;
}

static void expect_error(struct bearer *bearer, const char *part)
{
    const char *token;
    struct error err = {0};
    ck_assert_int_eq(bearer_get(bearer, &token, &err), -1);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
    error_clear(&err);
}

START_TEST(none_and_fixed)
{
    struct bearer bearer;
    bearer_init(&bearer, NULL, NULL);
    ck_assert_ptr_null(expect_token(&bearer));
    bearer_clear(&bearer);
    bearer_init(&bearer, " abc\n", NULL);
    ck_assert_str_eq(expect_token(&bearer), "abc");
    bearer_clear(&bearer);
    bearer_init(&bearer, "abc\r\nEvil: 1", NULL);
    expect_error(&bearer, "not a token");
    bearer_clear(&bearer);
}
END_TEST

START_TEST(file_wins_and_is_read_again)
{
    struct bearer bearer;
    bearer_init(&bearer, "fixed", path);
    write_file("\t one \r\n", 8);
    ck_assert_str_eq(expect_token(&bearer), "one");
    write_file("two", 3);
    ck_assert_str_eq(expect_token(&bearer), "two");
    bearer_clear(&bearer);
}
END_TEST

START_TEST(last_good_one_is_used_on)
{
    static const struct {
        const char *text;
        size_t length;
    } bad[] = {{"", 0}, {" \n", 2}, {"a b", 3}, {"a\nb", 3}, {"a\0b", 3}, {"\x80", 1}};
    struct bearer bearer;
    bearer_init(&bearer, NULL, path);
    write_file("good", 4);
    expect_token(&bearer);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        write_file(bad[i].text, bad[i].length);
        ck_assert_str_eq(expect_token(&bearer), "good");
    }
    unlink(path);
    ck_assert_str_eq(expect_token(&bearer), "good");
    ck_assert_int_eq(warnings, 1);
    write_file("new", 3);
    ck_assert_str_eq(expect_token(&bearer), "new");
    write_file("", 0);
    expect_token(&bearer);
    ck_assert_int_eq(warnings, 2);
    bearer_clear(&bearer);
}
END_TEST

START_TEST(nothing_good_yet)
{
    struct bearer bearer;
    bearer_init(&bearer, NULL, path);
    expect_error(&bearer, "no token: ");
    expect_error(&bearer, "is empty");
    unlink(path);
    expect_error(&bearer, "No such file");
    char *huge = malloc(70000);
    memset(huge, 'x', 70000);
    write_file(huge, 70000);
    free(huge);
    expect_error(&bearer, "is larger than 65536 bytes");
    bearer_clear(&bearer);
    bearer_init(&bearer, NULL, "/");
    expect_error(&bearer, "cannot read /: not a plain file");
    bearer_clear(&bearer);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, none_and_fixed);
    tcase_add_test(tcase, file_wins_and_is_read_again);
    tcase_add_test(tcase, last_good_one_is_used_on);
    tcase_add_test(tcase, nothing_good_yet);
}

UNIT_MAIN("bearer", add_tests)
