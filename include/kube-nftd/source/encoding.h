/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the API server writes objects: which forms we ask for, and which one an answer has. */
#ifndef KUBE_NFTD_SOURCE_ENCODING_H
#define KUBE_NFTD_SOURCE_ENCODING_H

enum encoding { ENCODING_JSON, ENCODING_PROTOBUF };
#define ENCODING_COUNT 2

/** "json", "protobuf". */
const char *encoding_name(enum encoding encoding);

/** That of an answer with this Content-Type. NULL, and what is neither: JSON. */
enum encoding encoding_of(const char *content_type);

/**
 * What goes into the Accept header, for the caller to free, by kube-proxy's settings: @accepted if
 * it is not empty, else what @preferred is, and JSON. @accepted that has no form that can be read
 * is warned of and counts as empty.
 */
char *encoding_accept(const char *preferred, const char *accepted);

#endif
