/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoint a connection to a loopback address goes to: tests/unit/cases/localhost_targets.
 * Endpoints are letters, but for those of many(). */
#include "script.h"
#include "unit.h"

#include "localhost/state.h"

static struct targets targets;
static struct target *target;

static void set_up(void)
{
    memset(&targets, 0, sizeof(targets));
    target = target_get(&targets, 7);
}

static void tear_down(void)
{
    target_free(&targets, target);
}

static struct backend backend_of(char letter)
{
    return (struct backend){.address = {{10, 0, 0, (uint8_t)letter}}, .port = 80};
}

/* set TIMEOUT LETTERS */
COMMAND(set)
{
    const uint32_t timeout = (uint32_t)strtoul(script_word(&words), NULL, 10);
    backend_vec backends = {0};
    (void)out;
    for (const char *letter = script_word(&words); *letter; letter++)
        vec_push(&backends, backend_of(*letter));
    target_set(target, backends, timeout);
}

static int compare_letters(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

/* change +a -b ...: prints the endpoints then. */
COMMAND(change)
{
    backend_change_vec changes = {0};
    VEC(char) letters = {0};
    for (const char *word; *(word = script_word(&words));)
        vec_push(&changes,
                 (struct backend_change){backend_of(word[1]), *word == '-', *word == '+'});
    backend_changes_sum(&changes);
    target_change(target, &changes);
    vec_each (&target->backends, it)
        vec_push(&letters, (char)it->address.bytes[3]);
    if (letters.n)
        qsort(letters.v, letters.n, 1, compare_letters);
    fprintf(out, "%.*s\n", (int)letters.n, letters.n ? letters.v : "");
    vec_free(&changes);
    vec_free(&letters);
}

/* pick TIME [FAILED]: what 200 connections at that time get, each of which had FAILED before. */
COMMAND(pick)
{
    const double now = strtod(script_word(&words), NULL);
    const char letter = *script_word(&words);
    const struct backend failed = backend_of(letter);
    bool seen[UINT8_MAX + 1] = {false}, none = false;
    for (int i = 0; i < 200; i++) {
        struct backend picked;
        if (target_pick(&targets, target, letter ? &failed : NULL, now, &picked))
            seen[picked.address.bytes[3]] = true;
        else
            none = true;
    }
    fputs(none ? "none" : "", out);
    for (size_t i = 0; i <= UINT8_MAX; i++)
        if (seen[i])
            fputc((int)i, out);
    fputc('\n', out);
}

CASES("localhost_targets")

/* As many changes as endpoints take as many steps as one change, not their product. */
TEST(many)
{
    enum { MANY = 30000 };
    backend_vec backends = {0};
    backend_change_vec changes = {0};
    for (unsigned i = 0; i < MANY; i++) {
        const struct backend backend = {.address = {{10, 0, (uint8_t)(i >> 8), (uint8_t)i}},
                                        .port = 80};
        vec_push(&backends, backend);
        vec_push(&changes, (struct backend_change){backend, BACKENDS_CLUSTER, 0});
    }
    target_set(target, backends, 0);
    const double begun = clock_cpu();
    target_change(target, &changes);
    ck_assert_uint_eq(target->backends.n, 0);
    ck_assert_double_lt(clock_cpu() - begun, 1); /* the product takes several seconds */
    vec_free(&changes);
}

UNIT_FIXTURE(set_up, tear_down)
