/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wss.ko: a block device whose data lives behind an SRP target reached by RDMA.
 *
 * Objects, from the outside in:
 *
 *   session   one target address: port identifiers, state, timers, channels, volumes
 *   channel   one queue pair and its completion queue
 *   queue     a blk-mq hardware queue: which channel serves it, and with which of its slots. As many
 *             as were asked for; channels may be fewer, and another number after a reconnection
 *   slot      one command in flight on a channel: command IU, memory region, scatterlist, work
 *             requests. Slot i of a queue belongs to blk-mq tag i, so taking one needs no lock and no
 *             search.
 *   volume    one logical unit as a disk, /dev/wssN
 *
 * Invariants
 *   I1  A request has at most one memory region, whatever its pieces (map.c).
 *   I2  A page goes back to the block layer only when the peer can no longer reach it: its region
 *       is invalidated, or the queue pair and the region are destroyed (io.c, teardown.c).
 *   I3  A request ends once: whoever takes slot->live from the wire tag to zero owns its end
 *       (io.c).
 *   I4  Commands in flight on a channel never exceed the credits that the target gave (io.c).
 *   I5  The state changes in wss_set_state() only (state.c).
 *   I6  Nothing that the target sends is used before it is checked; a lie costs it the connection.
 *
 * Lock order (outer first)
 *   wss_maps_sem           attach.c    maps in progress; unloading waits for them
 *   sess->map_mutex        attach.c    one map of a session at a time
 *   wss_map_mutex          attach.c    lists of sessions and pending maps; unmaps exclude each other
 *   sess->look_mutex       revalidate.c  one walk over the volumes at a time; held while the target is asked
 *   sess->mutex            wss.h       list of volumes, and what is quiesced; never held while the target is asked
 *   sess->admin_mutex      wss.h       the one administrative command in flight; channels are not
 *                                      taken down while it is held
 *   sess->ping_mutex       wss.h       the one keep-alive in flight, and sess->up
 *   sess->lock             wss.h       state and its companions; taken in softirq
 *   chan->pending_lock     wss.h       requests that wait for commit_rqs
 */
#ifndef WSS_H
#define WSS_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/inet.h>
#include <linux/irq_poll.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "stages.h"
#include "uapi/wss_srp.h"

/* Queue pairs per session; one per CPU is enough, and the target pays for each. */
#define WSS_MAX_CHANNELS 32
#define WSS_DEFAULT_CHANNELS 8
/* Commands per channel. The low 16 bits of a tag name the slot, one of which is administrative. */
#define WSS_MAX_DEPTH 1024
#define WSS_DEFAULT_DEPTH 128
static_assert(WSS_MAX_DEPTH < WSS_FUSED_TAG_MASK, "a fused completion has 16 bits for the slot");
/* 1 MiB in 4 KiB pages: what the block layer merges well, and what RDMA moves at wire speed. */
#define WSS_MAX_SEGMENTS 256
/* A command IU; large enough for an UNMAP with its parameter list behind the command. */
#define WSS_CMD_IU_BYTES 512
#define WSS_MAX_UNMAP_RANGES 16
static_assert(WSS_SRP_IMM_DATA_OFFSET + 8 + 16 * WSS_MAX_UNMAP_RANGES <= WSS_CMD_IU_BYTES,
	      "the UNMAP parameter list lies inside the command IU");
/* With mlockv=off: the most pieces of a request, each a region, and the command that lists them. */
#define WSS_PIECES 32
#define WSS_CMD_PIECES_BYTES                                                 \
	(sizeof(struct wss_srp_cmd) + sizeof(struct wss_srp_indirect_buf) + \
	 WSS_PIECES * sizeof(struct wss_srp_direct_buf))
#define WSS_CMD_IU_PIECES_BYTES 1024
static_assert(WSS_CMD_PIECES_BYTES <= WSS_CMD_IU_PIECES_BYTES,
	      "all descriptors lie inside the command IU");
/* Pieces of an immediate write, besides the command: 16 KiB at any alignment take five pages. */
#define WSS_IMM_PIECES 8
/* Bytes of an SRP_CMD with one direct descriptor: what is sent inline. */
#define WSS_CMD_DIRECT_BYTES (sizeof(struct wss_srp_cmd) + sizeof(struct wss_srp_direct_buf))
/* Slots of a channel behind those of its queues: what else may be under way. */
enum wss_control_slot {
	WSS_SLOT_ADMIN, /* discovery; on channel 0 */
	WSS_SLOT_ABORT, /* ABORT TASK */
	WSS_SLOT_RESET, /* LOGICAL UNIT RESET, also while an ABORT TASK is not answered */
	WSS_SLOT_PING,	/* keep-alive, also while an administrative command is not answered; on channel 0 */
	WSS_CONTROL_SLOTS,
};
#define WSS_TMF_SLOTS (WSS_CONTROL_SLOTS - WSS_SLOT_ABORT)
/* A tag is: slot (16 bits), channel (8 bits), uses of the slot. One session's tags differ. */
#define WSS_TAG_CHANNEL_SHIFT 16
#define WSS_TAG_USE_SHIFT 24
static_assert((WSS_MAX_CHANNELS + WSS_MAX_CHANNELS / 2) < 256, "a channel fits into 8 bits of a tag");
static_assert((WSS_MAX_CHANNELS + WSS_MAX_CHANNELS / 2) * WSS_MAX_DEPTH + WSS_CONTROL_SLOTS <= 65536,
	      "a slot fits into 16 bits of a tag, even when one channel serves all queues");
