/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Request slots: one command in flight with its command IU, memory region, scatterlist and work
 * requests.
 *
 * Slot i of a queue belongs to blk-mq tag i, so that taking one needs no lock and no search.
 */
#ifndef WSS_SLOT_H
#define WSS_SLOT_H

#include <linux/blk-mq.h>
#include <linux/llist.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#include "limits.h"
#include "stages.h"

struct wss_chan;

/* SAM statuses. */
enum {
	WSS_SAM_CHECK_CONDITION = 0x02,
	WSS_SAM_BUSY = 0x08,
	WSS_SAM_RESERVATION_CONFLICT = 0x18,
	WSS_SAM_TASK_SET_FULL = 0x28,
	WSS_SAM_TASK_ABORTED = 0x40
};

/* Sense keys. */
enum {
	WSS_KEY_RECOVERED = 1,
	WSS_KEY_NOT_READY = 2,
	WSS_KEY_MEDIUM = 3,
	WSS_KEY_HARDWARE = 4,
	WSS_KEY_ILLEGAL = 5,
	WSS_KEY_ATTENTION = 6,
	WSS_KEY_PROTECT = 7,
	WSS_KEY_ABORTED = 0xb,
	WSS_KEY_OVERFLOW = 0xd,
	WSS_KEY_MISCOMPARE = 0xe
};

/**
 * struct wss_sense - how the target ended a command
 * @status: SAM status; 0 is GOOD
 * @key: sense key, 0 without sense data
 * @asc: additional sense code
 * @ascq: additional sense code qualifier
 */
struct wss_sense {
	u8 status;
	u8 key;
	u8 asc;
	u8 ascq;
};

/* INVALID COMMAND OPERATION CODE, INVALID FIELD IN CDB. */
static inline bool wss_sense_refuses_operation(const struct wss_sense *sense)
{
	return sense->key == WSS_KEY_ILLEGAL && (sense->asc == 0x20 || sense->asc == 0x24);
}

/**
 * struct wss_iu - a message buffer of a channel, mapped for DMA
 * @data: its bytes
 * @dma: its address for the device
 */
struct wss_iu {
	void *data;
	u64 dma;
};

/**
 * struct wss_iu_array - an array of buffers of equal size, packed into pages
 * @pages: page addresses
 * @dma: DMA address of each page, 0 when not mapped
 * @nr_pages: number of pages
 * @iu_bytes: size of one buffer, a power of two up to a page
 * @dir: direction of the mapping
 */
struct wss_iu_array {
	void **pages;
	u64 *dma;
	unsigned int nr_pages;
	unsigned int iu_bytes;
	enum dma_data_direction dir;
};

/* Where a slot's data is. */
enum wss_mapping {
	WSS_MAP_NONE,	   /* no data, or data inside the command IU */
	WSS_MAP_IMMEDIATE, /* the pages are segments of the SEND */
	WSS_MAP_REGION,	   /* the pages are one memory region; with mlockv=off, one per segment */
};

/**
 * struct wss_slot - one command in flight
 * @live: wire tag while a response is outstanding, else 0. The submitter sets it before it posts.
 *	The context that changes it to 0 (response, abort, failed post) decides how the request
 *	ends
 * @pending: outstanding events before the request may end: the return of the post, the response,
 *	and the completion of an immediate SEND. The context that changes it to 0 then ends the
 *	command
 * @rq: the request, NULL when the slot is free or holds a control command; see I3
 * @tag: wire tag of the current or last command
 * @chan: the channel, immutable
 * @mr: the region, immutable while the channel is up
 * @index: position in the channel; within its queue it equals the blk-mq tag
 * @mapping: enum wss_mapping of the current command
 * @region_live: the device may still accept the region's rkey
 * @dir: DMA direction of the current command
 * @nents: segments in @sgl, 0 when nothing is mapped
 * @sense: how the target ended the command
 * @error: an error that the driver detected, which @sense does not express
 * @first_wr: first work request of the chain that ends in @send_wr
 * @post_next: next slot in the chain to post
 * @inv_next: next slot whose region is invalidated by the same post
 * @inv_group: first slot of such a group; valid in its last slot
 * @cmd: the command IU. It is used again as soon as the target has answered, even if the device has
 *	not completed the SEND: the target has the message, and its device ignores the contents of a
 *	retransmission. The IU stays mapped while the channel is up
 * @sgl: scatterlist, sess->device_limits.segments entries
 * @send_wr: SEND of the command
 * @reg_wr: REG_MR of @mr
 * @inv_wr: LOCAL_INV of @mr
 * @segments: with mlockv=off further regions (segments.c), otherwise NULL
 * @extra: how many of @segments are registered
 * @sge: segments of @send_wr: the command, then immediate data
 * @at: time stamps of the stages (stages.h)
 * @late: in the list of slots whose responses a fault delays
 */
