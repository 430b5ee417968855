// SPDX-License-Identifier: GPL-2.0
/*
 * All channels of a session: how they are connected, assigned to hardware queues, and taken down.
 *
 * wss_chans_start() connects channel 0, which opens the session on the target (MULTICHAN_SINGLE),
 * and then all others at the same time, which join the session (MULTICHAN_MULTI). A target may
 * grant fewer channels than requested, and a different number after a reconnection. A channel then
 * serves several hardware queues, with separate slots for each. The slots are therefore allocated
 * last. wss_chans_take_down() frees the resources of a channel in any state (teardown.c).
 */
#include "fault.h"
#include "log.h"
#include "wss.h"

/* Maximum number of attempts after the peer rejects one as stale (wss_first_chan_start()). */
#define WSS_STALE_MAX 16

static bool wss_chans_settled(struct wss_session *sess, u32 from, u32 to)
{
	u32 i;

	if (READ_ONCE(sess->state) == WSS_REMOVING)
		return true;
	for (i = from; i < to; i++) {
		if (!smp_load_acquire(&sess->chans[i].connect_done)) /* pairs with wss_connect_failed() */
			return false;
	}
	return true;
}

static int wss_chans_connect(struct wss_session *sess, u32 from, u32 to, struct wss_error *err)
{
	long left;
	u32 i;

	for (i = from; i < to; i++) {
		int ret = wss_chan_start(&sess->chans[i]);

		if (ret) {
			*err = sess->chans[i].connect_error;
			return ret;
		}
	}
	left = wait_event_interruptible_timeout(sess->wait,
						wss_chans_settled(sess, from, to) || READ_ONCE(sess->broken),
						msecs_to_jiffies(WSS_CONNECT_TIMEOUT_MS));
	if (left < 0)
		return wss_fail(err, -EINTR, "interrupted");
	if (READ_ONCE(sess->state) == WSS_REMOVING)
		return wss_fail(err, -ECANCELED, "the session is being removed");
	if (!wss_chans_settled(sess, from, to) && READ_ONCE(sess->broken))
		return wss_fail(err, -ECONNRESET, "connection lost during setup: %s", sess->broken);
	return 0;
}

static int wss_chan_outcome(struct wss_chan *chan, struct wss_error *err)
{
	if (!chan->connect_done)
		return wss_fail(err, -ETIMEDOUT,
				"no answer within %u s: is a target running there?",
				WSS_CONNECT_TIMEOUT_MS / 1000);
	if (chan->connect_status) {
		*err = chan->connect_error;
		return chan->connect_status;
	}
	return wss_auth_channel(chan, err);
}

static int wss_first_chan_start(struct wss_session *sess, struct wss_error *err)
{
	struct wss_chan *chan = &sess->chans[0];
	u32 stale = 0;
	int ret;

	for (;;) {
		ret = wss_chans_connect(sess, 0, 1, err);
		if (!ret)
			ret = wss_chan_outcome(chan, err);
		if (!ret)
			return 0;
		wss_chans_take_down(chan, 1);
		wss_session_unbind(sess);
		/*
		 * After a power cut of this machine, queue pairs get the same numbers as before. A
		 * peer that still has a connection to one of these numbers ends it and rejects the
		 * new one as stale, once for each connection.
		 */
		if (ret == -ESTALE && stale++ < WSS_STALE_MAX)
			continue;
		/*
		 * Some stock targets accept only shorter commands. So request less immediate data,
		 * down to none.
		 */
		if (chan->reject_reason != WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE || !sess->request_imm)
			return ret;
		sess->request_imm = sess->request_imm > 8192 ? 8192 : sess->request_imm > 2048 ? 2048 : 0;
	}
}

/*
 * Counts the channels that are up, starting at @from, up to the first that is not up or to @to
 * (exclusive). Takes down the channels from there to @to.
 */
static u32 wss_count_up(struct wss_session *sess, u32 from, u32 to, struct wss_error *err)
{
	u32 up = from;

	while (up < to && !wss_chan_outcome(&sess->chans[up], err))
		up++;
	if (up < to)
		wss_chans_take_down(&sess->chans[up], to - up);
	return up - from;
}