/* Receives are posted back this many at a time; so many more than credits are posted. */
#define WSS_RECV_BATCH 16
/* Requests of the target itself (SRP_CRED_REQ, SRP_AER_REQ, NOTIFY) that may arrive unasked. */
#define WSS_RECV_EXTRA 4
/* Completions taken from the queue at a time, and in one softirq round. */
#define WSS_POLL_BATCH 16
#define WSS_POLL_BUDGET 256
/* Longer than a fast network's answer takes: who polled in vain for so long gives way. */
#define WSS_POLL_VAIN_NS (20 * NSEC_PER_USEC)
/* REPORT LUNS of 2047 volumes; every other answer is smaller. */
#define WSS_ADMIN_BYTES 16384
#define WSS_MAX_LUNS (WSS_ADMIN_BYTES / 8 - 1)
/* A request whose error may be past at once is sent again at most so often. */
#define WSS_MAX_RETRIES 5
/*
 * A busy target is another matter: as under the SCSI stack, a request is sent again for as long as its retries
 * might take, (WSS_MAX_RETRIES + 1) times queue/io_timeout. The delay doubles up to the most. The same limit holds
 * where a request's data cannot be mapped for the RDMA device.
 */
#define WSS_BUSY_DELAY_MIN_MS 4
#define WSS_BUSY_DELAY_MAX_MS 128
/* Longest wait for one step of a connection, and for an administrative command. */
#define WSS_CM_TIMEOUT_MS 3000
#define WSS_CONNECT_TIMEOUT_MS 10000
#define WSS_ADMIN_TIMEOUT_MS 10000
#define WSS_LOGOUT_TIMEOUT_MS 500
/* ... and for the answer to a task management request. */
#define WSS_TMF_TIMEOUT_MS 5000
/* A device may take so long to complete a work request of a command that is answered and has timed out. */
#define WSS_COMPLETION_TIMEOUT_MS 1000
/* A command is aborted and sent again at most so often. */
#define WSS_MAX_ABORTS 2
#define WSS_IO_TIMEOUT_MS 30000

#define WSS_NAME_MAX 128
/* A designator has 255 bytes at most; a truncated one might fit two units. */
#define WSS_WWID_MAX 272
#define WSS_ERROR_MAX 320

/**
 * struct wss_error - why an operation of an administrator failed, in words for him
 * @text: one line without a newline; empty when nothing failed
 */
struct wss_error {
	char text[WSS_ERROR_MAX];
};

/* errors.c */
int __printf(3, 4) wss_fail(struct wss_error *err, int errno_value, const char *fmt, ...);
const char *wss_reason(int error);
const char *wss_logout_reason(const struct wss_srp_t_logout *logout, u32 bytes);

/**
 * enum wss_state - life of a session
 * @WSS_CONNECTING: first connection; no disk exists yet, no request can come
 * @WSS_LIVE: logged in; requests flow
 * @WSS_RECOVERING: connection lost; requests wait (or fail, after fast_io_fail_tmo) while
 *	reconnection is tried every reconnect_delay
 * @WSS_FAILED: dev_loss_tmo passed, or the first connection failed; requests fail
 * @WSS_REMOVING: being taken down; requests fail; the last state
 * @WSS_STATES: their number
 */
enum wss_state {
	WSS_CONNECTING,
	WSS_LIVE,
	WSS_RECOVERING,
	WSS_FAILED,
	WSS_REMOVING,
	WSS_STATES,
};

/* When a region dies that the target did not invalidate itself. */
enum wss_invalidate {
	WSS_INVALIDATE_STRICT, /* before the request ends */
	WSS_INVALIDATE_LAZY,   /* before the region is used again: only for a trusted target */
};

struct key;

/**
 * struct wss_options - what `map` was asked for; immutable afterwards
 * @target: address and port
 * @target_text: the same as the user wrote it
 * @volume: name of the volume, or `lun:N`, or `naa.HEX`
 * @queues: channels wanted; 0: one per CPU
 * @poll_queues: further channels for polled I/O
 * @queue_depth: commands per channel
 * @reconnect_delay: seconds between attempts; -1: do not reconnect
 * @fast_io_fail_tmo: seconds until waiting requests fail; -1: never
 * @dev_loss_tmo: seconds until reconnection is given up; -1: never
 * @keepalive_tmo: seconds in which a dead target is noticed; -1: never asked
 * @retry: a map whose target is not there stays pending
 * @net: network namespace of who asks; referenced by whoever keeps it
 * @id_ext: first half of the target port identifier
 * @ioc_guid: second half of it
 * @max_imm: largest immediate write to ask for, in bytes; 0: none
 * @invalidate: enum wss_invalidate
 * @caps: enum wss_cap to ask for
 * @initiator: the name under which to authenticate; empty: not at all
 * @key: the secret that proves it, with a reference (auth.c)
 */
struct wss_options {
	struct sockaddr_storage target;
	char target_text[WSS_NAME_MAX];
	char volume[WSS_NAME_MAX];
	u32 queues;
	u32 poll_queues;
	u32 queue_depth;
	int reconnect_delay;
	int fast_io_fail_tmo;
	int dev_loss_tmo;
	int keepalive_tmo;
	bool retry;
	bool mlockv;
	struct net *net;
	u64 id_ext;
	u64 ioc_guid;
	u32 max_imm;
	u32 invalidate;
	u32 caps;
	char initiator[WSS_AUTH_NAME_BYTES];
	struct key *key;
};

/*
 * Counters, one row per CPU, summed when read. X(name, help) keeps the enum, the sysfs files and
 * their order in one place.
 */
