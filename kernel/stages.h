/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Time that requests spend in each stage. Off by default: the cost is then a patched-out jump.
 * /sys/kernel/debug/wss/measure turns it on.
 */
#ifndef WSS_STAGES_H
#define WSS_STAGES_H

#include <linux/jump_label.h>
#include <linux/ktime.h>
#include <linux/string.h>

struct dentry;
struct request;
struct wss_session;
struct wss_slot;

/* X(name, help). A stage lasts from the time stamp before it to its own. */
#define WSS_STAGES(X)                                                            \
	X(block, "in the block layer, until the driver received the request")   \
	X(map, "command built, pages mapped for DMA and registered as one region") \
	X(post, "work requests posted to the device")                            \
	X(remote, "on the wire and in the target, until the response was received") \
	X(finish, "region invalidated, pages unmapped, request ended")           \
	X(total, "the whole request")

#define WSS_STAGE_ENUM(name, help) WSS_STAGE_##name,
enum wss_stage { WSS_STAGES(WSS_STAGE_ENUM) WSS_STAGE_COUNT };

/* Time stamps of a slot. */
enum wss_moment {
	WSS_AT_BLOCK,  /* the block layer created the request */
	WSS_AT_QUEUED, /* queue_rq */
	WSS_AT_MAPPED,
	WSS_AT_POSTED,
	WSS_AT_ANSWERED,
	WSS_MOMENTS,
};

DECLARE_STATIC_KEY_FALSE(wss_measuring);

#define wss_note(slot, moment)                                            \
	do {                                                              \
		if (static_branch_unlikely(&wss_measuring))               \
			(slot)->at[WSS_AT_##moment] = ktime_get_ns();     \
	} while (0)

/* Clears the stamps of the slot's previous request. */
#define wss_note_begin(slot, rq)                                          \
	do {                                                              \
		if (static_branch_unlikely(&wss_measuring)) {             \
			memset((slot)->at, 0, sizeof((slot)->at));        \
			(slot)->at[WSS_AT_BLOCK] = (rq)->start_time_ns;   \
			(slot)->at[WSS_AT_QUEUED] = ktime_get_ns();       \
		}                                                         \
	} while (0)

#define wss_note_end(slot, rq)                                            \
	do {                                                              \
		if (static_branch_unlikely(&wss_measuring))               \
			wss_stages_add(slot, rq);                         \
	} while (0)

void wss_stages_add(struct wss_slot *slot, const struct request *rq);
int wss_stages_alloc(struct wss_session *sess);
void wss_stages_free(struct wss_session *sess);
void wss_stages_show(struct wss_session *sess);
void wss_debugfs_init(void);
void wss_debugfs_exit(void);

#endif /* WSS_STAGES_H */
