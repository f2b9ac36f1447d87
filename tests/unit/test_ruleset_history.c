/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random histories of a table: service ports and frontends of all kinds, cluster IPs, hairpins and
 * ranges that change, frontends that move from one port to another, commits that fail in any way or
 * go in pieces, restarts, and other programs that meddle with it. Some reject elements of some
 * frontends and service ports, let sets and chains be full, for a while.
 * After each commit the kernel does what is wanted, of frontends that nothing of was rejected; once
 * nothing is left to be trimmed it holds as much as a table that was made just now.
 */
#include "unit.h"

#include "history.h"
#include "table_model.h"

#define FRONTENDS 12
#define PORTS 7
#define POOL 9 /* backends to choose from, 1 to 9 */
#define HISTORIES 8

static bool hairpins[POOL + 1];

/* What the kernel rejects now. */
static bool in_pieces;          /* the batches go */
static bool rejects;            /* histories with rejections */
static bool touched[FRONTENDS]; /* of these, so they may not be as wished */
static uint32_t begrudged[32];  /* numbers of service ports, likewise */
static size_t n_rejected_numbers;
static bool crowded; /* a set or the chains: that may hit anybody */

/* Another program damaged the table, or it is of a process with other flags. Whatever cannot be
 * read or sent is no reason. */
static bool may_be_replaced;

/* ---- telling ---- */

static bool needs(unsigned port, bool local)
{
    bool both[2];
    port_needs_of(port, &both[0], &both[1]);
    return both[local];
}

static bool exists(unsigned port)
{
    bool cluster, local;
    return port_needs_of(port, &cluster, &local);
}

static void tell_use(unsigned number)
{
    const struct frontend f = frontend(number);
    const bool in_use = desired.frontends[number].cluster_ip;
    if (ruleset_has_cluster_ip(ruleset, &f.address) != in_use)
        ruleset_use_cluster_ip(ruleset, &f.address, in_use);
}

/* A frontend is another one, and so may be the ports that it led to and leads to. */
static void tell_wish(unsigned number, unsigned port_before)
{
    const unsigned port = desired.frontends[number].port;
    if (exists(port))
        tell_port_of(port);
    if (port_before != port && below(2))
        tell_port_of(port_before);
    tell_frontend(number);
    tell_port_of(port_before);
}

/* ---- telling of differences ---- */

static void add_differences(backend_change_vec *changes, const char *before, const char *after,
                            enum backend_set set)
{
    for (char digit = '1'; digit <= '0' + POOL; digit++) {
        const bool had = strchr(before, digit), has = strchr(after, digit);
        struct backend_change change = {.backend = backend((unsigned)(digit - '0'))};
        change.before = had ? set : 0;
        change.after = has ? set : 0;
        vec_push(changes, change);
    }
}

static bool has_endpoints(const struct desired_port *port)
{
    return port->all[0] || port->here[0];
}

/* The backends of a service port were others before, and nothing else. */
static void tell_change(unsigned number, const struct desired_port *before)
{
    const struct desired_port *port = &desired.ports[number];
    backend_change_vec changes = {0};
    if (needs(number, false))
        add_differences(&changes, before->all, port->all, BACKENDS_CLUSTER);
    if (needs(number, true))
        add_differences(&changes, before->here, port->here, BACKENDS_LOCAL);
    backend_changes_sum(&changes);
    if (has_endpoints(before) != has_endpoints(port) ||
        !ruleset_change_port(ruleset, number + 1, &changes))
        tell_port_of(number);
    vec_free(&changes);
}

static void tell_hairpin(unsigned digit)
{
    struct backend b = backend(digit);
    ruleset_use_hairpin(ruleset, &b.address, hairpins[digit]);
}

static void tell_all(void)
{
    unsigned first = below(FRONTENDS);
    for (unsigned i = 0; i < PORTS; i++)
        if (exists((first + i) % PORTS))
            tell_port_of((first + i) % PORTS);
    for (unsigned i = 0; i < FRONTENDS; i++) {
        unsigned number = (first + i) % FRONTENDS;
        if (desired.frontends[number].wanted)
            tell_frontend(number);
        tell_use(number);
    }
    for (unsigned i = 1; i <= POOL; i++)
        if (hairpins[i])
            tell_hairpin(i);
    set_pod_cidrs(desired.pods);
    set_service_cidrs(desired.service_cidrs);
}

/* ---- wishing ---- */

static const char *random_ranges(void)
{
    static const char *const texts[] = {"",      "0-40",       "0-40 60-top", "10-19 50", "20-80",
                                        "0-top", "0-40 60-90", "12 48-49",    "60-top"};
    return texts[below(sizeof(texts) / sizeof(texts[0]))];
}

