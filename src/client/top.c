/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "top.h"

#include "ask.h"
#include "views.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Seconds between two readings. */
#define TOP_PERIOD 1.0

struct row {
    char *name; /* "NAMESPACE/SERVICE", or an endpoint "IP:PORT" */
    uint64_t total;
    double rate; /* per second */
};

/* Starts zeroed. */
struct table {
    double at; /* time of the totals, in seconds */
    VEC(struct row) rows;
};

static void clear(struct table *table)
{
    vec_each (&table->rows, row)
        free(row->name);
    vec_free(&table->rows);
    table->at = 0;
}

/* ---- reading ---- */

static double number_at(const cJSON *object, const char *key)
{
    double number = cJSON_GetNumberValue(facts_at(object, key));
    return isnan(number) ? 0 : number;
}

/* Takes @name. */
static void add_row(struct table *table, char *name, const cJSON *item)
{
    vec_push(&table->rows, (struct row){name, (uint64_t)number_at(item, "connections"), 0});
}

static int read_services(const char *bind, struct table *table, struct error *err)
{
    const cJSON *item;
    cJSON *answer =
        ask_daemon(bind, CONNECTIONS_KIND, "/connections", ASK_QUERY({NULL}), NULL, err);
    if (!answer)
        return -1;
    table->at = number_at(answer, "countedAt");
    cJSON_ArrayForEach (item, facts_at(answer, "items"))
        add_row(table,
                xasprintf("%s/%s", facts_text_at(item, "namespace"), facts_text_at(item, "name")),
                item);
    cJSON_Delete(answer);
    return table->at > 0
               ? 0
               : error_set(err, "the daemon does not count connections: --count-connections");
}

/* An endpoint of several ports gets a row for each. */
static int read_endpoints(const char *bind, const char *service, struct table *table,
                          struct error *err)
{
    const cJSON *port, *item;
    cJSON *answer = ask_daemon(bind, EXPLAIN_KIND, "/explain",
                               ASK_QUERY({"what", service}, {"all", "true"}), NULL, err);
    if (!answer)
        return -1;
    table->at = clock_monotonic();
    cJSON_ArrayForEach (port, facts_at(facts_at(answer, "service"), "ports"))
        cJSON_ArrayForEach (item, facts_at(facts_at(port, "endpoints"), "items"))
            if (facts_at(item, "connections"))
                add_row(table, xstrdup(facts_text_at(item, "endpoint")), item);
    bool found = cJSON_IsObject(facts_at(answer, "service"));
    cJSON_Delete(answer);
    if (table->rows.n)
        return 0;
    return found ? error_set(err,
                             "%s has no endpoints, or the daemon does not count for them: "
                             "--count-connections endpoints",
                             service)
                 : error_set(err, "no such Service: %s", service);
}

/* ---- order ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int compare_totals(const void *a, const void *b)
{
    const struct row *p = a, *q = b;
    int order = (p->total < q->total) - (p->total > q->total);
    return order ? order : compare_names(a, b);
}

static int compare_rates(const void *a, const void *b)
{
    const struct row *p = a, *q = b;
    int order = (p->rate < q->rate) - (p->rate > q->rate);
    return order ? order : compare_totals(a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *, const void *);
} orders[] = {
    {"new connections", compare_rates}, {"total", compare_totals}, {"name", compare_names}};

#define ORDERS (sizeof(orders) / sizeof(orders[0]))

static void sort(struct table *table, int (*compare)(const void *, const void *))
{
    if (table->rows.n > 1)
        qsort(table->rows.v, table->rows.n, sizeof(*table->rows.v), compare);
}

/* Replaces @table by a new reading of all Services (@service NULL), or of the endpoints of one.
 * Rates cover the time since the previous reading, or are kept if no time has passed. Totals of new
 * rows, and of those that decreased, count from 0. */
