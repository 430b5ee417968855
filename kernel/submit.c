// SPDX-License-Identifier: GPL-2.0
/*
 * Submission of requests.
 *
 * blk-mq's tag selects the slot. The driver builds the command in the slot's IU, maps the data
 * (map.c), and posts the slot's work requests - [LOCAL_INV] [REG_MR] SEND - in one list. One
 * doorbell serves several requests where blk-mq passes several (queue_rqs) or announces more
 * (bd->last). The target transfers the data by RDMA and responds. response.c finds the slot by its
 * tag, and end.c ends the request.
 *
 * A request that is posted at once takes no lock. The only lock here protects the list of requests
 * that wait for commit_rqs.
 */
#include <linux/delay.h>

#include "fault.h"
#include "log.h"
#include "mq.h"
#include "trace.h"
#include "wss.h"

/*
 * Status of a flush that reports lost writes; no other request ends with it before it is sent.
 * dm-multipath treats it as an error of the target. It would repeat a flush that ended with
 * BLK_STS_IOERR on another path, where the flush succeeds.
 */
#define WSS_STS_LOST BLK_STS_TARGET

struct wss_chain {
	struct wss_slot *first;
	struct wss_slot *last;
};

static void wss_chain_add(struct wss_chain *chain, struct wss_slot *slot)
{
	slot->post_next = NULL;
	slot->send_wr.next = NULL;
	if (chain->first) {
		chain->last->send_wr.next = slot->first_wr;
		chain->last->post_next = slot;
	} else {
		chain->first = slot;
	}
	chain->last = slot;
}

/**
 * wss_slot_start - start a command in a slot
 * @slot: free
 * @rq: the request, or NULL for a control command
 * @pending: number of outstanding events in addition to the return of the post and the response
 *
 * The tag changes with each use, so that a late or forged response does not match.
 */
void wss_slot_start(struct wss_slot *slot, struct request *rq, int pending)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;

	slot->tag = ((slot->tag >> WSS_TAG_USE_SHIFT) + 1) << WSS_TAG_USE_SHIFT |
		    (u64)slot->chan->index << WSS_TAG_CHANNEL_SHIFT | slot->index;
	slot->rq = rq;
	slot->error = BLK_STS_OK;
	slot->expected = rq && req_op(rq) == REQ_OP_READ ? blk_rq_bytes(rq) : 0;
	slot->arrived = 0;
	atomic_set(&slot->pending, 2 + pending);
	cmd->tag = slot->tag;
	/*
	 * Pairs with the cmpxchg in wss_take_slot(), and with abort.c, which reads the LUN after
	 * it.
	 */
	smp_store_release(&slot->live, slot->tag);
}

/*
 * A request without a credit has not started, so blk-mq has no timer for it. If no credit comes back
 * for as long as the retries of a request may take, end the connection: commands that hang have been
 * aborted by then, which returns their credits.
 */
static void wss_no_credit(struct wss_chan *chan, const struct request *rq)
{
	unsigned long since = READ_ONCE(chan->starved_since);

	if (!since)
		WRITE_ONCE(chan->starved_since, jiffies | 1);
	else if (time_after(jiffies, since + wss_total_time(rq)))
		wss_session_error(chan->sess, "the target returns no credits");
}

static bool wss_take_credit(struct wss_chan *chan, const struct request *rq)
{
	if (likely(atomic_dec_return(&chan->credits) >= 0))
		return true;
	atomic_inc(&chan->credits);
	wss_no_credit(chan, rq);
	return false;
}

