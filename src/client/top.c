/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "commands.h"

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

typedef VEC(struct row) row_vec;

struct top {
    const char *bind;
    char *service; /* whose endpoints are shown; NULL: Services */
    bool fixed;    /* the service was given as argument: no way back */
    size_t order;  /* one of orders[] */
    double at;     /* time of the totals, in seconds; 0: none */
    row_vec rows;
    size_t chosen, first; /* row indices: marked, topmost */
    char *chosen_name;    /* NULL: the mark has not moved */
};

static void clear_rows(row_vec *rows)
{
    vec_each (rows, row)
        free(row->name);
    vec_free(rows);
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

static void sort(row_vec *rows, int (*compare)(const void *, const void *))
{
    vec_sort(rows, compare);
}

/* ---- reading ---- */

/* Takes @name. */
static void add_row(struct top *t, char *name, const cJSON *item)
{
    double total = cJSON_GetNumberValue(facts_at(item, "connections"));
    vec_push(&t->rows, (struct row){name, isnan(total) ? 0 : (uint64_t)total, 0});
}

static int read_services(struct top *t, struct error *err)
{
    const cJSON *item;
    cJSON *answer =
        ask_daemon(t->bind, CONNECTIONS_KIND, "/connections", ASK_QUERY({NULL}), NULL, err);
    if (!answer)
        return -1;
    double at = cJSON_GetNumberValue(facts_at(answer, "countedAt"));
    t->at = isnan(at) ? 0 : at;
    cJSON_ArrayForEach (item, facts_at(answer, "items"))
        add_row(t,
                xasprintf("%s/%s", facts_text_at(item, "namespace"), facts_text_at(item, "name")),
                item);
    cJSON_Delete(answer);
    return t->at > 0 ? 0
                     : error_set(err, "the daemon does not count connections: --count-connections");
}

/* An endpoint of several ports gets a row for each. */
static int read_endpoints(struct top *t, struct error *err)
{
    const cJSON *port, *item;
    char *what = service_query(t->service);
    cJSON *answer = ask_daemon(t->bind, EXPLAIN_KIND, "/explain",
                               ASK_QUERY({"what", what}, {"all", "true"}), NULL, err);
    free(what);
    if (!answer)
        return -1;
    t->at = clock_monotonic();
    cJSON_ArrayForEach (port, facts_at(facts_at(answer, "service"), "ports"))
        cJSON_ArrayForEach (item, facts_at(facts_at(port, "endpoints"), "items"))
            if (facts_at(item, "connections"))
                add_row(t, xstrdup(facts_text_at(item, "endpoint")), item);
    bool found = cJSON_IsObject(facts_at(answer, "service"));
    cJSON_Delete(answer);
    if (t->rows.n)
        return 0;
    return found ? error_set(err,
                             "%s has no endpoints, or the daemon does not count for them: "
                             "--count-connections endpoints",
                             t->service)
                 : error_set(err, "no such Service: %s", t->service);
}

/* Replaces the rows by a new reading. Rates cover the time since the previous reading, or are kept
 * if no time has passed. Totals of new rows, and of those that decreased, count from 0. Once moved,
 * the mark follows its row. */
static int read_rows(struct top *t, struct error *err)
{
    row_vec before = t->rows;
    double begun = t->at;
    t->rows = (row_vec){0};
    t->at = 0;
    int result = t->service ? read_endpoints(t, err) : read_services(t, err);
    double seconds = t->at - begun;
    sort(&before, compare_names);
    vec_each (&t->rows, row) {
        const struct row *was =
            before.n ? bsearch(row, before.v, before.n, sizeof(*row), compare_names) : NULL;
        uint64_t total = was && was->total <= row->total ? was->total : 0;
        if (begun > 0 && seconds > 0)
            row->rate = (double)(row->total - total) / seconds;
        else if (was)
            row->rate = was->rate;
    }
    clear_rows(&before);
    sort(&t->rows, orders[t->order].compare);
    for (size_t i = 0; i < t->rows.n && t->chosen_name; i++)
        if (strcmp(t->rows.v[i].name, t->chosen_name) == 0)
            t->chosen = i;
    if (t->chosen >= t->rows.n)
        t->chosen = t->rows.n ? t->rows.n - 1 : 0;
    return result;
}

/* Up to @n rows from @first on, as "items" with name, connections and perSecond. */
static cJSON *facts_of(const struct top *t, size_t first, size_t n)
{
    cJSON *facts = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(facts, "items");
    for (size_t i = first; i < t->rows.n && i - first < n; i++) {
        const struct row *row = &t->rows.v[i];
        facts_add(facts_append(items), fact_text("name", row->name),
                  fact_number("connections", row->total),
                  fact_number("perSecond", round(row->rate * 10) / 10));
    }
    return facts;
}

cJSON *top_once(const struct options *options, struct error *err)
{
    struct top t = {.bind = options->metrics_bind_address, .service = options->subject};
    cJSON *facts = NULL;
    if (read_rows(&t, err) == 0 &&
        nanosleep(&(struct timespec){.tv_sec = (time_t)TOP_PERIOD}, NULL) == 0 &&
        read_rows(&t, err) == 0) {
        facts = facts_of(&t, 0, t.rows.n);
        facts_add(facts, fact_text("kind", "KubeNftdTop"), fact_number("schema", 1));
    }
    clear_rows(&t.rows);
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

/* ---- the screen ---- */

/* Lines around the rows: heading, titles, keys. */
#define FRAME_LINES 3

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
    cJSON *facts = facts_of(t, t->first, room);
    cJSON *items = cJSON_GetObjectItemCaseSensitive(facts, "items");
    cJSON *item = cJSON_GetArrayItem(items, (int)(t->chosen - t->first));
    if (item)
        cJSON_AddTrueToObject(item, "chosen");
    return facts;
}

/* Overwrites the previous screen in place to avoid flicker. */
static void draw(struct top *t, const char *error)
{
    const struct view_style style = view_style(stdout);
    cJSON *facts = visible_facts(t);
    char *text = view_text(t->service ? view_top_endpoints : view_top, facts, &style);
    printf("\033[H%s%s, by %s%s%s\033[K\n", t->service ? "Endpoints of " : "Services",
           t->service ? t->service : "", orders[t->order].name, error ? ": " : "",
           error ? error : "");
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && rest;)
        printf("%s\033[K\n", line);
    printf("q quit  s sort  up/down choose%s\033[K\033[J", t->fixed     ? ""
                                                           : t->service ? "  escape back"
                                                                        : "  enter endpoints");
    fflush(stdout);
    cJSON_Delete(facts);
    free(text);
}