static int read_table(const char *bind, const char *service, struct table *table, struct error *err)
{
    struct table before = *table;
    *table = (struct table){0};
    int result =
        service ? read_endpoints(bind, service, table, err) : read_services(bind, table, err);
    double seconds = table->at - before.at;
    sort(&before, compare_names);
    vec_each (&table->rows, row) {
        const struct row *was =
            before.rows.n ? bsearch(row, before.rows.v, before.rows.n, sizeof(*row), compare_names)
                          : NULL;
        uint64_t total = was && was->total <= row->total ? was->total : 0;
        if (before.at > 0 && seconds > 0)
            row->rate = (double)(row->total - total) / seconds;
        else if (was)
            row->rate = was->rate;
    }
    clear(&before);
    return result;
}

/* Up to @n rows from @first on, as "items" with name, connections and perSecond. */
static cJSON *facts_of(const struct table *table, size_t first, size_t n)
{
    cJSON *facts = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(facts, "items");
    for (size_t i = first; i < table->rows.n && i - first < n; i++) {
        const struct row *row = &table->rows.v[i];
        facts_add(facts_append(items), fact_text("name", row->name),
                  fact_number("connections", (double)row->total),
                  fact_number("perSecond", round(row->rate * 10) / 10));
    }
    return facts;
}

cJSON *top_once(const struct options *options, struct error *err)
{
    const char *bind = options->metrics_bind_address;
    struct table table = {0};
    cJSON *facts = NULL;
    if (read_table(bind, options->subject, &table, err) == 0 &&
        nanosleep(&(struct timespec){.tv_sec = (time_t)TOP_PERIOD}, NULL) == 0 &&
        read_table(bind, options->subject, &table, err) == 0) {
        sort(&table, compare_rates);
        facts = facts_of(&table, 0, table.rows.n);
        facts_add(facts, fact_text("kind", "KubeNftdTop"), fact_number("schema", 1));
    }
    clear(&table);
    return facts;
}

/* ---- the terminal ---- */

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
    (void)number;
    ending = true;
}

/* Signals end the loop, so that the terminal is restored. */
static void take_terminal(struct termios *before)
{
    struct sigaction action = {.sa_handler = on_signal};
    tcgetattr(STDIN_FILENO, before);
    struct termios raw = *before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    fputs("\033[?1049h\033[?25l", stdout);
}

static void give_back_terminal(const struct termios *before)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, before);
}

/* Returns 0 after @milliseconds without input. */
static char read_byte(int milliseconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte = 0;
    if (poll(&input, 1, milliseconds) <= 0)
        return 0;
    if (read(STDIN_FILENO, &byte, 1) <= 0)
        ending = true; /* the terminal is gone */
    return byte;
}

#define KEY_ESCAPE '\033'
/* Escape is a key of its own, not the start of a sequence, if nothing follows within this time. */
#define ESCAPE_MILLISECONDS 25

/* Returns a key, with arrows mapped to 'j' and 'k'; 0: none known within @milliseconds. */
static char read_key(int milliseconds)
{
    char key = read_byte(milliseconds), byte;
    if (key != KEY_ESCAPE || (byte = read_byte(ESCAPE_MILLISECONDS)) == 0)
        return key;
    byte = byte == '[' || byte == 'O' ? read_byte(ESCAPE_MILLISECONDS) : 0;
    return byte == 'A' ? 'k' : byte == 'B' ? 'j' : 0;
}

/* ---- what is shown ---- */

/* Lines around the rows: heading, titles, keys. */
#define FRAME_LINES 3

struct top {
    const char *bind;
    char *service; /* whose endpoints are shown; NULL: Services */
    bool fixed;    /* the service was given as argument: no way back */
    size_t order;  /* one of orders[] */
    struct table table;
    size_t chosen, first; /* row indices: marked, topmost */
    char *chosen_name;    /* NULL: the mark has not moved */
    struct error err;     /* of the last reading */
};

/* Once moved, the mark follows its row. */
static void put_in_order(struct top *t)
{
    size_t n = t->table.rows.n;
    sort(&t->table, orders[t->order].compare);
    for (size_t i = 0; i < n && t->chosen_name; i++)
        if (strcmp(t->table.rows.v[i].name, t->chosen_name) == 0)
            t->chosen = i;
    if (t->chosen >= n)
        t->chosen = n ? n - 1 : 0;
}

