/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which server there is, with which credentials and by which proxy: from a kubeconfig, from flags,
 * from inside of a cluster. Cases are in cases/client_config; FOLDER is the test's. */
#include "kube-nftd/config.h"
#include "script.h"

#include <unistd.h>

static struct client_config config;
static struct error err;

static void set_up(void)
{
    static const char *const variables[] = {"KUBERNETES_SERVICE_HOST",
                                            "KUBERNETES_SERVICE_PORT",
                                            "HTTPS_PROXY",
                                            "https_proxy",
                                            "HTTP_PROXY",
                                            "http_proxy",
                                            "ALL_PROXY",
                                            "all_proxy",
                                            "NO_PROXY",
                                            "no_proxy"};
    for (int i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
}

static void tear_down(void)
{
    client_config_clear(&config);
    error_clear(&err);
}

/* ---- what is loaded ---- */

/* With FOLDER for the test's. */
static void write_text(FILE *out, const char *text)
{
    const char *folder = strstr(text, test_folder());
    if (folder) {
        fprintf(out, "%.*sFOLDER", (int)(folder - text), text);
        text = folder + strlen(test_folder());
    }
    write_bytes(out, text, strlen(text));
}

static void write_config(FILE *out)
{
    const struct {
        const char *name, *text;
    } texts[] = {
        {"server", config.server},
        {"ca", config.ca_file},
        {"ca-data", config.ca_data},
        {"certificate", config.client_cert_file},
        {"certificate-data", config.client_cert_data},
        {"key", config.client_key_file},
        {"key-data", config.client_key_data},
        {"token", config.token},
        {"token-file", config.token_file},
        {"name", config.tls_server_name},
        {"proxy", config.proxy_url},
    };
    for (int i = 0; i < COUNT(texts); i++)
        if (texts[i].text) {
            fprintf(out, "%s%s=", i ? " " : "", texts[i].name);
            write_text(out, texts[i].text);
        }
    fputs(config.insecure_skip_tls_verify ? " insecure" : "", out);
    fputs(config.disable_compression ? " plain" : "", out);
}

/* After an error the configuration is empty. */
static void load_from(const char *path, const char *master, FILE *out)
{
    tear_down();
    int result = client_config_load(path, master, test_folder(), &config, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    write_config(out);
    if (err.text) {
        ck_assert_ptr_null(config.server);
        fputs("error: ", out);
        write_text(out, err.text);
    }
    fputs("\n", out);
    write_logged(out, LOG_LEVEL_WARN);
}

static const char *or_null(const char *words)
{
    return *words ? words : NULL;
}

/* ---- commands ---- */

COMMAND(env)
{
    char *value = strchr(words, '=');
    *value = '\0';
    setenv(words, value + 1, 1);
}

COMMAND(file)
{
    const char *name = script_word(&words);
    put_file(name, words);
}

/* The kubeconfig below, and what --master says. */
COMMAND(load)
{
    put_file("config", script_text());
    load_from(in_folder("config"), or_null(words), out);
}

/* One that is there, or not. */
COMMAND(load_path)
{
    load_from(in_folder(words), NULL, out);
}

COMMAND(large)
{
    size_t size = (size_t)5 * 1024 * 1024;
    char *large = xcalloc(size + 1, 1);
    memset(large, '#', size);
    put_file("config", large);
    free(large);
    load_from(in_folder("config"), NULL, out);
}

/* "PATH MASTER" as flags give them, "''" for an empty one: in a cluster if there is no path. */
COMMAND(flags)
{
    const char *path = script_word(&words), *empty = "''";
    load_from(strcmp(path, empty) == 0 ? "" : or_null(path),
              strcmp(words, empty) == 0 ? "" : or_null(words), out);
}

/* As the daemon itself does it. */
COMMAND(master)
{
    tear_down();
    ck_assert_int_eq(client_config_load(NULL, words, NULL, &config, &err), 0);
    write_config(out);
    fputs("\n", out);
    write_logged(out, LOG_LEVEL_WARN);
}

/* The last kubeconfig, named relative to its folder, or to "/". */
COMMAND(seen_from)
{
    char *name = xasprintf("%s/config", test_folder() + 1);
    bool root = strcmp(words, "/") == 0;
    ck_assert_int_eq(chdir(root ? "/" : test_folder()), 0);
    load_from(root ? name : "config", NULL, out);
    ck_assert_int_eq(chdir("/"), 0);
    free(name);
}

/* Several users and clusters, of which one counts. */
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

static void load_simple(const char *cluster, const char *user, FILE *out)
{
    char *text = simple(cluster, user);
    put_file("config", text);
    free(text);
    load_from(in_folder("config"), NULL, out);
}

COMMAND(cluster)
{
    load_simple(words, "", out);
}

COMMAND(user)
{
    load_simple("server: 'https://a'", words, out);
}

/* The cluster; the text below is the user. */
COMMAND(both)
{
    char *user = xstrndup(script_text(), strcspn(script_text(), "\n"));
    load_simple(words, user, out);
    free(user);
}

COMMAND(base64)
{
    char *cluster = xasprintf("server: 'https://a', certificate-authority-data: \"%s\"", words);
    script_bytes(cluster);
    load_simple(cluster, "", out);
    free(cluster);
}

/* What is made of the server's URL. */
COMMAND(url)
{
    script_bytes(words);
    tear_down();
    client_config_load(NULL, words, test_folder(), &config, &err);
    fprintf(out, "%s\n", config.server ? config.server : "none");
}

/* The proxy on the way to a server. */
COMMAND(proxy)
{
    tear_down();
    client_config_load(NULL, words, test_folder(), &config, &err);
    fprintf(out, "%s\n", config.proxy_url ? config.proxy_url : err.text ? err.text : "none");
}

/* "SERVER LIST": with that NO_PROXY. */
COMMAND(no_proxy)
{
    char *server = script_word(&words);
    setenv("NO_PROXY", words, 1);
    run_proxy(server, out);
}

CASES("client_config")

UNIT_FIXTURE(set_up, tear_down)
