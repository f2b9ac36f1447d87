/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the name of a chain tells of what it was made from. */
#include "unit.h"

#include "ruleset_fixture.h"

/* Of all templates that add chains. */
TEST(each_chain_tells_of_its_instance)
{
    static const struct instance instances[] = {{TEMPLATE_PICK, 12},
                                                {TEMPLATE_LOCAL_PICK, 12},
                                                {TEMPLATE_LEARN, 12},
                                                {TEMPLATE_SOURCE_RANGES, 0},
                                                {TEMPLATE_AFFINITY, 0}};
    begin(FAMILY_IPV4);
    for (size_t i = 0; i < sizeof(instances) / sizeof(instances[0]); i++) {
        struct layout layout = {.sets = {0}};
        struct instance told;
        ruleset_add_template(ruleset, instances[i], &layout);
        ck_assert(instance_of_chain(layout.chains.v[0].name, &told));
        ck_assert_mem_eq(&told, &instances[i], sizeof(told));
        layout_free(&layout);
    }
}

TESTS(other_chains_tell_nothing, 15)
{
    static const char *const names[] = {
        "dispatch",   "pick",    "pick-",    "pick-0",           "pick-03",
        "pick-32768", "pick-3x", "xpick-3",  "learn-0",          "learn-",
        "learn-1e",   "",        "intruder", "learn-4294967296", "pick-3 pick-4"};
    struct instance instance;
    ck_assert(!instance_of_chain(names[_i], &instance));
}

UNIT_FIXTURE(setup, teardown)
