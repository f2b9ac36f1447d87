/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "contents.h"

#include <string.h>

enum table_set content_set_of(const struct content *content)
{
    return (enum table_set)content->bytes[0];
}

const uint8_t *content_key(const struct content *content)
{
    return content->bytes + 1;
}

uint8_t *content_value(struct content *content)
{
    return content->bytes + 1 + content->key_length;
}

uint8_t *content_kernel_value(struct content *content)
{
    return content_value(content) + content->value_length;
}

/* What an element is found by: set and key. Returns its length. */
static size_t identity(enum table_set set, const struct key *key, uint8_t out[1 + KEY_SIZE])
{
    out[0] = (uint8_t)set;
    memcpy(out + 1, key->bytes, key->length);
    return 1 + key->length;
}

static struct hash_key key_of(const struct hash_link *link)
{
    const struct content *content = (const struct content *)link;
    return (struct hash_key){content->bytes, 1 + (size_t)content->key_length};
}

struct content *contents_find(const struct contents *contents, enum table_set set,
                              const struct key *key)
{
    uint8_t id[1 + KEY_SIZE];
    size_t length = identity(set, key, id);
    return hash_table_find(&contents->all, key_of, (struct hash_key){id, length});
}

static struct content *get(struct contents *contents, enum table_set set, const struct key *key,
                           const struct key *value)
{
    struct content *content = contents_find(contents, set, key);
    if (content)
        return content;
    size_t value_length = value ? value->length : 0;
    content = xcalloc(1, sizeof(*content) + 1 + key->length + 2 * value_length);
    content->key_length = (uint8_t)key->length;
    content->value_length = (uint8_t)value_length;
    identity(set, key, content->bytes);
    hash_table_add(&contents->all, key_of, &content->link);
    return content;
}

static void mark_pending(struct contents *contents, struct content *content)
{
    if (content->pending)
        return;
    content->pending = true;
    vec_push(&contents->pending, content);
}

/* ---- left out ---- */

void contents_leave_out(struct contents *contents, struct content *content)
{
    content->left_out = true;
    vec_push(&contents->left_out, content);
}

static void let_in(struct contents *contents, struct content *content)
{
    if (!content->left_out)
        return;
    content->left_out = false;
    for (size_t i = 0; i < contents->left_out.n; i++)
        if (contents->left_out.v[i] == content) {
            contents->left_out.v[i] = contents->left_out.v[--contents->left_out.n];
            return;
        }
}

void contents_let_in(struct contents *contents)
{
    vec_each (&contents->left_out, it) {
        (*it)->left_out = false;
        mark_pending(contents, *it);
    }
    vec_clear(&contents->left_out);
}

/* ---- wanted ---- */

void contents_want(struct contents *contents, enum table_set set, const struct key *key,
                   const struct key *value)
{
    struct content *content = get(contents, set, key, value);
    content->wanted++;
    let_in(contents, content);
    if (value)
        memcpy(content_value(content), value->bytes, content->value_length);
    mark_pending(contents, content);
}

void contents_drop(struct contents *contents, enum table_set set, const struct key *key)
{
    struct content *content = contents_find(contents, set, key);
    content->wanted--;
    let_in(contents, content);
    mark_pending(contents, content);
}

bool contents_adopt(struct contents *contents, enum table_set set, const struct key *key,
                    const struct key *value)
{
    struct content *content = get(contents, set, key, value);
    if (content->in_kernel)
        return false;
    content->in_kernel = true;
    if (value)
        memcpy(content_kernel_value(content), value->bytes, content->value_length);
    mark_pending(contents, content);
    return true;
}

void contents_observe(struct contents *contents, enum table_set set, const struct key *key,
                      const struct key *value, bool there)
{
    struct content *content = get(contents, set, key, value);
    content->in_kernel = there;
    if (value)
        memcpy(content_kernel_value(content), value->bytes, value->length);
    mark_pending(contents, content);
}

static void remove_content(struct contents *contents, struct content *content)
{
    let_in(contents, content);
    hash_table_remove(&contents->all, &content->link);
    free(content);
}

void contents_forget_kernel(struct contents *contents)
{
    vec_clear(&contents->pending);
    hash_table_each (&contents->all, struct content, content) {
        content->in_kernel = content->pending = false;
        if (content->wanted)
            mark_pending(contents, content);
        else
            remove_content(contents, content);
    }
}

void contents_apply(struct contents *contents)
{
    vec_each (&contents->pending, it) {
        struct content *content = *it;
        content->pending = false;
        if (content->left_out)
            continue;
        content->in_kernel = content->wanted > 0;
        memcpy(content_kernel_value(content), content_value(content), content->value_length);
        if (!content->wanted)
            remove_content(contents, content);
    }
    vec_clear(&contents->pending);
}

static bool same_value(const struct content *content)
{
    const uint8_t *value = content_key(content) + content->key_length;
    return memcmp(value, value + content->value_length, content->value_length) == 0;
}

bool content_goes(const struct content *content)
{
    return !content->left_out && content->in_kernel && (!content->wanted || !same_value(content));
}

bool content_comes(const struct content *content)
{
    return !content->left_out && content->wanted && (!content->in_kernel || !same_value(content));
}

void contents_free(struct contents *contents)
{
    hash_table_each (&contents->all, struct content, content)
        remove_content(contents, content);
    vec_free(&contents->pending);
    vec_free(&contents->left_out);
}
