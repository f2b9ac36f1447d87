/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/explain_text.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

static const cJSON *at(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* NULL if it is not a text. */
static const char *text_at(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(at(object, key));
}

static unsigned long number_at(const cJSON *object, const char *key)
{
    const cJSON *number = at(object, key);
    return cJSON_IsNumber(number) && number->valuedouble >= 0 && number->valuedouble < 1e15
               ? (unsigned long)number->valuedouble
               : 0;
}

static bool is_true(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(at(object, key));
}

static const char *or_else(const char *text, const char *other)
{
    return text && *text ? text : other;
}

/* Texts come from objects that anybody may have written: no control characters reach a terminal. */
static void put(FILE *out, const char *text)
{
    while (text && *text) {
        uint32_t code;
        size_t length = utf8_decode(text, &code);
        if (length && !utf8_is_control(code))
            fwrite(text, 1, length, out);
        else
            fputc('?', out);
        text += length ? length : 1;
    }
}

/* Fills up with blanks to @width. */
static void put_cell(FILE *out, const char *text, size_t width)
{
    put(out, text);
    for (size_t i = strlen(text); i < width + 2; i++)
        fputc(' ', out);
}

static void put_row(FILE *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_row(FILE *out, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fprintf(out, "  %-14s", name);
    put(out, text);
    fputc('\n', out);
    free(text);
}

static void put_list(FILE *out, const char *name, const cJSON *array)
{
    const cJSON *it;
    if (!array || !array->child)
        return;
    fprintf(out, "  %-14s", name);
    cJSON_ArrayForEach (it, array) {
        fputs(it == array->child ? "" : ", ", out);
        put(out, cJSON_GetStringValue(it));
    }
    fputc('\n', out);
}

static size_t longest(const cJSON *array, const char *(*cell)(const cJSON *item))
{
    const cJSON *it;
    size_t width = 0;
    cJSON_ArrayForEach (it, array) {
        size_t length = strlen(cell(it));
        width = length > width ? length : width;
    }
    return width;
}

/* ---- the answer ---- */

static void print_lines(const cJSON *array, const char *title, const char *before, FILE *out)
{
    const cJSON *it;
    if (array && array->child)
        fputs(title, out);
    cJSON_ArrayForEach (it, array) {
        fputs(before, out);
        put(out, cJSON_GetStringValue(it));
        fputc('\n', out);
    }
}

static void print_differences(const cJSON *answer, FILE *out)
{
    const cJSON *it, *differences = at(at(answer, "kernel"), "differences");
    if (!differences || !differences->child)
        return;
    fputs("\nWhat differs in the kernel\n", out);
    cJSON_ArrayForEach (it, differences) {
        const char *set = text_at(it, "set");
        fputs("  ", out);
        put(out, or_else(text_at(it, "frontend"), or_else(text_at(it, "family"), "")));
        fputs(set ? "  in " : "", out);
        put(out, set);
        fputs(": ", out);
        put(out, text_at(it, "text"));
        fputc('\n', out);
    }
}

/* ---- the Service ---- */

static void print_health_check(const cJSON *service, FILE *out)
{
    const cJSON *check = at(service, "healthCheck"), *answer;
    if (!cJSON_IsObject(check))
        return;
    cJSON_ArrayForEach (answer, at(check, "answers"))
        if (number_at(answer, "status"))
            put_row(out, "health check", "port %lu, %s: %lu, %lu ready on this node",
                    number_at(check, "port"), answer->string, number_at(answer, "status"),
                    number_at(answer, "localEndpoints"));
        else
            put_row(out, "health check", "port %lu, %s: not open", number_at(check, "port"),
                    answer->string);
}

static void print_service(const cJSON *service, FILE *out)
{
    const cJSON *affinity = at(service, "sessionAffinity");
    unsigned long seconds = number_at(affinity, "timeoutSeconds");
    fputs("\nService ", out);
    put(out, text_at(service, "namespace"));
    fputc('/', out);
    put(out, text_at(service, "name"));
    fputc('\n', out);
    put_row(out, "created", "%s", or_else(text_at(service, "created"), "it does not say"));
    put_row(out, "policies", "internal %s, external %s",
            or_else(text_at(service, "internalTrafficPolicy"), "?"),
            or_else(text_at(service, "externalTrafficPolicy"), "?"));
    if (seconds)
        put_row(out, "affinity", "by client address, for %lu s", seconds);
    put_list(out, "sources", at(service, "sourceRanges"));
    print_health_check(service, out);
}

/* ---- its ports ---- */

static const char *kind_text(const cJSON *frontend)
{
    static const char *const kinds[][2] = {{"clusterIP", "cluster IP"},
                                           {"externalIP", "external IP"},
                                           {"loadBalancerIP", "load balancer"},
                                           {"nodePort", "node port"}};
    const cJSON *array = at(frontend, "kinds");
    const char *kind = array && array->child ? cJSON_GetStringValue(array->child) : NULL;
    for (size_t i = 0; kind && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kind, kinds[i][0]) == 0)
            return kinds[i][1];
    return or_else(kind, "");
}

static const char *frontend_text(const cJSON *frontend)
{
    return or_else(text_at(frontend, "frontend"), "?");
}

static void print_rivals(const cJSON *frontend, FILE *out)
{
    const cJSON *rival;
    cJSON_ArrayForEach (rival, at(frontend, "alsoWantedBy")) {
        fputs("      also wanted by ", out);
        put(out, text_at(rival, "service"));
        fputs(", but this one ", out);
        put(out, text_at(rival, "reason"));
        fputc('\n', out);
    }
}

static void print_frontends(const cJSON *port, FILE *out)
{
    const cJSON *it, *frontends = at(port, "frontends");
    size_t width = longest(frontends, frontend_text), kinds = longest(frontends, kind_text);
    fputs("  addresses\n", out);
    cJSON_ArrayForEach (it, frontends) {
        fputs(is_true(it, "asked") ? "  > " : "    ", out);
        put_cell(out, frontend_text(it), width);
        put_cell(out, kind_text(it), kinds);
        put(out, text_at(it, "text"));
        fputc('\n', out);
        print_rivals(it, out);
    }
}

/* "10.0.0.1:80"; overwritten by the next call. */
static const char *endpoint_text(const cJSON *endpoint)
{
    static char text[80];
    const char *address = or_else(text_at(endpoint, "address"), "?");
    unsigned long port = number_at(endpoint, "port");
    bool brackets = port && strchr(address, ':');
    snprintf(text, sizeof(text), "%s%.46s%s", brackets ? "[" : "", address, brackets ? "]" : "");
    if (port)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ":%lu", port);
    return text;
}

