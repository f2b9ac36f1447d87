/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "body_reader.h"

#include "kube-nftd/model.h"

void body_reader_begin(struct body_reader *reader, enum encoding encoding, bool is_watch,
                       size_t limit, json_value_fn fn, void *ctx)
{
    body_reader_clear(reader);
    if (encoding == ENCODING_PROTOBUF)
        reader->proto = proto_reader_new(is_watch ? &message_watch : &message_body, limit, fn, ctx);
    else
        reader->json = json_reader_new(limit, fn, ctx);
}

int body_reader_feed(struct body_reader *reader, const char *bytes, size_t length,
                     struct error *err)
{
    return reader->proto ? proto_reader_feed(reader->proto, bytes, length, err)
                         : json_reader_feed(reader->json, bytes, length, err);
}

int body_reader_finish(struct body_reader *reader, struct error *err)
{
    return reader->proto ? proto_reader_finish(reader->proto, err)
                         : json_reader_finish(reader->json, err);
}

const struct json_value *body_reader_envelope(const struct body_reader *reader)
{
    return reader->proto ? proto_reader_envelope(reader->proto)
                         : json_reader_envelope(reader->json);
}

void body_reader_clear(struct body_reader *reader)
{
    json_reader_free(reader->json);
    proto_reader_free(reader->proto);
    *reader = (struct body_reader){0};
}
