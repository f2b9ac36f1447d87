/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes are a kubeconfig that says how to reach a server, or refused with nothing left. */
#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* Credentials go to nobody who does not prove who they are. */
static void check(const struct client_config *config)
{
    bool secure = config->server && strncmp(config->server, "https://", 8) == 0;
    expect(secure || (config->server && strncmp(config->server, "http://", 7) == 0));
    expect(config->server[strlen(config->server) - 1] != '/');
    expect(secure ||
           !(config->token || config->token_file || config->client_cert_file ||
             config->client_cert_data || config->client_key_file || config->client_key_data));
}

/* A file without a name in any folder. */
static char *file_of(const uint8_t *data, size_t size, int *fd)
{
    *fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    expect(*fd >= 0 && write(*fd, data, size) == (ssize_t)size);
    return xasprintf("/proc/self/fd/%d", *fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const masters[] = {NULL, "https://[2001:db8::1]:6443/", "192.0.2.1"};
    static const struct client_config nothing;
    log_set_sink(drop_line, NULL);
    int fd;
    char *path = file_of(data, size, &fd);
    for (size_t i = 0; i < sizeof(masters) / sizeof(masters[0]); i++) {
        struct client_config config;
        struct error err = {0};
        int result = client_config_load(path, masters[i], "/proc/self/fdinfo", &config, &err);
        expect((result == 0) == (err.text == NULL));
        if (result == 0)
            check(&config);
        else
            expect(memcmp(&config, &nothing, sizeof(config)) == 0);
        client_config_clear(&config);
        error_clear(&err);
    }
    free(path);
    close(fd);
    return 0;
}
