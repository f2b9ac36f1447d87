/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes' protobuf messages: the numbers of the fields that decoders in src/model and
 * src/source read. All other fields are skipped.
 */
#ifndef KUBE_NFTD_SOURCE_MESSAGES_H
#define KUBE_NFTD_SOURCE_MESSAGES_H

#include "kube-nftd/values.h"

/** The body of an answer: a list or a Status in its envelope. */
extern const struct proto_format message_body;

/** The frames of a watch: {"type": ..., "object": ...}. */
extern const struct proto_format message_watch;

#endif