#define WSS_COUNTERS(X)                                                             \
	X(requests, "requests handed to the target")                                \
	X(errors, "requests that ended with an error")                              \
	X(retries, "requests sent again")                                           \
	X(regions_registered, "memory regions registered")                          \
	X(regions_released, "memory regions invalidated or destroyed")              \
	X(dma_maps, "scatterlists mapped for DMA")                                  \
	X(dma_unmaps, "scatterlists unmapped")                                      \
	X(immediate_writes, "requests whose data went with the command")            \
	X(fused_completions, "requests completed by an RDMA WRITE WITH IMMEDIATE")  \
	X(batched_completions, "requests completed by a message for several")       \
	X(engines_connected, "connections made to cache engines")                   \
	X(engine_completions, "reads completed by cache engines")                   \
	X(engine_bytes, "bytes that cache engines wrote")                           \
	X(engine_retries, "commands done again because an engine was lost")         \
	X(remote_invalidations, "regions that the target invalidated")              \
	X(local_invalidations, "regions that the driver invalidated")               \
	X(doorbells, "lists of work requests posted")                               \
	X(polled_completions, "completions that pollers found")                     \
	X(polls_yielded, "times that a poller in vain gave way to others")          \
	X(timeouts, "requests that were not answered in time")                      \
	X(aborts, "commands ended by ABORT TASK")                                   \
	X(resets, "LOGICAL UNIT RESETs")                                            \
	X(reconnects, "logins after the first")                                     \
	X(faults, "faults injected")                                                \
	X(protocol_errors, "messages of the target that were refused")

#define WSS_COUNTER_ENUM(name, help) WSS_STAT_##name,
enum wss_counter { WSS_COUNTERS(WSS_COUNTER_ENUM) WSS_STATS };

struct wss_stats {
	u64 count[WSS_STATS];
};

struct wss_chan;
struct wss_session;
struct wss_slot;
struct wss_volume;

/**
 * struct wss_queue - a blk-mq hardware queue
 * @chan: serves it, perhaps beside others
 * @slots: slot of tag 0
 *
 * Written while the session is not live; read by submitters after they saw it live (wss_admit()).
 */
struct wss_queue {
	struct wss_chan *chan;
	struct wss_slot *slots;
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
 * struct wss_sense - how a command ended, as the target says
 * @status: SAM status; 0 is GOOD
 * @key: sense key, 0 when there is no sense
 * @asc: additional sense code
 * @ascq: its qualifier
 */
struct wss_sense {
	u8 status;
	u8 key;
	u8 asc;
	u8 ascq;
};

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
 * struct wss_iu_ring - equal buffers, packed into pages
 * @pages: page addresses
 * @dma: DMA address of each page, 0 when not mapped
 * @nr_pages: their number
 * @iu_bytes: size of one buffer, a power of two up to a page
 * @dir: direction of the mapping
 */
struct wss_iu_ring {
	void **pages;
	u64 *dma;
	unsigned int nr_pages;
	unsigned int iu_bytes;
	enum dma_data_direction dir;
};

/* Where a slot's data is. */
enum wss_mapping {
	WSS_MAP_NONE,	   /* no data, or data inside the command IU */
	WSS_MAP_IMMEDIATE, /* pages are pieces of the SEND */
	WSS_MAP_REGION,	   /* pages are one memory region */
};

/**
 * struct wss_slot - one command in flight
 * @live: wire tag while a response is awaited, else 0. Set by the submitter before it posts;
 *	whoever moves it to 0 (response, failed post) decides how the request ends
 * @pending: what must still happen before the request may end: the post has returned, the
 *	response has come, an immediate SEND has completed. Who takes it to 0 goes on
 * @rq: the request, NULL when the slot is free (or administrative); see I3
 * @tag: wire tag of the present or last command
 * @chan: the channel, immutable
 * @mr: the region, immutable while the channel is up
 * @index: position in the channel; within its queue it equals the blk-mq tag
 * @mapping: enum wss_mapping of the present command
 * @region_live: the device may still honour the region's rkey
 * @dir: DMA direction of the present command
 * @nents: pieces in @sgl, 0 when nothing is mapped
 * @sense: how the target ended it
 * @error: blk_status_t beyond what @sense says
 * @first_wr: first work request of the chain that ends in @send_wr
 * @post_next: next slot in the chain to post
 * @inv_next: next slot whose region is invalidated in the same post
 * @inv_group: in the last slot of such a group: the first one
 * @cmd: the command IU
 * @sgl: scatterlist, sess->device_limits.segments entries
 * @send_wr: SEND of the command
 * @reg_wr: REG_MR of @mr
 * @inv_wr: LOCAL_INV of @mr
 * @pieces: with mlockv=off further regions (pieces.c), otherwise NULL
 * @extra: how many of them are registered
 * @sge: pieces of @send_wr: the command, then immediate data
 * @at: when what happened (stages.h)
 * @late: in the list of answers that a fault keeps back
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
	struct wss_piece *pieces;
	u16 extra;
	struct ib_sge sge[1 + WSS_IMM_PIECES];
	u64 at[WSS_MOMENTS];
	struct llist_node late;
	u32 expected;	  /* bytes that a read brings */
	u32 arrived;	  /* of which engines have written; the poller's */
	u64 again;	  /* tag of the command that an engine will not answer; 0: none */
	u32 again_engine; /* which one */
};

