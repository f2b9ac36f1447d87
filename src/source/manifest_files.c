/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "manifest_files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* Whether a file of a folder is read. */
static bool is_manifest(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && name[0] != '.' &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
}

static int filter(const struct dirent *entry)
{
    return is_manifest(entry->d_name);
}

bool manifest_files_follow(const struct manifest_files *files, const char *name)
{
    if (!files->single)
        return is_manifest(name);
    const char *slash = strrchr(files->single, '/');
    return strcmp(slash ? slash + 1 : files->single, name) == 0;
}

struct followed_file *manifest_files_get(struct manifest_files *files, const char *name)
{
    char *path = files->single ? xstrdup(files->single) : xasprintf("%s/%s", files->folder, name);
    size_t low = 0, high = files->list.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(files->list.v[middle]->definer.path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < files->list.n && strcmp(files->list.v[low]->definer.path, path) == 0) {
        free(path);
        return files->list.v[low];
    }
    struct followed_file *file = xcalloc(1, sizeof(*file));
    file->definer.path = path;
    vec_push(&files->list, file);
    memmove(&files->list.v[low + 1], &files->list.v[low], (files->list.n - 1 - low) * sizeof(file));
    files->list.v[low] = file;
    return file;
}

void manifest_files_mark(struct manifest_files *files, bool changed)
{
    vec_each (&files->list, file)
        (*file)->changed = changed;
}

const struct followed_file *manifest_files_last_changed(const struct manifest_files *files)
{
    for (size_t i = files->list.n; i > 0; i--)
        if (files->list.v[i - 1]->changed)
            return files->list.v[i - 1];
    return NULL;
}

bool leads_nowhere(const char *path)
{
    struct stat status;
    return stat(path, &status) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

int manifest_files_compare(struct manifest_files *files, bool filling, struct error *err)
{
    struct dirent **entries = NULL;
    int n = files->single ? 1 : scandir(files->folder, &entries, filter, alphasort);
    if (n < 0)
        return error_set(err, "%s: %s", files->folder, strerror(errno));
    if (n > 0 || !filling)
        manifest_files_mark(files, true); /* gone unless found below */
    for (int i = 0; i < n; i++) {
        struct stat status;
        struct followed_file *file = manifest_files_get(files, entries ? entries[i]->d_name : NULL);
        file->changed = stat(file->definer.path, &status) ? leads_nowhere(file->definer.path)
                                                          : !file_is_same(&status, &file->status);
        if (entries)
            free(entries[i]);
    }
    free(entries);
    return n;
}

void manifest_files_compare_links(struct manifest_files *files, bool patient)
{
    vec_each (&files->list, it) {
        struct followed_file *file = *it;
        struct stat status;
        if (!file->is_link || file->changed)
            continue;
        if (stat(file->definer.path, &status)) {
            file->changed = leads_nowhere(file->definer.path);
        } else {
            bool stable = !patient || file_is_same(&status, &file->polled);
            file->changed = stable && !file_is_same(&status, &file->status);
            file->polled = status;
        }
    }
}

static void file_free(struct followed_file *file)
{
    definer_forget(&file->definer);
    free(file->problem);
    free(file->definer.path);
    free(file);
}

void manifest_files_drop_gone(struct manifest_files *files)
{
    size_t kept = 0;
    vec_each (&files->list, file) {
        if ((*file)->gone)
            file_free(*file);
        else
            files->list.v[kept++] = *file;
    }
    files->list.n = kept;
}

void manifest_files_clear(struct manifest_files *files)
{
    vec_each (&files->list, file)
        file_free(*file);
    vec_free(&files->list);
    free(files->single);
}
