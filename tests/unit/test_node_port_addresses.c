/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which addresses node ports have: tests/unit/cases/node_port_addresses. */
#include "objects.h"
#include "script.h"

#include "node_info.h"

static address_vec host;

static void tear_down(void)
{
    vec_free(&host);
}

/* host ADDRESS...: all of one family, sorted. */
COMMAND(host)
{
    vec_free(&host);
    host = make_addresses(words);
}

/* select FAMILY own=ADDRESS, and "primary" or CIDRs. */
COMMAND(select)
{
    enum family family = *script_word(&words) == '4' ? FAMILY_IPV4 : FAMILY_IPV6, any;
    struct node_port_addresses setting = {.primary = false};
    struct node_port_selection selection;
    struct address own;
    bool known = false;
    for (char *word, *value; *(word = script_word(&words));) {
        known = known || script_option(word, "own", &value);
        if (strcmp(word, "primary") == 0) {
            setting.primary = true;
        } else if (script_option(word, "own", &value)) {
            own = make_address(value, &any);
        } else {
            const struct cidr cidr = make_cidr(word, &any);
            vec_push(&setting.cidrs[any], cidr);
        }
    }
    node_port_addresses_select(&setting, family, &host, known ? &own : NULL, &selection);
    fprintf(out, selection.all ? "all" : selection.addresses.n ? "" : "none");
    vec_each (&selection.addresses, address) {
        fprintf(out, selection.all || address > selection.addresses.v ? " " : "");
        write_address(out, family, address);
    }
    fprintf(out, "\n");
    vec_free(&selection.addresses);
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&setting.cidrs[i]);
}

/* localhost FAMILY CIDR: whether it has 127.0.0.1 or ::1 served. */
COMMAND(localhost)
{
    enum family family = *script_word(&words) == '4' ? FAMILY_IPV4 : FAMILY_IPV6, any;
    struct node_port_addresses setting = {.primary = true};
    const struct cidr cidr = make_cidr(script_word(&words), &any);
    vec_push(&setting.cidrs[any], cidr);
    fprintf(out, "%s\n", node_port_addresses_have_localhost(&setting, family) ? "yes" : "no");
    vec_free(&setting.cidrs[any]);
}

CASES("node_port_addresses")

UNIT_FIXTURE(NULL, tear_down)
