/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the limits of a table leave out (docs/limits.md), told once: in the log, and to policy,
 * which reports it on the Service. */
#include "state.h"

/* Service ports that are reported during a commit. Others are when they change; list has them all.
 */
#define MOST_REPORTED 100

/* Takes @what. False if it was not reported: the port has no frontend, which would name it, or too
 * many others were. */
static bool report_limit(struct ruleset *rs, const struct port_entry *port, const char *reason,
                         const char *note, char *what)
{
    const struct frontend_entry *frontend = ruleset_frontend_of(port);
    const bool reports = frontend && ++rs->limits_reported <= MOST_REPORTED;
    if (reports) {
        char *name = ruleset_name(rs, &port->entry);
        log_error("table", "%s %s", name, what);
        free(name);
        if (rs->config.limited)
            rs->config.limited(rs->config.ctx, &frontend->frontend, reason, note);
    }
    free(what);
    return reports;
}

static void log_numbered(const struct ruleset *rs, const struct port_entry *port)
{
    char *name = ruleset_name(rs, &port->entry);
    log_info("table", "%s is programmed now: a number became unused", name);
    free(name);
}

void limits_log_number(struct ruleset *rs, struct port_entry *port)
{
    if (port->waits && !port->wait_logged) {
        port->wait_logged = report_limit(
            rs, port, "NoNumberLeft",
            "no number left: some of its service ports are not programmed",
            xasprintf("is not programmed, no number left: its namespace has %u of %u, and "
                      "%u are unused",
                      port->share->held, rs->numbers.most, rs->numbers.n_unused));
    } else if (!port->waits && port->wait_logged) {
        log_numbered(rs, port);
        port->wait_logged = false;
    }
}

void limits_log_excess(struct ruleset *rs, struct port_entry *port)
{
    if (port->excess && !port->excess_logged)
        port->excess_logged = report_limit(
            rs, port, "TooManyEndpoints", "it has more endpoints than fit: the rest is not used",
            xasprintf("uses %u of its %u endpoints: more do not fit", port->all.n_desired,
                      port->all.n_desired + port->excess));
    port->excess_logged = port->excess_logged && port->excess;
}