/* Prepares the SEND of a slot whose IU and data segments are set. */
static void wss_prepare_send(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	struct ib_send_wr *wr = &slot->send_wr;

	if (wss_fault(tamper)) {
		wss_stat_inc(chan->sess, faults);
		*(u8 *)slot->cmd.data = 0xff; /* not an opcode; the next connection allocates new slots */
	}
	wr->send_flags = 0;
	if (slot->mapping == WSS_MAP_IMMEDIATE) {
		wr->wr_id = WSS_WR_ID(WSS_WR_SEND_DATA, slot->index);
		wr->send_flags = IB_SEND_SIGNALED;
	} else {
		wr->wr_id = WSS_WR_ID(WSS_WR_SEND, slot->index);
		wr->num_sge = 1;
		/* The next signalled entry retires the unsignalled ones before it. */
		if (++chan->sends >= chan->depth / 2) {
			chan->sends = 0;
			wr->send_flags = IB_SEND_SIGNALED;
		}
	}
	if (chan->send_inline && wr->num_sge == 1 && slot->sge[0].length <= WSS_CMD_DIRECT_BYTES) {
		slot->sge[0].addr = (uintptr_t)slot->cmd.data;
		wr->send_flags |= IB_SEND_INLINE;
		return;
	}
	slot->sge[0].addr = slot->cmd.dma;
	ib_dma_sync_single_for_device(chan->ibdev, slot->cmd.dma, slot->sge[0].length,
				      DMA_TO_DEVICE);
}

/*
 * Decides whether a request whose mapping failed waits or fails. A shortage ends when other
 * requests end. -EIO may mean a shortage as well: the DMA layer returns it for a full bounce
 * buffer, but also for addresses that it can never map. Such a request is tried again for a
 * limited time.
 */
static blk_status_t wss_map_failed(struct wss_slot *slot, struct request *rq, int ret)
{
	bool may_pass = ret == -ENOMEM || ret == -EAGAIN || ret == -EIO;

	if (may_pass && wss_retry_busy(rq))
		return BLK_STS_RESOURCE;
	wss_warn_rl(slot->chan->sess, "/dev/%s: %u bytes in %u segments cannot be mapped for %s (error %d%s): the request fails",
		    rq->q->disk->disk_name, blk_rq_payload_bytes(rq), slot->nents,
		    dev_name(&slot->chan->ibdev->dev), ret, may_pass ? ", for too long" : "");
	return BLK_STS_IOERR;
}

static blk_status_t wss_map_status(struct wss_slot *slot, struct request *rq, int ret)
{
	return likely(!ret) ? BLK_STS_OK : wss_map_failed(slot, rq, ret);
}

/* Maps data that the command carries in its own IU: the parameter list of UNMAP. */
static blk_status_t wss_map_parameters(struct wss_slot *slot, struct request *rq, u32 bytes)
{
	slot->first_wr = &slot->send_wr;
	if (slot->chan->max_imm >= bytes) {
		wss_describe_immediate(slot, bytes);
		slot->sge[0].length = WSS_SRP_IMM_DATA_OFFSET + bytes;
		return BLK_STS_OK;
	}
	sg_set_buf(slot->sgl, slot->cmd.data + WSS_SRP_IMM_DATA_OFFSET, bytes);
	sg_mark_end(slot->sgl);
	slot->nents = 1;
	return wss_map_status(slot, rq, wss_map_region(slot));
}

static blk_status_t wss_map_data(struct wss_slot *slot, struct request *rq, u32 bytes)
{
	struct wss_chan *chan = slot->chan;
	int ret;

	slot->first_wr = &slot->send_wr;
	if (slot->dir == DMA_TO_DEVICE && bytes <= chan->max_imm &&
	    slot->nents <= chan->imm_segments) {
		ret = wss_map_immediate(slot);
		if (likely(!ret))
			wss_describe_immediate(slot, bytes);
		return wss_map_status(slot, rq, ret);
	}
	ret = wss_map_region(slot);
	if (likely(!ret))
		wss_describe_region(slot, slot->dir == DMA_TO_DEVICE);
	return wss_map_status(slot, rq, ret);
}

static void wss_build_rw(struct wss_volume *vol, struct request *rq, struct wss_srp_cmd *cmd)
{
	cmd->cdb[0] = rq_data_dir(rq) == WRITE ? 0x8a : 0x88; /* WRITE(16), READ(16) */
	cmd->cdb[1] = rq->cmd_flags & REQ_FUA ? 0x08 : 0;
	put_unaligned_be64(blk_rq_pos(rq) >> (vol->block_shift - SECTOR_SHIFT), &cmd->cdb[2]);
	put_unaligned_be32(blk_rq_bytes(rq) >> vol->block_shift, &cmd->cdb[10]);
	cmd->cdb[14] = 0;
	cmd->cdb[15] = 0;
}

