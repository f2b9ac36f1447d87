/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notices a server that is dead although TCP is not: behind a load balancer or proxy that goes on
 * acknowledging, or with a process that hangs (the dead-peer check of docs/behaviour.md 10.5).
 * HTTP/2 has PING for that, which libcurl 7.88 cannot send here; so after SIGN_OF_LIFE_SILENCE
 * seconds without a byte, while answers are open, the server is asked for its version over the same
 * connection. Any answer is a sign of life. Without one that is said soon, and later all
 * connections are cut, and whoever watches goes on over new ones.
 */
#ifndef KUBE_NFTD_SOURCE_SIGN_OF_LIFE_H
#define KUBE_NFTD_SOURCE_SIGN_OF_LIFE_H

/* Seconds. A busy server keeps a request for up to 15 s before it says so. */
#define SIGN_OF_LIFE_SILENCE 30.0
#define SIGN_OF_LIFE_PATIENCE 20.0
/* Before it is said that there is no answer. */
#define SIGN_OF_LIFE_DOUBT 5.0

struct apiserver;
struct ev_loop;
struct sign_of_life;

/** Watches over @apiserver, which must outlive it. */
struct sign_of_life *sign_of_life_new(struct ev_loop *loop, struct apiserver *apiserver);

/** For how many seconds the server has sent nothing; 0 if for no longer than SIGN_OF_LIFE_SILENCE.
 * @sign NULL: 0. */
double sign_of_life_silence(const struct sign_of_life *sign);

/** NULL is fine. */
void sign_of_life_free(struct sign_of_life *sign);

#endif
