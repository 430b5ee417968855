// SPDX-License-Identifier: GPL-2.0
/*
 * The hot path: requests out, completions in.
 *
 * Life of a request. blk-mq's tag picks the slot. The command is built in the slot's IU, the data
 * is mapped (map.c), and the slot's work requests - [LOCAL_INV] [REG_MR] SEND - go out in one list,
 * several requests to a doorbell where blk-mq gives several (queue_rqs) or says that more will come
 * (bd->last). The target moves the data by RDMA and answers; response.c finds the slot by its tag.
 * What is left to wait for is counted in slot->pending: the answer, the return of our own post (an
 * answer may overtake it on another CPU), and, for immediate data, the completion of the SEND.
 *
 * Then the region. If the target invalidated it (SEND_WITH_INV) the request ends at once. Else it
 * is invalidated here first (I2): one list for all requests of a batch of completions, of which
 * only the last is signalled - the send queue completes in order. `invalidate=lazy` skips that
 * wait: the region dies when its slot is used again, and a target that misbehaves could reach the
 * pages until then.
 *
 * No lock is taken per request. The one here guards the list that waits for commit_rqs.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>

#include "compat.h"
#include "fault.h"
#include "log.h"
#include "trace.h"
#include "wss.h"

/* A flush that has not been done covers nothing: what it was to cover is still unflushed. */
static void wss_note_unflushed(const struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;

	if (req_op(rq) == REQ_OP_FLUSH)
		WRITE_ONCE(vol->unflushed, true);
}

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

/* True: a request that the target, or the machine's own RDMA device, is too busy for may be tried once more. */
static bool wss_retry_busy(struct request *rq)
{
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	unsigned long timeout = rq->timeout ?: rq->q->rq_timeout; /* of its own from its first start on */

	if (!pdu->busy)
		pdu->busy_until = jiffies + (WSS_MAX_RETRIES + 1) * timeout;
	if (pdu->busy < U8_MAX)
		pdu->busy++;
	return time_before(jiffies, pdu->busy_until);
}

/* True: @delay_ms from now the request goes out again. */
static bool wss_retry(struct request *rq, enum wss_verdict verdict, unsigned int *delay_ms)
{
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	*delay_ms = 0;
	if (verdict == WSS_RETRY_NOW)
		return pdu->retries++ < WSS_MAX_RETRIES;
	if (verdict != WSS_RETRY_LATER)
		return false;
	*delay_ms = min(WSS_BUSY_DELAY_MIN_MS << min_t(u8, pdu->busy, 8), WSS_BUSY_DELAY_MAX_MS);
	return wss_retry_busy(rq);
}

/*
 * A target that does not know an operation, or not in this form, is not asked for it again. If its limits
 * have changed, the look at the volume shows that and allows the operation again.
 */
static void wss_note_refused(struct wss_volume *vol, struct request *rq)
{
	const struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	bool zeroes = req_op(rq) == REQ_OP_WRITE_ZEROES;

	if (!wss_sense_refuses_operation(&pdu->sense))
		return;
	rq->rq_flags |= RQF_QUIET;
	if (xchg(zeroes ? &vol->no_write_same : &vol->no_unmap, true))
		return;
	wss_forbid(rq->q, req_op(rq));
	wss_info(vol->sess, "/dev/%s: the target refuses %s: it is not used any more", vol->disk->disk_name,
		 zeroes ? "WRITE SAME" : "UNMAP");
	wss_session_changed(vol->sess);
}

