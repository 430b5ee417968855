// SPDX-License-Identifier: GPL-2.0
/*
 * Processing of completions: a softirq or a polling task empties the completion queue of a channel.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>

#include "fault.h"
#include "mq.h"
#include "wss.h"

/**
 * wss_chan_protocol_error - end the connection, because the target broke the protocol
 * @chan: the channel
 * @what: the violation, a constant string
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
	case WSS_WR_MESSAGE:
		if ((u32)wc->wr_id == WSS_MESSAGE_REPLY)
			wss_reply_sent(chan);
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
	chan->reposted = chan->received;
	if (unlikely(ib_post_recv(chan->qp, first, NULL)))
		wss_chan_break(chan, "receives could not be posted");
}

/**
 * wss_chan_poll - process completions
 * @chan: the channel; the caller is its only poller
 * @budget: maximum number of completions
 * @iob: collects requests that succeeded; the caller ends them
 * Return: number of completions processed.
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
		if (chan->received - chan->reposted >= WSS_RECV_BATCH / 2)
			wss_repost_recvs(chan);
		done += got;
		if (got < wanted)
			break;
	}
	return done;
}

/**
 * wss_irq_poll - softirq handler of a channel with interrupts
 * @iop: embedded in the channel
 * @budget: fairness bound of irq_poll
 * Return: number of completions processed.
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

	/* A polled queue whose channel is not polled is served by interrupts. */
	if (!chan->polled)
		return 0;
	/* A second poller would find nothing that the first one does not process. */
	if (!spin_trylock(&chan->poll_lock))
		return 0;
	/* Pairs with wss_set_state(): after LIVE the channel is complete. */
	if (READ_ONCE(chan->state) == WSS_CHAN_UP && smp_load_acquire(&chan->sess->state) == WSS_LIVE)
		done = wss_chan_poll(chan, WSS_POLL_BUDGET, iob ?: &own);
	spin_unlock(&chan->poll_lock);
	if (!wss_batch_empty(&own))
		own.complete(&own);
	return done;
}

/*
 * A poller has found nothing for a while, and another task can run on this processor. It may be the
 * one that produces the response (ksoftirqd, a target on this machine). Pollers may not sleep, so
 * this one calls the scheduler, which may choose it again.
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

/** wss_mq_poll - blk-mq: poll for completions of polled requests */
int wss_mq_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
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
 * wss_chan_poll_now - process completions for which no task may be polling
 * @chan: of a live session; has an effect only on polled channels
 */
void wss_chan_poll_now(struct wss_chan *chan)
{
	wss_poll_polled(chan, NULL);
}
