/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection, so that tests can take every rare path.
 *
 * Each fault is a module parameter in every build: with wss.force_NAME=N it happens every N-th time,
 * with N=0 never. In kernels with CONFIG_FAULT_INJECTION_DEBUG_FS each is a fault attribute as well
 * (/sys/kernel/debug/wss/fail_NAME, see Documentation/fault-injection/ of the kernel), and every hook
 * tests its fault. In other kernels, the cost is a patched-out jump while all faults are off.
 */
#ifndef WSS_FAULT_H
#define WSS_FAULT_H

#include <linux/jump_label.h>
#include <linux/types.h>

/* X(name, help) */
#define WSS_FAULTS(X)                                                                       \
	X(map, "a scatterlist cannot be mapped: the request waits")                         \
	X(unmappable, "a scatterlist can never be mapped: the request fails")               \
	X(post, "the send queue is full: the request waits")                                \
	X(error, "a command ends with the sense of force_sense (default: ABORTED COMMAND)")       \
	X(refuse, "an administrative command to a LUN other than 0 ends with force_sense")      \
	X(silence, "an administrative command to a LUN other than 0 is not answered")       \
	X(mute, "a keep-alive command to LUN 0 is not answered")                            \
	X(drop, "an answer is lost: the command times out")                                 \
	X(incomplete, "a LOCAL_INV or an immediate SEND never completes")                   \
	X(delay, "an answer is delayed by force_delay_ms")                                 \
	X(reject, "the target refuses a channel")                                           \
	X(tamper, "a command is damaged in transit: the target rejects it and ends the connection")   \
	X(stale, "the peer sends the epoch of an earlier login: the login is refused")      \
	X(withhold, "an answer returns no credits")                                        \
	X(poll, "a poll of a completion queue is interrupted, for force_delay_ms")          \
	X(event, "an event of the connection manager is delayed by force_delay_ms")

#define WSS_FAULT_ENUM(name, help) WSS_FAULT_##name,
enum wss_fault { WSS_FAULTS(WSS_FAULT_ENUM) WSS_FAULT_KINDS };

DECLARE_STATIC_KEY_FALSE(wss_faults_on);
extern unsigned int wss_force_delay_ms;
extern unsigned int wss_force_sense;
extern bool wss_force_deferred;
extern unsigned int wss_force_channels;
extern unsigned int wss_force_credits;
extern bool wss_force_no_inline;
extern unsigned int wss_force_mapping;
extern unsigned int wss_force_segments;

bool wss_fault_fires(enum wss_fault fault);

/* Status and sense that force_sense defines. */
#define wss_forced_sense()                                                                       \
	((struct wss_sense){ .status = wss_force_sense >> 24, .key = wss_force_sense >> 16,      \
			     .asc = wss_force_sense >> 8, .ascq = wss_force_sense })

#define wss_fault(name) \
	(static_branch_unlikely(&wss_faults_on) && wss_fault_fires(WSS_FAULT_##name))

struct dentry;
void wss_faults_init(struct dentry *folder);

#endif /* WSS_FAULT_H */
