/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/options.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST 10

/* The host's name as the tests want it; NULL: it cannot be read. */
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

/* Parses the words of @line, of which "''" is an empty one. */
static int parse(const char *line, struct options *options, struct error *err)
{
    char *copy = xstrdup(line), *rest, *argv[MOST + 2] = {NULL};
    char program[] = "--unknown", empty[] = "";
    int argc = 1, result;
    argv[0] = program;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "''") == 0 ? empty : word;
    memset(options, 0xee, sizeof(*options));
    result = options_parse(argc, argv, options, err);
    free(copy);
    return result;
}

/* Everything that was given, in one text. */
static char *options_text(const struct options *options)
{
    static const char *const names[] = {"manifests", "kubeconfig", "master", "host", "healthz"};
    const char *const values[] = {options->manifests, options->kubeconfig, options->master,
                                  options->hostname_override, options->healthz_bind_address};
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (size_t i = 0; i < COUNT(names); i++)
        if (values[i])
            fprintf(out, "%s=%s ", names[i], values[i]);
    fprintf(out, "%s%s%s%sv=%d", options->dump_rules ? "dump " : "",
            options->cleanup ? "cleanup " : "", options->version ? "version " : "",
            options->help ? "help " : "", options->verbosity);
    fclose(out);
    return text;
}

static const struct {
    const char *line, *expected;
} good[] = {
    {"", "v=0"},
    {"--manifests /m", "manifests=/m v=0"},
    {"--manifests=/m", "manifests=/m v=0"},
    {"--manifests=a=b", "manifests=a=b v=0"},
    {"--manifests -", "manifests=- v=0"},
    {"--manifests --odd", "manifests=--odd v=0"},
    {"--kubeconfig k --master https://x:6443", "kubeconfig=k master=https://x:6443 v=0"},
    {"--master=https://x", "master=https://x v=0"},
    {"--hostname-override n", "host=n v=0"},
    {"--hostname_override=n", "host=n v=0"},
    {"--hostname_override=n_a-b", "host=n_a-b v=0"},
    {"--healthz-bind-address 127.0.0.1:1", "healthz=127.0.0.1:1 v=0"},
    {"--healthz_bind-address 127.0.0.1:1", "healthz=127.0.0.1:1 v=0"},
    {"--healthz_bind_address=[::]:1", "healthz=[::]:1 v=0"},
    {"--dump-rules", "dump v=0"},
    {"--dump_rules", "dump v=0"},
    {"--dump-rules=true", "dump v=0"},
    {"--dump-rules=false", "v=0"},
    {"--dump-rules --dump-rules=false --cleanup", "cleanup v=0"},
    {"--cleanup", "cleanup v=0"},
    {"--version", "version v=0"},
    {"--help", "help v=0"},
    {"-h", "help v=0"},
    {"-v 4", "v=4"},
    {"-v=4", "v=4"},
    {"-v4", "v=4"},
    {"-v10", "v=10"},
    {"--v 4", "v=4"},
    {"--v=4", "v=4"},
    {"-v 0", "v=0"},
    {"-v 007", "v=7"},
    {"-v 2147483647", "v=2147483647"},
    {"-v 1 -v2 --v=3", "v=3"},
    {"--manifests a --manifests b", "manifests=b v=0"},
    {"-v2 --manifests /m --dump-rules --hostname-override n", "manifests=/m host=n dump v=2"},
    /* Empty is the default, as with kube-proxy. */
    {"--kubeconfig= --master= --hostname-override= --healthz-bind-address=", "v=0"},
    {"--master ''", "v=0"},
    {"--master x --master ''", "v=0"},
    {"--manifests m --kubeconfig=", "manifests=m v=0"},
    /* Who asks for help gets it. */
    {"--help --manifests m --master x", "manifests=m master=x help v=0"},
    {"--version --dump-rules --cleanup", "dump cleanup version v=0"},
};

START_TEST(accepted)
{
    struct options options;
    struct error err = {0};
    ck_assert_msg(parse(good[_i].line, &options, &err) == 0, "%s: %s", good[_i].line, err.text);
    ck_assert_ptr_null(err.text);
    char *text = options_text(&options);
    ck_assert_msg(strcmp(text, good[_i].expected) == 0, "%s is %s", good[_i].line, text);
    free(text);
    options_clear(&options);
    text = options_text(&options);
    ck_assert_str_eq(text, "v=0");
    free(text);
}
END_TEST