/* wr_id: what completed, and which one. Ours, so that a completion needs no indirect call. */
enum wss_wr {
	WSS_WR_RECV,
	WSS_WR_SEND,	  /* a command; its completion only retires queue entries */
	WSS_WR_SEND_DATA, /* a command with immediate data: its pages are free afterwards */
	WSS_WR_REG,
	WSS_WR_INV,
	WSS_WR_REPLY,
	WSS_WR_ENGINE,	  /* a receive of a cache engine's queue pair */
	WSS_WR_MARKER,	  /* the last of a queue that is drained (teardown.c) */
};

#define WSS_WR_ID(kind, index) ((u64)(kind) << 32 | (index))

/**
 * struct wss_recv - one posted receive
 * @wr: its work request, linked into the list to be posted back
 * @sge: its one piece
 * @iu: its buffer
 */
struct wss_recv {
	struct ib_recv_wr wr;
	struct ib_sge sge;
	struct wss_iu iu;
};

#define WSS_ENGINES 4	    /* that a channel uses */
#define WSS_ENGINE_RECVS 64 /* parts on the way from one; more wait there */
#define WSS_ENGINE_NEWS 8

/**
 * enum wss_engine_state - life of a connection to a cache engine
 * @WSS_ENGINE_FREE: there is none
 * @WSS_ENGINE_OPEN: it is being made, or stands
 * @WSS_ENGINE_FAILED: it is lost, or not wanted any more: the work closes it
 * @WSS_ENGINE_CLOSING: no event and no completion takes a further step
 */
enum wss_engine_state {
	WSS_ENGINE_FREE,
	WSS_ENGINE_OPEN,
	WSS_ENGINE_FAILED,
	WSS_ENGINE_CLOSING,
};

/**
 * struct wss_engine - a channel's connection to a cache engine
 * @chan: the channel
 * @state: enum wss_engine_state; changes in wss_engine_set_state() only
 * @index: the target's number of the engine
 * @use: number of this connection, in the wr_id of its receives
 * @cm_id: NULL while free
 * @qp: on the channel's completion queue
 * @posted: receives that have not completed, plus one until the connection is closed
 * @drained: @posted fell to 0
 * @login: what we show it
 */
struct wss_engine {
	struct wss_chan *chan;
	u32 state;
	u32 index;
	u32 use;
	struct rdma_cm_id *cm_id;
	struct ib_qp *qp;
	atomic_t posted;
	struct completion drained;
	struct wss_cache_login login;
};

/**
 * struct wss_auth - what a channel said and heard before its first command, for the proofs (auth.c)
 * @login_req: as it was sent
 * @login_rsp: as it came
 * @start: ours
 * @challenge: the target's
 * @result: the target's
 * @awaited: opcode of what the target is to say next; 0: it has, and the buffer above is ours
 * @granted: WSS_CAP_AUTHENTICATE is agreed on
 */
struct wss_auth {
	struct wss_srp_login_req login_req;
	struct wss_srp_login_rsp login_rsp;
	struct wss_srp_auth_start start;
	struct wss_srp_auth_challenge challenge;
	struct wss_srp_auth_result result;
	u8 awaited;
	bool granted;
};

/**
 * struct wss_tmf - the task management request, or the keep-alive, of a control slot
 * @busy: not finished: its slot is not free, even if nobody waits for the answer any more
 * @status: enum wss_srp_tsk_mgmt_status of the answer; valid when not @busy; means nothing for a keep-alive
 *
 * Each slot has its own: an ABORT TASK that is answered late must not pass for the reset that followed it.
 */
struct wss_tmf {
	bool busy;
	u8 status;
};

/**
 * enum wss_chan_state - life of a channel
 * @WSS_CHAN_DOWN: nothing hangs on it
 * @WSS_CHAN_UP: being connected, or connected
 * @WSS_CHAN_STOPPING: being taken down: events take no further step, errors mean nothing
 */
enum wss_chan_state {
	WSS_CHAN_DOWN,
	WSS_CHAN_UP,
	WSS_CHAN_STOPPING,
};

/*
 * struct wss_chan - one queue pair of a session
 *
 * The object lives as long as its session; what hangs on it comes with wss_chan_start() and goes
 * with wss_chans_take_down(). While it is down no submitter runs: its queues are quiesced.
 */
struct wss_chan {
	/* Read in the hot path; written while the channel is down. */
	struct wss_session *sess;
	struct ib_qp *qp;
	struct ib_cq *cq;
	struct wss_slot *slots; /* nr_slots, then enum wss_control_slot */
	struct ib_device *ibdev;
	u32 lkey;
	u32 max_imm;	/* bytes of immediate data granted; 0: none */
	u32 caps;	/* enum wss_cap granted */
	u16 index;
	u16 depth;	/* commands that may be in flight */
	u32 nr_slots;	/* of queues, without the control slots; 0: none exist yet */
	u8 imm_pieces;	/* data pieces that fit a SEND */
	bool send_inline;
	bool polled;	/* no interrupts: blk-mq polls */
	bool lazy;	/* WSS_INVALIDATE_LAZY */

	/* Written by submitters. */
	atomic_t credits ____cacheline_aligned_in_smp;
	u32 sends;		    /* racy on purpose: only spaces signalled SENDs */
	spinlock_t pending_lock;    /* protects the next two */
	struct wss_slot *pending_first;
	struct wss_slot *pending_last;

