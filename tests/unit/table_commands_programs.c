/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of cases about a table: what other programs do to it, and what is found of that. */
#include "table_commands.h"

#include "table/audit.h"

#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

static void put_element(char *words, bool take_first, bool put)
{
    const char *set = script_word(&words);
    const struct key key = next_key(&words), value = next_key(&words);
    if (take_first)
        fake_kernel_take(family, set, key.bytes, key.length);
    if (put)
        fake_kernel_put(family, set, key.bytes, key.length, value.length ? value.bytes : NULL,
                        value.length);
}

COMMAND(put)
{
    put_element(words, false, true);
}

COMMAND(take)
{
    put_element(words, true, false);
}

COMMAND(replace)
{
    put_element(words, true, true);
}

/* The end of a range, which is the first address behind it. */
COMMAND(put_end)
{
    const char *set = script_word(&words);
    const struct key key = next_key(&words);
    fake_kernel_put_end(family, set, key.bytes, key.length);
}

/* "suspect rules|all", "suspect SET KEY [times=N]" */
COMMAND(suspect)
{
    char *times = "1";
    const char *set = script_word(&words);
    if (strcmp(set, "rules") == 0)
        ruleset_recheck_rules(ruleset);
    else if (strcmp(set, "all") == 0)
        ruleset_recheck_all(ruleset);
    const struct key key = next_key(&words);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    script_option(words, "times", &times);
    for (int n = atoi(times); key.length && n > 0; n--)
        ruleset_recheck_element(ruleset, set, &element);
}

/* What of that is done behind "seen" is seen as well. */
COMMAND(seen)
{
    const char *what = script_word(&words);
    char *element = xstrdup(words);
    put_element(element, strcmp(what, "put") != 0, strcmp(what, "take") != 0);
    run_suspect(words, out);
    free(element);
}

COMMAND(redirect)
{
    const char *map = script_word(&words);
    const unsigned key = script_number(&words, 0);
    fake_kernel_lead(family, map, key, script_word(&words));
}

COMMAND(flush)
{
    fake_kernel_flush_chain(family, words);
}

COMMAND(copy_rule)
{
    const char *from = script_word(&words);
    fake_kernel_copy_rule(family, from, script_word(&words));
}

COMMAND(change_operand)
{
    const unsigned rule = script_number(&words, 0);
    free(fake_kernel_change_operand(family, rule, script_number(&words, 0)));
}

/* "put-chain NAME [output|policy]": one of a hook; or the policy of what is there is to drop. */
COMMAND(put_chain)
{
    const char *name = script_word(&words);
    const int hook = strcmp(words, "output") == 0 ? NF_INET_LOCAL_OUT : -1;
    fake_kernel_put_chain(family, name, strcmp(words, "policy") == 0 ? 0 : hook, *words != '\0');
}

COMMAND(drop_chain)
{
    fake_kernel_drop_chain(family, words);
}

COMMAND(drop_set)
{
    fake_kernel_drop_set(family, words);
}

COMMAND(drop_table)
{
    fake_kernel_drop_table(family);
}

COMMAND(comment)
{
    fake_kernel_set_comment(family, *words ? words : NULL);
}

/* "declare SET WHAT NUMBER": by another program. */
COMMAND(declare)
{
    static const struct {
        const char *name;
        uint16_t attribute;
        size_t length;
    } all[] = {{"size", NFTNL_SET_DESC_SIZE, 4},     {"flags", NFTNL_SET_FLAGS, 4},
               {"policy", NFTNL_SET_POLICY, 4},      {"key-type", NFTNL_SET_KEY_TYPE, 4},
               {"key-length", NFTNL_SET_KEY_LEN, 4}, {"value-type", NFTNL_SET_DATA_TYPE, 4},
               {"timeout", NFTNL_SET_TIMEOUT, 8},    {"gc-interval", NFTNL_SET_GC_INTERVAL, 4},
               {"user-data", NFTNL_SET_USERDATA, 8}};
    const char *set = script_word(&words), *what = script_word(&words);
    const uint32_t number = (uint32_t)atoi(words);
    const uint64_t wide = number;
    size_t i = 0;
    while (strcmp(what, all[i].name) != 0)
        ck_assert_uint_lt(++i, COUNT(all));
    fake_kernel_declare(family, set, all[i].attribute,
                        all[i].length == sizeof(wide) ? (const void *)&wide : &number,
                        all[i].length);
}

COMMAND(dormant)
{
    fake_kernel_set_flags(family, NFT_TABLE_DORMANT);
}

COMMAND(owner)
{
    fake_kernel_set_owner(family,
                          strcmp(words, "none") == 0 ? FAKE_OWNER_NONE : FAKE_OWNER_ELSEWHERE);
}

/* ---- what is found ---- */

/* How much there is to put right, of what was noted; what was sent at once. */
COMMAND(look)
{
    fake_kernel_forget_counts();
    const size_t n = ruleset_recheck(ruleset, sock).differences;
    fprintf(out, "%zu%s", n, ruleset_knows_kernel(ruleset) ? "" : ", all is read back");
    if (fake_kernel_counts()->transactions > 0) {
        fputs(", ", out);
        write_sent(out);
    }
    fputc('\n', out);
    ck_assert_uint_eq(ruleset_recheck(ruleset, sock).differences, 0);
}

/* All of it. */
COMMAND(audit)
{
    fputs(audit_table() ? "suspects\n" : "", out);
}

/* Pieces of that: "audit-begin SET N" reads the first @N elements of SET, "audit-end" the rest. */
static struct audit audit;
static double audit_due;

static void audit_piece(void)
{
    bool found = false;
    audit_due = audit_step(&audit, ruleset, sock, 1, audit_due, &found);
}

COMMAND(audit_begin)
{
    const enum table_set set = set_of_name(script_word(&words));
    audit = (struct audit){.due = 0};
    audit_due = now;
    fake_kernel_dump_in_pieces(script_number(&words, 1));
    while (audit.walk.set != set || audit.walk.dumped == 0)
        audit_piece();
}

COMMAND(audit_end)
{
    while (audit.ended == 0)
        audit_piece();
    fake_kernel_dump_in_pieces(0);
    fputs(ruleset_has_rechecks(ruleset) ? "suspects\n" : "", out);
}
