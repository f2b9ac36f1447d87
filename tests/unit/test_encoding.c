/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/encoding.h"

#include "kube-nftd/base/log.h"
#include "unit.h"

#include <string.h>

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define BOTH PROTOBUF ",application/json"

static unsigned warnings;

static void count_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
    warnings++;
}

/* What kube-proxy's settings mean: contentType, acceptContentTypes, the header, warned of. */
static const struct {
    const char *preferred, *accepted, *header;
    unsigned warnings;
} settings[] = {
    {PROTOBUF, "", BOTH, 0},
    {PROTOBUF, NULL, BOTH, 0},
    {"application/json", "", "application/json", 0},
    {"application/cbor", "", "application/json", 0},
    {NULL, NULL, "application/json", 0},
    {PROTOBUF, "application/json", "application/json", 0},
    {PROTOBUF, "text/x;q=1, application/json;q=0.5", "text/x;q=1, application/json;q=0.5", 0},
    {"application/json", "*/*", "*/*", 0},
    {"application/json", PROTOBUF, PROTOBUF, 0},
    {PROTOBUF, "application/cbor", BOTH, 1},
    {PROTOBUF, "text/application/json", BOTH, 1},
    {PROTOBUF, "application/json\r\nX: y", BOTH, 1},
};

START_TEST(accept_header)
{
    warnings = 0;
    log_set_sink(count_line, NULL);
    char *header = encoding_accept(settings[_i].preferred, settings[_i].accepted);
    log_set_sink(NULL, NULL);
    ck_assert_str_eq(header, settings[_i].header);
    ck_assert_uint_eq(warnings, settings[_i].warnings);
    free(header);
}
END_TEST

static const struct {
    const char *type;
    enum encoding encoding;
} types[] = {
    {NULL, ENCODING_JSON},
    {"", ENCODING_JSON},
    {"application/json", ENCODING_JSON},
    {"application/json;stream=watch", ENCODING_JSON},
    {"text/plain; charset=utf-8", ENCODING_JSON},
    {PROTOBUF, ENCODING_PROTOBUF},
    {PROTOBUF ";stream=watch", ENCODING_PROTOBUF},
    {"Application/Vnd.Kubernetes.Protobuf ; a=b", ENCODING_PROTOBUF},
    {PROTOBUF "2", ENCODING_JSON},
};

START_TEST(content_type)
{
    ck_assert_int_eq(encoding_of(types[_i].type), types[_i].encoding);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, accept_header, 0, sizeof(settings) / sizeof(*settings));
    tcase_add_loop_test(tcase, content_type, 0, sizeof(types) / sizeof(*types));
}

UNIT_MAIN("encoding", add_tests)
