/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "config/server_url.h"

#include "unit.h"

#include <string.h>

static const char *const variables[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy",
                                        "ALL_PROXY",   "all_proxy",   "NO_PROXY",   "no_proxy"};

static void setup(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
}

static void expect(const char *server, const char *expected)
{
    char *proxy = NULL;
    struct error err = {0};
    ck_assert_msg(proxy_from_environment(server, &proxy, &err) == 0, "%s", err.text);
    ck_assert_msg((!proxy && !expected) || (proxy && expected && strcmp(proxy, expected) == 0),
                  "%s NO_PROXY=%s: %s, not %s", server, getenv("NO_PROXY"), proxy, expected);
    free(proxy);
}

TEST(which_variable)
{
    static const char server[] = "https://api.example:6443";
    expect(server, NULL);
    setenv("ALL_PROXY", "http://all", 1);
    setenv("HTTP_PROXY", "http://plain:1", 1);
    expect(server, NULL);
    expect("http://api.example", "http://plain:1");
    setenv("https_proxy", "small:3128", 1);
    expect(server, "http://small:3128");
    setenv("HTTPS_PROXY", "", 1);
    expect(server, "http://small:3128");
    setenv("HTTPS_PROXY", "socks5://large", 1);
    expect(server, "socks5://large");
}

TEST(exemptions)
{
    static const char name[] = "https://api.example:6443", deep[] = "https://x.api.example";
    static const char v4[] = "https://192.0.2.7:6443/path", v6[] = "https://[2001:db8::7]:6443";
    static const struct {
        const char *list, *server;
        bool exempt;
    } rows[] = {
        {"*", name, true},
        {"x, *", v4, true},
        {"x,,", name, false},
        {"api.example", name, true},
        {" API.Example ", name, true},
        {"api.example", deep, true},
        {"pi.example", name, false},
        {"example", name, true},
        {".api.example", name, false},
        {".api.example", deep, true},
        {"*.api.example", name, false},
        {"*.api.example", deep, true},
        {"x.api.example", name, false},
        {"api.example:6443", name, true},
        {"api.example:643", name, false},
        {"api.example:64433", name, false},
        {"api.example:443", deep, true},
        {"api.example:", name, true},
        {":6443", name, false},
        {"192.0.2.7", v4, true},
        {"192.0.2.7:6443", v4, true},
        {"192.0.2.7:443", v4, false},
        {"192.0.2.0/24", v4, true},
        {"192.0.2.8/29,x", v4, false},
        {"192.0.2.0/24", name, false},
        {"0.2.7", v4, false},
        {"2001:db8::7", v6, true},
        {"2001:DB8:0::7", v6, true},
        {"[2001:db8::7]", v6, true},
        {"[2001:db8::7]:6443", v6, true},
        {"[2001:db8::7]:1", v6, false},
        {"2001:db8::/32", v6, true},
        {"2001:db9::/32,192.0.2.0/24", v6, false},
        {"[", v6, false},
        {"]", v6, false},
        {"[]", name, false},
    };
    setenv("HTTPS_PROXY", "http://proxy", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        setenv("NO_PROXY", rows[i].list, 1);
        expect(rows[i].server, rows[i].exempt ? NULL : "http://proxy");
    }
    setenv("NO_PROXY", "", 1);
    setenv("no_proxy", "api.example", 1);
    expect(name, NULL);
}

TEST(this_host)
{
    static const char *const here[] = {"https://localhost:6443", "https://LocalHost",
                                       "https://127.0.0.1:6443", "https://127.9.9.9",
                                       "https://[::1]:6443"};
    setenv("HTTPS_PROXY", "http://proxy", 1);
    for (size_t i = 0; i < sizeof(here) / sizeof(*here); i++)
        expect(here[i], NULL);
    expect("https://localhost.example", "http://proxy");
}

TEST(no_proxies)
{
    static const char *const bad[] = {"ftp://proxy", "http://", "http:///x", "socks4://proxy",
                                      "://secret"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *proxy = NULL;
        struct error err = {0};
        setenv("HTTPS_PROXY", bad[i], 1);
        ck_assert_int_eq(proxy_from_environment("https://a", &proxy, &err), -1);
        ck_assert_ptr_null(proxy);
        ck_assert_str_eq(err.text, "HTTPS_PROXY is not an http, https or socks5 URL");
        error_clear(&err);
        expect("https://127.0.0.1", NULL); /* nobody asks for it there */
    }
}

UNIT_FIXTURE(setup, NULL)