	/* Written by the one context that polls the completion queue. */
	struct irq_poll iop ____cacheline_aligned_in_smp;
	struct ib_wc wc[WSS_POLL_BATCH];
	struct wss_slot *inv_first; /* regions to invalidate at the end of this batch */
	struct wss_slot *inv_last;
	struct ib_recv_wr *recv_first; /* receives to post back */
	struct ib_recv_wr *recv_last;
	u32 recv_count;
	spinlock_t poll_lock;	    /* polled channels: one poller at a time */
	bool reply_busy;	    /* an answer to the target's own request is under way */
	u64 vain_since;		    /* polls have found nothing since; 0: they did. Racy on purpose */

	/* Nothing below is hot. */
	struct rdma_cm_id *cm_id;
	struct wss_recv *recvs;
	u32 nr_recvs;
	struct wss_iu_ring cmd_ring;
	struct wss_iu_ring recv_ring;
	struct wss_iu_ring reply_ring;
	struct scatterlist *sgl;
	struct ib_send_wr reply_wr;
	struct ib_sge reply_sge;
	enum wss_chan_state state;  /* changes in wss_chan_set_state() only */
	atomic_t markers;	    /* of a drain, that have not come out yet */
	bool connect_done;	    /* the attempt ended, @connect_status says how */
	int connect_status;
	u32 reject_reason;	    /* enum wss_srp_rej_reason of a refused login, else 0 */
	u32 granted;		    /* credits of the login */
	u32 reserved;		    /* of which kept for control slots */
	u8 banks;		    /* queues that it serves */
	u32 slot_count;		    /* allocated, control slots included */
	struct wss_tmf tmf[WSS_TMF_SLOTS]; /* by control slot, from WSS_SLOT_ABORT on */
	u64 epoch;
	u32 keepalive_ms;
	u32 boot_id;
	struct wss_error connect_error;
	struct wss_auth auth;
	struct llist_head late;	    /* answers that a fault keeps back */
	struct delayed_work late_work;
	struct wss_engine engines[WSS_ENGINES]; /* the work's; completions only look */
	struct work_struct engine_work;
	spinlock_t engine_lock;	    /* protects the next two */
	struct wss_srp_cache_engine news[WSS_ENGINE_NEWS];
	u32 nr_news;
};

/**
 * struct wss_admin - the administrative command of a session
 * @buffer: data of the command, WSS_ADMIN_BYTES
 * @busy: on the wire; the buffer belongs to the device
 * @done: ended; what follows is valid
 * @error: 0, or -EIO when there was no answer
 * @sense: how the target ended it
 * @residual: bytes that did not come
 */
struct wss_admin {
	void *buffer;
	bool busy;
	bool done;
	int error;
	struct wss_sense sense;
	u32 residual;
};

/**
 * struct wss_device_limits - what an RDMA device takes in one request
 * @segments: that one region holds
 * @mapping: bytes that can be mapped at once
 * @gaps: between the segments of a region
 */
struct wss_device_limits {
	u32 segments;
	u32 mapping;
	bool gaps;
};

/*
 * struct wss_session - one target
 */
struct wss_session {
	struct device dev;		/* /sys/class/wss/sessionN; its release frees the session */
	struct list_head node;		/* in wss_sessions, under wss_map_mutex */
	unsigned int mappers;		/* maps that use it, under wss_map_mutex */
	int id;
	struct wss_options opts;	/* immutable; opts.volume means nothing here */
	struct net *net;
	u8 initiator_port_id[16];

	spinlock_t lock;		/* protects the next block */
	enum wss_state state;		/* also read without the lock */
	const char *broken;		/* why the connection, or the attempt at one, is lost */
	unsigned long lost_at;		/* jiffies of the loss */
	struct wss_error last_error;	/* why it was lost, or not regained */
	u64 epoch;			/* of the last login; recovery work and creator only */

	bool fail_fast;			/* fast_io_fail_tmo passed: requests fail at once */
	wait_queue_head_t wait;		/* channel connected, admin done, broken, removing */

	struct mutex map_mutex;		/* one map at a time; protects the next two */
	bool tried;			/* the first connection was */
	bool connected;			/* and succeeded */

	struct mutex look_mutex;	/* one walk over the volumes at a time (revalidate.c) */
	unsigned int look;		/* number of the last walk; under mutex */

	struct mutex mutex;		/* protects volumes and their quiesced flags */
	struct list_head volumes;

	struct mutex ping_mutex;	/* one keep-alive at a time; protects up */
	struct mutex admin_mutex;	/* one administrative command at a time */
	struct wss_admin admin;

	struct wss_device *wdev;	/* the RDMA device while connected (device.c) */
	struct list_head wdev_node;	/* in wdev->sessions */
	struct ib_pd *pd;
	struct wss_chan *chans;
	struct wss_queue *queues;
	u32 nr_queues;			/* channels at most, and hardware queues */
	u32 nr_default;			/* of which not polled */
	u32 up_default;			/* channels that this connection got */
	u32 up_polled;
	u32 tag_depth;			/* requests of a queue; fixed by the first connection */
	struct wss_device_limits device_limits; /* of the first device; others must take as much */
	u32 ask_imm;			/* immediate bytes that logins ask for; falls when refused */
	u32 boot_id;			/* of the target's machine at the last login; 0: not told */
	bool cache_lost;		/* it changed, and the volumes do not know yet */
	bool up;			/* all channels are logged in; written by recovery work and creator only */
	bool tags_ready;
	bool rescan_all;		/* something changed: all volumes are looked at */
	struct blk_mq_tag_set tags;
	struct request_queue *keeper;	/* keeps @tags shared (session.c) */

	struct delayed_work recover_work;
	struct delayed_work fail_work;
	struct delayed_work keepalive_work;
	struct delayed_work rescan_work;
	struct work_struct abort_work;
	struct wss_stats __percpu *stats;
	struct wss_stage_table __percpu *stages;
	struct dentry *debugfs;
};