/*
 * Assigns a channel to a queue, and counts the bank of slots that the queue needs there. A polled
 * queue gets a polled channel if there is one, otherwise any.
 */
static void wss_assign_queue(struct wss_session *sess, u32 index)
{
	struct wss_queue *queue = &sess->queues[index];
	u32 nth = index % sess->up_default;

	if (index >= sess->nr_default && sess->up_polled)
		nth = sess->up_default + (index - sess->nr_default) % sess->up_polled;
	queue->chan = wss_up_chan(sess, nth);
	queue->chan->banks++;
}

static int wss_queues_start(struct wss_session *sess, struct wss_error *err)
{
	u32 depth = sess->opts.queue_depth;
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);

		depth = min3(depth, (u32)chan->depth, chan->granted - chan->reserved);
		chan->banks = 0;
	}
	if (!sess->tags_ready)
		sess->tag_depth = depth;
	for (i = 0; i < sess->nr_queues; i++)
		wss_assign_queue(sess, i);
	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);
		int ret = wss_slots_alloc(chan);

		if (ret)
			return wss_fail(err, ret, "cannot allocate %u memory regions on %s (%s); try a smaller queue_depth= or queues=",
					sess->tag_depth * chan->banks, dev_name(&chan->ibdev->dev),
					wss_reason(ret));
		chan->banks = 0;
	}
	for (i = 0; i < sess->nr_queues; i++) {
		struct wss_queue *queue = &sess->queues[i];

		queue->slots = queue->chan->slots + sess->tag_depth * queue->chan->banks++;
	}
	return 0;
}

static void wss_chans_end(struct wss_session *sess)
{
	/*
	 * The event that led to this call has woken the sender of an outstanding administrative
	 * command.
	 */
	mutex_lock(&sess->admin_mutex);
	wss_chans_take_down(sess->chans, sess->nr_queues);
	mutex_unlock(&sess->admin_mutex);
	wss_session_unbind(sess);
}

/**
 * wss_chans_start - connect and log in all channels of a session
 * @sess: the session; no channel is up
 * @err: the reason for a failure
 *
 * The first success fixes sess->tag_depth.
 *
 * Context: sleeps, for at most a few times WSS_CONNECT_TIMEOUT_MS; interruptible.
 * Return: 0; or -errno, with everything undone.
 */
int wss_chans_start(struct wss_session *sess, struct wss_error *err)
{
	struct wss_error why = {};
	int ret;

	ret = wss_first_chan_start(sess, err);
	if (ret)
		return ret;
	ret = wss_chans_connect(sess, 1, sess->nr_queues, err);
	if (ret)
		goto stop;
	sess->up_default = 1 + wss_count_up(sess, 1, sess->nr_default, &why);
	sess->up_polled = wss_count_up(sess, sess->nr_default, sess->nr_queues, &why);
	if (wss_nr_chans(sess) < sess->nr_queues)
		wss_warn(sess, "continuing with %u of %u channels: %s", wss_nr_chans(sess), sess->nr_queues,
			 why.text);
	ret = wss_check_epoch(sess, err);
	if (!ret)
		ret = wss_queues_start(sess, err);
	if (ret)
		goto stop;
	atomic_inc(&sess->logins);
	atomic_inc(&sess->changes);
	atomic_inc(&sess->doubts);
	wss_keepalive_start(sess);
	return 0;

stop:
	wss_chans_end(sess);
	return ret;
}

/**
 * wss_chans_stop - mirror of wss_chans_start(): requests in flight go back into their queues
 * @sess: not live, so that new requests do not use its channels; no earlier submitter runs
 *
 * Context: sleeps. Only the recovery work and the creator or remover of a session call this.
 */
void wss_chans_stop(struct wss_session *sess)
{
	if (!sess->up)
		return;
	wss_keepalive_stop(sess);
	wss_chans_end(sess);
}
