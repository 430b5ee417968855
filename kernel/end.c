// SPDX-License-Identifier: GPL-2.0
/*
 * How commands end: what is left to wait for, the region, and the request.
 *
 * What a command waits for is counted in slot->pending: the answer, the return of our own post (an answer may overtake it
 * on another CPU), and, for immediate data, the completion of the SEND.
 *
 * Then the region. If the target invalidated it (SEND_WITH_INV) the request ends at once. Else it is invalidated here first
 * (I2): one list for all requests of a batch of completions, of which only the last is signalled - the send queue completes
 * in order. `invalidate=lazy` skips that wait: the region dies when its slot is used again, and a target that misbehaves
 * could reach the pages until then.
 */
#include "log.h"
#include "mq.h"
#include "trace.h"
#include "wss.h"

/**
 * wss_note_unflushed - a request does not end well, or is sent again
 * @rq: a flush that has not been done covers nothing: what it was to cover is still unflushed
 */
void wss_note_unflushed(const struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;

	if (req_op(rq) == REQ_OP_FLUSH)
		WRITE_ONCE(vol->unflushed, true);
}

/* What a request was told on a connection that is no more does not count: the time in between was not the target's. */
static void wss_retry_afresh(struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	int login = atomic_read(&vol->sess->logins);

	if (pdu->login == login)
		return;
	pdu->login = login;
	pdu->retries = 0;
	pdu->busy = 0;
}

/* What all retries of a request might take. */
static unsigned long wss_total_time(const struct request *rq)
{
	/* The timeout is its own from its first start on. */
	return (WSS_MAX_RETRIES + 1) * (unsigned long)(rq->timeout ?: rq->q->rq_timeout);
}

/**
 * wss_retry_busy - may a request that the target, or the machine's own RDMA device, is too busy for be tried once more?
 * @rq: the request
 * Return: whether its time is not over.
 */
bool wss_retry_busy(struct request *rq)
{
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	wss_retry_afresh(rq);
	if (!pdu->busy)
		pdu->busy_until = jiffies + wss_total_time(rq);
	if (pdu->busy < U8_MAX)
		pdu->busy++;
	return time_before(jiffies, pdu->busy_until);
}

/* True: @delay_ms from now the request goes out again. */
static bool wss_retry(struct request *rq, enum wss_verdict verdict, unsigned int *delay_ms)
{
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	*delay_ms = 0;
	wss_retry_afresh(rq);
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
	enum wss_news news = WSS_NEWS_NONE;
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
		verdict = status ? WSS_END : wss_judge(&pdu->sense, req_op(rq), &status, &news);
	/* Before it may go out again. */
	wss_session_news(vol->sess, news);
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

/**
 * wss_mq_complete - blk-mq: a request ends, on the CPU that it came from
 * @rq: the request
 */
void wss_mq_complete(struct request *rq)
{
	wss_end_request(rq, NULL);
}

static void wss_tmf_finish(struct wss_slot *slot)
{
	struct wss_tmf *tmf = wss_slot_tmf(slot);

	if (slot->error)
		tmf->status = WSS_SRP_TSK_MGMT_FAILED;
	/* Reported to the TEST UNIT READY of a keep-alive, and to nobody else. */
	wss_session_attention(slot->chan->sess, &slot->sense);
	smp_store_release(&tmf->busy, false); /* pairs with wss_tmf_ended() and wss_tmf() */
	wake_up_all(&slot->chan->sess->wait);
}

/**
 * wss_admin_finish - the command of a control slot has ended
 * @slot: its outcome is in @slot->sense and @slot->error; whoever waits is woken
 */
void wss_admin_finish(struct wss_slot *slot)
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

/**
 * wss_post_invalidate - have the device invalidate the regions of some slots
 * @chan: their channel
 * @first: the first of them, linked by @inv_next
 * @last: the last one; its completion is that of all
 */
void wss_post_invalidate(struct wss_chan *chan, struct wss_slot *first,
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

/**
 * wss_slot_put - one thing fewer to wait for
 * @slot: its answer has come, in @slot->sense and @slot->error, and its @slot->live was taken by the caller; or its post has
 *	returned; or its immediate SEND has completed
 * @iob: batch of the poller; NULL elsewhere
 */
void wss_slot_put(struct wss_slot *slot, struct io_comp_batch *iob)
{
	if (!atomic_dec_and_test(&slot->pending))
		return;
	if (slot->mapping == WSS_MAP_REGION && slot->region_live && !slot->chan->lazy)
		wss_slot_invalidate(slot, iob);
	else
		wss_slot_finish(slot, iob);
}

/**
 * wss_invalidated - a list of LOCAL_INVs has completed
 * @chan: the channel
 * @last: slot of the last of them
 * @iob: batch of the poller
 */
void wss_invalidated(struct wss_chan *chan, struct wss_slot *last, struct io_comp_batch *iob)
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

/*
 * Goes back to its queue. Unless too many connections were lost with it for too long: perhaps it is what they die of. Either
 * alone is no sign: the target may be away for long, or the network lose many connections in a short time.
 */
static void wss_requeue_lost(struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	if (!pdu->losses)
		pdu->lost_until = jiffies + wss_total_time(rq);
	if (pdu->losses < U8_MAX)
		pdu->losses++;
	if (pdu->losses <= WSS_MAX_RETRIES || time_before(jiffies, pdu->lost_until)) {
		wss_note_unflushed(rq);
		blk_mq_requeue_request(rq, true);
		return;
	}
	wss_warn_rl(vol->sess, "/dev/%s: a request was lost with %u connections: it fails", rq->q->disk->disk_name,
		    pdu->losses);
	pdu->sense = (struct wss_sense){};
	pdu->error = BLK_STS_IOERR;
	wss_end_request(rq, NULL);
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
		if (rq)
			wss_requeue_lost(rq);
	}
	if (chan->index == 0 && chan->sess->admin.busy && chan->slots) {
		struct wss_slot *slot = wss_control_slot(chan, WSS_SLOT_ADMIN);

		slot->error = BLK_STS_TRANSPORT;
		wss_admin_finish(slot);
	}
}