static blk_status_t wss_prepare_other(struct wss_volume *vol, struct request *rq,
				      struct wss_slot *slot)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	u32 parameter_bytes = 0;
	blk_status_t status;

	slot->nents = 0;
	slot->dir = DMA_TO_DEVICE;
	cmd->buf_fmt = 0;
	slot->sge[0].length = sizeof(*cmd);
	slot->first_wr = &slot->send_wr;
	status = wss_build_command(vol, rq, slot, &parameter_bytes);
	if (status)
		return status;
	if (parameter_bytes) {
		status = wss_map_parameters(slot, rq, parameter_bytes);
		if (!status && slot->mapping == WSS_MAP_REGION)
			wss_describe_region(slot, true);
		return status;
	}
	if (slot->nents)
		return wss_map_data(slot, rq, vol->limits.block_bytes);
	return BLK_STS_OK;
}

static blk_status_t wss_prepare_data(struct wss_volume *vol, struct request *rq,
				     struct wss_slot *slot)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		wss_build_rw(vol, rq, slot->cmd.data);
		slot->dir = rq_dma_dir(rq);
		slot->nents = wss_rq_sgl(rq, slot->sgl);
		return wss_map_data(slot, rq, blk_rq_bytes(rq));
	default:
		return wss_prepare_other(vol, rq, slot);
	}
}

/*
 * Decides whether a request may be sent. It waits while recovery may succeed and while its volume
 * is unsure, and fails otherwise.
 */
static blk_status_t wss_admit(struct wss_session *sess, struct wss_volume *vol)
{
	enum wss_state state = smp_load_acquire(&sess->state); /* pairs with wss_set_state() */
	enum wss_volume_state unit = READ_ONCE(vol->state);

	if (likely(state == WSS_LIVE && unit == WSS_VOLUME_PRESENT))
		return BLK_STS_OK;
	if (unit != WSS_VOLUME_PRESENT && unit != WSS_VOLUME_UNSURE)
		return BLK_STS_IOERR;
	if (state == WSS_LIVE || (state == WSS_RECOVERING && !READ_ONCE(sess->fail_fast)))
		return BLK_STS_RESOURCE;
	return BLK_STS_IOERR;
}

/* Does everything up to the post. On failure everything is undone. */
static blk_status_t wss_prepare(struct wss_queue *queue, struct request *rq, struct wss_slot **to)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_session *sess = vol->sess;
	struct wss_chan *chan;
	struct wss_slot *slot;
	struct wss_srp_cmd *cmd;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	blk_status_t status;

	if (!(rq->rq_flags & RQF_DONTPREP)) {
		pdu->retries = 0;
		pdu->busy = 0;
		pdu->aborts = 0;
		pdu->losses = 0;
		rq->rq_flags |= RQF_DONTPREP;
	}
	pdu->timed_out = false;
	status = wss_admit(sess, vol);
	if (unlikely(status))
		return status;
	if (unlikely(req_op(rq) == REQ_OP_FLUSH && READ_ONCE(vol->lost)))
		return WSS_STS_LOST;
	chan = queue->chan;
	slot = queue->slots + rq->tag;
	if (unlikely(!wss_take_credit(chan, rq)))
		return BLK_STS_RESOURCE;

	wss_note_begin(slot, rq);
	trace_wss_queue(rq);
	status = wss_prepare_data(vol, rq, slot);
	if (unlikely(status)) {
		wss_munlockv(slot);
		atomic_inc(&chan->credits);
		return status;
	}
	cmd = slot->cmd.data;
	memcpy(cmd->lun, vol->id.lun, sizeof(cmd->lun));
	/*
	 * The flush covers the writes that have ended. A write that ends later sets the flag again.
	 */
	if (req_op(rq) == REQ_OP_FLUSH)
		xchg(&vol->unflushed, false);
	blk_mq_start_request(rq);
	wss_slot_start(slot, rq, slot->mapping == WSS_MAP_IMMEDIATE);
	wss_prepare_send(slot);
	wss_note(slot, MAPPED);
	trace_wss_map(slot, rq);
	wss_stat_inc(sess, requests);
	*to = slot;
	return BLK_STS_OK;
}

