/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file is read for every request: requests are few, the file is small, and so nothing can be
 * missed that a look at its time stamp would miss. What it holds is looked at from outside only
 * (all blocks closed, one of the right kind), enough to tell a file that is being written.
 */
#include "kube-nftd/source/pem_file.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/small_file.h"

#include <stdlib.h>
#include <string.h>

/* The CAs of the whole web take a quarter of it. */
#define PEM_LIMIT ((size_t)1024 * 1024)

void pem_file_init(struct pem_file *pem, enum pem_kind kind, const char *what, const char *data,
                   const char *file)
{
    *pem = (struct pem_file){
        .kind = kind, .what = what, .file = data ? NULL : file, .text = xstrdup(data)};
}

static void forget(struct pem_file *pem)
{
    if (pem->text)
        explicit_bzero(pem->text, strlen(pem->text));
    free(pem->text);
    pem->text = NULL;
}

void pem_file_clear(struct pem_file *pem)
{
    forget(pem);
    *pem = (struct pem_file){0};
}

/* Where the next line that begins with @mark begins, or NULL. */
static const char *find_line(const char *text, const char *mark)
{
    const char *at = strstr(text, mark);
    while (at && at > text && at[-1] != '\n' && at[-1] != '\r')
        at = strstr(at + 1, mark);
    return at;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && memcmp(text + length - n, end, n) == 0;
}

/* Passes over the block that begins at *@at. Its label ("EC PRIVATE KEY") has *@length bytes. NULL
 * if the block does not end. */
static const char *take_block(const char **at, size_t *length)
{
    const char *label = *at + strlen("-----BEGIN ");
    *length = strcspn(label, "-\r\n");
    char *end_mark = xasprintf("-----END %.*s-----", (int)*length, label);
    const char *end = find_line(label, end_mark);
    const char *next = find_line(label, "-----BEGIN ");
    *at = end ? end + strlen(end_mark) : NULL;
    free(end_mark);
    return end && (!next || next > end) ? label : NULL;
}

static int check(enum pem_kind kind, const char *text, const char *source, struct error *err)
{
    const char *wanted = kind == PEM_KEY ? "PRIVATE KEY" : "CERTIFICATE";
    const char *at = find_line(text, "-----BEGIN ");
    bool found = false;
    for (; at; at = find_line(at, "-----BEGIN ")) {
        size_t length;
        const char *label = take_block(&at, &length);
        if (!label)
            return error_set(err, "%s is cut off: a PEM block does not end", source);
        found = found || ends_with(label, length, wanted);
    }
    if (!found)
        return error_set(err, "%s holds no %s in PEM form", source,
                         kind == PEM_KEY ? "private key" : "certificate");
    /* To ask for a pass phrase, OpenSSL would stop the daemon at a terminal. */
    if (kind == PEM_KEY && strstr(text, "ENCRYPTED"))
        return error_set(err, "%s is encrypted, and there is nobody to ask for a pass phrase",
                         source);
    return 0;
}

/* Replaces the text by what the file holds now, if that is good. */
static int refresh(struct pem_file *pem, struct error *err)
{
    char *fresh = small_file_read(pem->file, PEM_LIMIT, err);
    if (fresh && check(pem->kind, fresh, pem->file, err) == 0) {
        if (pem->text && strcmp(pem->text, fresh) != 0)
            log_info("apiserver", "the %s was replaced file=%s", pem->what, pem->file);
        forget(pem);
        pem->text = fresh;
        pem->stale = false;
        return 0;
    }
    free(fresh);
    if (!pem->text)
        return error_prefix(err, "no %s", pem->what);
    if (!pem->stale)
        log_warn("apiserver", "the last good %s is used on: %s", pem->what, err->text);
    pem->stale = true;
    error_clear(err);
    return 0;
}

int pem_file_get(struct pem_file *pem, const char **text, struct error *err)
{
    if (pem->file && refresh(pem, err) < 0)
        return -1;
    if (!pem->file && pem->text && check(pem->kind, pem->text, pem->what, err) < 0)
        return error_prefix(err, "kubeconfig");
    *text = pem->text;
    return 0;
}
