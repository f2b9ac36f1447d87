/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which chains a service value or an affinity timeout needs, and in which order they are made. */
#include "unit.h"

#include "kube-nftd/ruleset/shapes.h"

static const struct {
    unsigned class_id;
    enum template_id template;
    int builds_on; /* a class, or -1 */
} classes[] = {
    {CLASS_PLAIN, TEMPLATE_PICK, -1},
    {CLASS_PLAIN | CLASS_AFFINE, TEMPLATE_AFFINE_PICK, -1},
    {CLASS_MASQUERADE, TEMPLATE_MASQUERADE_PICK, CLASS_PLAIN},
    {CLASS_MASQUERADE | CLASS_AFFINE, TEMPLATE_MASQUERADE_PICK, CLASS_PLAIN | CLASS_AFFINE},
    {CLASS_EXTERNAL_LOCAL, TEMPLATE_EXTERNAL_LOCAL, CLASS_PLAIN},
    {CLASS_EXTERNAL_LOCAL | CLASS_AFFINE, TEMPLATE_EXTERNAL_LOCAL, CLASS_PLAIN | CLASS_AFFINE},
    {CLASS_CLUSTER, TEMPLATE_CLUSTER_PICK, CLASS_PLAIN},
    {CLASS_CLUSTER | CLASS_AFFINE, TEMPLATE_CLUSTER_PICK, CLASS_PLAIN | CLASS_AFFINE},
    {CLASS_LOCAL, TEMPLATE_LOCAL_PICK, -1},
    {CLASS_LOCAL | CLASS_AFFINE, TEMPLATE_AFFINE_LOCAL_PICK, -1},
};
#define CLASSES (int)(sizeof(classes) / sizeof(classes[0]))
static const unsigned counts[] = {1, 2, 10, 255, 256, UINT16_MAX};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static bool same(struct shape a, struct shape b)
{
    return a.template == b.template && a.key == b.key;
}

START_TEST(each_class_has_its_template)
{
    for (size_t i = 0; i < COUNTS; i++) {
        struct shape shape, base, expected;
        uint32_t value = service_value(classes[_i].class_id, counts[i]);
        ck_assert_uint_eq(value, classes[_i].class_id << 16 | counts[i]);
        ck_assert(shape_of_service(value, &shape));
        ck_assert_int_eq(shape.template, classes[_i].template);
        ck_assert_uint_eq(shape.key, value);
        ck_assert_int_eq(shape_needs(shape, &base), classes[_i].builds_on >= 0);
        if (classes[_i].builds_on < 0)
            continue;
        value = service_value((unsigned)classes[_i].builds_on, counts[i]);
        ck_assert(shape_of_service(value, &expected));
        ck_assert(same(base, expected));
    }
}
END_TEST

/* What the table's fixed part has, and what nothing of ours is. */
START_TEST(values_without_a_shape)
{
    const uint32_t values[] = {0,
                               service_value(CLASS_CLUSTER_LOCAL, 0),
                               service_value(CLASS_CLUSTER_LOCAL, 1),
                               service_value(CLASS_CLUSTER_LOCAL | CLASS_AFFINE, 1),
                               service_value(CLASS_CLUSTER, 0),
                               service_value(CLASS_AFFINE, 0),
                               service_value(6, 1),
                               service_value(7, 1),
                               service_value(14, 1),
                               service_value(16, 1),
                               UINT32_MAX};
    struct shape shape;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        ck_assert_msg(!shape_of_service(values[i], &shape), "%x", values[i]);
}
END_TEST

/* A timeout fills both halves of its key, and is no class. What all of them need comes once. */
START_TEST(learners)
{
    const uint32_t seconds[] = {1, 10800, 86400, 3 << 16 | 1, CLASS_AFFINE << 16 | 1};
    struct shape base;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        struct shape shape = shape_of_timeout(seconds[i]);
        ck_assert_int_eq(shape.template, TEMPLATE_LEARN);
        ck_assert_uint_eq(shape.key, seconds[i]);
        ck_assert(shape_needs(shape, &base));
        ck_assert_int_eq(base.template, TEMPLATE_AFFINITY);
        ck_assert_uint_eq(base.key, 0);
        ck_assert(!shape_needs(base, &shape));
    }
}
END_TEST

START_TEST(chains_that_tell_of_shapes)
{
    struct shape shape, learn = shape_of_timeout(1), affinity;
    ck_assert(shape_of_chain("source-ranges", &shape));
    ck_assert(same(shape, shape_of_source_ranges()));
    ck_assert(!shape_needs(shape, &affinity));
    ck_assert(shape_of_chain("learn", &shape));
    ck_assert(shape_needs(learn, &affinity));
    ck_assert(same(shape, affinity));
    ck_assert(!shape_of_chain("dispatch", &shape));
}
END_TEST

START_TEST(a_set_of_shapes)
{
    struct shapes shapes = {0};
    struct shape pick, learn = shape_of_timeout(3);
    ck_assert(shape_of_service(3, &pick));
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
END_TEST

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
START_TEST(each_is_listed_after_what_it_builds_on)
{
    struct shapes shapes = {0};
    shape_vec list = {0}, again = {0};
    struct shape shape;
    shapes_list(&shapes, &list);
    ck_assert_uint_eq(list.n, 0);
    for (int i = 0; i < CLASSES; i++) {
        const int which = _i ? i : CLASSES - 1 - i;
        for (size_t k = 0; k < COUNTS; k++) {
            ck_assert(shape_of_service(service_value(classes[which].class_id, counts[k]), &shape));
            ck_assert(shapes_add(&shapes, shape));
        }
    }
    shapes_add(&shapes, shape_of_timeout(1));
    ck_assert(shape_needs(shape_of_timeout(1), &shape));
    shapes_add(&shapes, shape);
    shapes_add(&shapes, shape_of_source_ranges());
    shapes_list(&shapes, &list);
    ck_assert_uint_eq(list.n, (size_t)CLASSES * COUNTS + 3);
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
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, each_class_has_its_template, 0, CLASSES);
    tcase_add_test(tcase, values_without_a_shape);
    tcase_add_test(tcase, learners);
    tcase_add_test(tcase, chains_that_tell_of_shapes);
    tcase_add_test(tcase, a_set_of_shapes);
    tcase_add_loop_test(tcase, each_is_listed_after_what_it_builds_on, 0, 2);
}

UNIT_MAIN("shapes", add_tests)