/**
 * struct wss_device - an RDMA device that channels may use
 * @ibdev: the device
 * @node: in the list of devices
 * @sessions: that use it, by their wdev_node
 * @removed: it is being removed
 * @unused: @removed, and no session is left
 */
struct wss_device {
	struct ib_device *ibdev;
	struct list_head node;
	struct list_head sessions;
	bool removed;
	struct completion unused;
};

/*
 * struct wss_limits - what a volume can do, from its target's pages
 */
struct wss_limits {
	u64 blocks;
	u32 block_bytes;
	u32 physical_bytes;
	u32 max_blocks;		/* per transfer, 0: no limit */
	u32 opt_blocks;
	u32 max_unmap_blocks;	/* 0: no UNMAP */
	u32 max_unmap_ranges;
	u32 unmap_granularity;
	u32 unmap_alignment;
	u64 max_same_blocks;	/* WRITE SAME(16); 0: no limit given */
	bool unmap;
	bool write_same;
	bool write_same_unmap;	/* WRITE SAME may deallocate, and reads zeroes then */
	bool ndob;		/* WRITE SAME needs no data buffer */
	bool rotational;
	bool write_cache;
	bool fua;
	bool read_only;
};

/**
 * struct wss_lun_id - who a logical unit is
 * @lun: SAM LUN as on the wire
 * @name: volume name, or `lun:N` where the target has none
 * @named: the target gave the name
 * @wwid: `naa.HEX` or the like; stable over restarts. Empty: the unit has no identifier
 */
struct wss_lun_id {
	u8 lun[8];
	char name[WSS_NAME_MAX];
	bool named;
	char wwid[WSS_WWID_MAX];
};

/**
 * enum wss_volume_state - is a volume's unit there? (revalidate.c)
 * @WSS_VOLUME_PRESENT: yes, or it is not known otherwise
 * @WSS_VOLUME_ABSENT: not at present: requests wait or fail
 * @WSS_VOLUME_DEAD: nor will it be, or the disk is being removed: requests fail; the last state
 *
 * Changes in wss_volume_set_state() only, under sess->mutex.
 */
enum wss_volume_state {
	WSS_VOLUME_PRESENT,
	WSS_VOLUME_ABSENT,
	WSS_VOLUME_DEAD,
};

/*
 * struct wss_volume - a logical unit as a disk
 */
struct wss_volume {
	struct wss_session *sess;	/* holds a reference */
	struct list_head node;		/* in sess->volumes, under sess->mutex */
	struct gendisk *disk;
	int index;
	struct wss_lun_id id;		/* id.lun may change: under look_mutex, mutex and quiesce */
	unsigned int looked;		/* the last walk that has come by; under mutex */
	struct wss_limits limits;	/* hot: block_shift below */
	u8 block_shift;
	bool no_write_same;		/* the target refused one; until it reports another limit */
	bool no_unmap;			/* likewise */
	bool added;			/* mapped: may be unmapped */
	enum wss_volume_state state;	/* also read without the mutex */
	unsigned long absent_since;	/* jiffies; valid while absent */
	bool unflushed;			/* a write ended that no flush has covered */
	bool lost;			/* such a write may be lost: the next flush must say so */
	bool quiesced;			/* under sess->mutex */
	spinlock_t open_lock;		/* protects the next two */
	unsigned int openers;
	bool removing;
};

/**
 * struct wss_pdu - what a request carries besides its slot
 * @retries: how often it was sent again
 * @busy: how often because the target was busy or its data could not be mapped, at most 255
 * @busy_until: jiffies when that ends; valid when @busy
 * @aborts: how often because the target did not answer
 * @timed_out: not answered in time; abort.c sees to it
 * @error: why it ends, where @sense has nothing to say
 * @sense: how the target ended it
 */
struct wss_pdu {
	u8 retries;
	u8 busy;
	u8 aborts;
	bool timed_out;
	blk_status_t error;
	struct wss_sense sense;
	unsigned long busy_until;
};

/*
 * Work queues. When memory is short a queue may have one worker only. So works that may wait for one
 * another are on different queues: recovery for engines, everything that does I/O for recovery. What I/O
 * itself waits for has WQ_MEM_RECLAIM. X(name, flags)
 */
#define WSS_WORK_QUEUES(X)                                                          \
	X(recovery, WQ_MEM_RECLAIM) /* recover_work: connects, for seconds */       \
	X(timer, WQ_MEM_RECLAIM)    /* fail_work: must not wait behind recovery */  \
	X(abort, WQ_MEM_RECLAIM)    /* abort_work */                                \
	X(admin, WQ_MEM_RECLAIM)    /* keep-alive, rescan, late answers */          \
	X(engine, WQ_MEM_RECLAIM)   /* engine_work: recovery waits for it */        \
	X(map, 0)                   /* pending maps: these read partition tables */

#define WSS_WQ_ENUM(name, flags) WSS_WQ_##name,
enum wss_wq { WSS_WORK_QUEUES(WSS_WQ_ENUM) WSS_WQS };
extern struct workqueue_struct *wss_wqs[WSS_WQS];
#define wss_wq(name) wss_wqs[WSS_WQ_##name]
extern const struct blk_mq_ops wss_mq_ops;

#define wss_stat_add(sess, name, n) this_cpu_add((sess)->stats->count[WSS_STAT_##name], (n))
#define wss_stat_inc(sess, name) wss_stat_add(sess, name, 1)

