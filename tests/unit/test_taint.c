/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patterns of taints, and uids: what of the model knows no JSON. */
#include "kube-nftd/model/object_metadata.h"
#include "kube-nftd/model/taint.h"

#include "unit.h"

#include <string.h>

static const char *or_any(const char *text)
{
    return text ? text : "*";
}

TEST(patterns_are_read)
{
    static const struct {
        const char *text, *key, *value, *effect;
    } good[] = {
        {"k", "k", "*", "*"},
        {"example.com/k_1.x", "example.com/k_1.x", "*", "*"},
        {"k=v", "k", "v", "*"},
        {"k=", "k", "", "*"},
        {"k:NoSchedule", "k", "*", "NoSchedule"},
        {"k=v:PreferNoSchedule", "k", "v", "PreferNoSchedule"},
        {"a.b/k=:NoExecute", "a.b/k", "", "NoExecute"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct taint pattern;
        struct error err = {0};
        ck_assert_int_eq(taint_parse(good[i].text, &pattern, &err), 0);
        ck_assert_str_eq(pattern.key, good[i].key);
        ck_assert_str_eq(or_any(pattern.value), good[i].value);
        ck_assert_str_eq(or_any(pattern.effect), good[i].effect);
        taint_clear(&pattern);
    }
}

TEST(what_is_no_pattern)
{
    static const char *const bad[][2] = {
        {"", "key"},        {"=v", "key"},        {":NoExecute", "key"},
        {"a b", "key"},     {"/k", "key"},        {"a/b/c", "key"},
        {"k.", "key"},      {"a_b/k", "key"},     {"k:NoWay", "effect is none of"},
        {"k:", "effect"},   {"k=v:w", "effect"},  {"k=v w", "value"},
        {"k=v=w", "value"}, {"k=v/w", "value"},   {"k:noexecute", "effect"},
        {"k=a:", "effect"}, {"k\xc3\xa4", "key"}, {"k,l", "key"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct taint pattern;
        struct error err = {0};
        ck_assert_int_eq(taint_parse(bad[i][0], &pattern, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, bad[i][1]));
        ck_assert_ptr_null(pattern.key);
        error_clear(&err);
    }
    char *long_key =
        xstrndup("kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", 64);
    struct taint pattern;
    struct error err = {0};
    ck_assert_int_eq(taint_parse(long_key, &pattern, &err), -1);
    error_clear(&err);
    ck_assert_int_eq(taint_parse(long_key + 1, &pattern, &err), 0);
    taint_clear(&pattern);
    free(long_key);
}

TEST(uids_are_kept)
{
    static const char text[] = "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f0f";
    char out[UID_TEXT_SIZE];
    struct uid uid;
    ck_assert(uid_parse(text, &uid));
    ck_assert_int_eq(uid.bytes[0], 0x6b);
    ck_assert_int_eq(uid.bytes[15], 0x0f);
    ck_assert_str_eq(uid_format(&uid, out), text);
}

TEST(what_is_no_uid_is_unknown)
{
    static const char *const bad[] = {
        NULL,
        "",
        "node-a",
        "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f0",
        "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f0ff",
        "6B1BD2A0-9f1e-4b47-8e0e-1c8e9a8d7f0f",
        "6b1bd2a0+9f1e-4b47-8e0e-1c8e9a8d7f0f",
        "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f0g",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char out[UID_TEXT_SIZE];
        struct uid uid = {.bytes = {1}};
        ck_assert(!uid_parse(bad[i], &uid));
        ck_assert_str_eq(uid_format(&uid, out), "");
    }
}
