/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the name of a chain tells of what it was made from. */
#include "unit.h"

#include "ruleset_fixture.h"

/* Of all templates that add chains. */
TEST(each_chain_tells_of_its_shape)
{
    static const struct shape shapes[] = {{TEMPLATE_PICK, 12},
                                          {TEMPLATE_LOCAL_PICK, 12},
                                          {TEMPLATE_LEARN, 12},
                                          {TEMPLATE_SOURCE_RANGES, 0},
                                          {TEMPLATE_AFFINITY, 0}};
    begin(FAMILY_IPV4);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct layout layout;
        struct shape told;
        ck_assert_int_eq(ruleset_read_shape(ruleset, shapes[i], &layout, NULL), 0);
        ck_assert(shape_of_chain(layout.chains.v[0].name, &told));
        ck_assert_mem_eq(&told, &shapes[i], sizeof(told));
        layout_free(&layout);
    }
}

TESTS(other_chains_tell_nothing, 15)
{
    static const char *const names[] = {
        "dispatch",   "pick",    "pick-",    "pick-0",           "pick-03",
        "pick-32768", "pick-3x", "xpick-3",  "learn-0",          "learn-",
        "learn-1e",   "",        "intruder", "learn-4294967296", "pick-3 pick-4"};
    struct shape shape;
    ck_assert(!shape_of_chain(names[_i], &shape));
}

UNIT_FIXTURE(setup, teardown)
