/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "history.h"

unsigned seed;

unsigned below(unsigned n)
{
    return (unsigned)rand_r(&seed) % n;
}

/* In place of libc's: the numbers that session affinity begins with are the same in every run too.
 */
uint32_t arc4random(void)
{
    static unsigned state;
    state = state ? state : seed;
    return (uint32_t)rand_r(&state);
}

void fail_somehow(unsigned odds)
{
    static const enum fake_fault rejections[] = {FAKE_REJECTS, FAKE_BUSY, FAKE_OUT_OF_MEMORY,
                                                 FAKE_NO_BUFFERS};
    static const int whys[] = {EINTR, ENOBUFS, ENOMEM};
    /* One random number a statement: compilers choose the order of arguments. */
    unsigned nth = 1 + below(24), n = 1 + below(5), kind = below(2), torn = below(24);
    if (below(odds) == 0)
        fake_kernel_fail((nth + 5) / 6, kind ? rejections[n % 4] : FAKE_LOSES_ANSWER);
    if (below(odds) == 0)
        fake_kernel_fail_reads(nth, n, kind, whys[(nth + n) % 3]);
    if (below(odds) == 0)
        fake_kernel_tear_reads(1, torn);
}

bool fail_no_more(void)
{
    fake_kernel_tear_reads(1, 0);
    return fake_kernel_spare();
}

void begrudge(const struct frontend *frontend)
{
    static const int whys[] = {EINVAL, ENOSPC, EOVERFLOW, E2BIG};
    fake_kernel_reject_frontend("services", frontend, ONE_OF(whys));
    if (below(2))
        fake_kernel_reject("cluster_ips", frontend->address.bytes,
                           address_length((enum family)frontend->family), EINVAL);
}

void begrudge_port(uint32_t number)
{
    static const char *const sets[] = {
        "ports",        "endpoints", "local_ports", "rejected_ports", "affinity_numbers",
        "source_lists", NULL};
    static const int whys[] = {EINVAL, ENOSPC, EOVERFLOW, E2BIG};
    const char *set = ONE_OF(sets);
    fake_kernel_reject(set, &number, sizeof(number), ONE_OF(whys));
}

bool crowd(enum family family)
{
    static const char *const sets[] = {
        "services", "ports", "endpoints", "local_endpoints", "affinity_numbers", "rejected_ports"};
    const char *set = ONE_OF(sets);
    size_t size = fake_kernel_size(family, set);
    if (size == SIZE_MAX)
        return false;
    fake_kernel_limit(set, size + below(3));
    if (below(3) == 0)
        fake_kernel_reject_chain("pick-3", ENOSPC);
    return true;
}
