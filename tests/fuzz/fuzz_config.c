/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes are a configuration or refused; what is taken reads the same when it is written down.
 */
#include "config/setting.h"
#include "kube-nftd/values.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The configuration in force, or NULL. */
static cJSON *read_all(const char *text, size_t length, struct error *err)
{
    struct configuration configuration;
    struct options options = {0};
    cJSON *tree = NULL;
    configuration_init(&configuration, &options.notes);
    if (configuration_read(&configuration, "fuzz", text, length, err) == 0 &&
        configuration_complete(&configuration, err) == 0) {
        tree = configuration_tree(&configuration);
        configuration_store(&configuration, &options);
    }
    options_clear(&options);
    configuration_clear(&configuration);
    return tree;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    cJSON *first = read_all((const char *)data, size, &err), *second;
    if ((first == NULL) != (err.text != NULL))
        abort();
    if (first) {
        char *text;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        if (yaml_write(out, first, &err))
            abort();
        fclose(out);
        second = read_all(text, length, &err);
        if (!second || !cJSON_Compare(first, second, true))
            abort();
        cJSON_Delete(second);
        free(text);
    }
    cJSON_Delete(first);
    error_clear(&err);
    return 0;
}