static void restrict_somehow(struct desired_frontend *f)
{
    f->restricted = f->external && below(2);
    if (f->restricted)
        spaced(random_ranges(), desired.ports[f->port].sources);
}

static void random_digits(char out[POOL + 1])
{
    unsigned odds = below(4), n = 0;
    for (unsigned i = 1; i <= POOL; i++)
        if (below(3) < odds)
            out[n++] = (char)('0' + i);
    out[n] = 0;
}

/* One digit more or less. */
static void toggle(char digits[POOL + 1])
{
    char digit = (char)('1' + below(POOL)), result[POOL + 2] = "";
    size_t n = 0;
    bool had = strchr(digits, digit) != NULL;
    for (const char *at = digits;; at++) {
        if (!had && (*at > digit || *at == 0)) {
            result[n++] = digit;
            had = true;
        }
        if (*at == 0)
            break;
        if (*at != digit)
            result[n++] = *at;
    }
    result[n] = 0;
    memcpy(digits, result, n + 1);
}

/* Who has backends on this node has some. */
static void make_sane(struct desired_port *port)
{
    if (port->all[0] == 0)
        port->here[0] = 0;
}

static void change_port(unsigned number)
{
    struct desired_port *port = &desired.ports[number];
    static const uint32_t timeouts[] = {0, 0, 100, 70000};
    random_digits(port->all);
    random_digits(port->here);
    port->timeout = timeouts[below(4)];
    port->stays = below(6) == 0;
    port->more_cluster = below(3) == 0;
    port->more_local = below(4) == 0;
    make_sane(port);
    tell_port_of(number);
    for (unsigned i = 0; i < FRONTENDS; i++) /* with affinity, or without */
        if (desired.frontends[i].wanted && desired.frontends[i].port == number)
            tell_frontend(i);
}

static void change_wish(unsigned number)
{
    struct desired_frontend *wish = &desired.frontends[number];
    const unsigned before = wish->port;
    wish->wanted = below(8) > 0;
    wish->external = below(2);
    wish->local = below(2);
    wish->port = below(4) ? number % PORTS : below(PORTS); /* most of the time the same */
    restrict_somehow(wish);
    tell_wish(number, before);
}

static void nudge_backends(unsigned number)
{
    struct desired_port *port = &desired.ports[number];
    const struct desired_port before = *port;
    for (unsigned n = 1 + below(3); n > 0; n--)
        toggle(below(3) ? port->all : port->here);
    if (below(12) == 0)
        random_digits(port->all);
    make_sane(port);
    tell_change(number, &before);
}

static void nudge_wish(unsigned number)
{
    struct desired_frontend *wish = &desired.frontends[number];
    const unsigned before = wish->port;
    if (wish->wanted && below(4)) {
        nudge_backends(wish->port);
        return;
    }
    switch (below(4)) {
    case 0:
        wish->local = !wish->local;
        break;
    case 1:
        wish->port = below(PORTS);
        break;
    case 2:
        restrict_somehow(wish);
        break;
    default:
        break;
    }
    wish->wanted = true;
    tell_wish(number, before);
}

static void change_contents(void)
{
    unsigned number = below(FRONTENDS), digit = 1 + below(POOL);
    switch (below(4)) {
    case 0:
        desired.frontends[number].cluster_ip = !desired.frontends[number].cluster_ip;
        tell_use(number);
        break;
    case 1:
        hairpins[digit] = !hairpins[digit];
        tell_hairpin(digit);
        break;
    case 2:
        want_pods(random_ranges());
        break;
    default:
        want_service_cidrs(random_ranges());
    }
}

/* ---- checking ---- */

static bool is_rejected_number(uint32_t number)
{
    for (size_t i = 0; i < n_rejected_numbers; i++)
        if (begrudged[i] == number)
            return true;
    return false;
}

/* Whether the frontend that has the count of a service port is rejected, and with it the port. */
static bool count_is_rejected(uint32_t port)
{
    for (unsigned i = 0; i < FRONTENDS; i++) {
        const struct frontend f = frontend(i);
        const uint32_t value = fake_kernel_classid("services", &f);
        if (touched[i] && value_is_counted(value) && port_of_value(value) == port)
            return true;
    }
    return false;
}

/* Whether something of a frontend, or of a service port that it leads or shall lead to, is
 * rejected.
 */
