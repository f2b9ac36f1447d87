/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "top.h"

#include "ask.h"
#include "kube-nftd/base.h"
#include "kube-nftd/serve.h"
#include "view.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Seconds from one reading to the next. */
#define TOP_PERIOD 1.0

struct top_row {
    char *name; /* "NAMESPACE/SERVICE", or an endpoint "IP:PORT" */
    uint64_t total;
    double rate; /* a second */
};

/* Starts zeroed. */
struct top_table {
    double at; /* when the totals were so, in seconds */
    VEC(struct top_row) rows;
};

enum top_order { TOP_BY_RATE, TOP_BY_TOTAL, TOP_BY_NAME, TOP_ORDERS };

static void clear(struct top_table *table)
{
    vec_each (&table->rows, row)
        free(row->name);
    vec_free(&table->rows);
    table->at = 0;
}

static double number_at(const cJSON *object, const char *key)
{
    double number = cJSON_GetNumberValue(facts_at(object, key));
    return isnan(number) ? 0 : number;
}

/* Takes @name. */
static void add_row(struct top_table *table, char *name, const cJSON *item)
{
    struct top_row row = {.name = name, .total = (uint64_t)number_at(item, "connections")};
    vec_push(&table->rows, row);
}

/* ---- reading ---- */

static int read_services(const char *bind, struct top_table *table, struct error *err)
{
    bool unreachable;
    const cJSON *item;
    cJSON *answer = ask_daemon(bind, "/connections", CONNECTIONS_KIND, &unreachable, err);
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

/* One that several ports have is listed for each of them. */
static bool add_endpoints(const cJSON *port, struct top_table *table)
{
    bool counted = false;
    const cJSON *item;
    cJSON_ArrayForEach (item, facts_at(facts_at(port, "endpoints"), "items")) {
        if (!facts_at(item, "connections"))
            continue;
        add_row(table, xstrdup(facts_text_at(item, "endpoint")), item);
        counted = true;
    }
    return counted;
}

static int read_endpoints(const char *bind, const char *service, struct top_table *table,
                          struct error *err)
{
    bool unreachable, counted = false;
    const cJSON *port;
    char *what = url_escape(service), *path = xasprintf("/explain?what=%s&all=true", what);
    cJSON *answer = ask_daemon(bind, path, EXPLAIN_KIND, &unreachable, err);
    free(path);
    free(what);
    if (!answer)
        return -1;
    table->at = clock_monotonic();
    cJSON_ArrayForEach (port, facts_at(facts_at(answer, "service"), "ports"))
        counted = add_endpoints(port, table) || counted;
    bool found = facts_at(answer, "service") && !cJSON_IsNull(facts_at(answer, "service"));
    cJSON_Delete(answer);
    if (counted)
        return 0;
    return found ? error_set(err,
                             "%s has no endpoints, or the daemon does not count for them: "
                             "--count-connections endpoints",
                             service)
                 : error_set(err, "no such Service: %s", service);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct top_row *)a)->name, ((const struct top_row *)b)->name);
}

static void sort(struct top_table *table, int (*compare)(const void *, const void *))
{
    if (table->rows.n > 1)
        qsort(table->rows.v, table->rows.n, sizeof(*table->rows.v), compare);
}

/* Asks the daemon for Services (@service NULL), or for the endpoints of one. @table is empty
 * before. */
static int read_table(const char *bind, const char *service, struct top_table *table,
                      struct error *err)
{
    return service ? read_endpoints(bind, service, table, err) : read_services(bind, table, err);
}

/* ---- rates ---- */

/* The rates since @before, or those of @before if there is no time between the two. Who was not
 * there had none; a total that is less began anew. */
static void find_rates(struct top_table *table, struct top_table *before)
{
    double seconds = table->at - before->at;
    sort(before, compare_names);
    vec_each (&table->rows, row) {
        const struct top_row *was = before->rows.n ? bsearch(row, before->rows.v, before->rows.n,
                                                             sizeof(*row), compare_names)
                                                   : NULL;
        uint64_t total = was && was->total <= row->total ? was->total : 0;
        if (before->at > 0 && seconds > 0)
            row->rate = (double)(row->total - total) / seconds;
        else if (was)
            row->rate = was->rate;
    }
}

/* ---- order and facts ---- */

