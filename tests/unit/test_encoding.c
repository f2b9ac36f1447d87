/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/api_protocol.h"

#include "unit.h"

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define BOTH PROTOBUF ",application/json"

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

TEST_ROWS(accept_header, settings)
{
    char *header = encoding_accept(row->preferred, row->accepted);
    ck_assert_str_eq(header, row->header);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), row->warnings);
    free(header);
}

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

TEST_ROWS(content_type, types)
{
    ck_assert_int_eq(encoding_of(row->type), row->encoding);
}