/* Ends a request whose outcome is in its pdu. */
static void wss_end_request(struct request *rq, struct io_comp_batch *iob)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	blk_status_t status = pdu->error;
	bool rescan = false;
	enum wss_verdict verdict;
	unsigned int delay_ms;

	if (likely(!status && !pdu->sense.status)) {
		wss_note_written(vol, rq);
		if (!blk_mq_add_to_batch(rq, iob, 0, blk_mq_end_request_batch))
			blk_mq_end_request(rq, BLK_STS_OK);
		return;
	}

	wss_note_unflushed(rq);
	if (status == BLK_STS_TIMEOUT)
		verdict = pdu->aborts++ < WSS_MAX_ABORTS ? WSS_RETRY_NOW : WSS_END;
	else
		verdict = status ? WSS_END : wss_judge(&pdu->sense, req_op(rq), &status, &rescan);
	if (rescan)
		wss_session_changed(vol->sess);
	if (READ_ONCE(vol->state) != WSS_VOLUME_DEAD && wss_retry(rq, verdict, &delay_ms)) {
		wss_stat_inc(vol->sess, retries);
		blk_mq_requeue_request(rq, false);
		blk_mq_delay_kick_requeue_list(rq->q, delay_ms);
		return;
	}
	if (status == BLK_STS_NOTSUPP)
		wss_note_refused(vol, rq);
	if (status)
		wss_stat_inc(vol->sess, errors);
	blk_mq_end_request(rq, status);
}

static void wss_mq_complete(struct request *rq)
{
	wss_end_request(rq, NULL);
}

static void wss_tmf_finish(struct wss_slot *slot)
{
	struct wss_tmf *tmf = wss_slot_tmf(slot);

	if (slot->error)
		tmf->status = WSS_SRP_TSK_MGMT_FAILED;
	smp_store_release(&tmf->busy, false); /* pairs with wss_tmf_ended() and wss_tmf() */
	wake_up_all(&slot->chan->sess->wait);
}

static void wss_admin_finish(struct wss_slot *slot)
{
	struct wss_session *sess = slot->chan->sess;

	if (slot != wss_control_slot(slot->chan, WSS_SLOT_ADMIN)) {
		wss_tmf_finish(slot);
		return;
	}
	sess->admin.sense = slot->sense;
	sess->admin.error = slot->error ? -EIO : 0;
	sess->admin.busy = false;
	smp_store_release(&sess->admin.done, true); /* pairs with wss_admin_wait() */
	wake_up_all(&sess->wait);
}

/* The peer cannot reach the slot's pages any more: give them back and end the request. */
static void wss_slot_finish(struct wss_slot *slot, struct io_comp_batch *iob)
{
	struct request *rq = slot->rq;
	struct wss_pdu *pdu;

	wss_munlockv(slot);
	if (unlikely(slot->index >= slot->chan->nr_slots)) {
		wss_admin_finish(slot);
		return;
	}
	if (unlikely(blk_should_fake_timeout(rq->q))) {
		/* As if the answer had been lost: to be found by wss_slot_reclaim(). */
		WRITE_ONCE(slot->live, slot->tag);
		atomic_set(&slot->pending, 1);
		return;
	}
	wss_note_end(slot, rq);
	trace_wss_end(slot);
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->sense = slot->sense;
	pdu->error = slot->error;
	/* The tag, and with it the slot, may be taken again as soon as the request has ended. */
	slot->rq = NULL;
	if (!blk_mq_complete_request_remote(rq))
		wss_end_request(rq, iob);
}

static void wss_post_invalidate(struct wss_chan *chan, struct wss_slot *first,
				struct wss_slot *last)
{
	last->inv_group = first;
	last->inv_next = NULL;
	last->inv_wr.next = NULL;
	last->inv_wr.send_flags = IB_SEND_SIGNALED;
	wss_stat_inc(chan->sess, doorbells);
	if (unlikely(ib_post_send(chan->qp, &first->inv_wr, NULL)))
		wss_chan_break(chan, "a LOCAL_INV could not be posted");
}

static void wss_slot_invalidate(struct wss_slot *slot, bool polling)
{
	struct wss_chan *chan = slot->chan;

	if (wss_has_pieces(slot))
		wss_pieces_invalidate(slot);
	slot->inv_wr.ex.invalidate_rkey = slot->mr->rkey;
	slot->inv_wr.send_flags = 0;
	if (!polling) {
		wss_post_invalidate(chan, slot, slot);
		return;
	}
	if (chan->inv_last) {
		chan->inv_last->inv_next = slot;
		chan->inv_last->inv_wr.next = &slot->inv_wr;
	} else {
		chan->inv_first = slot;
	}
	chan->inv_last = slot;
}

