// SPDX-License-Identifier: GPL-2.0
/*
 * Teardown of channels, in phases.
 *
 * Each phase undoes one part of the set-up (chans.c, conn.c, qp.c). It is complete for all channels
 * before the next phase begins:
 *
 *   quiesce     events of the connection manager no longer have an effect
 *   engines     connections to cache engines are closed, while completions are still processed
 *   disconnect  the peer is notified; the queue pair goes to the error state
 *   drain       two markers have completed, after all other work requests
 *   unpoll      no context polls or arms the completion queue from here on
 *   cancel      work items that events and pollers queued
 *   destroy     queue pair, completion queue, connection identifier
 *   free        requests go back to their queues; then slots, regions, message buffers
 *
 * So pollers, events and work items always find the objects that they use. A device that does not
 * flush its queue pairs delays the drain by WSS_DRAIN_MS, once for all channels; the later phases
 * do not rely on it.
 */
#include <linux/delay.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "wss.h"

#define WSS_DRAIN_MS 2000

/*
 * Events run under the handler's lock. When this returns, no event that is still running has
 * seen the channel up.
 */
static void wss_chan_quiesce(struct wss_chan *chan)
{
	rdma_lock_handler(chan->cm_id);
	wss_chan_set_state(chan, WSS_CHAN_STOPPING);
	rdma_unlock_handler(chan->cm_id);
}

static void wss_chan_mark_sends(struct wss_chan *chan)
{
	struct ib_rdma_wr wr = {
		.wr.wr_id = WSS_WR_ID(WSS_WR_MARKER, 0),
		.wr.opcode = IB_WR_RDMA_WRITE,
		.wr.send_flags = IB_SEND_SIGNALED,
	};

	atomic_inc(&chan->markers);
	if (ib_post_send(chan->qp, &wr.wr, NULL))
		atomic_dec(&chan->markers);
}

static void wss_chan_mark_recvs(struct wss_chan *chan)
{
	struct ib_recv_wr wr = { .wr_id = WSS_WR_ID(WSS_WR_MARKER, 0) };

	atomic_inc(&chan->markers);
	if (ib_post_recv(chan->qp, &wr, NULL))
		atomic_dec(&chan->markers);
}

static void wss_chan_disconnect(struct wss_chan *chan)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	rdma_disconnect(chan->cm_id);
	atomic_set(&chan->markers, 0);
	/* Without a marker, the drain does not wait for a queue pair that cannot be flushed. */
	if (!chan->qp || ib_modify_qp(chan->qp, &attr, IB_QP_STATE))
		return;
	wss_chan_mark_sends(chan);
	wss_chan_mark_recvs(chan);
}

/* Polls a channel's completion queue, or schedules its softirq. */
static void wss_chan_reap(struct wss_chan *chan)
{
	DEFINE_IO_COMP_BATCH(iob);

	if (!chan->polled) {
		irq_poll_sched(&chan->iop);
		return;
	}
	spin_lock(&chan->poll_lock);
	wss_chan_poll(chan, WSS_POLL_BUDGET, &iob);
	spin_unlock(&chan->poll_lock);
	if (!wss_batch_empty(&iob))
		iob.complete(&iob);
}

static void wss_chan_drain(struct wss_chan *chan, unsigned long deadline)
{
	while (atomic_read(&chan->markers) && time_before(jiffies, deadline)) {
		wss_chan_reap(chan);
		usleep_range(100, 300);
	}
}

static void wss_chan_unpoll(struct wss_chan *chan)
{
	if (!chan->cq)
		return;
	if (!chan->polled) {
		irq_poll_disable(&chan->iop);
		return;
	}
	/*
	 * A poller that takes the lock from here on finds that the channel is stopping
	 * (wss_poll_polled()).
	 */
	spin_lock(&chan->poll_lock);
	spin_unlock(&chan->poll_lock);
}

static void wss_chan_cancel(struct wss_chan *chan)
{
	cancel_work_sync(&chan->engine_work);
	cancel_delayed_work_sync(&chan->late_work);
	init_llist_head(&chan->late);
	chan->nr_news = 0;
}

static void wss_chan_destroy(struct wss_chan *chan)
{
	if (chan->qp) {
		/* From here on the peer can reach no region of this channel. */
		rdma_destroy_qp(chan->cm_id);
		chan->qp = NULL;
	}
	if (chan->cq) {
		ib_destroy_cq(chan->cq);
		chan->cq = NULL;
	}
	rdma_destroy_id(chan->cm_id);
	chan->cm_id = NULL;
}

static void wss_chan_free(struct wss_chan *chan)
{
	if (chan->ibdev) {
		wss_cancel_slots(chan);
		wss_recvs_free(chan);
		wss_slots_free(chan);
		chan->ibdev = NULL;
	}
	wss_chan_set_state(chan, WSS_CHAN_DOWN);
}

#define wss_for_each_started(chan, chans, count)                      \
	for ((chan) = (chans); (chan) < (chans) + (count); (chan)++) \
		if ((chan)->state != WSS_CHAN_DOWN)

/**
 * wss_chans_take_down - undo wss_chan_start() and the steps of events since then
 * @chans: the first channel
 * @count: number of channels, in any state
 *
 * Afterwards no peer can reach memory through the channels: this is the fence of recovery.
 *
 * Context: sleeps, bounded. No submitter runs on these channels, and no context sends an
 * administrative command on them or waits for its response.
 */
void wss_chans_take_down(struct wss_chan *chans, u32 count)
{
	struct wss_chan *chan;
	unsigned long deadline;

	wss_for_each_started(chan, chans, count)
		wss_chan_quiesce(chan);
	wss_for_each_started(chan, chans, count)
		wss_engines_close(chan);
	wss_for_each_started(chan, chans, count)
		wss_engines_await(chan);
	wss_for_each_started(chan, chans, count)
		wss_chan_disconnect(chan);
	deadline = jiffies + msecs_to_jiffies(WSS_DRAIN_MS);
	wss_for_each_started(chan, chans, count)
		wss_chan_drain(chan, deadline);
	wss_for_each_started(chan, chans, count)
		wss_chan_unpoll(chan);
	/* Waits for softirqs: irq_poll_disable() misses a poller that is past irq_poll_complete(). */
	synchronize_rcu();
	wss_for_each_started(chan, chans, count)
		wss_chan_cancel(chan);
	wss_for_each_started(chan, chans, count)
		wss_chan_destroy(chan);
	wss_for_each_started(chan, chans, count)
		wss_chan_free(chan);
}