static int compare_numbers(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_totals(const void *a, const void *b)
{
    const struct top_row *p = a, *q = b;
    int order = compare_numbers((double)p->total, (double)q->total);
    return order ? order : compare_names(a, b);
}

static int compare_rates(const void *a, const void *b)
{
    const struct top_row *p = a, *q = b;
    int order = compare_numbers(p->rate, q->rate);
    return order ? order : compare_totals(a, b);
}

/* Up to @n rows from @first on: "items" with name, connections and perSecond. */
static cJSON *facts_of(const struct top_table *table, size_t first, size_t n)
{
    cJSON *facts = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(facts, "items");
    for (size_t i = first; i < table->rows.n && i - first < n; i++) {
        const struct top_row *row = &table->rows.v[i];
        facts_add(facts_append(items), fact_text("name", row->name),
                  fact_number("connections", (double)row->total),
                  fact_number("perSecond", round(row->rate * 10) / 10));
    }
    return facts;
}

cJSON *top_once(const struct options *options, struct error *err)
{
    const struct timespec wait = {.tv_sec = (time_t)TOP_PERIOD};
    struct top_table before = {0}, table = {0};
    cJSON *facts = NULL;
    if (read_table(options->metrics_bind_address, options->subject, &before, err) == 0 &&
        nanosleep(&wait, NULL) == 0 &&
        read_table(options->metrics_bind_address, options->subject, &table, err) == 0) {
        find_rates(&table, &before);
        sort(&table, compare_rates);
        facts = facts_of(&table, 0, table.rows.n);
        facts_add(facts, fact_text("kind", "KubeNftdTop"), fact_number("schema", 1));
    }
    clear(&before);
    clear(&table);
    return facts;
}

/* ---- on a terminal ---- */

/* Lines around the rows: a heading, the title, the keys. */
#define FRAME_LINES 3
#define LEAST_ROWS 1
/* A lone escape is the key, not the begin of what another key sends, if nothing follows so long. */
#define ESCAPE_MILLISECONDS 25

enum key { KEY_NONE, KEY_QUIT, KEY_SORT, KEY_UP, KEY_DOWN, KEY_ENTER, KEY_BACK };

struct top {
    const char *bind;
    char *service; /* whose endpoints are shown; NULL: Services */
    bool fixed;    /* that was asked for: there is no way back */
    enum top_order order;
    struct top_table table;
    size_t chosen, first; /* of the rows in their order: the one that is marked, the topmost */
    char *chosen_name;
    struct error err; /* of the last reading */
};

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
    (void)number;
    ending = true;
}

/* Signals end the loop, so that the terminal is put back. */
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

static size_t rows_of_terminal(void)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size.ws_row > FRAME_LINES + LEAST_ROWS ? size.ws_row - (size_t)FRAME_LINES : LEAST_ROWS;
}

/* ---- keys ---- */

/* 0: nothing within @milliseconds. */
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

static enum key read_escape(void)
{
    char byte = read_byte(ESCAPE_MILLISECONDS);
    if (byte == 0)
        return KEY_BACK;
    if (byte != '[' && byte != 'O')
        return KEY_NONE;
    byte = read_byte(ESCAPE_MILLISECONDS);
    return byte == 'A' ? KEY_UP : byte == 'B' ? KEY_DOWN : KEY_NONE;
}

static enum key read_key(int milliseconds)
{
    switch (read_byte(milliseconds)) {
    case 'q':
        return KEY_QUIT;
    case 's':
        return KEY_SORT;
    case 'k':
        return KEY_UP;
    case 'j':
        return KEY_DOWN;
    case '\n':
    case '\r':
        return KEY_ENTER;
    case '\033':
        return read_escape();
    default:
        return KEY_NONE;
    }
}

/* ---- what is shown ---- */

static void put_in_order(struct top *t)
{
    static int (*const compare[TOP_ORDERS])(const void *,
                                            const void *) = {[TOP_BY_RATE] = compare_rates,
                                                             [TOP_BY_TOTAL] = compare_totals,
                                                             [TOP_BY_NAME] = compare_names};
    sort(&t->table, compare[t->order]);
}

