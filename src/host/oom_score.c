/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host/oom_score.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *path, int value)
{
    FILE *file = fopen(path, "re");
    int found;
    bool same = file && fscanf(file, "%d", &found) == 1 && found == value; // NOLINT(cert-err34-c)
    if (file)
        fclose(file);
    return same;
}

static bool set(const char *path, int value)
{
    FILE *file = fopen(path, "r+e");
    if (!file)
        return false;
    bool written = fprintf(file, "%d\n", value) > 0;
    return fclose(file) == 0 && written;
}

void oom_score_adjust(int value, const char *root)
{
    char *path = xasprintf("%s/proc/self/oom_score_adj", root);
    if (!is_set(path, value) && !set(path, value))
        log_info("daemon", "%s stays as it is, %d cannot be set: %s", path, value, strerror(errno));
    free(path);
}
