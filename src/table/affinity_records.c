/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How full the map is that packets write: all service ports of a family share its room. */
#include "drift.h"
#include "kube-nftd/base.h"
#include "record.h"

#include <errno.h>
#include <string.h>

static const char MAP_AFFINITY[] = "affinity";

enum { HAS_ROOM, NEARLY_FULL, FULL };

static uint32_t most_records(const struct ruleset *rs)
{
    vec_each (&rs->base.sets, set)
        if (strcmp(set->name, MAP_AFFINITY) == 0)
            return set->size;
    return 0;
}

/* For kernels that do not count elements: whether one of no service port would be refused. It is
 * not put in. */
static bool is_full(const struct ruleset *rs, struct nft_socket *socket)
{
    struct nft_batch batch;
    struct error err = {0};
    struct key key = {.length = 0};
    const uint32_t backend = 0;
    int why = 0;
    key_put_number(&key, 0);
    key_put_address(&key, rs->family, &(struct address){{0}});
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    nft_batch_element(&batch, ELEMENT_ADD, MAP_AFFINITY, key.bytes, key.length, &backend,
                      sizeof(backend));
    bool refused = nft_socket_check(socket, &batch, &why, &err) != 0;
    nft_batch_release(&batch);
    error_clear(&err);
    return refused && why == ENFILE;
}

static int level_of(const struct ruleset_figures *figures)
{
    uint64_t n = figures->records, most = figures->most_records;
    return !figures->records_known ? HAS_ROOM
           : n >= most             ? FULL
           : n * 10 >= most * 9    ? NEARLY_FULL
                                   : HAS_ROOM;
}

/* Each level once, until it was left well behind. */
static void say(struct ruleset *rs)
{
    const struct ruleset_figures *figures = &rs->figures;
    const char *family = nft_family_name(rs->family);
    int level = level_of(figures);
    if (level > rs->records_said && level == FULL)
        log_warn("ruleset",
                 "family=%s records=%u: the session affinity map is full, new clients are balanced "
                 "without affinity until records expire",
                 family, figures->records);
    else if (level > rs->records_said)
        log_warn("ruleset", "family=%s records=%u of %u for session affinity are in use", family,
                 figures->records, figures->most_records);
    if (level > rs->records_said ||
        (uint64_t)figures->records * 10 < (uint64_t)figures->most_records * 8)
        rs->records_said = level;
}

void drift_count_records(struct ruleset *rs, struct nft_socket *socket)
{
    struct ruleset_figures *figures = &rs->figures;
    struct error err = {0};
    uint32_t count = 0;
    bool told = true;
    figures->records = 0;
    figures->most_records = most_records(rs);
    figures->records_known = true;
    if (!shapes_have(&rs->shapes, (struct shape){TEMPLATE_AFFINITY, 0})) {
        rs->records_said = HAS_ROOM;
        return;
    }
    bool failed = nft_socket_count_elements(socket, rs->family, RULESET_TABLE, MAP_AFFINITY, &count,
                                            &told, &err) != 0;
    if (!failed && told)
        figures->records = count;
    else if (!failed && is_full(rs, socket))
        figures->records = figures->most_records;
    else
        figures->records_known = false;
    error_clear(&err);
    say(rs);
}
