// SPDX-License-Identifier: GPL-2.0
/*
 * The end of commands: outstanding events, the region, and the request.
 *
 * slot->pending counts the outstanding events of a command: the response, the return of its own
 * post (a response may overtake it on another CPU), and, for immediate data, the completion of the
 * SEND.
 *
 * When none is left, the driver checks the region. If the target has invalidated it (SEND_WITH_INV),
 * the request ends at once. Otherwise the driver invalidates it first (I2). One list of LOCAL_INVs
 * serves all requests of a batch of completions. Only its last entry is signalled, because the send
 * queue completes in order. `invalidate=lazy` does not wait for this: the region is invalidated
 * when its slot is used again. Until then a misbehaving target can reach the pages.
 */
#include "log.h"
#include "mq.h"
#include "trace.h"
#include "wss.h"

/**
 * wss_note_unflushed - note that a request has failed or is sent again
 * @rq: if it is a flush, the writes that it should cover are still unflushed
 */
void wss_note_unflushed(const struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;

	if (req_op(rq) == REQ_OP_FLUSH)
		WRITE_ONCE(vol->unflushed, true);
}

/*
 * Retries on an earlier connection do not count: the target is not responsible for the time in
 * between.
 */
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

/**
 * wss_total_time - time that all retries of a request may take
 * @rq: the request
 * Return: the time in jiffies.
 */
unsigned long wss_total_time(const struct request *rq)
{
	/* Once started for the first time, a request has its own timeout. */
	return (WSS_MAX_RETRIES + 1) * (unsigned long)(rq->timeout ?: rq->q->rq_timeout);
}

/**
 * wss_retry_busy - note a delay because the target, or the machine's RDMA device, is too busy for a
 * request
 * @rq: the request
 * Return: true if the request may be tried again, false if its time has run out.
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

/* Returns true if the request is to be sent again after @delay_ms. */
static bool wss_retry(struct request *rq, enum wss_disposition disposition, unsigned int *delay_ms)
{
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	*delay_ms = 0;
	wss_retry_afresh(rq);
	if (disposition == WSS_RETRY_NOW)
		return pdu->retries++ < WSS_MAX_RETRIES;
	if (disposition != WSS_RETRY_LATER)
		return false;
	*delay_ms = min(WSS_BUSY_DELAY_MIN_MS << min_t(u8, pdu->busy, 8), WSS_BUSY_DELAY_MAX_MS);
	return wss_retry_busy(rq);
}

/*
 * Stops using an operation that the target does not support, or not in this form. A revalidation
 * that finds different limits allows it again.
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
	wss_info(vol->sess, "/dev/%s: the target rejects %s, so the driver no longer uses it",
		 vol->disk->disk_name, zeroes ? "WRITE SAME" : "UNMAP");
	wss_session_changed(vol->sess);
}

/* Ends a request, or sends it again, according to the outcome in its pdu. */
static void wss_end_request(struct request *rq, struct io_comp_batch *iob)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	blk_status_t status = pdu->error;
	enum wss_news news = WSS_NEWS_NONE;
	enum wss_disposition disposition;
	unsigned int delay_ms;

	if (likely(!status && !pdu->sense.status)) {
		wss_note_written(vol, rq);
		if (!blk_mq_add_to_batch(rq, iob, 0, blk_mq_end_request_batch))
			blk_mq_end_request(rq, BLK_STS_OK);
		return;
	}

	wss_note_unflushed(rq);
	if (status == BLK_STS_TIMEOUT)
		disposition = pdu->aborts++ < WSS_MAX_ABORTS ? WSS_RETRY_NOW : WSS_END;
	else
		disposition = status ? WSS_END :
				       wss_decide_disposition(&pdu->sense, req_op(rq), &status, &news);
	/* This precedes the next submission, which must not reach a different unit. */
	wss_session_news(vol->sess, news);
	if (READ_ONCE(vol->state) != WSS_VOLUME_DEAD && wss_retry(rq, disposition, &delay_ms)) {
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
 * wss_mq_complete - blk-mq: end a request on the CPU that submitted it
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
	/*
	 * The target reports a unit attention once, perhaps in the response to the TEST UNIT READY of
	 * a keep-alive.
	 */
	wss_session_attention(slot->chan->sess, &slot->sense);
	smp_store_release(&tmf->busy, false); /* pairs with wss_tmf_ended() and wss_tmf() */
	wake_up_all(&slot->chan->sess->wait);
}

/**
 * wss_admin_finish - end the command of a control slot and wake its sender
 * @slot: the outcome is in @slot->sense and @slot->error
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
	smp_store_release(&sess->admin.done, true); /* pairs with wss_admin_ended() */
	wake_up_all(&sess->wait);
}

/*
 * Unmaps the slot's pages, which the peer can no longer reach except in lazy mode, and ends the
 * request.
 */
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
		/* Simulates a lost response; wss_slot_reclaim() ends the command. */
		WRITE_ONCE(slot->live, slot->tag);
		atomic_set(&slot->pending, 1);
		return;
	}
	wss_note_end(slot, rq);
	trace_wss_end(slot);
	pdu = blk_mq_rq_to_pdu(rq);
	pdu->sense = slot->sense;
	pdu->error = slot->error;
	/* As soon as the request has ended, its tag, and with it the slot, may be in use again. */
	slot->rq = NULL;
	if (!blk_mq_complete_request_remote(rq))
		wss_end_request(rq, iob);
}

/**
 * wss_post_invalidate - have the device invalidate the regions of some slots
 * @chan: their channel
 * @first: the first of them, linked by @inv_next
 * @last: the last one; its completion stands for all
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

	if (wss_has_segments(slot))
		wss_segments_invalidate(slot);
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
 * wss_slot_put - note one of the outstanding events of a command
 * @slot: its response has arrived in @slot->sense and @slot->error, and the caller has taken
 *	@slot->live; or its post has returned; or its immediate SEND has completed
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
 * wss_invalidated - process the completion of a list of LOCAL_INVs
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
 * wss_slot_reclaim - end a command that the target will no longer answer
 * @slot: its command was aborted
 * @tag: its tag; has no effect if the command was answered, or if the slot has a new command
 * Return: true if this call ended it.
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
 * Puts a lost request back into its queue. The request fails instead if it was lost too often and
 * for too long, because it may be the cause of the losses. One of these conditions alone does not
 * indicate that: the target may be away for a long time, and the network may break many
 * connections in a short time.
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
	wss_warn_rl(vol->sess, "/dev/%s: a request fails: %u connections were lost while it was in flight",
		    rq->q->disk->disk_name, pdu->losses);
	pdu->sense = (struct wss_sense){};
	pdu->error = BLK_STS_IOERR;
	wss_end_request(rq, NULL);
}

/**
 * wss_cancel_slots - put the requests in flight on a dead channel back into their queues
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
