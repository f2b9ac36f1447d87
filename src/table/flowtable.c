/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "flowtable.h"

#include "state.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <math.h>
#include <string.h>

/* Each attempt leaves out what was rejected in those before. */
#define MOST_TRIES 5
/* Seconds until a failed change is retried, doubled each time. */
#define RETRY_FIRST 0.1
#define RETRY_MOST 30.0

/* ---- lists of devices ---- */

static bool has_name(const device_vec *devices, const char *name)
{
    vec_each (devices, device)
        if (strcmp(device->name, name) == 0)
            return true;
    return false;
}

static void add_name(void *devices, const char *name)
{
    struct device device = {.index = 0};
    if (strlen(name) >= sizeof(device.name))
        return;
    memcpy(device.name, name, strlen(name));
    vec_push((device_vec *)devices, device);
}

/* ---- rejected devices ---- */

static struct device_rejection *find_rejection(const struct flowtable *f, const char *name)
{
    vec_each (&f->rejected, it)
        if (strcmp(it->device.name, name) == 0)
            return it;
    return NULL;
}

/* Those that are no longer desired, or that were replaced by another device. */
static void forget_rejections(struct flowtable *f)
{
    size_t n = 0;
    vec_each (&f->rejected, it) {
        bool stays = false;
        vec_each (&f->desired, device)
            stays = stays || memcmp(device, &it->device, sizeof(*device)) == 0;
        if (stays)
            f->rejected.v[n++] = *it;
    }
    f->rejected.n = n;
}

/* Logged once. */
static void reject(struct ruleset *rs, const char *name, int why)
{
    struct flowtable *f = &rs->flowtable;
    struct device_rejection *known = find_rejection(f, name);
    if (known && known->why == why)
        return;
    log_warn(
        "table",
        "family=%s device=%s is left out of the flowtable, its packets take the usual path: %s",
        family_name(rs->family), name, strerror(why));
    if (known) {
        known->why = why;
        return;
    }
    vec_each (&f->desired, device)
        if (strcmp(device->name, name) == 0)
            vec_push(&f->rejected, (struct device_rejection){*device, why});
}

/* ---- changes ---- */

struct change {
    struct nft_batch batch;
    device_vec found;    /* in the kernel */
    device_vec left_out; /* rejected by this change */
    size_t added, removed;
};

static void encode_from(struct change *c, enum nft_element_op op, const device_vec *those,
                        const device_vec *but)
{
    vec_each (those, device) {
        if (has_name(but, device->name) || has_name(&c->left_out, device->name))
            continue;
        nft_batch_flowtable_device(&c->batch, op, FLOWTABLE, device->name);
        *(op == ELEMENT_ADD ? &c->added : &c->removed) += 1;
    }
}

static void encode(struct change *c, const device_vec *desired)
{
    nft_batch_clear(&c->batch);
    c->added = c->removed = 0;
    encode_from(c, ELEMENT_DELETE, &c->found, desired);
    encode_from(c, ELEMENT_ADD, desired, &c->found);
}

/* The device in a message of ours. */
static const char *device_of(const struct nft_batch *batch, size_t message)
{
    const struct nlmsghdr *header = (const void *)(batch->buffer + message);
    return netlink_text(netlink_inside(
        netlink_inside(nfnl_attribute(header, NFTA_FLOWTABLE_HOOK), NFTA_FLOWTABLE_HOOK_DEVS),
        NFTA_DEVICE_NAME));
}

static bool is_about_device(const struct nft_rejection *rejection)
{
    const int why = rejection->why;
    return rejection->message != NFT_NO_MESSAGE && why != EPERM && why != EBUSY && why != EAGAIN &&
           !netlink_is_transient(why);
}

/* Leaves out the rejected devices; false if an error is about something else. ENOENT means that the
 * device has just gone: the monitor will report that. */
static bool leave_out(struct ruleset *rs, struct change *c)
{
    vec_each (&c->batch.rejections, it)
        if (!is_about_device(it))
            return false;
    vec_each (&c->batch.rejections, it) {
        const char *name = device_of(&c->batch, it->message);
        if (it->why != ENOENT)
            reject(rs, name, it->why);
        add_name(&c->left_out, name);
    }
    return c->batch.rejections.n > 0;
}

