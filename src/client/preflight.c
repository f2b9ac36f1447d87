/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/client.h"

#include <stdlib.h>

static const struct column columns[] = {
    {"FAMILY", "{family}", ALWAYS, 0, 0},
    {"FEATURE", "{feature}", ALWAYS, 0, 0},
    {"KERNEL NEEDS", "{config}", ALWAYS, 18, 2},
    {"NEEDED FOR", "{purpose}", ALWAYS, 0, 1},
    {"RESULT", "[answer=ok?" VIEW_GOOD "][missing?" VIEW_BAD "]{answer}" VIEW_PLAIN, ALWAYS, 9, 0},
    {0}};

static const struct view view_features[] = {
    {"features", .columns = columns}, {"consequences", .title = "", .line = "{}"}, {0}};

static void add_feature(cJSON *features, cJSON *to, enum family family,
                        const struct preflight_result *result)
{
    char *answer = preflight_answer(result), *consequence = preflight_consequence(family, result);
    facts_add(facts_append(features), fact_text("family", family_name(family)),
              fact_text("feature", result->feature), fact_text("config", result->config),
              fact_text("purpose", result->purpose), fact_text("answer", answer),
              fact_flag("missing", consequence != NULL));
    if (consequence)
        facts_append_text(to, "%s", consequence);
    free(answer);
    free(consequence);
}

void preflight_print(const struct preflight *preflight, const struct view_style *style, FILE *out)
{
    cJSON *facts = cJSON_CreateObject(), *features = cJSON_AddArrayToObject(facts, "features"),
          *consequences = cJSON_AddArrayToObject(facts, "consequences");
    for (size_t i = 0; i < preflight->n; i++)
        add_feature(features, consequences, preflight->family, &preflight->results[i]);
    if (!consequences->child)
        facts_append_text(consequences, "%s: everything needed is available",
                          family_name(preflight->family));
    view_print(view_features, facts, style, out);
    cJSON_Delete(facts);
}
