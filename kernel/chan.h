/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Channels: a queue pair of a session with its completion queue, and the blk-mq hardware queues
 * that it serves.
 */
#ifndef WSS_CHAN_H
#define WSS_CHAN_H

#include <linux/irq_poll.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/rdma_cm.h>

#include "engine.h"
#include "error.h"
#include "slot.h"

struct wss_session;

/**
 * struct wss_queue - a blk-mq hardware queue
 * @chan: the channel that serves it; it may serve other queues as well
 * @slots: slot of tag 0
 *
 * Written while the session is not live. Submitters read it after they have seen the session live
 * (wss_admit()).
 */
struct wss_queue {
	struct wss_chan *chan;
	struct wss_slot *slots;
};

/**
 * struct wss_auth - the messages that a channel exchanges before its first command. The proofs cover all
 * of them, except the proofs in @challenge and the whole of @result (auth.c)
 * @login_req: LOGIN_REQ as sent
 * @login_rsp: LOGIN_RSP as received
 * @start: the driver's AUTH_START
 * @challenge: the target's AUTH_CHALLENGE
 * @result: the target's AUTH_RESULT
 * @binding: the binding of the connection, which the proofs cover as well
 * @awaited: opcode of the next message from the target; 0: it has been received, and the receive
 *	side does not write to this structure
 * @granted: WSS_CAP_AUTHENTICATE was negotiated
 * @proven: both ends have proved their identity, or the session has no secret. Until then, only
 *	messages of the authentication and logouts are accepted. Written by the poller when it receives
 *	the result, so a message that follows the result finds it set
 */
struct wss_auth {
	struct wss_srp_login_req login_req;
	struct wss_srp_login_rsp login_rsp;
	struct wss_srp_auth_start start;
	struct wss_srp_auth_challenge challenge;
	struct wss_srp_auth_result result;
	struct wss_rdma_binding binding;
	u8 awaited;
	bool granted;
	bool proven;
};

/**
 * struct wss_tmf - the task management request, or the keep-alive, of a control slot
 * @busy: the slot is in use, even if the sender has stopped waiting for the response
 * @since: jiffies when the request was sent; valid while @busy is true
 * @status: enum wss_srp_tsk_mgmt_status of the response; valid while @busy is false; meaningless
 *	for a keep-alive
 *
 * Each control slot has its own structure, so that a late response to an ABORT TASK cannot be
 * mistaken for the response to the reset that followed it.
 */
struct wss_tmf {
	bool busy;
	u8 status;
	unsigned long since;
};

/**
 * enum wss_message - messages that are not commands; each has a buffer of its own
 * @WSS_MESSAGE_REPLY: SRP_CRED_RSP or SRP_AER_RSP; sent again only after its completion
 * @WSS_MESSAGE_AUTH_START: sent once per connection
 * @WSS_MESSAGE_AUTH_PROOF: sent once per connection, perhaps before the completion of the previous one
 * @WSS_MESSAGES: number of buffers
 */
enum wss_message {
	WSS_MESSAGE_REPLY,
	WSS_MESSAGE_AUTH_START,
	WSS_MESSAGE_AUTH_PROOF,
	WSS_MESSAGES,
};

/**
 * enum wss_chan_state - life of a channel
 * @WSS_CHAN_DOWN: the channel owns no resources
 * @WSS_CHAN_UP: being connected, or connected
 * @WSS_CHAN_STOPPING: being taken down: connection events do nothing, errors are ignored
 */
enum wss_chan_state {
	WSS_CHAN_DOWN,
	WSS_CHAN_UP,
	WSS_CHAN_STOPPING,
};

/*
 * struct wss_chan - one queue pair of a session
 *
 * The object lives as long as its session. wss_chan_start() and the connection events allocate its
 * resources, and wss_chans_take_down() frees them. While the channel is down no submitter uses it,
 * because the session is not live or no queue is assigned to the channel (wss_admit()).
 */
struct wss_chan {
	/* Read in the hot path; written while the session is not live. */
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
	u32 nr_slots;	/* slots of its queues, without the control slots; 0: not yet allocated */
	u8 imm_segments;	/* data segments that fit into a SEND */
	bool send_inline;
	bool polled;	/* no interrupts: blk-mq polls */
	bool lazy;	/* WSS_INVALIDATE_LAZY */

	/* Written by submitters. */
	atomic_t credits ____cacheline_aligned_in_smp;
	unsigned long starved_since; /* jiffies when a request found no credit; 0: credits have come back since */
	u32 sends;		    /* deliberately unlocked: only spaces out signalled SENDs */
	spinlock_t pending_lock;    /* protects the next two */
	struct wss_slot *pending_first;
	struct wss_slot *pending_last;