/* Once it was moved, the mark stays with its row, wherever that goes. */
static void find_chosen(struct top *t)
{
    size_t n = t->table.rows.n;
    for (size_t i = 0; i < n && t->chosen_name; i++) {
        if (strcmp(t->table.rows.v[i].name, t->chosen_name) == 0) {
            t->chosen = i;
            return;
        }
    }
    if (t->chosen >= n)
        t->chosen = n ? n - 1 : 0;
}

static void refresh(struct top *t)
{
    struct top_table before = t->table;
    t->table = (struct top_table){.at = 0};
    error_clear(&t->err);
    if (read_table(t->bind, t->service, &t->table, &t->err) == 0)
        find_rates(&t->table, &before);
    clear(&before);
    put_in_order(t);
    find_chosen(t);
}

static void choose(struct top *t, size_t row)
{
    if (row >= t->table.rows.n)
        return;
    t->chosen = row;
    free(t->chosen_name);
    t->chosen_name = xstrdup(t->table.rows.v[row].name);
}

static void choose_first(struct top *t)
{
    free(t->chosen_name);
    t->chosen_name = NULL;
    t->chosen = t->first = 0;
}

static void go_to(struct top *t, char *service)
{
    free(t->service);
    t->service = service;
    clear(&t->table);
    choose_first(t);
}

/* The rows that the terminal has room for, with the chosen one among them. */
static cJSON *visible_facts(struct top *t)
{
    size_t room = rows_of_terminal();
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

static void print_screen(const struct top *t, const cJSON *facts, FILE *out)
{
    static const char *const orders[] = {"new connections", "total", "name"};
    const struct view_style style = view_style(stdout);
    fprintf(out, "%s%s, by %s%s%s\n", t->service ? "Endpoints of " : "Services",
            t->service ? t->service : "", orders[t->order], t->err.text ? ": " : "",
            t->err.text ? t->err.text : "");
    view_print(t->service ? view_top_endpoints : view_top, facts, &style, out);
    fprintf(out, "q quit  s sort  up/down choose%s",
            t->fixed     ? ""
            : t->service ? "  escape back"
                         : "  enter endpoints");
}

/* Over what is there, so that nothing flickers. */
static void draw(struct top *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cJSON *facts = visible_facts(t);
    if (!out)
        alloc_failed();
    print_screen(t, facts, out);
    if (fclose(out))
        alloc_failed();
    fputs("\033[H", stdout);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        printf("%.*s\033[K%s", (int)strcspn(line, "\n"), line, strchr(line, '\n') ? "\n" : "");
    fputs("\033[J", stdout);
    fflush(stdout);
    cJSON_Delete(facts);
    free(text);
}

/* ---- the loop ---- */

/* Returns whether there is something else to read. */
static bool press(struct top *t, enum key key)
{
    if (key == KEY_UP && t->chosen > 0)
        choose(t, t->chosen - 1);
    if (key == KEY_DOWN)
        choose(t, t->chosen + 1);
    if (key == KEY_SORT) {
        t->order = (t->order + 1) % TOP_ORDERS;
        choose_first(t);
        put_in_order(t);
    }
    bool down = key == KEY_ENTER && !t->service && t->table.rows.n;
    bool up = key == KEY_BACK && t->service && !t->fixed;
    if (down || up)
        go_to(t, down ? xstrdup(t->table.rows.v[t->chosen].name) : NULL);
    return down || up;
}

static void follow(struct top *t)
{
    for (double due = 0; !ending;) {
        double now = clock_monotonic();
        if (now >= due) {
            refresh(t);
            due = now + TOP_PERIOD;
        }
        draw(t);
        double wait = due - clock_monotonic();
        enum key key = read_key(wait > 0 ? (int)(wait * 1000) + 1 : 0);
        if (key == KEY_QUIT)
            return;
        if (press(t, key))
            due = 0;
    }
}

int top_live(const struct options *options, struct error *err)
{
    struct top t = {.bind = options->metrics_bind_address,
                    .service = xstrdup(options->subject),
                    .fixed = options->subject != NULL};
    struct termios before;
    refresh(&t);
    bool begins = !t.err.text;
    if (begins) {
        take_terminal(&before);
        follow(&t);
        give_back_terminal(&before);
    } else {
        error_set(err, "%s", t.err.text);
    }
    go_to(&t, NULL);
    error_clear(&t.err);
    return begins ? 0 : -1;
}