/* One thing fewer to wait for. Context: the poller (iob set) or the submitter (iob NULL). */
static void wss_slot_put(struct wss_slot *slot, struct io_comp_batch *iob)
{
	if (!atomic_dec_and_test(&slot->pending))
		return;
	if (slot->mapping == WSS_MAP_REGION && slot->region_live && !slot->chan->lazy)
		wss_slot_invalidate(slot, iob);
	else
		wss_slot_finish(slot, iob);
}

/**
 * wss_slot_responded - the response to a slot's command is in slot->sense and slot->error
 * @slot: its slot->live was taken by the caller
 * @iob: batch of the poller
 */
void wss_slot_responded(struct wss_slot *slot, struct io_comp_batch *iob)
{
	wss_slot_put(slot, iob);
}

static void wss_invalidated(struct wss_chan *chan, struct wss_slot *last, struct io_comp_batch *iob)
{
	struct wss_slot *slot = last->inv_group;
	struct wss_slot *next;
	u32 count = 0;

	for (; slot; slot = next) {
		next = slot->inv_next;
		slot->region_live = false;
		wss_slot_finish(slot, iob);
		count++;
	}
	wss_stat_add(chan->sess, local_invalidations, count);
	wss_stat_add(chan->sess, regions_released, count);
}

/*
 * Submission
 */

/**
 * wss_slot_start - take a slot for a command
 * @slot: free
 * @rq: the request, or NULL for an administrative command
 * @pending: what is waited for besides the return of the post and the response
 *
 * The tag changes with each use, so that a late or invented response does not fit.
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
	/* Pairs with the cmpxchg in wss_take_slot(), and with abort.c, which then reads the LUN. */
	smp_store_release(&slot->live, slot->tag);
}

static bool wss_take_credit(struct wss_chan *chan)
{
	if (likely(atomic_dec_return(&chan->credits) >= 0))
		return true;
	atomic_inc(&chan->credits);
	return false;
}

/* Commands and task management do; SRP's other messages, and our keep-alive, come from outside the window. */
static bool wss_costs_credit(const struct wss_slot *slot)
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;

	return cmd->opcode == WSS_SRP_CMD || cmd->opcode == WSS_SRP_TSK_MGMT;
}

