/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unit.h"

#include "config/server_url.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/config/client_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct client_config config;
static struct error err;

static const char *const variables[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy",
                                        "ALL_PROXY",   "all_proxy",   "NO_PROXY",   "no_proxy"};

static void setup(void)
{
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
}

static void teardown(void)
{
    client_config_clear(&config);
    error_clear(&err);
}

/* Loads the kubeconfig @text; in-cluster files are looked for in the same folder. */
static int load(const char *text, const char *master)
{
    client_config_clear(&config);
    error_clear(&err);
    put_file("config", text);
    return client_config_load_with(in_folder("config"), master, test_folder(), &config, &err);
}

/* A kubeconfig with @cluster and @user as flow mappings. */
static char *simple(const char *cluster, const char *user)
{
    return xasprintf("apiVersion: v1\n"
                     "kind: Config\n"
                     "current-context: here\n"
                     "contexts:\n"
                     "- name: there\n"
                     "  context: {cluster: far, user: nobody}\n"
                     "- name: here\n"
                     "  context: {cluster: near, user: proxy}\n"
                     "clusters:\n"
                     "- name: near\n"
                     "  cluster: {%s}\n"
                     "users:\n"
                     "- name: other\n"
                     "  user: {exec: {command: other}}\n"
                     "- name: proxy\n"
                     "  user: {%s}\n",
                     cluster, user);
}

static int load_simple(const char *cluster, const char *user)
{
    char *text = simple(cluster, user);
    int result = load(text, NULL);
    free(text);
    return result;
}

static void assert_loaded(int result)
{
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
}