static inline struct wss_slot *wss_control_slot(struct wss_chan *chan, enum wss_control_slot which)
{
	return &chan->slots[chan->nr_slots + which];
}

/* Of a control slot other than WSS_SLOT_ADMIN. */
static inline struct wss_tmf *wss_slot_tmf(struct wss_slot *slot)
{
	return &slot->chan->tmf[slot->index - slot->chan->nr_slots - WSS_SLOT_ABORT];
}

static inline u32 wss_nr_chans(const struct wss_session *sess)
{
	return sess->up_default + sess->up_polled;
}

/* The n-th channel that is up: polled ones have numbers behind all others that could be. */
static inline struct wss_chan *wss_up_chan(struct wss_session *sess, u32 n)
{
	return &sess->chans[n < sess->up_default ? n : sess->nr_default + n - sess->up_default];
}

/* state.c */
const char *wss_state_name(enum wss_state state);
bool wss_state_allowed(enum wss_state from, enum wss_state to);
bool wss_set_state(struct wss_session *sess, enum wss_state to);
u32 wss_keepalive_period_ms(u32 limit_ms);
const char *wss_tmo_invalid(int reconnect_delay, int fast_io_fail_tmo, int dev_loss_tmo);

/* options.c */
int wss_parse_options(char *text, struct wss_options *opts, struct wss_error *err);
void wss_default_options(struct wss_options *opts);
ssize_t wss_options_usage(char *page);

/* device.c */
int wss_devices_init(void);
void wss_devices_exit(void);
int wss_device_get(struct wss_session *sess, struct ib_device *ibdev);
void wss_device_put(struct wss_session *sess);

/* conn.c */
int wss_chans_start(struct wss_session *sess, struct wss_error *err);
void wss_chans_stop(struct wss_session *sess);
void wss_chan_break(struct wss_chan *chan, const char *why);
void wss_chan_set_state(struct wss_chan *chan, enum wss_chan_state to);

/* teardown.c */
void wss_chans_take_down(struct wss_chan *chans, u32 count);

/* ring.c */
int wss_iu_ring_alloc(struct wss_iu_ring *ring, struct ib_device *ibdev, unsigned int count,
		      unsigned int iu_bytes, enum dma_data_direction dir);
void wss_iu_ring_free(struct wss_iu_ring *ring, struct ib_device *ibdev);
struct wss_iu wss_iu_at(const struct wss_iu_ring *ring, unsigned int index);
int wss_slots_alloc(struct wss_chan *chan);
void wss_slots_free(struct wss_chan *chan);
int wss_recvs_alloc(struct wss_chan *chan);
void wss_recvs_free(struct wss_chan *chan);

/* map.c */
int wss_mlockv(struct wss_slot *slot);
void wss_munlockv(struct wss_slot *slot);
int wss_map_region(struct wss_slot *slot);
int wss_map_immediate(struct wss_slot *slot);
void wss_describe_region(struct wss_slot *slot, bool data_out);
void wss_describe_immediate(struct wss_slot *slot, u32 bytes);

/* pieces.c */
DECLARE_STATIC_KEY_FALSE(wss_by_pieces);
int wss_pieces_alloc(struct wss_slot *slot);
void wss_pieces_free(struct wss_slot *slot);
int wss_pieces_map(struct wss_slot *slot, int count);
void wss_pieces_invalidate(struct wss_slot *slot);
void wss_pieces_forget(struct wss_slot *slot);
void wss_pieces_describe(struct wss_slot *slot, bool data_out);

/* Has this slot a region for each piece? Nothing is looked at unless some session is such. */
static inline bool wss_has_pieces(const struct wss_slot *slot)
{
	return static_branch_unlikely(&wss_by_pieces) && slot->pieces;
}

/* io.c */
int wss_chan_poll(struct wss_chan *chan, int budget, struct io_comp_batch *iob);
int wss_irq_poll(struct irq_poll *iop, int budget);
void wss_slot_start(struct wss_slot *slot, struct request *rq, int pending);
void wss_slot_send(struct wss_slot *slot);
bool wss_slot_reclaim(struct wss_slot *slot, u64 tag);
void wss_chan_poll_now(struct wss_chan *chan);
void wss_cancel_slots(struct wss_chan *chan);
void wss_chan_protocol_error(struct wss_chan *chan, const char *what);

/* auth.c */
int wss_auth_find_key(struct wss_options *opts, struct wss_error *err);
void wss_auth_get_key(struct wss_options *opts);
void wss_auth_put_key(struct wss_options *opts);
int wss_auth_channel(struct wss_chan *chan, struct wss_error *err);
void wss_auth_recv(struct wss_chan *chan, const void *data, u32 bytes);

/* response.c */
int wss_send_reply(struct wss_chan *chan, const void *message, u32 bytes);
void wss_recv_message(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob);
void wss_slot_responded(struct wss_slot *slot, struct io_comp_batch *iob);
void wss_slot_answered(struct wss_slot *slot, struct io_comp_batch *iob);

/* cache_engine.c */
void wss_engine_work(struct work_struct *work);
void wss_recv_cache_engine(struct wss_chan *chan, const struct wss_srp_cache_engine *msg, u32 bytes);
void wss_recv_do_again(struct wss_chan *chan, const struct wss_srp_do_again *msg, u32 bytes);
void wss_engine_completion(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob);
void wss_engines_close(struct wss_chan *chan);
void wss_engines_await(struct wss_chan *chan);
void wss_late_work(struct work_struct *work);