static bool may_be_rejected(unsigned number)
{
    const struct frontend f = frontend(number);
    const struct port_entry *port = ruleset_find_port(ruleset, desired.frontends[number].port + 1);
    const uint32_t leads = fake_kernel_port(&f);
    return crowded || touched[number] || is_rejected_number(leads) || count_is_rejected(leads) ||
           (port && (is_rejected_number(port->number) || count_is_rejected(port->number)));
}

/* A frontend has session affinity just like its service port, with numbers for its backends. */
static void check_affinity(unsigned number, const struct wish *wish)
{
    const struct frontend f = frontend(number);
    const uint32_t value = fake_kernel_classid("services", &f), port = port_of_value(value);
    struct backend to[POOL];
    ck_assert_int_eq((class_of_value(value) & CLASS_AFFINE) != 0,
                     wish->wanted && wish->timeout > 0);
    if (!(class_of_value(value) & CLASS_AFFINE))
        return;
    ck_assert_uint_eq(fake_kernel_number(family, "affinity_timeouts", port), wish->timeout);
    size_t n =
        wish->local ? fake_kernel_local_backends(&f, to, POOL) : fake_kernel_backends(&f, to, POOL);
    for (size_t i = 0; i < n; i++) {
        struct key key = {.length = 0};
        size_t length;
        key_put_number(&key, port);
        key_put_address(&key, family, &to[i].address);
        key_put_port(&key, to[i].port);
        const uint8_t *found =
            fake_kernel_value(family, "affinity_numbers", key.bytes, key.length, &length);
        ck_assert_ptr_nonnull(found);
        ck_assert(fake_kernel_value(family,
                                    wish->local ? "local_affinity_backends" : "affinity_backends",
                                    found, sizeof(uint32_t), &length));
    }
}

static bool grows(unsigned port)
{
    const struct port_entry *record = ruleset_find_port(ruleset, port + 1);
    return record && !record->entry.dirty && port_grows(record);
}

static void check_one(unsigned number)
{
    const struct wish wish = desired_wish(number);
    if (may_be_rejected(number))
        return;
    ck_assert_msg(goes(number, &wish), "%u", number);
    check_affinity(number, &wish);
}

/* Its service port has the first of its backends, and no others. */
static void check_growing(unsigned number)
{
    const struct wish wish = desired_wish(number);
    const struct world world = {.pods = desired.pods,
                                .service_cidrs = desired.service_cidrs,
                                .cluster_ip = desired.frontends[number].cluster_ip};
    const struct frontend to = frontend(number);
    const struct fake_client from = {.address = client(12)};
    if (may_be_rejected(number))
        return;
    const struct expectation expected = expect(&wish, &world, &to, &from);
    struct fake_route route = fake_kernel_route(&to, &from);
    char digits[MOST_BACKENDS + 1];
    ck_assert_int_eq(route.fate, expected.fate);
    for (const char *at = digits_of(&route, digits); *at; at++)
        ck_assert(strchr(expected.backends, *at));
    fake_route_free(&route);
    check_affinity(number, &wish);
}

/* After a commit that went through. */
static void check_each(void)
{
    for (unsigned i = 0; i < FRONTENDS; i++)
        if (grows(desired.frontends[i].port))
            check_growing(i);
        else if (below(4) == 0)
            check_one(i);
}

static void check_all(void)
{
    size_t wanted = 0;
    for (unsigned i = 0; i < FRONTENDS; i++) {
        check_one(i);
        wanted += desired.frontends[i].wanted;
    }
    ck_assert_uint_eq(ruleset_frontends(ruleset), wanted);
}

/* What a table of the other family holds that was made just now: as many elements. */
static struct sizes fresh_sizes(void)
{
    struct ruleset *kept = ruleset;
    family = (enum family)(1 - family);
    ruleset = new_ruleset();
    tell_all();
    commit();
    struct sizes sizes = sizes_now(family);
    ruleset_free(ruleset);
    fake_kernel_drop_table(family);
    ruleset = kept;
    family = (enum family)(1 - family);
    return sizes;
}

static void check_like_a_fresh_one(void)
{
    struct sizes fresh = fresh_sizes(), sizes = sizes_now(family);
    check_same_sizes(&sizes, &fresh);
}

/* ---- rejections ---- */

/* Of frontends with a high number only, and service ports that are there. */
static void reject_some(void)
{
    unsigned number = FRONTENDS * 2 / 3 + below(FRONTENDS / 3);
    struct frontend f = frontend(number);
    const uint32_t port = fake_kernel_port(&f);
    if (below(2)) {
        touched[number] = true;
        begrudge(&f);
    } else if (port && n_rejected_numbers < sizeof(begrudged) / sizeof(begrudged[0])) {
        begrudged[n_rejected_numbers++] = port;
        begrudge_port(port);
    }
}

