/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which chains a number of backends or an affinity timeout needs, and in which order they are made.
 */
#include "unit.h"

#include "ruleset/schema.h"

static const unsigned counts[] = {1, 2, 10, 255, 256, MAX_BACKENDS};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static bool same(struct shape a, struct shape b)
{
    return a.template == b.template && a.key == b.key;
}

/* The chains are those of the number of backends, whatever the service port. */
TEST(each_number_has_its_chain)
{
    static const struct {
        enum table_set set;
        enum template_id template;
    } maps[] = {{SET_PORTS, TEMPLATE_PICK}, {SET_LOCAL_PORTS, TEMPLATE_LOCAL_PICK}};
    for (size_t m = 0; m < sizeof(maps) / sizeof(maps[0]); m++)
        for (size_t i = 0; i < COUNTS; i++) {
            struct shape one, other, base;
            ck_assert(set_shape(maps[m].set, 1 << PORT_LOW_BITS | counts[i], &one));
            ck_assert(set_shape(maps[m].set, MOST_PORTS << PORT_LOW_BITS | counts[i], &other));
            ck_assert(same(one, (struct shape){maps[m].template, counts[i]}));
            ck_assert(same(one, other));
            ck_assert(!shape_needs(one, &base));
        }
}

/* What the table's fixed part serves, and what is not there. */
TEST(numbers_without_a_chain)
{
    static const enum table_set sets[] = {SET_SERVICES, SET_REJECTED, SET_DROPPED};
    struct shape shape;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        ck_assert(!set_shape(sets[i], 1 << PORT_LOW_BITS | 1, &shape));
    for (enum table_set set = 0; set < NUMBER_SETS; set++)
        ck_assert(!set_shape(set, 0, &shape));
}

static struct shape learner(uint32_t seconds)
{
    struct shape shape;
    ck_assert(set_shape(SET_AFFINITY_TIMEOUTS, seconds, &shape));
    return shape;
}

/* A timeout fills all of its key. What all of them need comes once. */
TEST(learners)
{
    const uint32_t seconds[] = {1, 10800, 86400, 3 << 16 | 1, 1 << PORT_LOW_BITS | 1};
    struct shape base;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        struct shape shape = learner(seconds[i]);
        ck_assert_int_eq(shape.template, TEMPLATE_LEARN);
        ck_assert_uint_eq(shape.key, seconds[i]);
        ck_assert(shape_needs(shape, &base));
        ck_assert_int_eq(base.template, TEMPLATE_AFFINITY);
        ck_assert_uint_eq(base.key, 0);
        ck_assert(!shape_needs(base, &shape));
    }
}

static void check_chain(const char *name, struct shape expected)
{
    struct shape shape;
    ck_assert_msg(shape_of_chain(name, &shape), "%s", name);
    ck_assert_msg(same(shape, expected), "%s", name);
}

TEST(chains_that_tell_of_shapes)
{
    static const char *const others[] = {"dispatch",     "port",       "external", "external-local",
                                         "pick",         "local-pick", "affine",   "local-affine",
                                         "no-endpoints", "refuse-port"};
    struct shape shape, affinity;
    ck_assert(set_shape(SET_RESTRICTED, 1 << 8, &shape));
    ck_assert(!shape_needs(shape, &affinity));
    check_chain("source-ranges", shape);
    ck_assert(shape_needs(learner(1), &affinity));
    check_chain("learn", affinity);
    check_chain("learn-10800", learner(10800));
    check_chain("pick-1", (struct shape){TEMPLATE_PICK, 1});
    check_chain("pick-32767", (struct shape){TEMPLATE_PICK, MAX_BACKENDS});
    check_chain("local-pick-3", (struct shape){TEMPLATE_LOCAL_PICK, 3});
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert_msg(!shape_of_chain(others[i], &shape), "%s", others[i]);
}

TEST(a_set_of_shapes)
{
    struct shapes shapes = {0};
    struct shape pick = {TEMPLATE_PICK, 3}, learn = learner(3);
    ck_assert(!shapes_have(&shapes, pick));
    ck_assert(shapes_add(&shapes, pick));
    ck_assert(!shapes_add(&shapes, pick));
    ck_assert(shapes_have(&shapes, pick));
    ck_assert(!shapes_have(&shapes, learn)); /* the same key, another template */
    ck_assert(shapes_add(&shapes, learn));
    shapes_clear(&shapes);
    ck_assert(!shapes_have(&shapes, pick));
    ck_assert(shapes_add(&shapes, pick));
    shapes_clear(&shapes);
}

static size_t place_of(const shape_vec *list, struct shape shape)
{
    size_t place = 0;
    while (place < list->n && !same(list->v[place], shape))
        place++;
    return place;
}

static void check_order(const shape_vec *list)
{
    for (size_t i = 0; i < list->n; i++) {
        struct shape base;
        if (shape_needs(list->v[i], &base))
            ck_assert_uint_lt(place_of(list, base), i);
    }
}

/* All of them, whatever the order that they came in. */
TESTS(each_is_listed_after_what_it_builds_on, 2)
{
    static const enum template_id picks[] = {TEMPLATE_PICK, TEMPLATE_LOCAL_PICK};
    struct shapes shapes = {0};
    shape_vec list = {0}, again = {0};
    struct shape shape;
    shapes_list(&shapes, &list);
    ck_assert_uint_eq(list.n, 0);
    if (_i)
        shapes_add(&shapes, learner(1));
    for (size_t k = 0; k < COUNTS; k++)
        for (int i = 0; i < 2; i++)
            ck_assert(shapes_add(&shapes, (struct shape){picks[i ^ _i], counts[k]}));
    if (!_i)
        shapes_add(&shapes, learner(1));
    ck_assert(shape_needs(learner(1), &shape));
    shapes_add(&shapes, shape);
    ck_assert(set_shape(SET_RESTRICTED, 1 << 8, &shape));
    shapes_add(&shapes, shape);
    shapes_list(&shapes, &list);
    ck_assert_uint_eq(list.n, 2 * COUNTS + 3);
    check_order(&list);
    for (size_t i = list.n; i-- > 0;)
        vec_push(&again, list.v[i]);
    shapes_sort(&again);
    for (size_t i = 0; i < list.n; i++)
        ck_assert(same(list.v[i], again.v[i]));
    vec_free(&list);
    vec_free(&again);
    shapes_clear(&shapes);
}