/*
 * Undoes a slot that was not posted. If a forged response has already taken slot->live, that
 * response ends the command.
 */
static void wss_slot_unpost(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	struct request *rq = slot->rq;

	if (cmpxchg(&slot->live, slot->tag, 0) != slot->tag) {
		wss_slot_put(slot, NULL);
		return;
	}
	/*
	 * The REG_MR was not posted, so the region is invalid. In lazy mode the previous
	 * registration may still be valid: end the channel.
	 */
	if (slot->first_wr == &slot->inv_wr)
		wss_chan_break(chan, "a region could not be renewed");
	if (slot->mapping == WSS_MAP_REGION) {
		slot->region_live = false;
		wss_stat_inc(chan->sess, regions_released);
		wss_segments_forget(slot);
	}
	wss_munlockv(slot);
	if (wss_costs_credit(slot))
		atomic_inc(&chan->credits);
	if (!rq) {
		slot->error = BLK_STS_IOERR;
		wss_admin_finish(slot);
		return;
	}
	slot->rq = NULL;
	wss_note_unflushed(rq);
	blk_mq_requeue_request(rq, false);
	blk_mq_delay_kick_requeue_list(rq->q, 3);
}

static void wss_post_failed(struct wss_chan *chan, struct wss_slot *slot,
			    const struct ib_send_wr *bad, int ret)
{
	struct wss_slot *stop = bad ? &chan->slots[(u32)bad->wr_id] : slot;
	struct wss_slot *next;

	/*
	 * A full queue drains by itself. Any other error, or a request posted in part, ends the
	 * channel.
	 */
	if (ret != -ENOMEM || bad != stop->first_wr) {
		wss_chan_break(chan, "work requests could not be posted");
		/* Posted in part: teardown requeues it. */
		if (bad && bad != stop->first_wr)
			stop = stop->post_next;
	}
	for (; slot && slot != stop; slot = next) {
		next = slot->post_next;
		wss_slot_put(slot, NULL);
	}
	for (; slot; slot = next) {
		next = slot->post_next;
		wss_slot_unpost(slot);
	}
}

static void wss_post(struct wss_chan *chan, struct wss_slot *first)
{
	const struct ib_send_wr *bad = NULL;
	struct wss_slot *slot;
	struct wss_slot *next;
	int ret;

	wss_stat_inc(chan->sess, doorbells);
	if (wss_fault(post)) {
		wss_stat_inc(chan->sess, faults);
		wss_post_failed(chan, first, first->first_wr, -ENOMEM);
		return;
	}
	ret = ib_post_send(chan->qp, first->first_wr, &bad);
	if (unlikely(ret)) {
		wss_post_failed(chan, first, bad, ret);
		return;
	}
	for (slot = first; slot; slot = next) {
		/* After wss_slot_put() the slot may be in use again. */
		next = slot->post_next;
		wss_note(slot, POSTED);
		trace_wss_post(slot);
		wss_slot_put(slot, NULL);
	}
}

/*
 * Takes a credit for a control slot. If necessary, it takes a reserved one, which I/O does not use.
 * If two or more are reserved, the last one is for task management, which must not wait for the
 * commands that it ends.
 */
static bool wss_try_control_credit(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	u32 which = slot->index - chan->nr_slots;
	int least = -(int)chan->reserved;
	int credits = atomic_read(&chan->credits);

	if ((which == WSS_SLOT_ADMIN || which == WSS_SLOT_PING) && chan->reserved > 1)
		least++;
	do {
		if (credits <= least)
			return false;
	} while (!atomic_try_cmpxchg(&chan->credits, &credits, credits - 1));
	return true;
}

/**
 * wss_take_control_credit - take the credit for a control slot's message, if it costs one
 * @slot: the message is in its IU; wss_slot_start() and wss_slot_send() follow
 * @wait_ms: how long to wait for a credit. A submitter decrements the count even if no credit is
 *	free, and increments it again a moment later
 *
 * Everything but I/O gets its credits here, so that no more are used than were granted.
 *
 * Context: sleeps, if @wait_ms is not 0.
 * Return: true if the message may be sent.
 */
