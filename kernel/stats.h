/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of a session.
 */
#ifndef WSS_STATS_H
#define WSS_STATS_H

#include <linux/percpu.h>
#include <linux/sysfs.h>

struct wss_session;

/*
 * Counters, one row per CPU, summed when read. X(name, help) defines the enum, the sysfs files and
 * their order.
 */
#define WSS_COUNTERS(X)                                                             \
	X(requests, "requests sent to the target")                                  \
	X(errors, "requests that ended with an error")                              \
	X(retries, "requests sent again")                                           \
	X(regions_registered, "memory regions registered")                          \
	X(regions_released, "memory regions invalidated or destroyed")              \
	X(dma_maps, "scatterlists mapped for DMA")                                  \
	X(dma_unmaps, "scatterlists unmapped")                                      \
	X(immediate_writes, "requests whose data was sent with the command")            \
	X(fused_completions, "requests completed by an RDMA WRITE WITH IMMEDIATE")  \
	X(batched_completions, "requests completed by a batched completion")        \
	X(engines_connected, "connections made to cache engines")                   \
	X(engine_completions, "reads completed by cache engines")                   \
	X(engine_bytes, "bytes that cache engines wrote")                           \
	X(engine_retries, "commands sent again because a cache engine did not answer them") \
	X(remote_invalidations, "regions that the target invalidated")              \
	X(local_invalidations, "regions that the driver invalidated")               \
	X(doorbells, "lists of work requests posted")                               \
	X(polled_completions, "completions that pollers found")                     \
	X(polls_yielded, "times that a poller found nothing and yielded the processor")          \
	X(timeouts, "requests that were not answered in time")                      \
	X(aborts, "commands ended by ABORT TASK")                                   \
	X(resets, "LOGICAL UNIT RESETs")                                            \
	X(reconnects, "logins after the first")                                     \
	X(faults, "faults injected")                                                \
	X(protocol_errors, "messages from the target that were refused")

#define WSS_COUNTER_ENUM(name, help) WSS_STAT_##name,
enum wss_counter { WSS_COUNTERS(WSS_COUNTER_ENUM) WSS_STATS };

struct wss_stats {
	u64 count[WSS_STATS];
};

#define wss_stat_add(sess, name, n) this_cpu_add((sess)->stats->count[WSS_STAT_##name], (n))
#define wss_stat_inc(sess, name) wss_stat_add(sess, name, 1)

/* stats.c */
u64 wss_stat_sum(const struct wss_session *sess, enum wss_counter counter);
extern const struct attribute_group wss_stats_group;

#endif /* WSS_STATS_H */
