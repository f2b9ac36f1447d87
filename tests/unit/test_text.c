/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/text.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define BAD "\xef\xbf\xbd"

static const struct {
    const char *text, *repaired;
} texts[] = {
    {"", ""},
    {"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xff\x80z", BAD BAD "z"},                    /* no first bytes */
    {"\xe2\x82", BAD BAD},                         /* the end is missing */
    {"\xc0\xaf\xe0\x80\xaf", BAD BAD BAD BAD BAD}, /* longer than need be */
    {"\xed\xa0\x80", BAD BAD BAD},                 /* half of a pair of UTF-16 */
    {"\xf4\x90\x80\x80", BAD BAD BAD BAD},         /* beyond the last character */
};

TEST_ROWS(repaired, texts)
{
    char *text = utf8_repair(row->text);
    ck_assert_str_eq(text, row->repaired);
    ck_assert_int_eq(utf8_is_valid(row->text), strcmp(row->text, text) == 0);
    free(text);
}

TEST(what_acts_on_a_terminal)
{
    static const uint32_t controls[] = {0, 0x1b, 0x7f, 0x9b, 0x200f, 0x2028, 0x202e, 0x2066};
    static const uint32_t others[] = {' ', '~', 0xa0, 0xe4, 0x20ac, 0x1f600};
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
        ck_assert(utf8_is_control(controls[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert(!utf8_is_control(others[i]));
}
