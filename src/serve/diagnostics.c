/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/diagnostics.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FOR_PEOPLE "For people: the format of this page may change.\n"

static void write_time(FILE *out, const char *what, double seconds)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_rfc3339(seconds, text);
    fprintf(out, "%s%s", what, text);
}

static void write_family(FILE *out, const struct daemon_status *status, int family)
{
    fprintf(out, "%s: ", family_name((enum family)family));
    if (!status->family[family].in_use) {
        fputs("not in use\n", out);
        return;
    }
    fprintf(out, "%s, frontends: %zu",
            status->family[family].programmed ? "programmed" : "not programmed yet",
            status->family[family].frontends);
    if (status->family[family].last_success > 0)
        write_time(out, ", last: ", status->family[family].last_success);
    if (status->family[family].waiting > 0)
        fprintf(out, ", a change has waited for %.0f s", ceil(status->family[family].waiting));
    fputc('\n', out);
}

/* "Encodings: Service protobuf, Node json"; nothing of files. */
static void write_encodings(FILE *out, const char *const encodings[KIND_COUNT])
{
    const char *before = "Encodings: ";
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (!encodings[kind])
            continue;
        fprintf(out, "%s%s %s", before, object_kind_name((enum object_kind)kind), encodings[kind]);
        before = ", ";
    }
    if (*before == ',')
        fputc('\n', out);
}

static void write_status(FILE *out, const struct daemon_status *status)
{
    unsigned long up = (unsigned long)fmax(clock_realtime() - status->started, 0);
    fputs("kube-nftd statusz\n" FOR_PEOPLE "\n", out);
    write_time(out, "Started: ", status->started);
    fprintf(out, "\nUp: %lu hr %02lu min %02lu sec\n", up / 3600, up / 60 % 60, up % 60);
    fputs("Binary version: " KUBE_NFTD_VERSION "\n", out);
    fprintf(out, "Node: %s\nObjects from: %s%s", status->node, status->objects_from,
            status->complete ? "" : " (not complete yet)");
    if (status->silence > 0)
        fprintf(out, ", nothing heard for %.0f s", status->silence);
    fputc('\n', out);
    write_encodings(out, status->encodings);
    fprintf(out, "Services: %zu\nEndpointSlices: %zu\n", status->services, status->slices);
    for (int family = 0; family < FAMILY_COUNT; family++)
        write_family(out, status, family);
    fprintf(out, "Paths: %s\n", status->paths);
}

void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        alloc_failed();
    write_status(out, status);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        alloc_failed();
    http_answer_text(answer, 200, "%s", text);
    free(text);
}

void diagnostics_flagz(const char *flags, struct http_answer *answer)
{
    http_answer_text(answer, 200, "kube-nftd flagz\n" FOR_PEOPLE "\n%s", flags);
}

void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    char *end;
    (void)ctx;
    if (strcmp(request->method, "PUT") != 0) {
        http_answer_text(answer, 406, "PUT sets the log level: curl -X PUT -d 4 URL\n");
        return;
    }
    errno = 0;
    long verbosity = strtol(request->body, &end, 10);
    if (errno || end == request->body || *end || verbosity < 0 || verbosity > INT_MAX) {
        http_answer_text(answer, 400, "the body is not a number from 0 to %d\n", INT_MAX);
        return;
    }
    log_set_verbosity((int)verbosity);
    log_info("daemon", "verbosity=%ld set over /debug/flags/v", verbosity);
    http_answer_text(answer, 200, "verbosity=%ld from now on\n", verbosity);
}
