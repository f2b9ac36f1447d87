/* SPDX-License-Identifier: GPL-2.0-or-later */
/* top on a terminal: its keys, and what is drawn. */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "top.h"
#include "view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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

/* ---- the terminal ---- */

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

static void refresh(struct top *t)
{
    struct top_table before = t->table;
    t->table = (struct top_table){.at = 0};
    error_clear(&t->err);
    if (top_read(t->bind, t->service, &t->table, &t->err) == 0)
        top_compare(&t->table, &before);
    top_clear(&before);
}

static const char *name_of(const cJSON *item)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
}

/* Once it was moved, the mark stays with its row, wherever that goes. */
static size_t find_chosen(const struct top *t, const cJSON *items)
{
    size_t i = 0, n = (size_t)cJSON_GetArraySize(items);
    const cJSON *item;
    cJSON_ArrayForEach (item, items) {
        if (t->chosen_name && strcmp(name_of(item), t->chosen_name) == 0)
            return i;
        i++;
    }
    return t->chosen < n ? t->chosen : n ? n - 1 : 0;
}

static void choose(struct top *t, const cJSON *items, size_t row)
{
    if (row >= (size_t)cJSON_GetArraySize(items))
        return;
    t->chosen = row;
    free(t->chosen_name);
    t->chosen_name = xstrdup(name_of(cJSON_GetArrayItem(items, (int)row)));
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
    top_clear(&t->table);
    choose_first(t);
}

/* Leaves the rows that the terminal has room for. */
static void cut(struct top *t, cJSON *items, size_t room)
{
    if (t->chosen < t->first)
        t->first = t->chosen;
    if (t->chosen >= t->first + room)
        t->first = t->chosen - room + 1;
    cJSON *item = cJSON_GetArrayItem(items, (int)t->chosen);
    if (item)
        cJSON_AddTrueToObject(item, "chosen");
    for (size_t i = 0; i < t->first; i++)
        cJSON_DeleteItemFromArray(items, 0);
    while (cJSON_GetArraySize(items) > (int)room)
        cJSON_DeleteItemFromArray(items, (int)room);
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
    cJSON *facts = top_facts(&t->table, t->order);
    cJSON *items = cJSON_GetObjectItemCaseSensitive(facts, "items");
    if (!out)
        alloc_failed();
    cut(t, items, rows_of_terminal());
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
    cJSON *facts = top_facts(&t->table, t->order);
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(facts, "items");
    const char *name;
    bool other = false;
    t->chosen = find_chosen(t, items);
    if (key == KEY_UP && t->chosen > 0)
        choose(t, items, t->chosen - 1);
    if (key == KEY_DOWN)
        choose(t, items, t->chosen + 1);
    if (key == KEY_SORT) {
        t->order = (t->order + 1) % TOP_ORDERS;
        choose_first(t);
    }
    if (key == KEY_ENTER && !t->service &&
        (name = name_of(cJSON_GetArrayItem(items, (int)t->chosen)))) {
        go_to(t, xstrdup(name));
        other = true;
    } else if (key == KEY_BACK && t->service && !t->fixed) {
        go_to(t, NULL);
        other = true;
    }
    cJSON_Delete(facts);
    return other;
}

static void follow(struct top *t)
{
    for (double due = 0; !ending;) {
        double now = clock_monotonic();
        if (now >= due) {
            refresh(t);
            press(t, KEY_NONE);
            due = now + TOP_PERIOD;
        }
        draw(t);
        double wait = due - clock_monotonic();
        enum key key = read_key(wait > 0 ? (int)(wait * 1000) + 1 : 0);
        if (key == KEY_QUIT)
            return;
        if (key != KEY_NONE && press(t, key))
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
