/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers that several files share.
 */
#ifndef WSS_LIMITS_H
#define WSS_LIMITS_H

#include <linux/build_bug.h>
#include <linux/time64.h>

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
/* While requests wait for the end of a walk over the volumes, the first unit that does not answer is waited for so long ... */
#define WSS_ADMIN_RECOVERY_MS 3000
/* ... and each further one: they are looked at again when nobody waits. */
#define WSS_ADMIN_BRIEF_MS 300
#define WSS_LOGOUT_TIMEOUT_MS 500
/* ... and for the answer to a task management request. */
#define WSS_TMF_TIMEOUT_MS 5000
/* A device may take so long to complete a work request of a command that is answered and has timed out. */
#define WSS_COMPLETION_TIMEOUT_MS 1000
/*
 * A connection that was lost sooner after its login (or sooner than keepalive_tmo) has not ended the loss before it: the
 * timers go on counting from that one.
 */
#define WSS_STEADY_S 5
/* A command is aborted and sent again at most so often. */
#define WSS_MAX_ABORTS 2
#define WSS_IO_TIMEOUT_MS 30000

#define WSS_NAME_MAX 128
/* A designator has 255 bytes at most; a truncated one might fit two units. */
#define WSS_WWID_MAX 272
#define WSS_ERROR_MAX 320

#endif /* WSS_LIMITS_H */