struct wss_slot {
	u64 live;
	atomic_t pending;
	struct request *rq;
	u64 tag;
	struct wss_chan *chan;
	struct ib_mr *mr;
	u16 index;
	u8 mapping;
	bool region_live;
	u8 dir;
	u16 nents;
	struct wss_sense sense;
	blk_status_t error;
	struct ib_send_wr *first_wr;
	struct wss_slot *post_next;
	struct wss_slot *inv_next;
	struct wss_slot *inv_group;
	struct wss_iu cmd;
	struct scatterlist *sgl;
	struct ib_send_wr send_wr;
	struct ib_reg_wr reg_wr;
	struct ib_send_wr inv_wr;
	struct wss_segment *segments;
	u16 extra;
	struct ib_sge sge[1 + WSS_IMM_SEGMENTS];
	u64 at[WSS_MOMENTS];
	struct llist_node late;
	u32 expected;	  /* bytes that a read transfers */
	u32 arrived;	  /* of these, bytes written by cache engines; only the poller adds to it */
	u64 again;	  /* tag of the command to send again after RETRY; 0: none */
	u32 again_engine; /* the engine that RETRY names */
};

/*
 * Kind of a work request, in the upper half of its wr_id. The driver's own dispatch needs no
 * indirect call per completion.
 */
enum wss_wr {
	WSS_WR_RECV,
	WSS_WR_SEND,	  /* a command; its completion only retires queue entries */
	WSS_WR_SEND_DATA, /* a command with immediate data: its pages are free afterwards */
	WSS_WR_REG,
	WSS_WR_INV,
	WSS_WR_MESSAGE,	  /* not a command; its index is an enum wss_message */
	WSS_WR_ENGINE,	  /* a receive of a cache engine's queue pair */
	WSS_WR_MARKER,	  /* the last one of a queue pair that is drained (teardown.c) */
};

#define WSS_WR_ID(kind, index) ((u64)(kind) << 32 | (index))

/**
 * struct wss_recv - one posted receive
 * @wr: its work request, linked into the list of receives to repost
 * @sge: its only segment
 * @iu: its buffer
 */
struct wss_recv {
	struct ib_recv_wr wr;
	struct ib_sge sge;
	struct wss_iu iu;
};

/*
 * Commands and task management requests cost a credit. SRP's other messages and the KEEPALIVE_REQ
 * do not.
 */
static inline bool wss_costs_credit(const struct wss_slot *slot)
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;

	return cmd->opcode == WSS_SRP_CMD || cmd->opcode == WSS_SRP_TSK_MGMT;
}

/* Writes a message that consists of an opcode and a tag to the command buffer of a control slot. */
static inline void wss_slot_fill_short(struct wss_slot *slot, u8 opcode)
{
	struct wss_srp_short *msg = slot->cmd.data;

	/* The tag is at the same offset as in a command, so that wss_slot_start() serves both. */
	BUILD_BUG_ON(offsetof(struct wss_srp_short, tag) != offsetof(struct wss_srp_cmd, tag));
	memset(msg, 0, sizeof(*msg));
	msg->opcode = opcode;
	slot->nents = 0;
	slot->first_wr = &slot->send_wr;
	slot->sge[0].length = sizeof(*msg);
}

/* map.c */
int wss_mlockv(struct wss_slot *slot);
void wss_munlockv(struct wss_slot *slot);
int wss_map_region(struct wss_slot *slot);
int wss_map_immediate(struct wss_slot *slot);
void wss_describe_region(struct wss_slot *slot, bool data_out);
void wss_describe_immediate(struct wss_slot *slot, u32 bytes);

/* segments.c */
DECLARE_STATIC_KEY_FALSE(wss_by_segments);
int wss_segments_alloc(struct wss_slot *slot);
void wss_segments_free(struct wss_slot *slot);
int wss_segments_map(struct wss_slot *slot, int count);
void wss_segments_invalidate(struct wss_slot *slot);
void wss_segments_forget(struct wss_slot *slot);
void wss_segments_describe(struct wss_slot *slot, bool data_out);

/*
 * True if the slot has a region for each segment. The slot is not read unless a session uses
 * mlockv=off.
 */
static inline bool wss_has_segments(const struct wss_slot *slot)
{
	return static_branch_unlikely(&wss_by_segments) && slot->segments;
}

/* submit.c */
void wss_slot_start(struct wss_slot *slot, struct request *rq, int pending);
bool wss_take_control_credit(struct wss_slot *slot, u32 wait_ms);
void wss_slot_send(struct wss_slot *slot);

/* end.c */
void wss_slot_put(struct wss_slot *slot, struct io_comp_batch *iob);
bool wss_slot_reclaim(struct wss_slot *slot, u64 tag);
void wss_admin_finish(struct wss_slot *slot);
bool wss_retry_busy(struct request *rq);
unsigned long wss_total_time(const struct request *rq);
void wss_note_unflushed(const struct request *rq);

/* abort.c */
bool wss_abort_command(struct wss_slot *slot, u64 tag, u32 timeout_ms);

/* response.c */
void wss_slot_answered(struct wss_slot *slot, struct io_comp_batch *iob);

#endif /* WSS_SLOT_H */
