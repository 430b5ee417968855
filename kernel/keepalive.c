// SPDX-License-Identifier: GPL-2.0
/*
 * Keep-alive: tells the target that we live, and sees that it does.
 *
 * It runs as long as the channels are logged in, in every state of the session: while volumes are looked at after a
 * login, an administrative command may wait for longer than the target waits for a word of ours. So it has a slot of its
 * own; and a credit, where the target gives enough of them and the question costs one.
 */
#include "log.h"
#include "wss.h"

/* In what time a dead peer must be noticed: as asked for, and before the target thinks it of us. */
static u32 wss_keepalive_limit_ms(const struct wss_session *sess)
{
	const struct wss_chan *chan = &sess->chans[0];
	u32 ms = sess->opts.keepalive_tmo < 0 ? 0 : sess->opts.keepalive_tmo * MSEC_PER_SEC;

	if ((chan->caps & WSS_CAP_KEEPALIVE) && chan->keepalive_ms)
		ms = min(ms ?: U32_MAX, max(chan->keepalive_ms, 300U));
	return ms;
}

/* A stock target is asked by TEST UNIT READY: any answer will do. */
static void wss_ping_fill(struct wss_slot *slot)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;

	if (slot->chan->caps & WSS_CAP_KEEPALIVE) {
		wss_slot_fill_short(slot, WSS_SRP_KEEPALIVE_REQ);
		return;
	}
	memset(cmd, 0, sizeof(*cmd));
	cmd->opcode = WSS_SRP_CMD;
	slot->nents = 0;
	slot->first_wr = &slot->send_wr;
	slot->sge[0].length = sizeof(*cmd);
}

static bool wss_ping_ended(struct wss_session *sess, const struct wss_tmf *ping)
{
	/* Pairs with the release in wss_tmf_finish(). */
	return !smp_load_acquire(&ping->busy) || READ_ONCE(sess->broken) ||
	       READ_ONCE(sess->state) == WSS_REMOVING;
}

/* Context: sleeps, at most @timeout_ms; sess->ping_mutex held, and sess->up. */
static void wss_ping(struct wss_session *sess, u32 timeout_ms)
{
	struct wss_chan *chan = &sess->chans[0];
	struct wss_slot *slot = wss_control_slot(chan, WSS_SLOT_PING);
	struct wss_tmf *ping = wss_slot_tmf(slot);

	if (smp_load_acquire(&ping->busy))
		return;
	wss_ping_fill(slot);
	/* The next one will go out. */
	if (!wss_take_control_credit(slot, 0))
		return;
	ping->busy = true;
	wss_slot_start(slot, NULL, 0);
	wss_slot_send(slot);
	if (!wait_event_timeout(sess->wait, wss_ping_ended(sess, ping), msecs_to_jiffies(timeout_ms)))
		wss_session_error(sess, "the target has not answered a keep-alive in time");
}

/**
 * wss_keepalive_work - one question, and when to ask the next
 * @work: sess->keepalive_work; queued when the channels are logged in
 */
void wss_keepalive_work(struct work_struct *work)
{
	struct wss_session *sess = container_of(to_delayed_work(work), struct wss_session, keepalive_work);
	u32 limit_ms = 0;
	u32 period_ms = 0;

	mutex_lock(&sess->ping_mutex);
	if (sess->up && !READ_ONCE(sess->broken)) {
		limit_ms = wss_keepalive_limit_ms(sess);
		period_ms = wss_keepalive_period_ms(limit_ms);
	}
	if (limit_ms)
		wss_ping(sess, limit_ms - period_ms);
	mutex_unlock(&sess->ping_mutex);
	if (limit_ms && !READ_ONCE(sess->broken))
		queue_delayed_work(wss_wq(keepalive), &sess->keepalive_work, msecs_to_jiffies(period_ms));
}

/**
 * wss_keepalive_start - the channels are logged in: ask from now on, for the first time before the target thinks us dead
 * @sess: the session
 */
void wss_keepalive_start(struct wss_session *sess)
{
	u32 period_ms = wss_keepalive_period_ms(wss_keepalive_limit_ms(sess));

	mutex_lock(&sess->ping_mutex);
	sess->up = true;
	mutex_unlock(&sess->ping_mutex);
	mod_delayed_work(wss_wq(keepalive), &sess->keepalive_work,
			 min_t(unsigned long, HZ, msecs_to_jiffies(period_ms)));
}

/**
 * wss_keepalive_stop - mirror of wss_keepalive_start(): no question is under way on return, and none follows
 * @sess: the session; what led here has woken who waits for an answer
 */
void wss_keepalive_stop(struct wss_session *sess)
{
	mutex_lock(&sess->ping_mutex);
	sess->up = false;
	mutex_unlock(&sess->ping_mutex);
}
