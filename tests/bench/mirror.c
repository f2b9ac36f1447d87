/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mirror.h"

#include "kube-nftd/base.h"
#include "kube-nftd/table.h"

#include <linux/netfilter.h>
#include <string.h>

/* As long as the name that it takes the place of. */
static const char mirror_table[] = "kube-bare";
_Static_assert(sizeof(mirror_table) == sizeof(RULESET_TABLE), "names of the same length");

static struct mirror_figures figures;
static VEC(struct nft_batch) kept;
static bool keeps_nothing;

int __real_nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err);
int __wrap_nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err);

static void rename_table(struct nft_batch *batch)
{
    char *at = batch->buffer, *end = batch->buffer + batch->used;
    while ((at = memmem(at, (size_t)(end - at), RULESET_TABLE, sizeof(RULESET_TABLE))))
        memcpy(at, mirror_table, sizeof(mirror_table));
}

static struct nft_batch copy_of(const struct nft_batch *batch)
{
    struct nft_batch copy;
    nft_batch_init(&copy, batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6,
                   mirror_table);
    free(copy.buffer);
    copy.buffer = xcalloc(1, batch->used);
    copy.used = copy.capacity = batch->used;
    memcpy(copy.buffer, batch->buffer, batch->used);
    copy.sequence = batch->sequence;
    copy.piece = batch->piece;
    vec_each (&batch->cuts, cut)
        vec_push(&copy.cuts, *cut);
    rename_table(&copy);
    return copy;
}

int __wrap_nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err)
{
    double start = clock_monotonic();
    if (__real_nft_socket_commit(socket, batch, err))
        return -1;
    double end = clock_monotonic();
    figures.commit += end - start;
    figures.bytes += batch->used;
    figures.elements += batch->elements[ELEMENT_ADD] + batch->elements[ELEMENT_DELETE];
    figures.commits++;
    if (!keeps_nothing)
        vec_push(&kept, copy_of(batch));
    figures.aside += clock_monotonic() - end;
    return 0;
}

void mirror_keep_nothing(void)
{
    keeps_nothing = true;
}

void mirror_start(void)
{
    vec_each (&kept, batch)
        nft_batch_release(batch);
    vec_clear(&kept);
    figures = (struct mirror_figures){0};
}

const struct mirror_figures *mirror_figures(void)
{
    return &figures;
}

double mirror_replay(struct nft_socket *socket, struct error *err)
{
    double start = clock_monotonic();
    vec_each (&kept, batch) {
        if (__real_nft_socket_commit(socket, batch, err))
            return -1;
    }
    return clock_monotonic() - start;
}

int mirror_remove(struct nft_socket *socket, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, FAMILY_IPV4, mirror_table);
    nft_batch_delete_table(&batch);
    int result = __real_nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}
