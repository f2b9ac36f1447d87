/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What src/ruleset's files share: a table and its frontends, wanted and in the kernel. */
#ifndef KUBE_NFTD_RULESET_RECORD_H
#define KUBE_NFTD_RULESET_RECORD_H

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/ruleset/template.h"

/* The count of a frontend's backends has 16 bits of a classid. */
#define MAX_BACKENDS UINT16_MAX

/* The maps and sets of base.nft that the code fills. */
#define MAP_SERVICES "services"
#define MAP_ENDPOINTS "endpoints"
#define MAP_PICKS "picks"
#define SET_REJECTS "reject_frontends"

struct record {
    UT_hash_handle hh; /* by frontend */
    struct frontend frontend;
    bool pending;     /* in ruleset->pending: wanted, n_wanted and wants_reject count */
    bool trimming;    /* in ruleset->trims: slots beyond the count are to be deleted */
    double shrunk_at; /* when slots fell out of use last; clock_monotonic */

    /* In the kernel. */
    bool rejected;    /* in reject_frontends */
    uint32_t service; /* its value in services, class:count; 0 if it is not there */
    uint32_t n_slots; /* slots in endpoints: at least the count; some may be empty after adoption */
    struct backend *slots;

    /* Wanted, while pending. Neither backends nor reject: the frontend shall be gone. */
    bool wants_reject;
    uint32_t n_wanted;
    struct backend *wanted; /* sorted */
    struct backend *plan;   /* during a commit: wanted, each in its slot */
};

struct ruleset {
    enum family family;
    struct layout base;
    struct record *records;
    VEC(struct record *) pending;
    VEC(struct record *) trims;
    double trim_time;    /* of the records in trims; clock_monotonic */
    size_t n_wanted;     /* frontends that shall be there */
    bool adopted;        /* a table was looked for at least once */
    bool kernel_known;   /* the records say what the kernel holds */
    bool table_missing;  /* valid if kernel_known: there is no table yet */
    bool table_replaced; /* there is one of another shape, to be deleted in the same transaction */
    uint8_t known_picks[(MAX_BACKENDS + 1) / 8]; /* pick chains that the table has; a bit each */
    struct nft_batch batch;
};

/** The record of @frontend, made if there is none. */
struct record *ruleset_record(struct ruleset *ruleset, const struct frontend *frontend);

/** Puts @record into the list of pending ones. */
void ruleset_mark_pending(struct ruleset *ruleset, struct record *record);

/** The value in services for @n backends. */
uint32_t service_value(size_t n);

/** How many slots the count in @record's service value reaches. */
uint32_t record_count(const struct record *record);

bool ruleset_knows_pick(const struct ruleset *ruleset, unsigned n);
void ruleset_note_pick(struct ruleset *ruleset, unsigned n);

/** The numbers of backends, ascending, for which pending frontends need a pick chain that the
 * table does not have. The caller frees the array in @out. */
typedef VEC(unsigned) count_vec;
void ruleset_new_picks(const struct ruleset *ruleset, count_vec *out);

/* Room for any key or value of the maps. */
#define KEY_SIZE 32

/** Writes the key of a frontend (12 or 24 bytes). Returns its length. */
size_t key_of_frontend(const struct frontend *frontend, uint8_t key[KEY_SIZE]);

/** Writes the key of a frontend's slot (16 or 28 bytes). Returns its length. */
size_t key_of_slot(const struct frontend *frontend, uint32_t slot, uint8_t key[KEY_SIZE]);

/** Writes a backend as a value (8 or 20 bytes). Returns its length. */
size_t value_of_backend(enum family family, const struct backend *backend, uint8_t value[KEY_SIZE]);

/** The reverse; false if the bytes cannot be one of ours. */
bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend);
bool slot_of_key(enum family family, const uint8_t *key, size_t length, struct frontend *frontend,
                 uint32_t *slot);
bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend);

/** The table's comment, by which a table of the same shape is known. */
void ruleset_comment(char out[64]);

/** Whether the rules in the kernel are those of the templates, with the known picks. */
int ruleset_verify_rules(const struct ruleset *ruleset, struct nft_socket *socket, bool *same,
                         struct error *err);

/**
 * Reads the table back into the records and makes all of them pending, so that the next plan is
 * the difference between what is wanted and what is there.
 */
int ruleset_adopt(struct ruleset *ruleset, struct nft_socket *socket, struct error *err);

/** Whether the unreachable slots of @record, which is in trims, are deleted by a commit at @now. */
bool trim_is_due(const struct ruleset *ruleset, const struct record *record, double now);

/** How many slots of a record stay when it is trimmed: those that the old or the new count reaches.
 */
uint32_t trim_keeps(const struct record *record);

/** Puts the messages for all pending records, and trims that are due at @now, into ruleset->batch.
 */
int ruleset_encode(struct ruleset *ruleset, double now, struct error *err);

#endif
