/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What systemd is told about this daemon (the protocol of sd_notify(3)): ready, ending, a line of
 * status, and signs of life from the loop. Without a service manager none of it costs anything.
 */
#ifndef KUBE_NFTD_HOST_SERVICE_MANAGER_H
#define KUBE_NFTD_HOST_SERVICE_MANAGER_H

struct ev_loop;
struct service_manager;

/** Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment. Never NULL. */
struct service_manager *service_manager_new(void);
void service_manager_free(struct service_manager *manager);

/**
 * If the service manager asked for signs of life from this process, one is sent each half of that
 * time, as long as @loop turns, until service_manager_detach(); else no timer runs. If it cannot be
 * told anything, that is logged.
 */
void service_manager_attach(struct service_manager *manager, struct ev_loop *loop);
void service_manager_detach(struct service_manager *manager);

/** What the daemon does now, or why it ends, for 'systemctl status'. What is no printable ASCII is
 * replaced: the text is one line. */
void service_manager_status(struct service_manager *manager, const char *status);

/** The daemon does what it is for. Said once, so it may be called each turn. */
void service_manager_ready(struct service_manager *manager, const char *status);

/** The daemon begins to end. */
void service_manager_stopping(struct service_manager *manager, const char *status);

#endif