static const char *node_text(const cJSON *endpoint)
{
    return or_else(text_at(endpoint, "node"), "-");
}

static void print_endpoint_lines(const cJSON *items, FILE *out)
{
    const cJSON *it;
    size_t width = longest(items, endpoint_text), nodes = longest(items, node_text);
    cJSON_ArrayForEach (it, items) {
        const char *text = text_at(it, "text");
        fputs("    ", out);
        put_cell(out, endpoint_text(it), width);
        put_cell(out, node_text(it), nodes);
        fputs(is_true(it, "used") ? "used" : "not used", out);
        fputs(!text ? "" : is_true(it, "used") ? ", but " : ": ", out);
        put(out, text);
        fputc('\n', out);
    }
}

static void print_endpoints(const cJSON *port, FILE *out)
{
    const cJSON *endpoints = at(port, "endpoints");
    bool cluster = is_true(port, "needsCluster"), local = is_true(port, "needsLocal");
    fprintf(out, "  endpoints     %lu in the slices", number_at(endpoints, "total"));
    if (cluster)
        fprintf(out, ", %lu used%s", number_at(endpoints, "inCluster"),
                local ? " with policy Cluster" : "");
    if (local)
        fprintf(out, ", %lu used with policy Local", number_at(endpoints, "inLocal"));
    fputc('\n', out);
    print_endpoint_lines(at(endpoints, "items"), out);
    if (is_true(endpoints, "truncated"))
        fputs("    and more (--all lists them)\n", out);
}

/* Those of the other family are there for it. */
static bool is_of_family(const cJSON *slice, const char *family)
{
    const char *own = text_at(slice, "family");
    return own && family && strcmp(own, family) == 0;
}

static void print_slices(const cJSON *port, FILE *out)
{
    const cJSON *it;
    cJSON_ArrayForEach (it, at(port, "slices")) {
        bool outdated = is_true(it, "outdated");
        if ((is_true(it, "used") && !outdated) || !is_of_family(it, text_at(port, "family")))
            continue;
        fputs("  slice         ", out);
        put(out, text_at(it, "name"));
        fputs(": ", out);
        put(out, outdated ? "its last version could not be read, an older one counts"
                          : text_at(it, "text"));
        fputc('\n', out);
    }
}

static void print_port_title(const cJSON *port, FILE *out)
{
    unsigned long node_port = number_at(port, "nodePort");
    fputs("\nPort ", out);
    put(out, or_else(text_at(port, "name"), "without a name"));
    fprintf(out, ": %lu/", number_at(port, "port"));
    put(out, or_else(text_at(port, "protocol"), "?"));
    fputs(", ", out);
    put(out, or_else(text_at(port, "family"), "?"));
    if (node_port)
        fprintf(out, ", node port %lu", node_port);
    fputc('\n', out);
}

static bool has_asked(const cJSON *port)
{
    const cJSON *it;
    cJSON_ArrayForEach (it, at(port, "frontends"))
        if (is_true(it, "asked"))
            return true;
    return false;
}

/* Of an address, the other family is summed up. */
static void print_port(const cJSON *port, bool by_address, FILE *out)
{
    print_port_title(port, out);
    if (by_address && !has_asked(port)) {
        fprintf(out, "  %d addresses, %lu endpoints; ask for the Service to see them\n",
                cJSON_GetArraySize(at(port, "frontends")),
                number_at(at(port, "endpoints"), "total"));
        return;
    }
    put_row(out, "picked from", "%s", or_else(text_at(at(port, "topology"), "text"), "?"));
    print_frontends(port, out);
    print_endpoints(port, out);
    print_slices(port, out);
}

/* ---- all of it ---- */

static void print_origin(const cJSON *answer, FILE *out)
{
    const cJSON *node = at(answer, "node");
    const char *zone = text_at(node, "zone"), *from = text_at(answer, "computedFrom");
    fputs("\nSeen from node ", out);
    put(out, text_at(node, "name"));
    fputs(zone ? " in zone " : ", which is in no zone", out);
    put(out, zone);
    fputs(from && strcmp(from, "manifests") == 0 ? "; computed from files.\n" : ".\n", out);
}

void explain_print(const cJSON *answer, FILE *out)
{
    const cJSON *port, *service = at(answer, "service");
    bool by_address = text_at(at(answer, "query"), "address") != NULL;
    print_lines(at(answer, "summary"), "", "", out);
    print_differences(answer, out);
    print_lines(at(answer, "notes"), "\nNotes\n", "  ", out);
    if (service) {
        print_service(service, out);
        cJSON_ArrayForEach (port, at(service, "ports"))
            print_port(port, by_address, out);
    }
    print_origin(answer, out);
}