static void assert_nothing(void)
{
    const char *const texts[] = {
        config.server,           config.ca_file,
        config.ca_data,          config.client_cert_file,
        config.client_cert_data, config.client_key_file,
        config.client_key_data,  config.token,
        config.token_file,       config.tls_server_name,
        config.proxy_url,
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_ptr_null(texts[i]);
    ck_assert(!config.insecure_skip_tls_verify);
}

/* The whole text of the error, behind the path of the kubeconfig. */
static void assert_refused(int result, const char *text)
{
    char *expected = xasprintf("%s: %s", in_folder("config"), text);
    ck_assert_int_eq(result, -1);
    ck_assert_str_eq(err.text, expected);
    free(expected);
    assert_nothing();
}

TEST(token_and_ca_file)
{
    assert_loaded(load_simple("server: 'https://192.0.2.1:6443/', "
                              "certificate-authority: /etc/kubernetes/pki/ca.crt, "
                              "tls-server-name: api.example, "
                              "proxy-url: 'socks5://192.0.2.9:1080', "
                              "disable-compression: true, unknown: 1",
                              "token: abc.def"));
    ck_assert_str_eq(config.server, "https://192.0.2.1:6443");
    ck_assert_str_eq(config.ca_file, "/etc/kubernetes/pki/ca.crt");
    ck_assert_str_eq(config.tls_server_name, "api.example");
    ck_assert_str_eq(config.proxy_url, "socks5://192.0.2.9:1080");
    ck_assert_str_eq(config.token, "abc.def");
    ck_assert_ptr_null(config.token_file);
    ck_assert_ptr_null(config.ca_data);
    ck_assert_ptr_null(config.client_cert_file);
    ck_assert(!config.insecure_skip_tls_verify);
    ck_assert(config.disable_compression);
}

TEST(usual_kube_proxy_install)
{
    assert_loaded(load("kind: Config\n"
                       "apiVersion: v1\n"
                       "clusters:\n"
                       "- cluster:\n"
                       "    certificate-authority: /run/account/ca.crt\n"
                       "    server: https://192.0.2.1:6443\n"
                       "  name: default\n"
                       "contexts:\n"
                       "- context:\n"
                       "    cluster: default\n"
                       "    namespace: default\n"
                       "    user: default\n"
                       "  name: default\n"
                       "current-context: default\n"
                       "users:\n"
                       "- name: default\n"
                       "  user:\n"
                       "    tokenFile: /run/account/token\n",
                       NULL));
    ck_assert_str_eq(config.server, "https://192.0.2.1:6443");
    ck_assert_str_eq(config.token_file, "/run/account/token");
    ck_assert_str_eq(config.ca_file, "/run/account/ca.crt");
}

TEST(relative_paths)
{
    assert_loaded(load_simple("server: 'https://a', certificate-authority: pki/ca.crt",
                              "tokenFile: ../token, token: old, client-certificate: c.crt, "
                              "client-key: ./c.key"));
    ck_assert_str_eq(config.ca_file, in_folder("pki/ca.crt"));
    ck_assert_str_eq(config.token_file, in_folder("../token"));
    ck_assert_str_eq(config.token, "old");
    ck_assert_str_eq(config.client_cert_file, in_folder("c.crt"));
    ck_assert_str_eq(config.client_key_file, in_folder("./c.key"));
}

/* The kubeconfig itself may be named relative to the working folder. */
TEST(relative_kubeconfig)
{
    char *text = simple("server: 'https://a', certificate-authority: pki/ca.crt", "");
    put_file("config", text);
    free(text);
    char *before = getcwd(NULL, 0);
    ck_assert_int_eq(chdir(test_folder()), 0);
    int result = client_config_load_with("config", NULL, test_folder(), &config, &err);
    ck_assert_int_eq(chdir("/"), 0);
    assert_loaded(result);
    ck_assert_str_eq(config.ca_file, in_folder("pki/ca.crt"));
    client_config_clear(&config);
    char *name = xasprintf("%s/config", test_folder() + 1); /* seen from / */
    result = client_config_load_with(name, NULL, test_folder(), &config, &err);
    ck_assert_int_eq(chdir(before), 0);
    assert_loaded(result);
    char *expected = xasprintf("/%s", in_folder("pki/ca.crt"));
    ck_assert_str_eq(config.ca_file, expected);
    free(expected);
    free(name);
    free(before);
}

TEST(data_wins_over_files)
{
    assert_loaded(load_simple(
        "server: 'https://a', certificate-authority: ca.crt, certificate-authority-data: Y2EK",
        "client-certificate: c.crt, client-certificate-data: Y2VydA==, client-key: c.key, "
        "client-key-data: a2V5Kys="));
    ck_assert_str_eq(config.ca_data, "ca\n");
    ck_assert_str_eq(config.client_cert_data, "cert");
    ck_assert_str_eq(config.client_key_data, "key++");
    ck_assert_ptr_null(config.ca_file);
    ck_assert_ptr_null(config.client_cert_file);
    ck_assert_ptr_null(config.client_key_file);
}

/* What is wrong with the user or the cluster, and what is said. */
TEST(refused_entries)
{
#define OTHER "use tokenFile, or client-certificate and client-key"
    static const char good[] = "server: 'https://a'";
    static const struct {
        const char *cluster, *user, *text;
    } rows[] = {
        {good, "exec: {command: x}", "users[1].user.exec: exec plugins are not supported: " OTHER},
        {good, "exec: true", "users[1].user.exec: exec plugins are not supported: " OTHER},
        {good, "auth-provider: {name: x}",
         "users[1].user.auth-provider: auth provider plugins are not supported: " OTHER},
        {good, "username: x, password: y",
         "users[1].user.username: user name and password are not supported: " OTHER},
        {good, "password: y",
         "users[1].user.password: user name and password are not supported: " OTHER},
        {good, "as: x",
         "users[1].user.as: impersonation is not supported: use credentials of that user"},
        {good, "as-uid: 7",
         "users[1].user.as-uid: impersonation is not supported: use credentials of that user"},
        {good, "as-groups: [x]",
         "users[1].user.as-groups: impersonation is not supported: use credentials of that user"},
        {good, "as-user-extra: {a: [x]}",
         "users[1].user.as-user-extra: impersonation is not supported: use credentials of that "
         "user"},
        {good, "token: 12345", "users[1].user.token: must be a string"},
        {good, "token: \"a\\nb\"", "users[1].user.token: contains a blank or a line break"},
        {good, "tokenFile: [x]", "users[1].user.tokenFile: must be a string"},
        {good, "client-certificate: true", "users[1].user.client-certificate: must be a string"},
        {good, "client-certificate-data: 'Y2V$'",
         "users[1].user.client-certificate-data: is not base64"},
        {good, "client-key-data: 'AAAA'",
         "users[1].user.client-key-data: is not PEM in base64: it contains NUL bytes"},
        {good, "client-certificate: c.crt",
         "users[1].user.client-key: missing, although a client certificate is given"},
        {"server: 'https://a', certificate-authority-data: Y2E", "",
         "clusters[0].cluster.certificate-authority-data: is not base64"},
        {"server: 'https://a', certificate-authority: 5", "",
         "clusters[0].cluster.certificate-authority: must be a string"},
        {"server: 'https://a', insecure-skip-tls-verify: 'true'", "",
         "clusters[0].cluster.insecure-skip-tls-verify: must be true or false"},
        {"server: 'https://a', disable-compression: 1", "",
         "clusters[0].cluster.disable-compression: must be true or false"},
        {"server: 'https://a', insecure-skip-tls-verify: true, certificate-authority: x", "",
         "clusters[0].cluster.insecure-skip-tls-verify: excludes the certificate authority of the "
         "same cluster"},
        {"server: 'https://a', proxy-url: 'ftp://x'", "",
         "clusters[0].cluster.proxy-url: is not an http, https or socks5 URL"},
        {"server: 'https://a', proxy-url: 'http://'", "",
         "clusters[0].cluster.proxy-url: is not an http, https or socks5 URL"},
        {"server: 443", "", "clusters[0].cluster.server: must be a string"},
        {"", "", "clusters[0].cluster.server: missing"},
        {"server: '192.0.2.1:6443'", "",
         "clusters[0].cluster.server: \"192.0.2.1:6443\" does not start with https:// or http://"},
        {"server: 'https://'", "",
         "clusters[0].cluster.server: \"https://\" is not the URL of a server, such as "
         "https://192.0.2.1:6443"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_refused(load_simple(rows[i].cluster, rows[i].user), rows[i].text);
}

TEST(refused_files)
{
#define CONTEXT "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
#define CLUSTER "clusters: [{name: k, cluster: {server: 'https://a'}}]\n"
    static const struct {
        const char *file, *text;
    } rows[] = {
        {"- a\n", "not a kubeconfig: not a mapping"},
        {"just text\n", "not a kubeconfig: not a mapping"},
        {"kind: Pod\n", "not a kubeconfig: kind is not Config"},
        {"current-context: x\n", "contexts: no entry named \"x\""},
        {"current-context: 7\n", "current-context: must be a string"},
        {"contexts: [{name: c}]\n", "current-context: missing"},
        {"current-context: c\ncontexts: {name: c}\n", "contexts: must be a list"},
        {"current-context: c\ncontexts: [{name: 7}, {name: c}]\n",
         "contexts[0].name: must be a string"},
        {"current-context: c\ncontexts: [c]\n", "contexts[0].name: must be a string"},
        {"current-context: c\ncontexts: [{name: c, context: x}]\n",
         "contexts[0].context: must be a mapping"},
        {"current-context: c\ncontexts: [{name: c}]\n", "contexts[0].context.cluster: missing"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: 1}}]\n",
         "contexts[0].context.cluster: must be a string"},
        {CONTEXT, "clusters: no entry named \"k\""},
        {CONTEXT CLUSTER, "users: no entry named \"u\""},
        {CONTEXT CLUSTER "users: [{name: u, user: x}]\n", "users[0].user: must be a mapping"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_refused(load(rows[i].file, NULL), rows[i].text);
}

TEST(unreadable_files)
{
    assert_refused(client_config_load_with(in_folder("config"), NULL, test_folder(), &config, &err),
                   "No such file or directory");
    ck_assert_int_eq(client_config_load_with(test_folder(), NULL, test_folder(), &config, &err),
                     -1);
    ck_assert_msg(strstr(err.text, "is not a plain file") != NULL, "%s", err.text);

    size_t size = (size_t)5 * 1024 * 1024;
    char *large = xcalloc(size + 1, 1);
    memset(large, '#', size);
    assert_refused(load(large, NULL), "is larger than 4194304 bytes");
    free(large);
}

TEST(server_urls)
{
    static const struct {
        const char *text, *result; /* NULL: refused */
    } rows[] = {
        {"https://192.0.2.1:6443", "https://192.0.2.1:6443"},
        {"HTTPS://Api.Example", "https://Api.Example"},
        {"http://a:1///", "http://a:1"},
        {"https://[::1]", "https://[::1]"},
        {"https://[::1]:65535/x/", "https://[::1]:65535/x"},
        {"", NULL},
        {"a", NULL},
        {"ftp://a", NULL},
        {"https:a", NULL},
        {"https:///", NULL},
        {"https://:443", NULL},
        {"https://a:", NULL},
        {"https://a:0", NULL},
        {"https://a:65536", NULL},
        {"https://a:4294967297", NULL},
        {"https://a:44x", NULL},
        {"https://::1:443", NULL},
        {"https://[::1", NULL},
        {"https://[]:443", NULL},
        {"https://[192.0.2.1]", NULL},
        {"https://[::1]443", NULL},
        {"https://user:secret@a", NULL},
        {"https://a?b=c", NULL},
        {"https://a#b", NULL},
        {"https://a b", NULL},
        {"https://a\nb", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *server = server_url_parse(rows[i].text, &err);
        ck_assert_msg(!server == !rows[i].result, "%s -> %s", rows[i].text, server);
        ck_assert_msg(!server == (err.text != NULL), "%s", rows[i].text);
        if (server)
            ck_assert_str_eq(server, rows[i].result);
        free(server);
        error_clear(&err);
    }
}

TEST(base64)
{
    static const struct {
        const char *text, *data; /* NULL: it is none */
    } rows[] = {
        {"YQ==", "a"},
        {"YWI=", "ab"},
        {"YWJj", "abc"},
        {"YWJjZA==", "abcd"},
        {"YWJj\\r\\nZA\\n=\\n=\\n", "abcd"},
        {"+/+/", "\xfb\xff\xbf"},
        {"Y", NULL},
        {"YQ", NULL},
        {"YQ=", NULL},
        {"YQ===", NULL},
        {"Y===", NULL},
        {"YWJj=", NULL},
        {"====", NULL},
        {"YQ==YQ==", NULL},
        {"YW Jj", NULL},
        {"YW-_", NULL},
        {"YWJj\xc3\xa9", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *cluster =
            xasprintf("server: 'https://a', certificate-authority-data: \"%s\"", rows[i].text);
        int result = load_simple(cluster, "");
        free(cluster);
        if (rows[i].data) {
            assert_loaded(result);
            ck_assert_str_eq(config.ca_data, rows[i].data);
        } else {
            assert_refused(result, "clusters[0].cluster.certificate-authority-data: is not base64");
        }
    }
}

TEST(master_overrides)
{
    char *text = simple("server: 'https://a', certificate-authority: /ca", "token: t");
    assert_loaded(load(text, "https://b:8443/"));
    ck_assert_str_eq(config.server, "https://b:8443");
    ck_assert_str_eq(config.ca_file, "/ca");
    ck_assert_str_eq(config.token, "t");
    ck_assert_int_eq(load(text, "b:8443"), -1);
    ck_assert_str_eq(err.text, "--master: \"b:8443\" does not start with https:// or http://");
    assert_nothing();
    free(text);
}

TEST(master_alone)
{
    assert_loaded(client_config_load(NULL, "http://127.0.0.1:8080/", &config, &err));
    ck_assert_str_eq(config.server, "http://127.0.0.1:8080");
    ck_assert_ptr_null(config.token);
    ck_assert_ptr_null(config.token_file);
    ck_assert_ptr_null(config.ca_file);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

TEST(credentials_need_https)
{
    assert_loaded(load_simple("server: 'http://a', certificate-authority: /ca",
                              "token: t, tokenFile: /t, client-certificate-data: Y2VydA==, "
                              "client-key: /k"));
    ck_assert_str_eq(config.server, "http://a");
    ck_assert_ptr_null(config.token);
    ck_assert_ptr_null(config.token_file);
    ck_assert_ptr_null(config.client_cert_data);
    ck_assert_ptr_null(config.client_key_file);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
}

static void pod(const char *host, const char *port)
{
    setenv("KUBERNETES_SERVICE_HOST", host, 1);
    setenv("KUBERNETES_SERVICE_PORT", port, 1);
}

TEST(in_cluster)
{
    pod("10.96.0.1", "443");
    put_file("token", "secret");
    put_file("ca.crt", "pem");
    assert_loaded(client_config_load_with(NULL, NULL, test_folder(), &config, &err));
    ck_assert_str_eq(config.server, "https://10.96.0.1:443");
    ck_assert_str_eq(config.token_file, in_folder("token"));
    ck_assert_str_eq(config.ca_file, in_folder("ca.crt"));
    ck_assert_ptr_null(config.token);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 0);
    client_config_clear(&config);

    pod("fd00:10:96::1", "443");
    assert_loaded(client_config_load_with("", "", test_folder(), &config, &err));
    ck_assert_str_eq(config.server, "https://[fd00:10:96::1]:443");
}

TEST(in_cluster_without_files)
{
    pod("10.96.0.1", "443");
    ck_assert_int_eq(client_config_load_with(NULL, NULL, test_folder(), &config, &err), -1);
    char *expected = xasprintf("%s: No such file or directory", in_folder("token"));
    ck_assert_str_eq(err.text, expected);
    free(expected);
    assert_nothing();
    error_clear(&err);

    put_file("token", "secret");
    assert_loaded(client_config_load_with(NULL, NULL, test_folder(), &config, &err));
    ck_assert_ptr_null(config.ca_file);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 1);
}

TEST(in_cluster_without_environment)
{
    put_file("token", "secret");
    static const char *const rows[][2] = {{NULL, NULL}, {"", "443"}, {"10.96.0.1", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i][0])
            pod(rows[i][0], rows[i][1]);
        ck_assert_int_eq(client_config_load_with(NULL, NULL, test_folder(), &config, &err), -1);
        ck_assert_msg(strstr(err.text, "KUBERNETES_SERVICE_HOST") != NULL, "%s", err.text);
        assert_nothing();
        error_clear(&err);
    }
    pod("10.96.0.1", "https");
    ck_assert_int_eq(client_config_load_with(NULL, NULL, test_folder(), &config, &err), -1);
    ck_assert_msg(strstr(err.text, "https://10.96.0.1:https") != NULL, "%s", err.text);
    assert_nothing();
}

TEST(empty_kubeconfig_is_none)
{
    static const char *const rows[] = {
        "",
        "\n  \n",
        "# nothing here\n",
        "---\n",
        "{}\n",
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: null\ncurrent-context: ''\n",
    };
    pod("10.96.0.1", "443");
    put_file("token", "secret");
    put_file("ca.crt", "pem");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_loaded(load(rows[i], NULL));
        ck_assert_str_eq(config.server, "https://10.96.0.1:443");
        ck_assert_str_eq(config.token_file, in_folder("token"));
        assert_loaded(load(rows[i], "https://b"));
        ck_assert_str_eq(config.server, "https://b");
        ck_assert_ptr_null(config.token_file);
    }
}

UNIT_FIXTURE(setup, teardown)