static const struct {
    const char *line, *error;
} wrong[] = {
    {"--unknown", "unknown flag: --unknown"},
    {"--unknown=x", "unknown flag: --unknown"},
    {"--manifest x", "unknown flag: --manifest"},
    {"--manifestss x", "unknown flag: --manifestss"},
    {"--Manifests x", "unknown flag: --Manifests"},
    {"---manifests x", "unknown flag: ---manifests"},
    {"--", "unknown flag: --"},
    {"--=x", "unknown flag: --"},
    {"-=x", "unknown flag: -"},
    {"-x", "unknown flag: -x"},
    {"-vv", "unknown flag: -vv"},
    {"-version", "unknown flag: -version"},
    {"-manifests=/m", "unknown flag: -manifests"},
    {"--v4", "unknown flag: --v4"},
    {"--version --unknown", "unknown flag: --unknown"},
    {"word", "unexpected argument: word (there are only flags)"},
    {"--cleanup false", "unexpected argument: false (there are only flags)"},
    {"-", "unexpected argument: - (there are only flags)"},
    {"''", "unexpected argument:  (there are only flags)"},
    {"__manifests=x", "unexpected argument: __manifests=x (there are only flags)"},
    {"--manifests", "--manifests: a value is missing"},
    {"--cleanup --master", "--master: a value is missing"},
    {"-v", "-v: a value is missing"},
    {"--manifests=", "--manifests: the value is empty"},
    {"--manifests ''", "--manifests: the value is empty"},
    {"--cleanup=yes", "--cleanup: \"yes\" is neither true nor false"},
    {"--cleanup=", "--cleanup: \"\" is neither true nor false"},
    {"--help=TRUE", "--help: \"TRUE\" is neither true nor false"},
    {"-v x", "-v: \"x\" is not a number from 0 on"},
    {"-v 4x", "-v: \"4x\" is not a number from 0 on"},
    {"-v4x", "-v: \"4x\" is not a number from 0 on"},
    {"-v -1", "-v: \"-1\" is not a number from 0 on"},
    {"-v +1", "-v: \"+1\" is not a number from 0 on"},
    {"-v=", "-v: \"\" is not a number from 0 on"},
    {"-v 1.5", "-v: \"1.5\" is not a number from 0 on"},
    {"-v 2147483648", "-v: \"2147483648\" is not a number from 0 on"},
    {"-v 99999999999999999999", "-v: \"99999999999999999999\" is not a number from 0 on"},
    {"--manifests m --kubeconfig k",
     "--manifests and --kubeconfig exclude each other: objects come from one place"},
    {"--master x --manifests m",
     "--manifests and --master exclude each other: objects come from one place"},
    {"--dump-rules --cleanup", "--dump-rules and --cleanup exclude each other"},
    {"--kubeconfig k -v 3 --cleanup --dump-rules", "--dump-rules and --cleanup exclude each other"},
};

/* With an error nothing is left in the options: the leak checker would find it. */
START_TEST(refused)
{
    struct options options;
    struct error err = {0};
    ck_assert_msg(parse(wrong[_i].line, &options, &err) == -1, "%s", wrong[_i].line);
    ck_assert_str_eq(err.text, wrong[_i].error);
    char *text = options_text(&options);
    ck_assert_str_eq(text, "v=0");
    free(text);
    error_clear(&err);
}
END_TEST

START_TEST(usage)
{
    static const char *const flags[] = {"--manifests PATH", "--kubeconfig FILE",
                                        "--master URL",     "--hostname-override NAME",
                                        "--dump-rules\n",   "--healthz-bind-address IP:PORT",
                                        "--cleanup\n",      "--version\n",
                                        "--help\n",         "\n  -v N\n"};
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    options_usage(out);
    fclose(out);
    for (size_t i = 0; i < COUNT(flags); i++)
        ck_assert_msg(strstr(text, flags[i]) != NULL, "%s", flags[i]);
    free(text);
}
END_TEST

/* ---------------------------------------------------------- the own node */

static void expect_name(const char *override, const char *expected)
{
    struct error err = {0};
    char *name = node_name(override, &err);
    ck_assert_msg(name != NULL, "%s", err.text);
    ck_assert_str_eq(name, expected);
    ck_assert_ptr_null(err.text);
    free(name);
}

static void expect_no_name(const char *override, const char *expected)
{
    struct error err = {0};
    ck_assert_ptr_null(node_name(override, &err));
    ck_assert_str_eq(err.text, expected);
    error_clear(&err);
}

START_TEST(name_given)
{
    host_name = "host";
    expect_name("node-1", "node-1");
    expect_name("Node-1.Example.ORG", "node-1.example.org");
    expect_name(" \t\nNode 1\r\v\f ", "node 1");
    expect_name("x", "x");
    expect_no_name("", "--hostname-override: the name is empty");
    expect_no_name(" \t\n", "--hostname-override: the name is empty");
}
END_TEST

START_TEST(name_of_the_host)
{
    host_name = "HOST-1.example";
    expect_name(NULL, "host-1.example");
    host_name = " Host ";
    expect_name(NULL, "host");
    /* The longest that Linux allows. */
    host_name = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
    expect_name(NULL, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789.-");
    host_name = "";
    expect_no_name(NULL, "the host has no name: give --hostname-override");
    host_name = "  ";
    expect_no_name(NULL, "the host has no name: give --hostname-override");
    host_name = NULL;
    expect_no_name(NULL, "cannot read the host's name: Operation not permitted");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, accepted, 0, COUNT(good));
    tcase_add_loop_test(tcase, refused, 0, COUNT(wrong));
    tcase_add_test(tcase, usage);
    tcase_add_test(tcase, name_given);
    tcase_add_test(tcase, name_of_the_host);
}

UNIT_MAIN("options", add_tests)