/* ---- the loop ---- */

/* Marks the row at @index; without a @name, the mark does not follow it. Takes @name. */
static void choose(struct top *t, size_t index, char *name)
{
    free(t->chosen_name);
    t->chosen_name = name;
    t->chosen = index;
    t->first = name ? t->first : 0;
}

/* Returns whether other rows are shown and must be read. */
static bool press(struct top *t, char key)
{
    const struct row *row = t->rows.n ? &t->rows.v[t->chosen] : NULL;
    if (key == 'k' && row && t->chosen > 0)
        choose(t, t->chosen - 1, xstrdup(row[-1].name));
    if (key == 'j' && row && t->chosen + 1 < t->rows.n)
        choose(t, t->chosen + 1, xstrdup(row[1].name));
    if (key == 's') {
        t->order = (t->order + 1) % ORDERS;
        choose(t, 0, NULL);
        sort(&t->rows, orders[t->order].compare);
    }
    bool down = (key == '\n' || key == '\r') && !t->service && row;
    bool up = key == KEY_ESCAPE && t->service && !t->fixed;
    if (!down && !up)
        return false;
    free(t->service);
    t->service = down ? xstrdup(row->name) : NULL;
    clear_rows(&t->rows);
    t->at = 0;
    choose(t, 0, NULL);
    return true;
}

static void follow(struct top *t)
{
    struct error err = {0};
    for (double due = clock_monotonic() + TOP_PERIOD; !ending;) {
        draw(t, err.text);
        double wait = due - clock_monotonic();
        char key = wait > 0 ? read_key((int)(wait * 1000) + 1) : 0;
        if (key == 'q')
            break;
        if (press(t, key) || clock_monotonic() >= due) {
            error_clear(&err);
            read_rows(t, &err);
            due = clock_monotonic() + TOP_PERIOD;
        }
    }
    error_clear(&err);
}

int top_live(const struct options *options, struct error *err)
{
    struct top t = {.bind = options->metrics_bind_address,
                    .service = xstrdup(options->subject),
                    .fixed = options->subject != NULL};
    struct termios before;
    int result = read_rows(&t, err);
    if (result == 0) {
        take_terminal(&before);
        follow(&t);
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    }
    clear_rows(&t.rows);
    free(t.service);
    free(t.chosen_name);
    return result;
}
