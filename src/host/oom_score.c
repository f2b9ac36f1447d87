/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host/oom_score.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_score(const char *path, int *score)
{
    FILE *file = fopen(path, "re");
    bool known = file && fscanf(file, "%d", score) == 1; // NOLINT(cert-err34-c)
    if (file)
        fclose(file);
    return known;
}

static bool write_score(const char *path, int score)
{
    FILE *file = fopen(path, "r+e");
    if (!file)
        return false;
    bool written = fprintf(file, "%d\n", score) > 0;
    return fclose(file) == 0 && written;
}

void oom_score_adjust(int desired, const char *root)
{
    char *path = xasprintf("%s/proc/self/oom_score_adj", root);
    int present = 0;
    bool known = read_score(path, &present);
    if ((!known || present != desired) && !write_score(path, desired)) {
        if (known && present < 0) /* a container's runtime or a unit lowered it */
            log_debug(2, "daemon", "%s stays at %d, %d cannot be set: %s", path, present, desired,
                      strerror(errno));
        else
            log_info("daemon", "%s stays as it is, %d cannot be set: %s", path, desired,
                     strerror(errno));
    }
    free(path);
}
