/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of src/source/apiserver.c: the test is the server. One request is open at most, and one
 * timer runs, in the time of fake_clock.h. */
#ifndef KUBE_NFTD_TESTS_FAKE_APISERVER_H
#define KUBE_NFTD_TESTS_FAKE_APISERVER_H

#include "fake_clock.h"
#include "kube-nftd/source.h"
#include "script.h"
#include "source/api_protocol.h"
#include "source/server_backoff.h"

#include <ev.h>

struct apiserver {
    char *fault; /* why no request can be started, or NULL */
    struct server_backoff backoff;
};

struct api_request {
    char *path;
    char *method, *content_type, *body; /* of what is written; else NULL */
    double timeout;
    struct api_request_ops ops;
    void *ctx;
};

extern struct apiserver server;
extern struct api_request *request; /* the one that is open */
extern unsigned requests;           /* so many were sent */
extern struct ev_timer *timer;      /* the one that runs */

/* Ends the open request the way apiserver.c does: it is gone when done is called. */
void end_answer(long status, double retry_after, const char *transport, const char *body,
                size_t length);

/* "TEXT": no request can be started for that reason; none: it can. */
void set_fault(const char *text);

/* Nothing is left open. */
void end_server(void);

/* It is as late as the timer waits for. */
void let_time_come(void);

/* "LOW HIGH": lets the time come that is waited for, which is that far away. */
void pass_time(char *words);

#endif
