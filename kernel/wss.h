/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wss.ko: a block device whose data is on an SRP target, reached over RDMA.
 *
 * Objects, from the outside in:
 *
 *   session   one connection to a target: port identifiers, state, timers, channels, volumes
 *   channel   one queue pair and its completion queue
 *   queue     a blk-mq hardware queue: the channel that serves it, and its slots on that channel.
 *             The number of queues is as requested. The number of channels may be smaller, and may
 *             change with a reconnection
 *   slot      one command in flight on a channel: command IU, memory region, scatterlist, work
 *             requests. Slot i of a queue belongs to blk-mq tag i, so taking one needs no lock and no
 *             search
 *   volume    one logical unit as a disk, /dev/wssN
 *
 * Invariants
 *   I1  A request has at most one memory region, whatever its segments (map.c). With mlockv=off it
 *       has one per segment (segments.c).
 *   I2  A page goes back to the block layer only when the peer can no longer reach it: its region
 *       is invalidated, or the queue pair and the region are destroyed (end.c, teardown.c).
 *       invalidate=lazy does not guarantee this.
 *   I3  A request ends once. The context that changes slot->live from the wire tag to zero owns
 *       that end (end.c, response.c).
 *   I4  Commands in flight on a channel never exceed the credits that the target granted (submit.c).
 *   I5  Only wss_set_state() changes the state (state.c).
 *   I6  The driver checks everything that the target sends before it uses it. An invalid message
 *       ends the connection. Invalid data of an administrative command fails only that command.
 *
 * Lock order (outer first)
 *   wss_maps_sem           attach.c      maps in progress; module exit waits for them
 *   sess->map_mutex        attach.c      one map of a session at a time
 *   wss_map_mutex          attach.c      lists of sessions and pending maps; never held during a wait
 *                                        for requests
 *   sess->look_mutex       revalidate.c  one walk over the volumes at a time; held during commands to
 *                                        the target
 *   sess->ping_mutex       session.h     the one keep-alive in flight, and sess->up; its holder
 *                                        takes admin_mutex only by trylock
 *   sess->admin_mutex      session.h     the one administrative command in flight; channels are not
 *                                        taken down while it is held
 *   sess->mutex            session.h     list of volumes, and their quiesced flags; never held during
 *                                        a command to the target
 *   wss_devices_mutex      device.c      the devices, and the sessions of each
 *   chan->poll_lock        chan.h        one poller of a polled channel at a time
 *   sess->lock             session.h     the state and the fields next to it; taken in softirq
 *
 * The driver takes no other lock while it holds one of these
 *   chan->pending_lock     chan.h        requests that wait for commit_rqs
 *   chan->engine_lock      chan.h        news of cache engines; taken in softirq
 *   vol->open_lock         volume.h      number of openers of the disk
 *   wss_measure_mutex      stages.c      whether the times per stage are measured
 *   wss_last_error_mutex   sysfs.c       text of /sys/class/wss/last_error
 */
#ifndef WSS_H
#define WSS_H

/*
 * The headers from the inside out. Of these headers, each includes only those before it.
 *
 *   uapi/wss_srp.h, limits.h, error.h, options.h, stats.h, stages.h
 *   slot.h      a command in flight
 *   engine.h    a connection to a cache engine
 *   chan.h      a channel
 *   session.h   a session, and the RDMA device that it uses
 *   volume.h    a disk
 */
#include "volume.h"

/* attach.c */
int wss_map(struct wss_options *opts, struct wss_error *err);
int wss_unmap(const char *name, bool force, struct wss_error *err);
void wss_unmap_all(void);
ssize_t wss_pending_show(char *page);
void wss_close_maps(void);
void wss_for_each_session(void (*what)(struct wss_session *sess));

/* power.c */
int wss_power_init(void);
void wss_power_exit(void);

/* sysfs.c */
extern struct class wss_class;
void wss_set_last_error(const struct wss_error *err);

#endif /* WSS_H */
