/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits, defaults and time-outs that several files share.
 */
#ifndef WSS_LIMITS_H
#define WSS_LIMITS_H

#include <linux/build_bug.h>
#include <linux/time64.h>

#include "uapi/wss_srp.h"

/*
 * Maximum number of queue pairs per session. Those for polled I/O, at most half as many, are not
 * included. One per CPU is enough, and each one takes memory of the target.
 */
#define WSS_MAX_CHANNELS 32
#define WSS_DEFAULT_CHANNELS 8
/* Maximum number of commands per channel. The low 16 bits of a tag are the index of its slot. */
#define WSS_MAX_DEPTH 1024
#define WSS_DEFAULT_DEPTH 128
static_assert(WSS_MAX_DEPTH < WSS_FUSED_TAG_MASK, "a fused completion has 16 bits for the slot");
/* 1 MiB in 4 KiB pages: the block layer builds such requests, and RDMA moves them at wire speed. */
#define WSS_MAX_SEGMENTS 256
/* Size of a command IU. It holds an UNMAP with its parameter list. */
#define WSS_CMD_IU_BYTES 512
#define WSS_MAX_UNMAP_RANGES 16
static_assert(WSS_SRP_IMM_DATA_OFFSET + 8 + 16 * WSS_MAX_UNMAP_RANGES <= WSS_CMD_IU_BYTES,
	      "the UNMAP parameter list lies inside the command IU");
/*
 * With mlockv=off: maximum number of segments per request, each in its own region, and the length
 * of the command that lists them.
 */
#define WSS_SEGMENT_REGIONS 32
#define WSS_CMD_SEGMENTS_BYTES                                                 \
	(sizeof(struct wss_srp_cmd) + sizeof(struct wss_srp_indirect_buf) + \
	 WSS_SEGMENT_REGIONS * sizeof(struct wss_srp_direct_buf))
#define WSS_CMD_IU_SEGMENTS_BYTES 1024
static_assert(WSS_CMD_SEGMENTS_BYTES <= WSS_CMD_IU_SEGMENTS_BYTES,
	      "all descriptors lie inside the command IU");
/* Segments of an immediate write, without the command: 16 KiB at any alignment take five pages. */
#define WSS_IMM_SEGMENTS 8
/* Bytes of an SRP_CMD with one direct descriptor. Commands up to this length are sent inline. */
#define WSS_CMD_DIRECT_BYTES (sizeof(struct wss_srp_cmd) + sizeof(struct wss_srp_direct_buf))
/*
 * Control slots: the slots of a channel after those of its queues, for commands that are not block
 * requests.
 */
enum wss_control_slot {
	WSS_SLOT_ADMIN, /* discovery, persistent reservations; on channel 0 */
	WSS_SLOT_ABORT, /* ABORT TASK */
	WSS_SLOT_RESET, /* LOGICAL UNIT RESET, even while an ABORT TASK is outstanding */
	WSS_SLOT_PING,	/* keep-alive, even while an administrative command is outstanding; on channel 0 */
	WSS_CONTROL_SLOTS,
};
#define WSS_TMF_SLOTS (WSS_CONTROL_SLOTS - WSS_SLOT_ABORT)
/*
 * A tag consists of the slot (16 bits), the channel (8 bits) and the slot's use count (40 bits). It
 * is unique within its session until the next login, which allocates new slots.
 */
#define WSS_TAG_CHANNEL_SHIFT 16
#define WSS_TAG_USE_SHIFT 24
static_assert((WSS_MAX_CHANNELS + WSS_MAX_CHANNELS / 2) < 256, "a channel fits into 8 bits of a tag");
static_assert((WSS_MAX_CHANNELS + WSS_MAX_CHANNELS / 2) * WSS_MAX_DEPTH + WSS_CONTROL_SLOTS <= 65536,
	      "a slot fits into 16 bits of a tag, even when one channel serves all queues");
/*
 * Receives in addition to one per credit. The driver reposts receives when half of this number has
 * completed.
 */
#define WSS_RECV_BATCH 16
/* Requests of the target itself (SRP_CRED_REQ, SRP_AER_REQ, NOTIFY), which need no credit. */
#define WSS_RECV_EXTRA 4
/* Completions per ib_poll_cq(), and per softirq round. */
#define WSS_POLL_BATCH 16
#define WSS_POLL_BUDGET 256
/*
 * This is longer than a response takes on a fast network. A poller that has found nothing for this
 * long yields the processor.
 */
#define WSS_POLL_VAIN_NS (20 * NSEC_PER_USEC)
/*
 * Enough for REPORT LUNS of 2047 volumes, or READ KEYS with 2047 registrations. Other responses
 * are smaller.
 */
#define WSS_ADMIN_BYTES 16384
#define WSS_MAX_LUNS (WSS_ADMIN_BYTES / 8 - 1)
/* Maximum number of immediate retries per request and login. */
#define WSS_MAX_RETRIES 5
/*
 * A request that a busy target refuses is sent again for as long as its retries might take, as in
 * the SCSI stack: (WSS_MAX_RETRIES + 1) times queue/io_timeout. The delay doubles up to the
 * maximum. The same limit applies to a request whose data cannot be mapped for the RDMA device.
 */
#define WSS_BUSY_DELAY_MIN_MS 4
#define WSS_BUSY_DELAY_MAX_MS 128
/*
 * Longest wait for one step of a connection, for the connection, and for an administrative command.
 */
#define WSS_CM_TIMEOUT_MS 3000
#define WSS_CONNECT_TIMEOUT_MS 10000
#define WSS_ADMIN_TIMEOUT_MS 10000
/*
 * Time limit for the first unit that does not respond while requests wait for a walk over the
 * volumes.
 */
#define WSS_ADMIN_RECOVERY_MS 3000
/*
 * Time limit for each further unit in such a walk. These units are examined again when no
 * request waits.
 */
#define WSS_ADMIN_BRIEF_MS 300
#define WSS_LOGOUT_TIMEOUT_MS 500
/* Longest wait for the response to a task management request. */
#define WSS_TMF_TIMEOUT_MS 5000
/*
 * Longest wait for the device to complete a work request of a timed-out command that was answered.
 */
#define WSS_COMPLETION_TIMEOUT_MS 1000
/*
 * A connection that is lost within this time after its login (or within keepalive_tmo, if that is
 * shorter) does not restart the timers: they keep counting from the previous loss.
 */
#define WSS_STEADY_S 5
/* Maximum number of times that a command is sent again after an abort. */
#define WSS_MAX_ABORTS 2
#define WSS_IO_TIMEOUT_MS 30000

#define WSS_NAME_MAX 128
/* A designator has 255 bytes at most. A truncated one could match two units. */
#define WSS_WWID_MAX 272
#define WSS_ERROR_MAX 320

#endif /* WSS_LIMITS_H */
