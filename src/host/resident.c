/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host/resident.h"

#include "kube-nftd/base/alloc.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of a mapping that was never written, the file has every page. Relocations are all in segments
 * that are writable by their headers, even if they are protected afterwards. */
static int let_go(struct dl_phdr_info *object, size_t size, void *page_size)
{
    (void)size;
    uintptr_t mask = *(const uintptr_t *)page_size - 1;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W)
            continue;
        uintptr_t from = object->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
        from &= ~mask;
        madvise((void *)from, to - from, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
    }
    return 0;
}

void resident_let_go(void)
{
    uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    alloc_give_back();
    dl_iterate_phdr(let_go, &page_size);
}
