/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes' messages in protobuf: the numbers of the fields that the decoders of this folder and
 * of src/source read. What is not here is skipped.
 */
#ifndef KUBE_NFTD_MODEL_MESSAGES_H
#define KUBE_NFTD_MODEL_MESSAGES_H

#include "kube-nftd/base/proto_reader.h"

/** The body of an answer: a list or a Status in its envelope, as in JSON. */
extern const struct proto_format message_body;

/** The frames of a watch: {"type": ..., "object": ...}, as in JSON. */
extern const struct proto_format message_watch;

#endif