bool wss_take_control_credit(struct wss_slot *slot, u32 wait_ms)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(wait_ms);
	struct wss_session *sess = slot->chan->sess;

	if (!wss_costs_credit(slot))
		return true;
	while (!wss_try_control_credit(slot)) {
		if (!wait_ms || READ_ONCE(sess->broken) || READ_ONCE(sess->state) == WSS_REMOVING ||
		    time_after(jiffies, deadline))
			return false;
		if (slot->chan->polled)
			wss_chan_poll_now(slot->chan);
		usleep_range(500, 1000);
	}
	return true;
}

/**
 * wss_slot_send - post the message of a control slot
 * @slot: after wss_take_control_credit() and wss_slot_start()
 */
void wss_slot_send(struct wss_slot *slot)
{
	struct wss_chain chain = {};

	wss_prepare_send(slot);
	wss_chain_add(&chain, slot);
	wss_post(slot->chan, chain.first);
}

static void wss_post_pending(struct wss_chan *chan, struct wss_slot *add, bool flush)
{
	struct wss_chain chain;
	unsigned long flags;

	spin_lock_irqsave(&chan->pending_lock, flags);
	chain.first = chan->pending_first;
	chain.last = chan->pending_last;
	if (add)
		wss_chain_add(&chain, add);
	chan->pending_first = flush ? NULL : chain.first;
	chan->pending_last = flush ? NULL : chain.last;
	spin_unlock_irqrestore(&chan->pending_lock, flags);
	if (flush && chain.first)
		wss_post(chan, chain.first);
}

/** wss_queue_rq - blk-mq: send a request, at once or together with those that @bd announces */
blk_status_t wss_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct wss_queue *queue = hctx->driver_data;
	struct wss_volume *vol = bd->rq->q->queuedata;
	struct wss_chan *chan;
	struct wss_slot *slot;
	blk_status_t status;

	status = wss_prepare(queue, bd->rq, &slot);
	if (unlikely(status)) {
		if (status != BLK_STS_RESOURCE)
			wss_stat_inc(vol->sess, errors);
		/* The failed flush has reported the loss. */
		if (status == WSS_STS_LOST)
			WRITE_ONCE(vol->lost, false);
		return status;
	}
	chan = slot->chan;
	if (bd->last && !READ_ONCE(chan->pending_first)) {
		struct wss_chain chain = {};

		wss_chain_add(&chain, slot);
		wss_post(chan, slot);
	} else {
		wss_post_pending(chan, slot, bd->last);
	}
	return BLK_STS_OK;
}

/** wss_commit_rqs - blk-mq: send the waiting requests, because no more follow */
void wss_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	struct wss_queue *queue = hctx->driver_data;

	wss_post_pending(queue->chan, NULL, true);
}

/** wss_queue_rqs - blk-mq: send a list of requests; those that cannot be sent stay in it */
void wss_queue_rqs(WSS_RQ_LIST *rqlist)
{
	struct request *left = NULL;
	struct request *last_left = NULL;
	struct wss_chain chain = {};
	struct wss_chan *chan = NULL;
	struct request *rq;

	while ((rq = rq_list_pop(rqlist))) {
		struct wss_slot *slot;

		/*
		 * For a list of requests, blk-mq leaves this to the driver. The timeout handler
		 * finds the request in this array.
		 */
		rq->mq_hctx->tags->rqs[rq->tag] = rq;
		if (unlikely(wss_prepare(rq->mq_hctx->driver_data, rq, &slot) != BLK_STS_OK)) {
			rq->rq_next = NULL;
			*(left ? &last_left->rq_next : &left) = rq;
			last_left = rq;
			continue;
		}
		if (chain.first && chan != slot->chan) {
			wss_post(chan, chain.first);
			chain.first = NULL;
		}
		chan = slot->chan;
		wss_chain_add(&chain, slot);
	}
	if (chain.first)
		wss_post(chan, chain.first);
	wss_rq_list_put_back(rqlist, left, last_left);
}
