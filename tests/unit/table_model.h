/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a case in text desires of a table: service ports and frontends by number, as they were told
 * last, and whether the kernel does just that.
 */
#ifndef KUBE_NFTD_TESTS_TABLE_MODEL_H
#define KUBE_NFTD_TESTS_TABLE_MODEL_H

#include "ruleset_fixture.h"
#include "script.h"

#define MOST_NUMBERS 10000u

struct desired_port {
    bool stays;                    /* without frontends, too */
    bool more_cluster, more_local; /* what frontends ask for that are not there */
    char all[80], here[80], sources[80];
    uint32_t timeout;
    char service[16]; /* "a/": its namespace */
};

struct desired_frontend {
    bool wanted, external, local, restricted;
    int cluster_ip; /* how often its address is in use as one */
    unsigned port;
};

/* Of ports and frontends by number. */
struct desired {
    struct desired_port ports[MOST_NUMBERS];
    struct desired_frontend frontends[MOST_NUMBERS];
    unsigned most; /* above all numbers */
    char pods[80], service_cidrs[80];
};

/* As it was told last. */
extern struct desired desired;

/* A fixture: nothing is desired; with setup(). */
void set_up_desired(void);

/* A list of numbers in a case: "1", "1..20", "0..98/2", one after the other. */
struct numbers {
    unsigned first, last, step;
};

/* From now on @number is one of those below desired.most. */
void note_number(unsigned number);

/* Cuts the first word off. Returns whether it was some numbers. */
bool next_numbers(char **words, struct numbers *numbers);

#define EACH_NUMBER(i, words)                                                                      \
    for (struct numbers all_##i; next_numbers(words, &all_##i);)                                   \
        for (unsigned i = all_##i.first; i <= all_##i.last; i += all_##i.step)

/* ---- telling ---- */

/* What is desired of a frontend: of these two, of frontend @number in @what, or now. */
struct wish wish_of(const struct desired_frontend *f, const struct desired_port *p);
struct wish wish_in(const struct desired *what, unsigned number);
struct wish desired_wish(unsigned number);

/* What is needed of a port, all of it if there are no frontends; false: nobody has it. */
bool port_needs_of(unsigned port, bool *cluster, bool *local);

/* Passes what is desired of a port or frontend to the ruleset. */
void tell_port_of(unsigned port);
void tell_frontend(unsigned number);

/* All of it, as a daemon does that starts: the last ones first. */
void tell_desired(void);

/* ---- in words ---- */

/* Ranges with commas in place of spaces. */
void spaced(const char *value, char out[80]);

/* "gone", or "123 here=1 timeout=60 external local from=10-19,50 port=7 ns=a": of frontend @number.
 * "open": it is not restricted, though its port has sources. */
void parse_wish(char *words, unsigned number, struct desired_frontend *f, struct desired_port *p);

/* Changes what is desired, and tells: frontend @number, "1..9 123 external", ranges. */
void set_desired(unsigned number, const char *words);
void want(const char *words);
void want_pods(const char *text);
void want_service_cidrs(const char *text);

/* ---- what the kernel does ---- */

/* Whether a set has just these. */
bool has_ranges(const char *set, const char *text);

/* Whether packets to a frontend go as @wish says, and these may talk to it. */
bool goes(unsigned number, const struct wish *wish);

/* The same of what is desired of it. */
bool does(unsigned number);

/* Names all that is not as desired. */
void write_undesired(FILE *out);

#endif
