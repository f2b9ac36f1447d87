/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libcurl options for connections to the API server. Bad certificates and keys are reported when a
 * connection is made, not here: the files may be repaired while the daemon runs.
 */
#include "api_connection.h"

#include "kube-nftd/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Covers name resolution, TCP and TLS; curl has no limit for TLS alone. With several addresses, a
 * silent one gets half of the remaining time. Long enough for a resolver whose first server is
 * dead. */
#define CONNECT_TIMEOUT 15L

/*
 * A silent peer is declared dead within 30 seconds. TCP must detect that: the server sends no
 * HTTP/2 PING, and curl_easy_upkeep() of 7.88.1 sends none for a multi handle. After KEEPALIVE_IDLE
 * silent seconds the kernel probes the peer until DEAD_AFTER_MS have passed without a reply.
 * TCP_USER_TIMEOUT also covers unacknowledged data, which keepalive ignores.
 */
#define KEEPALIVE_IDLE 10L
#define KEEPALIVE_INTERVAL 5L
#define DEAD_AFTER_MS 25000
/* Used by Linux only without TCP_USER_TIMEOUT. */
#define KEEPALIVE_COUNT 3

/* ---- peers ---- */

void api_peers_use(struct api_peers *peers, const char *address, int port, bool reached, double now)
{
    struct api_peer peer = {{.protocol = IPPROTO_TCP, .port = (uint16_t)port}, now, reached};
    struct frontend all[API_PEERS_MOST];
    enum family family;
    size_t n = 0, before = peers->list.n;
    bool known = false;
    if (!address_parse(address, &family, &peer.frontend.address))
        return;
    peer.frontend.family = (uint8_t)family;
    /* The list is in order of use: the new peer goes to its end, the oldest is its first. */
    vec_each (&peers->list, it) {
        bool same = memcmp(&it->frontend, &peer.frontend, sizeof(peer.frontend)) == 0;
        known |= same;
        if (!same && now - it->used_at < API_PEERS_KEPT)
            peers->list.v[n++] = *it;
    }
    peers->list.n = n;
    if (n == API_PEERS_MOST)
        memmove(peers->list.v, peers->list.v + 1, --peers->list.n * sizeof(peer));
    vec_push(&peers->list, peer);
    if ((known && peers->list.n == before) || !peers->ops.changed)
        return;
    n = 0;
    vec_each (&peers->list, it)
        all[n++] = it->frontend;
    peers->ops.changed(peers->ops.ctx, all, n);
}

void api_peers_failed(const struct api_peers *peers)
{
    vec_each (&peers->list, peer) {
        if (!peer->reached && peers->ops.unreachable)
            peers->ops.unreachable(peers->ops.ctx, &peer->frontend);
    }
}

/* ---- options ---- */

/* Creates the socket and records its peer. */
static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct api_connection *c = ctx;
    char text[ADDRESS_TEXT_SIZE];
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&to->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&to->addr;
    const void *address = to->family == AF_INET6 ? (const void *)&in6->sin6_addr : &in->sin_addr;
    in_port_t port = to->family == AF_INET6 ? in6->sin6_port : in->sin_port;
    (void)purpose;
    if (inet_ntop(to->family, address, text, sizeof(text)))
        api_peers_use(&c->peers, text, ntohs(port), false, clock_monotonic());
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Socket options that curl 7.88 does not offer. */
static int on_new_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    static const int count = KEEPALIVE_COUNT, dead_after = DEAD_AFTER_MS;
    (void)ctx;
    (void)purpose;
    if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_after, sizeof(dead_after)) < 0)
        log_debug(2, "source", "cannot set TCP options: %s", strerror(errno));
    return CURL_SOCKOPT_OK;
}

/* Copies the text: @easy may outlive it. @there, if not NULL, gets whether a text exists. */
static int set_pem(CURL *easy, CURLoption option, struct credential *pem, bool *there,
                   struct error *err)
{
    const char *text = NULL;
    if (credential_get(pem, &text, err) < 0)
        return -1;
    if (there)
        *there = text != NULL;
    if (!text)
        return 0;
    struct curl_blob blob = {.data = (char *)text, .len = strlen(text), .flags = CURL_BLOB_COPY};
    CURLcode code = curl_easy_setopt(easy, option, &blob);
    return code ? error_set(err, "%s: %s", pem->what, curl_easy_strerror(code)) : 0;
}