static void calm_down(void)
{
    fake_kernel_accept();
    for (int turns = 0;
         try_commit(NULL) || ruleset_retry_time(ruleset) != 0 || ruleset_needs_commit(ruleset, now);
         turns++) {
        ck_assert(turns < 100 * FRONTENDS);
        now = now > ruleset_retry_time(ruleset) ? now : ruleset_retry_time(ruleset);
    }
    ck_assert_uint_eq(ruleset_stats(ruleset)->rejected, 0);
    memset(touched, 0, sizeof(touched));
    n_rejected_numbers = 0;
    crowded = false;
}

/* Of ranges that there may be, and one of the prefixes that they are made of. */
static struct key key_in_list(void)
{
    range_vec ranges = {0};
    cidr_vec prefixes = {0};
    ranges_of("0-40 60-top", &ranges);
    range_prefixes(family, &ranges.v[below(2)], &prefixes);
    struct key key = key_of_source(family, 1 + below(8), &prefixes.v[below((unsigned)prefixes.n)]);
    vec_free(&ranges);
    vec_free(&prefixes);
    return key;
}

/* Any service port may have a list with them. */
static void begrudge_sources(void)
{
    struct key key = key_in_list();
    fake_kernel_reject("allowed_sources", key.bytes, address_length(family), EINVAL);
    crowded = true;
}

static void reject_somehow(void)
{
    switch (below(7)) {
    case 0:
        crowded = crowd(family) || crowded;
        break;
    case 2:
        begrudge_sources();
        break;
    case 1:
        calm_down();
        break;
    default:
        reject_some();
    }
}

/* ---- committing ---- */

/* Commits with or without a fault. A fault may come too late for this commit. */
static void commit_somehow(unsigned odds)
{
    bool rejecting = rejects && below(3) > 0; /* just that: it goes through */
    if (!rejecting)
        fail_somehow(odds);
    int result = try_commit(NULL);
    ck_assert(!rejecting || crowded || in_pieces || result == 0);
    ck_assert(may_be_replaced || ruleset_stats(ruleset)->replaced == 0);
    if (result == 0 && !ruleset_is_filling(ruleset))
        check_each();
    else
        ck_assert(ruleset_needs_commit(ruleset, now));
    fail_no_more();
}

static void sync_somehow(void)
{
    calm_down();
    for (int turns = 0; try_commit(NULL) || ruleset_needs_commit(ruleset, now) || trim_time() != 0;
         turns++) {
        ck_assert_int_lt(turns, 1000);
        now += RULESET_TRIM_DELAY;
    }
    check_all();
}

/* ---- what somebody else may do to the table; found out by a restart at the latest ---- */

/* One that is there, or not. */
static uint32_t some_number(void)
{
    const struct frontend f = frontend(below(FRONTENDS));
    const uint32_t number = fake_kernel_port(&f);
    return number && below(3) ? number : (1 + below(2 * PORTS)) << PORT_LOW_BITS;
}

static struct key key_in(const char *set)
{
    struct frontend f = frontend(below(FRONTENDS + 2));
    struct backend b = backend(1 + below(POOL));
    struct key key = {.length = 0};
    uint32_t slot = below(POOL), number = some_number();
    if (strstr(set, "endpoints"))
        return key_of_slot(number, slot);
    if (strcmp(set, "allowed_sources") == 0)
        return key_in_list();
    if (strcmp(set, "cluster_ips") == 0) {
        key_put_address(&key, family, &f.address);
    } else if (strcmp(set, "hairpin") == 0) {
        key_put_address(&key, family, &b.address);
        key_put_address(&key, family, &b.address);
    } else {
        key_put_number(&key, strcmp(set, "dropped_ports") == 0 ? number | CLASS_LOCAL : number);
    }
    return key;
}

/* Takes an element away, or puts one there. */
static void meddle(const char *set, const struct key *value)
{
    size_t length;
    struct key key = key_in(set);
    if (fake_kernel_value(family, set, key.bytes, key.length, &length))
        fake_kernel_take(family, set, key.bytes, key.length);
    else
        fake_kernel_put(family, set, key.bytes, key.length, value->length ? value->bytes : NULL,
                        value->length);
}

