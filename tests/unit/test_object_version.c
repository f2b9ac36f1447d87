/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/object_metadata.h"

#include "unit.h"

#include <string.h>

static void assert_text(const struct object_version *version, const char *text)
{
    char number[OBJECT_VERSION_SIZE];
    ck_assert_pstr_eq(object_version_text(version, number), text);
}

static const struct {
    const char *text;
    bool packed; /* it takes no memory of its own */
} versions[] = {
    {"0", true},
    {"7", true},
    {"18446744073", true},
    {"9223372036854775806", true}, /* the largest number */
    {"9223372036854775807", false},
    {"18446744073709551615", false},
    {"18446744073709551616", false},
    {"99999999999999999999999999", false},
    {"07", false},
    {"00", false},
    {"+7", false},
    {" 7", false},
    {"7 ", false},
    {"0x7", false},
    {"-1", false},
    {"a", false},
    {"1.5", false},
    {"\xc3\xa9", false},
};

TEST_ROWS(are_kept_exactly, versions)
{
    struct object_version version = {0}, copy = {0};
    object_version_set(&version, row->text);
    assert_text(&version, row->text);
    ck_assert(object_version_is_set(&version));
    ck_assert_int_eq(version.bits & 1, row->packed);
    object_version_copy(&copy, &version);
    object_version_clear(&version);
    assert_text(&version, NULL);
    assert_text(&copy, row->text);
    object_version_move(&version, &copy);
    assert_text(&version, row->text);
    assert_text(&copy, NULL);
    object_version_set(&version, "other"); /* frees what was there */
    assert_text(&version, "other");
    object_version_clear(&version);
}

TEST(of_an_object_without_one)
{
    struct object_version version = {0}, copy = {0};
    ck_assert(!object_version_is_set(&version));
    assert_text(&version, NULL);
    object_version_set(&version, NULL);
    ck_assert(object_version_is_set(&version));
    assert_text(&version, "");
    object_version_copy(&copy, &version);
    assert_text(&copy, "");
    object_version_set(&version, "");
    assert_text(&version, "");
    object_version_clear(&version);
    ck_assert(!object_version_is_set(&version));
}