static int send_change(struct ruleset *rs, struct nft_socket *socket, struct change *c,
                       struct error *err)
{
    for (unsigned tries = 1;; tries++) {
        encode(c, &rs->flowtable.desired);
        if (nft_socket_commit(socket, &c->batch, err) == 0)
            return 0;
        if (tries == MOST_TRIES || !c->batch.nothing_applied || !leave_out(rs, c))
            return -1;
        error_clear(err);
    }
}

static void applied(struct ruleset *rs, const struct change *c)
{
    struct flowtable *f = &rs->flowtable;
    size_t n = 0;
    vec_clear(&f->applied);
    vec_each (&f->desired, device)
        if (!has_name(&c->left_out, device->name))
            vec_push(&f->applied, *device);
    vec_each (&f->rejected, it)
        if (has_name(&c->left_out, it->device.name))
            f->rejected.v[n++] = *it;
    f->rejected.n = n;
    if (c->added + c->removed == 0 && f->begun)
        return;
    if (!f->begun)
        log_info("table", "family=%s devices=%zu", family_name(rs->family), f->applied.n);
    else
        log_debug(1, "table", "family=%s devices=%zu added=%zu removed=%zu",
                  family_name(rs->family), f->applied.n, c->added, c->removed);
    f->begun = true;
}

static int change(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct change c = {.added = 0};
    bool exists = false;
    nft_batch_init(&c.batch, rs->family, RULESET_TABLE);
    int result = nft_socket_read_flowtable(socket, rs->family, RULESET_TABLE, FLOWTABLE, &exists,
                                           add_name, &c.found, err);
    if (result == 0 && !exists)
        result = error_set(err, "it is missing");
    if (result == 0)
        result = send_change(rs, socket, &c, err);
    if (result == 0)
        applied(rs, &c);
    vec_free(&c.found);
    vec_free(&c.left_out);
    nft_batch_release(&c.batch);
    return result;
}

static void failed(struct ruleset *rs, double now, struct error *err)
{
    struct flowtable *f = &rs->flowtable;
    if (!f->failure || strcmp(f->failure, err->text) != 0) {
        log_warn("table", "family=%s the devices of the flowtable cannot be changed, retrying: %s",
                 family_name(rs->family), err->text);
        free(f->failure);
        f->failure = xstrdup(err->text);
    }
    f->wait = fmin(fmax(2 * f->wait, RETRY_FIRST), RETRY_MOST);
    f->retry_time = now + f->wait;
    error_clear(err);
}

double flowtable_sync(struct ruleset *rs, struct nft_socket *socket, double now)
{
    struct flowtable *f = &rs->flowtable;
    struct error err = {0};
    if (!rs->config.flowtable || !f->due || rs->state != TABLE_OURS || ruleset_is_filling(rs) ||
        ruleset_has_rechecks(rs))
        return 0;
    if (now < f->retry_time)
        return f->retry_time;
    if (change(rs, socket, &err)) {
        failed(rs, now, &err);
        return f->retry_time;
    }
    free(f->failure);
    f->failure = NULL;
    f->due = false;
    f->wait = f->retry_time = 0;
    return 0;
}

/* ---- desired state ---- */

void ruleset_set_devices(struct ruleset *rs, const device_vec *devices)
{
    struct flowtable *f = &rs->flowtable;
    const size_t n = devices->n < FLOWTABLE_DEVICES_MOST ? devices->n : FLOWTABLE_DEVICES_MOST;
    if (n < devices->n && f->matching <= n)
        log_warn(
            "table",
            "family=%s --flowtable-devices matches devices=%zu, of which the flowtable gets %zu",
            family_name(rs->family), devices->n, n);
    f->matching = devices->n;
    vec_clear(&f->desired);
    vec_append(&f->desired, devices->v, n);
    forget_rejections(f);
    f->due = true;
    f->wait = f->retry_time = 0;
}

struct ruleset_flowtable ruleset_flowtable(const struct ruleset *rs)
{
    const struct flowtable *f = &rs->flowtable;
    return (struct ruleset_flowtable){.in_use = rs->config.flowtable,
                                      .devices = &f->applied,
                                      .rejected = &f->rejected,
                                      .failure = f->failure};
}

void flowtable_free(struct flowtable *f)
{
    vec_free(&f->desired);
    vec_free(&f->applied);
    vec_free(&f->rejected);
    free(f->failure);
}