/* abort.c */
enum blk_eh_timer_return wss_mq_timeout(struct request *rq);
void wss_abort_work(struct work_struct *work);
bool wss_abort_command(struct wss_slot *slot, u64 tag);

/* INVALID COMMAND OPERATION CODE, INVALID FIELD IN CDB. */
static inline bool wss_sense_refuses_operation(const struct wss_sense *sense)
{
	return sense->key == WSS_KEY_ILLEGAL && (sense->asc == 0x20 || sense->asc == 0x24);
}

/* scsi.c */
blk_status_t wss_build_command(struct wss_volume *vol, struct request *rq, struct wss_slot *slot,
			       u32 *inline_bytes);
void wss_parse_sense(const u8 *data, u32 len, struct wss_sense *sense);
enum wss_verdict { WSS_END, WSS_RETRY_NOW, WSS_RETRY_LATER };
enum wss_verdict wss_judge(const struct wss_sense *sense, enum req_op op, blk_status_t *status,
			   bool *rescan);

/* A message of an opcode and a tag into the command buffer of a control slot. */
static inline void wss_slot_fill_short(struct wss_slot *slot, u8 opcode)
{
	struct wss_srp_short *msg = slot->cmd.data;

	/* Same place for the tag as in a command, so wss_slot_start() serves both. */
	BUILD_BUG_ON(offsetof(struct wss_srp_short, tag) != offsetof(struct wss_srp_cmd, tag));
	memset(msg, 0, sizeof(*msg));
	msg->opcode = opcode;
	slot->nents = 0;
	slot->first_wr = &slot->send_wr;
	slot->sge[0].length = sizeof(*msg);
}

/* admin.c */
int wss_admin_command(struct wss_session *sess, const u8 lun[8], const u8 *cdb,
		      unsigned int cdb_len, u32 bytes, struct wss_error *err);
void wss_log_out(struct wss_session *sess);

/* discover.c */
int wss_find_volume(struct wss_session *sess, const char *spec, struct wss_lun_id *id,
		    struct wss_error *err);
int wss_find_unit(struct wss_session *sess, const struct wss_lun_id *unit, struct wss_lun_id *id,
		  struct wss_error *err);
bool wss_same_unit(const struct wss_lun_id *a, const struct wss_lun_id *b);
int wss_read_limits(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
		    struct wss_error *err);
int wss_identify(struct wss_session *sess, const u8 lun[8], struct wss_lun_id *id,
		 struct wss_error *err);

/* keepalive.c */
void wss_keepalive_work(struct work_struct *work);

/* recovery.c */
extern const char wss_target_closed[];
void wss_session_error(struct wss_session *sess, const char *why);
void wss_session_logged_out(struct wss_session *sess, const char *why);
void wss_recover_work(struct work_struct *work);
void wss_fail_work(struct work_struct *work);
void wss_session_unquiesce(struct wss_session *sess);
void wss_session_quiesce(struct wss_session *sess);

/* session.c */
struct wss_session *wss_session_alloc(const struct wss_options *opts);
int wss_session_connect(struct wss_session *sess, struct wss_error *err);
void wss_session_cancel(struct wss_session *sess);
void wss_session_stop(struct wss_session *sess);
void wss_session_destroy(struct wss_session *sess);
void wss_session_free(struct wss_session *sess);

/* attach.c */
int wss_map(struct wss_options *opts, struct wss_error *err);
int wss_unmap(const char *name, bool force, struct wss_error *err);
void wss_unmap_all(void);
ssize_t wss_pending_show(char *page);
void wss_for_each_session(void (*what)(struct wss_session *sess));

/* power.c */
int wss_power_init(void);
void wss_power_exit(void);

/*
 * A write that has ended is stable when a flush that began later has ended. Whether there are others
 * is noted in one bit, which is written when it changes only. @rq has ended well.
 */
static inline void wss_note_written(struct wss_volume *vol, const struct request *rq)
{
	if (op_is_write(req_op(rq)) && !(rq->cmd_flags & REQ_FUA) && vol->limits.write_cache &&
	    !READ_ONCE(vol->unflushed))
		WRITE_ONCE(vol->unflushed, true);
}

/* volume.c */
void wss_volumes_lose_cache(struct wss_session *sess);
struct wss_volume *wss_volume_create(struct wss_session *sess, const struct wss_lun_id *id,
				     struct wss_error *err);
int wss_volume_remove(struct wss_volume *vol, bool force, struct wss_error *err);
void wss_volume_set_state(struct wss_volume *vol, enum wss_volume_state to);
void wss_volume_quiesce(struct wss_volume *vol);
void wss_volume_unquiesce(struct wss_volume *vol);
void wss_volume_kill(struct wss_volume *vol);
sector_t wss_sectors(const struct wss_volume *vol);
void wss_limit_queue(const struct wss_volume *vol, struct queue_limits *queue);

/* revalidate.c */
int wss_volumes_revalidate(struct wss_session *sess, struct wss_error *err);
bool wss_volumes_seen(struct wss_session *sess);
bool wss_volume_waits(const struct wss_volume *vol);
void wss_session_changed(struct wss_session *sess);
void wss_rescan_work(struct work_struct *work);

/* sysfs.c */
extern struct class wss_class;
extern const struct attribute_group *wss_disk_groups[];
extern const struct attribute_group *wss_session_groups[];
void wss_set_last_error(const struct wss_error *err);

/* stats.c */
u64 wss_stat_sum(const struct wss_session *sess, enum wss_counter counter);
extern const struct attribute_group wss_stats_group;

#endif /* WSS_H */
