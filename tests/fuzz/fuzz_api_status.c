/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whatever comes with an error, there is something to say about it, and a time to wait that makes
 * sense or none. */
#include "kube-nftd/base.h"
#include "source/api_protocol.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void check(long code, const char *body, size_t length)
{
    static const struct api_resource resource = {"", "endpointslices", "discovery.k8s.io",
                                                 "discovery.k8s.io/v1"};
    struct api_status status;
    api_status_from_answer(code, body, length, -1, &status);
    expect(status.message && !strpbrk(status.message, "\r\n"));
    expect(status.retry_after == -1 || (status.retry_after >= 0 && status.retry_after <= 1e6));
    api_status_lacks_right(&status);
    char *text = api_status_explain(&status, "list", &resource);
    expect(text && *text);
    free(text);
    api_status_clear(&status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const long codes[] = {400, 401, 403, 404, 409, 410, 422, 429, 500, 504};
    char *body = xcalloc(size + 1, 1);
    if (size > 0)
        memcpy(body, data, size);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        check(codes[i], body, size);
    free(body);
    return 0;
}