/* The SEND of a slot whose IU and data pieces are set. */
static void wss_prepare_send(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	struct ib_send_wr *wr = &slot->send_wr;

	if (wss_fault(tamper)) {
		wss_stat_inc(chan->sess, faults);
		*(u8 *)slot->cmd.data = 0xff; /* no opcode; slots are made anew with the next connection */
	}
	wr->send_flags = 0;
	if (slot->mapping == WSS_MAP_IMMEDIATE) {
		wr->wr_id = WSS_WR_ID(WSS_WR_SEND_DATA, slot->index);
		wr->send_flags = IB_SEND_SIGNALED;
	} else {
		wr->wr_id = WSS_WR_ID(WSS_WR_SEND, slot->index);
		wr->num_sge = 1;
		/* Unsignalled entries leave the queue with the next signalled one. */
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
 * What a failed mapping means for its request. A shortage passes when other requests end. -EIO may be one as well:
 * the DMA layer gives it for a full bounce buffer and for addresses that no mapping can reach. So such a request is
 * tried again, but not for ever.
 */
static blk_status_t wss_map_failed(struct wss_slot *slot, struct request *rq, int ret)
{
	bool may_pass = ret == -ENOMEM || ret == -EAGAIN || ret == -EIO;

	if (may_pass && wss_retry_busy(rq))
		return BLK_STS_RESOURCE;
	wss_warn_rl(slot->chan->sess, "/dev/%s: %u bytes in %u pieces cannot be mapped for %s (error %d%s): the request fails",
		    rq->q->disk->disk_name, blk_rq_payload_bytes(rq), slot->nents,
		    dev_name(&slot->chan->ibdev->dev), ret, may_pass ? ", since long" : "");
	return BLK_STS_IOERR;
}

static blk_status_t wss_map_status(struct wss_slot *slot, struct request *rq, int ret)
{
	return likely(!ret) ? BLK_STS_OK : wss_map_failed(slot, rq, ret);
}

/* Data that the command carries in its own IU: the parameter list of UNMAP. */
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
	    slot->nents <= chan->imm_pieces) {
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

/* May a request go out? It waits while recovery has hope, and fails where there is none. */
static blk_status_t wss_admit(struct wss_session *sess, struct wss_volume *vol)
{
	enum wss_state state = smp_load_acquire(&sess->state); /* pairs with wss_set_state() */

	if (unlikely(READ_ONCE(vol->state) != WSS_VOLUME_PRESENT))
		return BLK_STS_IOERR;
	if (likely(state == WSS_LIVE))
		return BLK_STS_OK;
	if (state == WSS_RECOVERING && !READ_ONCE(sess->fail_fast))
		return BLK_STS_RESOURCE;
	return BLK_STS_IOERR;
}

/* Everything up to the post. On failure nothing is left behind. */
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
		rq->rq_flags |= RQF_DONTPREP;
	}
	pdu->timed_out = false;
	status = wss_admit(sess, vol);
	if (unlikely(status))
		return status;
	if (unlikely(req_op(rq) == REQ_OP_FLUSH && READ_ONCE(vol->lost)))
		return BLK_STS_IOERR;
	chan = queue->chan;
	slot = queue->slots + rq->tag;
	if (unlikely(!wss_take_credit(chan)))
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
	/* Covers what ended before; who ends after this says so again. */
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
 * A slot that was not posted. Whoever takes slot->live ends it; if an invented response was faster,
 * that one does.
 */
static void wss_slot_unpost(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	struct request *rq = slot->rq;

	if (cmpxchg(&slot->live, slot->tag, 0) != slot->tag) {
		wss_slot_put(slot, NULL);
		return;
	}
	/* The REG_MR did not go out: the region is dead, unless its last life lasts (lazy). */
	if (slot->first_wr == &slot->inv_wr)
		wss_chan_break(chan, "a region could not be renewed");
	if (slot->mapping == WSS_MAP_REGION) {
		slot->region_live = false;
		wss_stat_inc(chan->sess, regions_released);
		wss_pieces_forget(slot);
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

	/* A full queue empties itself. Anything else, or half a request, ends the channel. */
	if (ret != -ENOMEM || bad != stop->first_wr) {
		wss_chan_break(chan, "work requests could not be posted");
		/* Half posted: teardown requeues it. */
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
		/* After the put the slot may be in use again. */
		next = slot->post_next;
		wss_note(slot, POSTED);
		trace_wss_post(slot);
		wss_slot_put(slot, NULL);
	}
}

/**
 * wss_slot_send - post one prepared administrative command
 * @slot: after wss_slot_start()
 */
void wss_slot_send(struct wss_slot *slot)
{
	struct wss_chain chain = {};

	/* Out of those reserved, if need be: I/O leaves them alone. */
	if (wss_costs_credit(slot))
		atomic_dec(&slot->chan->credits);
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

static blk_status_t wss_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
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
		/* It has been told. */
		if (req_op(bd->rq) == REQ_OP_FLUSH && status == BLK_STS_IOERR)
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

static void wss_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	struct wss_queue *queue = hctx->driver_data;

	wss_post_pending(queue->chan, NULL, true);
}

static void wss_queue_rqs(WSS_RQ_LIST *rqlist)
{
	struct request *left = NULL;
	struct request *last_left = NULL;
	struct wss_chain chain = {};
	struct wss_chan *chan = NULL;
	struct request *rq;

	while ((rq = rq_list_pop(rqlist))) {
		struct wss_slot *slot;

		/* blk-mq leaves this to us here; timeouts find the request by it. */
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

/*
 * Completion
 */

/**
 * wss_chan_protocol_error - the target broke the protocol: drop it
 * @chan: the channel
 * @what: what it did
 */
void wss_chan_protocol_error(struct wss_chan *chan, const char *what)
{
	wss_stat_inc(chan->sess, protocol_errors);
	wss_chan_break(chan, what);
}

static bool wss_fault_incomplete(struct wss_chan *chan)
{
	if (!wss_fault(incomplete))
		return false;
	wss_stat_inc(chan->sess, faults);
	return true;
}

static void wss_one_completion(struct wss_chan *chan, const struct ib_wc *wc,
			       struct io_comp_batch *iob)
{
	struct wss_slot *slot;

	if (wc->wr_id >> 32 == WSS_WR_ENGINE) {
		wss_engine_completion(chan, wc, iob);
		return;
	}
	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		if (wc->wr_id >> 32 == WSS_WR_MARKER)
			atomic_dec(&chan->markers);
		else if (wc->status != IB_WC_WR_FLUSH_ERR)
			wss_chan_break(chan, ib_wc_status_msg(wc->status));
		return;
	}
	switch (wc->wr_id >> 32) {
	case WSS_WR_RECV:
		wss_recv_message(chan, wc, iob);
		return;
	case WSS_WR_SEND_DATA:
		slot = &chan->slots[(u32)wc->wr_id];
		if (!wss_fault_incomplete(chan))
			wss_slot_put(slot, iob);
		return;
	case WSS_WR_INV:
		slot = &chan->slots[(u32)wc->wr_id];
		if (!wss_fault_incomplete(chan))
			wss_invalidated(chan, slot, iob);
		return;
	case WSS_WR_REPLY:
		chan->reply_busy = false;
		return;
	default:
		return;
	}
}

static void wss_fault_late_poll(struct wss_chan *chan)
{
	if (!wss_fault(poll))
		return;
	wss_stat_inc(chan->sess, faults);
	mdelay(min(wss_force_delay_ms, 100U)); /* in softirq */
}

static void wss_repost_recvs(struct wss_chan *chan)
{
	struct ib_recv_wr *first = chan->recv_first;

	chan->recv_last->next = NULL;
	chan->recv_first = NULL;
	chan->recv_last = NULL;
	chan->recv_count = 0;
	if (unlikely(ib_post_recv(chan->qp, first, NULL)))
		wss_chan_break(chan, "receives could not be posted");
}

/**
 * wss_chan_poll - take completions
 * @chan: the channel; its caller is the only poller
 * @budget: at most so many
 * @iob: collects requests that ended well; the caller ends them
 * Return: how many were taken.
 */
int wss_chan_poll(struct wss_chan *chan, int budget, struct io_comp_batch *iob)
{
	int done = 0;

	while (done < budget) {
		int wanted = min(WSS_POLL_BATCH, budget - done);
		int got = ib_poll_cq(chan->cq, wanted, chan->wc);
		int i;

		if (got <= 0)
			break;
		wss_fault_late_poll(chan);
		for (i = 0; i < got; i++)
			wss_one_completion(chan, &chan->wc[i], iob);
		if (chan->inv_first) {
			struct wss_slot *first = chan->inv_first;
			struct wss_slot *last = chan->inv_last;

			chan->inv_first = NULL;
			chan->inv_last = NULL;
			wss_post_invalidate(chan, first, last);
		}
		if (chan->recv_count >= WSS_RECV_BATCH / 2)
			wss_repost_recvs(chan);
		done += got;
		if (got < wanted)
			break;
	}
	return done;
}

/**
 * wss_irq_poll - softirq side of a channel with interrupts
 * @iop: in its channel
 * @budget: fairness bound of irq_poll
 * Return: completions taken.
 */
int wss_irq_poll(struct irq_poll *iop, int budget)
{
	struct wss_chan *chan = container_of(iop, struct wss_chan, iop);
	DEFINE_IO_COMP_BATCH(iob);
	int done = wss_chan_poll(chan, budget, &iob);

	if (!wss_batch_empty(&iob))
		iob.complete(&iob);
	if (done < budget) {
		irq_poll_complete(iop);
		wss_fault_late_poll(chan);
		if (ib_req_notify_cq(chan->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0)
			irq_poll_sched(iop);
	}
	return done;
}

static int wss_poll_polled(struct wss_chan *chan, struct io_comp_batch *iob)
{
	DEFINE_IO_COMP_BATCH(own);
	int done = 0;

	/* A polled queue without a polled channel of its own is served by interrupts. */
	if (!chan->polled)
		return 0;
	/* A second poller would only find what the first one is already ending. */
	if (!spin_trylock(&chan->poll_lock))
		return 0;
	/* Pairs with wss_set_state(): who sees LIVE sees a channel that is complete. */
	if (READ_ONCE(chan->state) == WSS_CHAN_UP && smp_load_acquire(&chan->sess->state) == WSS_LIVE)
		done = wss_chan_poll(chan, WSS_POLL_BUDGET, iob ?: &own);
	spin_unlock(&chan->poll_lock);
	if (!wss_batch_empty(&own))
		own.complete(&own);
	return done;
}

/*
 * Nothing came for a while, and somebody else wants this processor: perhaps the very one who has
 * the answer (ksoftirqd, a target on this machine). Let who polls go through the scheduler, which
 * may well choose him again. Pollers may not sleep.
 */
static void wss_poll_in_vain(struct wss_chan *chan)
{
	u64 now = ktime_get_ns();
	u64 since = READ_ONCE(chan->vain_since);

	if (!since) {
		WRITE_ONCE(chan->vain_since, now);
		return;
	}
	if (now - since < WSS_POLL_VAIN_NS || single_task_running())
		return;
	WRITE_ONCE(chan->vain_since, 0);
	wss_stat_inc(chan->sess, polls_yielded);
	set_tsk_need_resched(current);
	set_preempt_need_resched();
}

static int wss_mq_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	struct wss_queue *queue = hctx->driver_data;
	int done = wss_poll_polled(queue->chan, iob);

	if (!done) {
		wss_poll_in_vain(queue->chan);
		return 0;
	}
	wss_stat_add(queue->chan->sess, polled_completions, done);
	if (READ_ONCE(queue->chan->vain_since))
		WRITE_ONCE(queue->chan->vain_since, 0);
	return done;
}

/**
 * wss_chan_poll_now - see to completions that nobody may be waiting for
 * @chan: of a live session; only polled channels need it
 */
void wss_chan_poll_now(struct wss_chan *chan)
{
	wss_poll_polled(chan, NULL);
}

/**
 * wss_slot_reclaim - end a command that the target will not answer any more
 * @slot: its command was aborted
 * @tag: of that command; an answer, or another use of the slot, is left alone
 * Return: whether it was ended here.
 */
bool wss_slot_reclaim(struct wss_slot *slot, u64 tag)
{
	if (!tag || cmpxchg(&slot->live, tag, 0) != tag)
		return false;
	slot->sense = (struct wss_sense){};
	slot->error = BLK_STS_TIMEOUT;
	wss_slot_put(slot, NULL);
	return true;
}

/**
 * wss_cancel_slots - what was in flight on a dead channel goes back to its queue
 * @chan: queue pair and completion queue are destroyed; no submitter runs on it
 */
void wss_cancel_slots(struct wss_chan *chan)
{
	unsigned int i;

	for (i = 0; i < chan->slot_count; i++) {
		struct wss_slot *slot = &chan->slots[i];
		struct request *rq = slot->rq;

		slot->live = 0;
		wss_munlockv(slot);
		slot->rq = NULL;
		if (!rq)
			continue;
		wss_note_unflushed(rq);
		blk_mq_requeue_request(rq, true);
	}
	if (chan->index == 0 && chan->sess->admin.busy && chan->slots) {
		struct wss_slot *slot = wss_control_slot(chan, WSS_SLOT_ADMIN);

		slot->error = BLK_STS_TRANSPORT;
		wss_admin_finish(slot);
	}
}

static int wss_mq_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct wss_session *sess = data;

	hctx->driver_data = &sess->queues[index];
	return 0;
}

static void wss_mq_map_queues(struct blk_mq_tag_set *set)
{
	struct wss_session *sess = set->driver_data;
	int type;

	for (type = 0; type < set->nr_maps; type++) {
		struct blk_mq_queue_map *map = &set->map[type];

		map->nr_queues = sess->nr_default;
		map->queue_offset = 0;
		if (type == HCTX_TYPE_POLL) {
			map->nr_queues = sess->nr_queues - sess->nr_default;
			map->queue_offset = sess->nr_default;
		}
		blk_mq_map_queues(map);
	}
}

const struct blk_mq_ops wss_mq_ops = {
	.queue_rq = wss_queue_rq,
	.queue_rqs = wss_queue_rqs,
	.commit_rqs = wss_commit_rqs,
	.complete = wss_mq_complete,
	.timeout = wss_mq_timeout,
	.poll = wss_mq_poll,
	.init_hctx = wss_mq_init_hctx,
	.map_queues = wss_mq_map_queues,
};