static void damage(void)
{
    static const char *const sets[] = {"endpoints",       "local_endpoints", "affinity_timeouts",
                                       "rejected_ports",  "dropped_ports",   "source_lists",
                                       "allowed_sources", "cluster_ips",     "hairpin"};
    const char *set = sets[below(sizeof(sets) / sizeof(sets[0]))];
    const struct backend b = backend(1 + below(POOL));
    struct key value = {.length = 0};
    if (fake_kernel_size(family, set) == SIZE_MAX)
        return;
    if (below(8) == 0) {
        fake_kernel_drop_table(family);
        return;
    }
    if (strstr(set, "endpoints"))
        value = value_of_backend(family, &b);
    else if (strstr(set, "affinity"))
        key_put_number(&value, (1 + below(6)) << 16);
    else if (strcmp(set, "source_lists") == 0)
        key_put_number(&value, value_of_list(1 + below(6)));
    meddle(set, &value);
}

static void restart_somehow(void)
{
    may_be_replaced = may_be_replaced && !ruleset_knows_kernel(ruleset);
    if (below(4) == 0) {
        damage();
        may_be_replaced = true;
    }
    if (below(8) == 0) {
        config.detector = config.detector == DETECT_CIDRS ? DETECT_NONE : DETECT_CIDRS;
        may_be_replaced = true;
    }
    ruleset_free(ruleset);
    ruleset = new_ruleset();
    tell_all();
}

/* ---- histories ----
 *
 * A seed that fails (UNIT_SEED=N tests others) stays as a test: in a loop of its own here. */

/* The table is read in pieces, between which what is desired changes. */
static void read_some(void)
{
    static unsigned turns; /* not random, so that seeds stay what they are */
    struct error err = {0};
    enum adoption_result result = ADOPTION_GOES_ON;
    for (unsigned n = turns++ * 7 % 31; n > 0 && result == ADOPTION_GOES_ON; n--)
        result = ruleset_adopt(ruleset, sock, now, 0, &err);
    error_clear(&err);
}

static void step(void)
{
    if (!ruleset_knows_kernel(ruleset))
        read_some();
    switch (below(rejects ? 15 : 14)) {
    case 0:
        change_wish(below(FRONTENDS));
        break;
    case 1:
        change_port(below(PORTS));
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        nudge_wish(below(FRONTENDS));
        break;
    case 6:
        change_contents();
        break;
    case 7:
        now += RULESET_TRIM_DELAY * below(15) / 10;
        break;
    case 8:
        if (below(10) == 0)
            restart_somehow();
        break;
    case 9:
        if (below(10) == 0) {
            sync_somehow();
            check_like_a_fresh_one();
        }
        break;
    case 14:
        if (below(3) == 0)
            reject_somehow();
        break;
    default:
        if (trim_time() > now && below(3) == 0)
            now = trim_time();
        commit_somehow(12);
    }
}

static void begin_history(int which)
{
    memset(&desired, 0, sizeof(desired));
    desired.most = FRONTENDS;
    memset(hairpins, 0, sizeof(hairpins));
    seed = (unsigned)which;
    config.detector = which % 3 ? DETECT_CIDRS : DETECT_NONE;
    config.dump_most = (unsigned)which / 4 % 2;
    config.portion = (unsigned)which / 8 % 2 * 7;
    config.most_added = (unsigned)which % 5;
    memset(touched, 0, sizeof(touched));
    n_rejected_numbers = 0;
    crowded = may_be_replaced = false;
    in_pieces = which % 4 >= 2;
    fake_kernel_cut(in_pieces);
    begin(which % FAMILY_COUNT);
}

static void live_through(int which)
{
    begin_history(which);
    for (int i = 0, n = unit_steps(rejects ? 300 : 700); i < n; i++)
        step();
    sync_somehow();
    check_like_a_fresh_one();
    for (unsigned i = 0; i < FRONTENDS; i++) {
        desired.frontends[i].wanted = false;
        desired.frontends[i].cluster_ip = 0;
        tell_use(i);
        tell_wish(i, desired.frontends[i].port);
    }
    memset(desired.ports, 0, sizeof(desired.ports));
    for (unsigned i = 0; i < PORTS; i++)
        tell_port_of(i);
    sync_somehow();
    check_like_a_fresh_one();
    ck_assert_uint_eq(ruleset->frontends.n + ruleset->ports.n, 0);
}

TESTS(any_history, 2 * unit_histories(HISTORIES))
{
    rejects = _i >= unit_histories(HISTORIES);
    live_through(unit_seed(_i));
}

/* Chains that are sent ahead leave what somebody broke for the transaction behind them. Slots fall
 * out of use while their service port waits for a trim. */
TESTS(history_of_a_seed_that_failed, 2)
{
    static const int seeds[] = {1053, 1007};
    rejects = false;
    live_through(seeds[_i]);
}

UNIT_FIXTURE(setup, teardown)