	/* Written by the only poller of the completion queue. */
	struct irq_poll iop ____cacheline_aligned_in_smp;
	struct ib_wc wc[WSS_POLL_BATCH];
	struct wss_slot *inv_first; /* regions to invalidate at the end of this batch */
	struct wss_slot *inv_last;
	struct ib_recv_wr *recv_first; /* receives to repost */
	struct ib_recv_wr *recv_last;
	u32 received;		/* messages received; a sign of life (keepalive.c) */
	u32 reposted;		/* messages whose receives were reposted */
	spinlock_t poll_lock;	    /* polled channels: one poller at a time */
	bool reply_busy;	    /* WSS_MESSAGE_REPLY is in flight */
	u8 reply_next;		    /* opcode of the next reply; 0: none */
	u64 reply_next_tag;
	u64 vain_since;		    /* time (ns) since which polls find nothing; 0: the last
	               		     * one found something. Unlocked */

	/* Not used in the hot path. */
	struct rdma_cm_id *cm_id;
	struct wss_recv *recvs;
	u32 nr_recvs;
	struct wss_iu_array cmd_ius;
	struct wss_iu_array recv_ius;
	struct wss_iu_array message_ius; /* by enum wss_message */
	struct scatterlist *sgl;
	enum wss_chan_state state;  /* changed only by wss_chan_set_state() */
	atomic_t markers;	    /* outstanding markers of a drain */
	bool connect_done;	    /* the attempt has ended with @connect_status */
	int connect_status;
	u32 reject_reason;	    /* enum wss_srp_rej_reason of a refused login, else 0 */
	u32 granted;		    /* credits granted by the login that the driver uses */
	u32 reserved;		    /* granted credits that are reserved for control slots */
	u8 banks;		    /* number of queues that it serves */
	u32 slot_count;		    /* slots allocated, control slots included */
	struct wss_tmf tmf[WSS_TMF_SLOTS]; /* by control slot, beginning with WSS_SLOT_ABORT */
	u64 epoch;
	u32 keepalive_ms;
	u32 boot_id;
	struct wss_error connect_error;
	struct wss_auth auth;
	struct llist_head late;	    /* slots whose responses a fault delays */
	struct delayed_work late_work;
	struct wss_engine engines[WSS_ENGINES]; /* started and closed by engine_work */
	struct work_struct engine_work;
	spinlock_t engine_lock;	    /* protects the next two */
	struct wss_srp_cache_engine news[WSS_ENGINE_NEWS];
	u32 nr_news;
};

static inline struct wss_slot *wss_control_slot(struct wss_chan *chan, enum wss_control_slot which)
{
	return &chan->slots[chan->nr_slots + which];
}

/* @slot is a control slot other than WSS_SLOT_ADMIN. */
static inline struct wss_tmf *wss_slot_tmf(struct wss_slot *slot)
{
	return &slot->chan->tmf[slot->index - slot->chan->nr_slots - WSS_SLOT_ABORT];
}

/* conn.c */
int wss_chan_start(struct wss_chan *chan);
void wss_chan_break(struct wss_chan *chan, const char *why);
void wss_set_ack_timeout(struct rdma_cm_id *cm_id, u32 ms);
void wss_chan_set_state(struct wss_chan *chan, enum wss_chan_state to);

/* qp.c */
int wss_chan_alloc(struct wss_chan *chan);
void wss_chan_listen(struct wss_chan *chan);

/* login.c */
void wss_fill_login(struct wss_chan *chan, struct wss_srp_login_req *req);
const char *wss_reject_reason(u32 reason);
int wss_take_grants(struct wss_chan *chan, const struct wss_srp_login_rsp *rsp);

/* teardown.c */
void wss_chans_take_down(struct wss_chan *chans, u32 count);

/* buffers.c */
int wss_iu_array_alloc(struct wss_iu_array *array, struct ib_device *ibdev, unsigned int count,
		       unsigned int iu_bytes, enum dma_data_direction dir);
void wss_iu_array_free(struct wss_iu_array *array, struct ib_device *ibdev);
struct wss_iu wss_iu_at(const struct wss_iu_array *array, unsigned int index);
int wss_slots_alloc(struct wss_chan *chan);
void wss_slots_free(struct wss_chan *chan);
int wss_recvs_alloc(struct wss_chan *chan);
void wss_recvs_free(struct wss_chan *chan);

/* mq.c */
extern const struct blk_mq_ops wss_mq_ops;

/* end.c */
void wss_post_invalidate(struct wss_chan *chan, struct wss_slot *first,
				struct wss_slot *last);
void wss_invalidated(struct wss_chan *chan, struct wss_slot *last, struct io_comp_batch *iob);
void wss_cancel_slots(struct wss_chan *chan);

/* poll.c */
int wss_chan_poll(struct wss_chan *chan, int budget, struct io_comp_batch *iob);
int wss_irq_poll(struct irq_poll *iop, int budget);
void wss_chan_poll_now(struct wss_chan *chan);
void wss_chan_protocol_error(struct wss_chan *chan, const char *what);

/* auth.c */
void wss_auth_bind(struct wss_chan *chan, u32 peer_qpn);
int wss_auth_channel(struct wss_chan *chan, struct wss_error *err);
void wss_auth_recv(struct wss_chan *chan, const void *data, u32 bytes);

/* response.c */
int wss_send_message(struct wss_chan *chan, enum wss_message which, const void *message, u32 bytes);
void wss_reply_sent(struct wss_chan *chan);
void wss_recv_message(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob);
void wss_late_work(struct work_struct *work);

#endif /* WSS_CHAN_H */
