/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the name of a chain tells of what it was made from. */
#include "unit.h"

#include "ruleset_fixture.h"

/* Of all templates that add chains. */
TEST(each_chain_tells_of_its_instance)
{
    static const struct instance instances[] = {
        {TEMPLATE_PICK, 12},      {TEMPLATE_LOCAL_PICK, 31},
        {TEMPLATE_PICK_FROM, 32}, {TEMPLATE_LOCAL_PICK_FROM, 16384},
        {TEMPLATE_LEARN, 12},     {TEMPLATE_SOURCE_RANGES, 0},
        {TEMPLATE_AFFINITY, 0}};
    begin(FAMILY_IPV4);
    for (size_t i = 0; i < COUNT(instances); i++) {
        struct layout layout = {.sets = {0}};
        struct instance told;
        ruleset_add_template(ruleset, instances[i], &layout);
        ck_assert(instance_of_chain(layout.chains.v[0].name, &told));
        ck_assert_mem_eq(&told, &instances[i], sizeof(told));
        ck_assert(instance_of_chain(layout.chains.v[layout.chains.n - 1].name, &told) ||
                  instances[i].key == 0);
        ck_assert_mem_eq(&told, &instances[i], sizeof(told));
        layout_free(&layout);
    }
}

/* Also of those that add nothing else. */
TEST(each_verdict_tells_of_its_instance)
{
    static const struct instance instances[] = {
        {TEMPLATE_PICK, 1},        {TEMPLATE_PICK, 31},
        {TEMPLATE_PICK, 32},       {TEMPLATE_PICK, 63},
        {TEMPLATE_PICK, 64},       {TEMPLATE_PICK, MAX_BACKENDS},
        {TEMPLATE_LOCAL_PICK, 31}, {TEMPLATE_LOCAL_PICK, MAX_BACKENDS},
        {TEMPLATE_LEARN, 86400}};
    begin(FAMILY_IPV4);
    for (size_t i = 0; i < COUNT(instances); i++) {
        struct layout layout = {.sets = {0}};
        struct instance told;
        ruleset_add_template(ruleset, instances[i], &layout);
        const struct layout_verdict *verdict = &layout.sets.v[0].verdicts.v[0];
        ck_assert(instance_of_verdict(verdict->key, verdict->chain, &told));
        ck_assert_mem_eq(&told, &instances[i], sizeof(told));
        layout_free(&layout);
    }
}

static const struct {
    uint32_t key;
    const char *chain;
} other_verdicts[] = {{31, "pick-from-32"},      {MAX_BACKENDS + 1, "pick-from-16384"},
                      {0, "local-pick-from-32"}, {40, "pick-40"},
                      {40, "draw-from-3x"},      {7, "intruder"}};

TESTS(other_verdicts_tell_nothing, COUNT(other_verdicts))
{
    struct instance instance;
    ck_assert(!instance_of_verdict(other_verdicts[_i].key, other_verdicts[_i].chain, &instance));
}

TESTS(other_chains_tell_nothing, 18)
{
    static const char *const names[] = {"dispatch",
                                        "pick",
                                        "pick-",
                                        "pick-0",
                                        "pick-03",
                                        "pick-32",
                                        "pick-from-31",
                                        "draw-from-48",
                                        "pick-from-32768",
                                        "pick-3x",
                                        "xpick-3",
                                        "learn-0",
                                        "learn-",
                                        "learn-1e",
                                        "",
                                        "intruder",
                                        "learn-4294967296",
                                        "pick-3 pick-4"};
    struct instance instance;
    ck_assert(!instance_of_chain(names[_i], &instance));
}

UNIT_FIXTURE(setup, teardown)