static int set_certificates(CURL *easy, struct api_connection *c, struct error *err)
{
    bool ca;
    if (set_pem(easy, CURLOPT_CAINFO_BLOB, &c->ca, &ca, err) < 0 ||
        set_pem(easy, CURLOPT_SSLCERT_BLOB, &c->client_cert, NULL, err) < 0 ||
        set_pem(easy, CURLOPT_SSLKEY_BLOB, &c->client_key, NULL, err) < 0)
        return -1;
    /* Debian's curl would also trust the system's CA folder. */
    if (ca && curl_easy_setopt(easy, CURLOPT_CAPATH, NULL))
        return error_set(err, "CA: curl will not leave out the system's");
    return 0;
}

/* In kubeconfigs, "socks5" lets the proxy resolve names; curl calls that socks5h. */
static char *proxy_for_curl(const char *url)
{
    static const char socks5[] = "socks5://";
    size_t length = sizeof(socks5) - 1;
    if (url && strncasecmp(url, socks5, length) == 0)
        return xasprintf("socks5h://%s", url + length);
    return xstrdup(url);
}

static CURLcode set_proxy(CURL *easy, const char *url)
{
    CURLcode code = CURLE_OK;
    /* The configuration already covers the environment; curl applies other rules to it. */
    CURL_SET(code, easy, CURLOPT_PROXY, url ? url : "");
    /* Default ports by scheme; curl would use 1080 for all. */
    if (url)
        CURL_SET(code, easy, CURLOPT_PROXYPORT,
                 strncasecmp(url, "socks", 5) == 0    ? 1080L
                 : strncasecmp(url, "https:", 6) == 0 ? 443L
                                                      : 80L);
    CURL_SET(code, easy, CURLOPT_NOPROXY, "");
    /* Separate headers: the proxy never sees the token. */
    CURL_SET(code, easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    CURL_SET(code, easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    return code;
}

static CURLcode set_transport(CURL *easy, struct api_connection *c)
{
    CURLcode code = CURLE_OK;
    CURL_SET(code, easy, CURLOPT_PROTOCOLS_STR, c->secure ? "https" : "http");
    CURL_SET(code, easy, CURLOPT_FOLLOWLOCATION, 0L);
    CURL_SET(code, easy, CURLOPT_NOSIGNAL, 1L);
    /* At exit, do not wait for a resolver thread. */
    CURL_SET(code, easy, CURLOPT_QUICK_EXIT, 1L);
    CURL_SET(code, easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    CURL_SET(code, easy, CURLOPT_PIPEWAIT, 1L);
    /* Several servers behind one name: each daemon starts with a random one and moves on if it
     * refuses. */
    CURL_SET(code, easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
    /* A cached order would put a hanging server first for a whole minute. */
    CURL_SET(code, easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    CURL_SET(code, easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPALIVE, 1L);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE);
    CURL_SET(code, easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
    CURL_SET(code, easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    CURL_SET(code, easy, CURLOPT_OPENSOCKETDATA, c);
    CURL_SET(code, easy, CURLOPT_SOCKOPTFUNCTION, on_new_socket);
    if (c->connect_to)
        CURL_SET(code, easy, CURLOPT_CONNECT_TO, c->connect_to);
    if (c->secure) {
        bool verify = !c->config->insecure_skip_tls_verify;
        CURL_SET(code, easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        CURL_SET(code, easy, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
        CURL_SET(code, easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    }
    return code;
}

/* The part @what of @url, for the caller to curl_free(); NULL if absent. */
static char *url_part(CURLU *url, CURLUPart what)
{
    char *text = NULL;
    return curl_url_get(url, what, &text, 0) == CURLUE_OK ? text : NULL;
}

/*
 * tls-server-name: the URL carries @name, so curl uses it for SNI and verification. CONNECT_TO
 * leads to the real server; the Host header must remain the server's.
 */
static int set_server_name(struct api_connection *c, CURLU *url, const char *name,
                           struct error *err)
{
    char *host = url_part(url, CURLUPART_HOST), *port = url_part(url, CURLUPART_PORT);
    char *target = xasprintf("::%s:%s", host ? host : "", port ? port : "");
    c->connect_to = curl_slist_append(NULL, target);
    free(target);
    curl_free(host);
    curl_free(port);
    if (!c->connect_to)
        alloc_failed();
    if (curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return error_set(err, "tls-server-name \"%s\" is not a host name", name);
    return 0;
}

/* The configuration checked most of the URL; curl is stricter with names. */
static int parse_server(struct api_connection *c, CURLU *url, struct error *err)
{
    const char *server = c->config->server, *name = c->config->tls_server_name;
    CURLUcode code = curl_url_set(url, CURLUPART_URL, server, 0);
    if (code)
        return error_set(err, "server \"%s\": %s", server, curl_url_strerror(code));
    c->secure = strncmp(server, "https:", 6) == 0;
    const char *authority = strstr(server, "://") + 3;
    c->authority = xstrndup(authority, strcspn(authority, "/"));
    if (c->secure && name && set_server_name(c, url, name, err) < 0)
        return -1;
    char *base = alloc_check(url_part(url, CURLUPART_URL));
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
    credential_init(&c->ca, CREDENTIAL_CA, "CA", config->ca_data, config->ca_file);
    credential_init(&c->client_cert, CREDENTIAL_CERTIFICATES, "client certificate",
                    config->client_cert_data, config->client_cert_file);
    credential_init(&c->client_key, CREDENTIAL_KEY, "client key", config->client_key_data,
                    config->client_key_file);
    c->proxy = proxy_for_curl(config->proxy_url);
    CURLU *url = alloc_check(curl_url());
    int rc = parse_server(c, url, err);
    curl_url_cleanup(url);
    if (rc < 0)
        api_connection_clear(c);
    return rc;
}

void api_connection_clear(struct api_connection *c)
{
    vec_free(&c->peers.list);
    credential_clear(&c->ca);
    credential_clear(&c->client_cert);
    credential_clear(&c->client_key);
    curl_slist_free_all(c->connect_to);
    free(c->authority);
    free(c->proxy);
    free(c->base);
    *c = (struct api_connection){0};
}

int api_connection_apply(struct api_connection *c, CURL *easy, struct error *err)
{
    if (c->secure && set_certificates(easy, c, err) < 0)
        return -1;
    CURLcode code = set_transport(easy, c);
    if (!code)
        code = set_proxy(easy, c->proxy);
    return code ? error_set(err, "cannot prepare a request: %s", curl_easy_strerror(code)) : 0;
}

/* ---- transport errors ---- */

/* "Failed to connect to 10.0.0.1 port 6443 after 3 ms: ..." without the time. */
static char *connect_text(CURL *easy, const char *error)
{
    long number = 0;
    const char *after = strstr(error, " after ");
    int length = after ? (int)(after - error) : (int)strlen(error);
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    const char *reason = number ? strerror((int)number) : curl_easy_strerror(CURLE_COULDNT_CONNECT);
    return length ? xasprintf("%.*s: %s", length, error, reason) : xstrdup(reason);
}

static const char *timeout_text(CURL *easy, bool connected)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (!connected)
        return "no connection in time";
    return status ? "the response did not complete in time" : "no answer in time";
}

/* Recognises a peer that does not speak TLS. */
static char *handshake_text(const char *text)
{
    bool plain = strstr(text, "wrong version number") || strstr(text, "http request") ||
                 strstr(text, "packet length too long");
    return xasprintf("%s%s", plain ? "the peer is not a TLS server (plain http?): " : "", text);
}

/* Keeps curl's own texts except where they contain times or counts, which would make an old error
 * look new. */
static char *error_text(CURL *easy, CURLcode code, const char *error, bool connected)
{
    const char *text = *error ? error : curl_easy_strerror(code);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return xstrdup(timeout_text(easy, connected));
    case CURLE_COULDNT_CONNECT:
        return connect_text(easy, error);
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return xstrdup("the connection was interrupted");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        return xasprintf("the peer is not an HTTP server (https?): %s", text);
    case CURLE_SSL_CONNECT_ERROR:
        return handshake_text(text);
    case CURLE_SSL_CERTPROBLEM:
        return xasprintf("cannot use the client certificate and its key: %s", text);
    case CURLE_SSL_CACERT_BADFILE:
        return xasprintf("cannot use the CA: %s", text);
    default:
        return xstrdup(text);
    }
}

char *api_connection_error(const struct api_connection *c, CURL *easy, CURLcode code,
                           const char *error, bool connected)
{
    char *text = error_text(easy, code, error, connected);
    char *host = xstrndup(c->authority, strcspn(c->authority, ":"));
    if (!strstr(text, host)) {
        char *named = xasprintf("%s server=%s", text, c->config->server);
        free(text);
        text = named;
    }
    free(host);
    return text;
}
