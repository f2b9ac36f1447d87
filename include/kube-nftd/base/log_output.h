/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes lines to stderr and never waits for whoever reads them.
 *
 * O_NONBLOCK belongs to the open file description, which stderr shares with other processes, so it
 * is not set there. A pipe or a terminal is opened a second time, which makes a description of our
 * own. What cannot be opened (a socket, as the journal's; somebody else's pipe) is polled before
 * each write of at most PIPE_BUF bytes, for which there is room then. Files never make anybody wait
 * for a reader.
 */
#ifndef KUBE_NFTD_BASE_LOG_OUTPUT_H
#define KUBE_NFTD_BASE_LOG_OUTPUT_H

#include <stdbool.h>

/** Looks at what stderr is, once, at the beginning of the process. Without it lines are written to
 * it as they are. */
void log_output_open(void);

/** Whether stderr is the journal of systemd, which adds the time itself and takes the priority of a
 * line from "<N>" before it (sd-daemon(3)). */
bool log_output_is_journal(void);

/** Writes @line, which has no newline, and one behind it. False if not all of it was taken at once;
 * if it was cut, the next line begins on a line of its own. */
bool log_output_write(const char *line);

#endif
