/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/reload.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/manifests.h"

/* The configuration without what counts at once. The caller frees it. */
static cJSON *lasting_part(const struct options *options)
{
    cJSON *tree = cJSON_Duplicate(options->configuration, true);
    cJSON_DeleteItemFromObjectCaseSensitive(tree, "logging");
    return tree;
}

static bool needs_restart(const struct options *before, const struct options *after)
{
    cJSON *a = lasting_part(before), *b = lasting_part(after);
    bool same = cJSON_Compare(a, b, true);
    cJSON_Delete(a);
    cJSON_Delete(b);
    return !same;
}

/* What became of the file of --config, for the line. The flags beside it are the same as ever. */
static const char *reload_config(const struct options *options)
{
    struct options now;
    struct error err = {0};
    if (!options->config)
        return "";
    if (options_parse(options->argc, options->argv, &now, &err)) {
        log_error("config", "%s; the previous configuration stays in use", err.text);
        error_clear(&err);
        return "; the previous --config stays in use";
    }
    bool restart = needs_restart(options, &now);
    log_set_verbosity(now.verbosity);
    log_set_json(now.log_format == LOG_FORMAT_JSON);
    options_clear(&now);
    return restart ? "; log settings of --config are applied, its other changes need a restart"
                   : "; log settings of --config are applied";
}

static const char *reload_manifests(struct manifests *manifests)
{
    struct error err = {0};
    if (!manifests)
        return "credentials are read for each request";
    if (manifests_look_again(manifests, &err) == 0)
        return "manifests were compared";
    log_error("manifests", "%s; its previous objects stay active", err.text);
    error_clear(&err);
    return "manifests were not compared";
}

void reload(const struct options *options, struct manifests *manifests)
{
    const char *source = reload_manifests(manifests), *config = reload_config(options);
    log_info("daemon", "signal=Hangup: %s%s", source, config);
}
