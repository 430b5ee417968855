/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue pair of a session with its completion queue, and the blk-mq hardware queues that it serves.
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
 * @chan: serves it, perhaps beside others
 * @slots: slot of tag 0
 *
 * Written while the session is not live; read by submitters after they saw it live (wss_admit()).
 */
struct wss_queue {
	struct wss_chan *chan;
	struct wss_slot *slots;
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
 * @since: jiffies when it went out; valid while @busy
 * @status: enum wss_srp_tsk_mgmt_status of the answer; valid when not @busy; means nothing for a keep-alive
 *
 * Each slot has its own: an ABORT TASK that is answered late must not pass for the reset that followed it.
 */
struct wss_tmf {
	bool busy;
	u8 status;
	unsigned long since;
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
	u32 received;		/* messages, ever; a sign of life (keepalive.c) */
	u32 reposted;		/* of which posted back */
	spinlock_t poll_lock;	    /* polled channels: one poller at a time */
	bool reply_busy;	    /* an answer to the target's own request is under way */
	u8 reply_next;		    /* opcode of the one that follows it; 0: none */
	u64 reply_next_tag;
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

static inline struct wss_slot *wss_control_slot(struct wss_chan *chan, enum wss_control_slot which)
{
	return &chan->slots[chan->nr_slots + which];
}

/* Of a control slot other than WSS_SLOT_ADMIN. */
static inline struct wss_tmf *wss_slot_tmf(struct wss_slot *slot)
{
	return &slot->chan->tmf[slot->index - slot->chan->nr_slots - WSS_SLOT_ABORT];
}

/* conn.c */
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
int wss_auth_channel(struct wss_chan *chan, struct wss_error *err);
void wss_auth_recv(struct wss_chan *chan, const void *data, u32 bytes);

/* response.c */
int wss_send_reply(struct wss_chan *chan, const void *message, u32 bytes);
void wss_reply_sent(struct wss_chan *chan);
void wss_recv_message(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob);
void wss_late_work(struct work_struct *work);

#endif /* WSS_CHAN_H */
