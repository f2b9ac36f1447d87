/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libcurl is told about the way to the API server. Errors in certificates and keys show when
 * a connection is made, not here: the files may be mended while the daemon runs.
 */
#include "kube-nftd/source/api_connection.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECT_TIMEOUT 30L
/* After so many silent seconds the peer is asked for a sign of life, and again ... */
#define KEEPALIVE_IDLE 30L
#define KEEPALIVE_INTERVAL 5L
/* ... until it has acknowledged nothing for so long. */
#define DEAD_AFTER_MS 45000U
/* A CA file that was replaced counts for new connections after this time. */
#define CA_CACHE_SECONDS 300L

/* Without this a dead peer is noticed only after many minutes, as long as something is unsent. */
static int on_new_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    unsigned timeout = DEAD_AFTER_MS;
    (void)ctx;
    (void)purpose;
    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout)) < 0)
        log_debug(2, "apiserver", "cannot set TCP_USER_TIMEOUT: %s", strerror(errno));
    return CURL_SOCKOPT_OK;
}

static CURLcode set_pem(CURL *easy, CURLoption blob_option, char *data, CURLoption file_option,
                        const char *file)
{
    if (data) {
        struct curl_blob blob = {.data = data, .len = strlen(data), .flags = CURL_BLOB_NOCOPY};
        return curl_easy_setopt(easy, blob_option, &blob);
    }
    return file ? curl_easy_setopt(easy, file_option, file) : CURLE_OK;
}

static CURLcode set_tls(CURL *easy, const struct client_config *config)
{
    bool verify = !config->insecure_skip_tls_verify;
    CURLcode code =
        set_pem(easy, CURLOPT_CAINFO_BLOB, config->ca_data, CURLOPT_CAINFO, config->ca_file);
    if (!code)
        code = set_pem(easy, CURLOPT_SSLCERT_BLOB, config->client_cert_data, CURLOPT_SSLCERT,
                       config->client_cert_file);
    if (!code)
        code = set_pem(easy, CURLOPT_SSLKEY_BLOB, config->client_key_data, CURLOPT_SSLKEY,
                       config->client_key_file);
    CURL_SET(code, easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    CURL_SET(code, easy, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
    CURL_SET(code, easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    CURL_SET(code, easy, CURLOPT_CA_CACHE_TIMEOUT, CA_CACHE_SECONDS);
    return code;
}

static CURLcode set_transport(CURL *easy, const struct api_connection *c)
{
    CURLcode code = CURLE_OK;
    CURL_SET(code, easy, CURLOPT_PROTOCOLS_STR, c->secure ? "https" : "http");
    CURL_SET(code, easy, CURLOPT_FOLLOWLOCATION, 0L);
    CURL_SET(code, easy, CURLOPT_NOSIGNAL, 1L);
    CURL_SET(code, easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    CURL_SET(code, easy, CURLOPT_PIPEWAIT, 1L);
    CURL_SET(code, easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPALIVE, 1L);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
    CURL_SET(code, easy, CURLOPT_SOCKOPTFUNCTION, on_new_socket);
    /* Headers for a proxy and for the server are apart: the proxy never sees the token. */
    CURL_SET(code, easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    CURL_SET(code, easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (c->config->proxy_url)
        CURL_SET(code, easy, CURLOPT_PROXY, c->config->proxy_url);
    if (c->connect_to)
        CURL_SET(code, easy, CURLOPT_CONNECT_TO, c->connect_to);
    return code;
}

/* The part @what of @url, which the caller frees with curl_free(); NULL if it has none. */
static char *url_part(CURLU *url, CURLUPart what)
{
    char *text = NULL;
    return curl_url_get(url, what, &text, 0) == CURLUE_OK ? text : NULL;
}

/*
 * A name of its own for the certificate: the URL carries that name, so that curl asks for it (SNI)
 * and checks it, CONNECT_TO leads to the real server, and the Host header stays the server's.
 */
static int set_server_name(struct api_connection *c, CURLU *url, const char *name,
                           struct error *err)
{
    char *host = url_part(url, CURLUPART_HOST);
    char *port = url_part(url, CURLUPART_PORT);
    char *target = xasprintf("::%s:%s", host ? host : "", port ? port : "");
    c->host_header = xasprintf("%s%s%s", host ? host : "", port ? ":" : "", port ? port : "");
    c->connect_to = curl_slist_append(NULL, target);
    free(target);
    curl_free(host);
    curl_free(port);
    if (!c->connect_to)
        alloc_failed();
    if (curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return error_set(err, "tls-server-name \"%s\" is no host name", name);
    return 0;
}

static int parse_server(struct api_connection *c, CURLU *url, struct error *err)
{
    const char *server = c->config->server;
    CURLUcode code = curl_url_set(url, CURLUPART_URL, server, CURLU_DISALLOW_USER);
    if (code == CURLUE_USER_NOT_ALLOWED) /* and so not to be quoted */
        return error_set(err, "the server's URL must not hold credentials");
    if (code)
        return error_set(err, "server \"%s\": %s", server, curl_url_strerror(code));
    char *scheme = url_part(url, CURLUPART_SCHEME);
    c->secure = scheme && strcmp(scheme, "https") == 0;
    bool known = c->secure || (scheme && strcmp(scheme, "http") == 0);
    curl_free(scheme);
    if (!known || strpbrk(server, "?#"))
        return error_set(err, "server \"%s\" is not of the form https://HOST:PORT", server);
    if (c->secure && c->config->tls_server_name &&
        set_server_name(c, url, c->config->tls_server_name, err) < 0)
        return -1;
    char *base = url_part(url, CURLUPART_URL);
    if (!base)
        alloc_failed();
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/')
        length--;
    c->base = xstrndup(base, length);
    curl_free(base);
    return 0;
}

int api_connection_init(struct api_connection *c, const struct client_config *config,
                        struct error *err)
{
    *c = (struct api_connection){.config = config};
    CURLU *url = curl_url();
    if (!url)
        alloc_failed();
    int rc = parse_server(c, url, err);
    curl_url_cleanup(url);
    if (rc < 0)
        api_connection_clear(c);
    return rc;
}

void api_connection_clear(struct api_connection *c)
{
    curl_slist_free_all(c->connect_to);
    free(c->host_header);
    free(c->base);
    *c = (struct api_connection){0};
}

CURLcode api_connection_apply(const struct api_connection *c, CURL *easy)
{
    CURLcode code = set_transport(easy, c);
    return code || !c->secure ? code : set_tls(easy, c->config);
}