/* Marks @row; NULL: the first row. */
static void choose(struct top *t, const struct row *row)
{
    free(t->chosen_name);
    t->chosen_name = row ? xstrdup(row->name) : NULL;
    t->chosen = row ? (size_t)(row - t->table.rows.v) : 0;
    t->first = row ? t->first : 0;
}

/* Takes @service. */
static void go_to(struct top *t, char *service)
{
    free(t->service);
    t->service = service;
    clear(&t->table);
    choose(t, NULL);
}

/* The rows that fit the terminal, including the marked one. */
static cJSON *visible_facts(struct top *t)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t room = size.ws_row > FRAME_LINES + 1 ? size.ws_row - (size_t)FRAME_LINES : 1;
    if (t->chosen < t->first)
        t->first = t->chosen;
    if (t->chosen >= t->first + room)
        t->first = t->chosen - room + 1;
    cJSON *facts = facts_of(&t->table, t->first, room);
    cJSON *items = cJSON_GetObjectItemCaseSensitive(facts, "items");
    cJSON *item = cJSON_GetArrayItem(items, (int)(t->chosen - t->first));
    if (item)
        cJSON_AddTrueToObject(item, "chosen");
    return facts;
}

/* Overwrites the previous screen in place to avoid flicker. */
static void draw(struct top *t)
{
    const struct view_style style = view_style(stdout);
    const char *error = t->err.text, *keys = t->service ? "  escape back" : "  enter endpoints";
    char *text = NULL, *rest;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        alloc_failed();
    cJSON *facts = visible_facts(t);
    fprintf(out, "%s%s, by %s%s%s\n", t->service ? "Endpoints of " : "Services",
            t->service ? t->service : "", orders[t->order].name, error ? ": " : "",
            error ? error : "");
    view_print(t->service ? view_top_endpoints : view_top, facts, &style, out);
    fprintf(out, "q quit  s sort  up/down choose%s", t->fixed ? "" : keys);
    if (fclose(out))
        alloc_failed();
    fputs("\033[H", stdout);
    rest = text;
    for (const char *line; (line = strsep(&rest, "\n"));)
        printf("%s\033[K%s", line, rest ? "\n" : "");
    fputs("\033[J", stdout);
    fflush(stdout);
    cJSON_Delete(facts);
    free(text);
}

/* ---- the loop ---- */

/* Returns whether a different table is shown and must be read. */
static bool press(struct top *t, char key)
{
    const struct row *row = t->table.rows.n ? &t->table.rows.v[t->chosen] : NULL;
    if (key == 'k' && t->chosen > 0)
        choose(t, row - 1);
    if (key == 'j' && t->chosen + 1 < t->table.rows.n)
        choose(t, row + 1);
    if (key == 's') {
        t->order = (t->order + 1) % ORDERS;
        choose(t, NULL);
        put_in_order(t);
    }
    bool down = (key == '\n' || key == '\r') && !t->service && row;
    bool up = key == KEY_ESCAPE && t->service && !t->fixed;
    if (down || up)
        go_to(t, down ? xstrdup(row->name) : NULL);
    return down || up;
}

static void refresh(struct top *t)
{
    error_clear(&t->err);
    read_table(t->bind, t->service, &t->table, &t->err);
    put_in_order(t);
}

static void follow(struct top *t)
{
    for (double due = clock_monotonic() + TOP_PERIOD; !ending;) {
        draw(t);
        double wait = due - clock_monotonic();
        char key = wait > 0 ? read_key((int)(wait * 1000) + 1) : 0;
        if (key == 'q')
            return;
        if (press(t, key) || clock_monotonic() >= due) {
            refresh(t);
            due = clock_monotonic() + TOP_PERIOD;
        }
    }
}

int top_live(const struct options *options, struct error *err)
{
    struct top t = {.bind = options->metrics_bind_address,
                    .service = xstrdup(options->subject),
                    .fixed = options->subject != NULL};
    struct termios before;
    int result = 0;
    refresh(&t);
    if (t.err.text) {
        result = error_set(err, "%s", t.err.text);
    } else {
        take_terminal(&before);
        follow(&t);
        give_back_terminal(&before);
    }
    go_to(&t, NULL);
    error_clear(&t.err);
    return result;
}
