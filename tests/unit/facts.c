/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "facts.h"

static void facts_forget(struct facts *facts, size_t i)
{
    free(facts->all.v[i].about);
    free(facts->all.v[i].what);
    facts->all.n--;
    memmove(&facts->all.v[i], &facts->all.v[i + 1], (facts->all.n - i) * sizeof(*facts->all.v));
}

bool facts_set(struct facts *facts, char *about, char *what)
{
    size_t i = 0;
    while (i < facts->all.n && strcmp(facts->all.v[i].about, about) < 0)
        i++;
    bool known = i < facts->all.n && strcmp(facts->all.v[i].about, about) == 0;
    if (known)
        facts_forget(facts, i);
    if (!what) {
        free(about);
        return known;
    }
    vec_push(&facts->all, (struct known_fact){NULL, NULL});
    memmove(&facts->all.v[i + 1], &facts->all.v[i], (facts->all.n - 1 - i) * sizeof(*facts->all.v));
    facts->all.v[i] = (struct known_fact){about, what};
    return known;
}

void facts_clear(struct facts *facts)
{
    while (facts->all.n > 0)
        facts_forget(facts, facts->all.n - 1);
    vec_free(&facts->all);
}

void facts_write(FILE *out, const struct facts *facts)
{
    vec_each (&facts->all, it)
        fprintf(out, "%s: %s\n", it->about, it->what);
}

void check_same_text(const char *what, const char *has, const char *wanted)
{
    if (strcmp(has, wanted) == 0)
        return;
    for (size_t line = strcspn(has, "\n"); *has && strncmp(has, wanted, line + 1) == 0;
         line = strcspn(has, "\n")) {
        has += line + 1;
        wanted += line + 1;
    }
    ck_abort_msg("%s: '%.*s', not '%.*s'", what, (int)strcspn(has, "\n"), has,
                 (int)strcspn(wanted, "\n"), wanted);
}
