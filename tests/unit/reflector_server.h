/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the server of the reflector's test sends, in JSON and in protobuf: one of these, or several
 * with "; " between them; other text, and the text below a command, is sent as it is, with ' for "
 * and 9,000 digits for LONG:
 *
 *     ADDED a 5               an event of the Service shop/a; "?a" is a bad one
 *     BOOKMARK 13             END 13: the one behind the initial events; MARK: of any metadata
 *     ERROR 410 Expired       an event with a Status; also STATUS alone; behind it "too-large" or
 *                             "retry=9"
 *     LIST 10,t a b           a list at version 10, with a token
 */
#ifndef KUBE_NFTD_TESTS_REFLECTOR_SERVER_H
#define KUBE_NFTD_TESTS_REFLECTOR_SERVER_H

#include "fake_apiserver.h"
#include "proto_writer.h"

/* Of all that is sent. */
extern enum encoding encoding;

/* In the present encoding; what is no such JSON comes as it is. */
bytes encoded(const char *text);

/* The bytes of @words and of the text below, with a NUL behind them. */
bytes sent_bytes(char *words);

/* Hands over bytes of a 200 answer; a reader that wants no more has its request ended.
 * @more_needed: for them to be of use. */
extern bool more_needed;
void send_bytes(const char *data, size_t length);

#endif
