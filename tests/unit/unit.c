/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <sys/stat.h>

struct test {
    const TTest *test;
    int n;
};

struct fixture {
    void (*set_up)(void), (*tear_down)(void);
};

static VEC(struct test) tests;
static VEC(struct fixture) fixtures;

void unit_add(const TTest *test, int n)
{
    vec_push(&tests, (struct test){test, n});
}

void unit_add_fixture(void (*set_up)(void), void (*tear_down)(void))
{
    vec_push(&fixtures, (struct fixture){set_up, tear_down});
}

struct line {
    enum log_level level;
    char *text;
};

static VEC(struct line) lines;

static void take_line(void *ctx, enum log_level level, const char *text)
{
    vec_push(&lines, (struct line){level, xstrdup(text)});
    if (getenv("UNIT_LOG"))
        fprintf(stderr, "%s\n", text);
}

unsigned logged(enum log_level level)
{
    unsigned n = 0;
    vec_each (&lines, it)
        n += it->level == level;
    return n;
}

unsigned logged_with(const char *words)
{
    unsigned n = 0;
    vec_each (&lines, it)
        n += strstr(it->text, words) != NULL;
    return n;
}

const char *last_logged(enum log_level level)
{
    const char *text = "";
    vec_each (&lines, it)
        if (it->level <= level)
            text = it->text;
    return text;
}

void forget_logged(void)
{
    vec_each (&lines, it)
        free(it->text);
    vec_free(&lines);
    log_set_sink(take_line, NULL);
}

static char folder[32];
static VEC(char *) paths;

/* @line without its time, and without the folder wherever that is named. */
static void write_line(FILE *out, const char *line)
{
    line = strchr(line, ' ') + 1;
    for (const char *at; *folder && (at = strstr(line, folder)); line = at + strlen(folder) + 1)
        fprintf(out, "%.*s", (int)(at - line), line);
    fprintf(out, "%s\n", line);
}

void write_logged(FILE *out, enum log_level level)
{
    log_flush(INFINITY);
    vec_each (&lines, it)
        if (it->level <= level)
            write_line(out, it->text);
    forget_logged();
}

const char *test_folder(void)
{
    if (!*folder)
        ck_assert_ptr_nonnull(mkdtemp(strcpy(folder, "/tmp/kube-nftd-test-XXXXXX")));
    return folder;
}

char *in_folder(const char *name)
{
    char *path = xasprintf("%s/%s", test_folder(), name);
    vec_push(&paths, path);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    return path;
}

void put_file_bytes(const char *name, const char *bytes, size_t length)
{
    FILE *file = fopen(in_folder(name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

void put_file(const char *name, const char *text)
{
    put_file_bytes(name, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    return remove(path);
}

static void tear_down(void)
{
    forget_logged();
    log_set_sink(NULL, NULL);
    if (*folder)
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *folder = '\0';
    vec_each (&paths, path)
        free(*path);
    vec_free(&paths);
}

/* ---- what is chosen ---- */

static bool some_case; /* is chosen */

bool unit_chooses_case(const char *name)
{
    const char *only = getenv("UNIT_CASE");
    const bool chosen = !only || strcmp(only, name) == 0;
    some_case = some_case || chosen;
    return chosen;
}

static bool chooses_test(const char *name)
{
    const char *only = getenv("UNIT_ONLY");
    return !only || strcmp(only, name) == 0;
}

/* Whether anything is, or else says so. */
static bool chooses_any(void)
{
    bool some_test = false;
    vec_each (&tests, it)
        some_test = some_test || chooses_test(it->test->name);
    if (!some_test)
        fprintf(stderr, "no such test: UNIT_ONLY=%s\n", getenv("UNIT_ONLY"));
    else if (!some_case && getenv("UNIT_CASE"))
        fprintf(stderr, "no such case: UNIT_CASE=%s\n", getenv("UNIT_CASE"));
    else
        return true;
    return false;
}

/* ---- all of it ---- */

static TCase *all_with(const struct fixture *fixture)
{
    TCase *tcase = tcase_create(program_invocation_short_name);
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, forget_logged, tear_down);
    tcase_add_checked_fixture(tcase, fixture->set_up, fixture->tear_down);
    vec_each (&tests, it)
        if (chooses_test(it->test->name))
            tcase_add_loop_test(tcase, it->test, 0, it->n);
    return tcase;
}

int main(void)
{
    if (!chooses_any())
        return EXIT_FAILURE;
    Suite *suite = suite_create(program_invocation_short_name);
    if (!fixtures.n)
        unit_add_fixture(NULL, NULL);
    vec_each (&fixtures, it)
        suite_add_tcase(suite, all_with(it));
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    vec_free(&tests);
    vec_free(&fixtures);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
