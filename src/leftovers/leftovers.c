/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/leftovers/leftovers.h"

#include "kinds.h"
#include "kube-nftd/base/alloc.h"

#include <stdlib.h>

void leftovers_say(struct leftovers_report *report, enum fate fate, const char *format, ...)
{
    static const char *const words[] = {[FATE_REMOVED] = "removed",
                                        [FATE_STAYS] = "left",
                                        [FATE_OTHERS] = "not kube-proxy's",
                                        [FATE_WARNING] = "warning"};
    bool planned = fate == FATE_REMOVED && report->dry_run;
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fprintf(report->out, "%s: %s\n", planned ? "would remove" : words[fate], text);
    free(text);
    report->removed += fate == FATE_REMOVED;
    report->left += fate == FATE_STAYS;
}

static int remove_from_nf_tables(struct nft_socket *socket, struct leftovers_report *report,
                                 struct error *err)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (leftovers_remove_table(socket, (enum family)family, report, err))
            return -1;
    for (int family = 0; family < FAMILY_COUNT; family++)
        leftovers_remove_chains(socket, (enum family)family, report);
    return 0;
}

int leftovers_remove(bool dry_run, FILE *out, struct error *err)
{
    struct leftovers_report report = {.out = out, .dry_run = dry_run};
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    int result = remove_from_nf_tables(socket, &report, err);
    nft_socket_close(socket);
    if (result)
        return -1; /* most likely CAP_NET_ADMIN is missing: nothing else would work either */
    for (int family = 0; family < FAMILY_COUNT; family++)
        leftovers_report_legacy((enum family)family, &report);
    if (leftovers_remove_ipvs(&report))
        leftovers_remove_ip_sets(&report); /* after the rules that name them */
    if (report.removed + report.left == 0)
        fprintf(out, "nothing of kube-proxy was found\n");
    fflush(out);
    if (report.left > 0)
        return error_set(err, "not everything of kube-proxy can be removed (lines 'left': %zu)",
                         report.left);
    return 0;
}
