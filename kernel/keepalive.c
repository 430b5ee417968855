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

/*
 * The unit that is asked: the same one as long as it answers. One that is absent may not answer for ever; LUN 0 where there is
 * no volume. Context: ping_mutex held.
 */
static void wss_ping_lun(struct wss_session *sess, u8 lun[8])
{
	const struct wss_volume *vol;
	u32 present = 0;
	u32 nth;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node)
		present += vol->state == WSS_VOLUME_PRESENT;
	nth = present ? sess->ping_unit % present : 0;
	list_for_each_entry(vol, &sess->volumes, node) {
		if (vol->state == WSS_VOLUME_PRESENT && !nth--) {
			memcpy(lun, vol->id.lun, sizeof(vol->id.lun));
			break;
		}
	}
	mutex_unlock(&sess->mutex);
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
	wss_ping_lun(slot->chan->sess, cmd->lun);
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

/* Changes with every message that comes, on any channel. */
static u32 wss_received(struct wss_session *sess)
{
	u32 received = 0;
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++)
		received += READ_ONCE(wss_up_chan(sess, i)->received);
	return received;
}

/* Perhaps it is the unit that does not answer, and not the target. If it ends the command another unit can be asked. */
static void wss_ping_abort(struct wss_slot *slot, u32 timeout_ms)
{
	struct wss_session *sess = slot->chan->sess;

	/* An administrative command is being waited for: its answer will do. */
	if (!mutex_trylock(&sess->admin_mutex)) {
		wait_event_timeout(sess->wait, wss_ping_ended(sess, wss_slot_tmf(slot)), msecs_to_jiffies(timeout_ms));
		return;
	}
	wss_abort_command(slot, READ_ONCE(slot->tag), timeout_ms);
	mutex_unlock(&sess->admin_mutex);
}

/*
 * Is a command out that the target neither answers nor ends? It has a credit, which I/O lacks where the target grants few; and
 * I/O that finds none has no timer yet. @timeout_ms: of a keep-alive; there was time to abort it more than once.
 */
static bool wss_ping_stuck(struct wss_chan *chan, enum wss_control_slot which, u32 timeout_ms)
{
	unsigned long limit = max(msecs_to_jiffies(WSS_IO_TIMEOUT_MS), 3 * msecs_to_jiffies(timeout_ms));
	struct wss_slot *slot = wss_control_slot(chan, which);
	const struct wss_tmf *tmf = wss_slot_tmf(slot);

	return smp_load_acquire(&tmf->busy) && wss_costs_credit(slot) &&
	       time_after(jiffies, tmf->since + limit);
}

static bool wss_ping_send(struct wss_slot *slot)
{
	struct wss_tmf *ping = wss_slot_tmf(slot);

	wss_ping_fill(slot);
	if (!wss_take_control_credit(slot, 0))
		return false;
	ping->since = jiffies;
	ping->busy = true;
	wss_slot_start(slot, NULL, 0);
	wss_slot_send(slot);
	return true;
}

/*
 * Whatever the target sends is a sign of life, on any channel: a unit may take long to answer, or never do. Context: sleeps,
 * about @timeout_ms; sess->ping_mutex held, and sess->up.
 */
static void wss_ping(struct wss_session *sess, u32 timeout_ms)
{
	struct wss_slot *slot = wss_control_slot(&sess->chans[0], WSS_SLOT_PING);
	struct wss_tmf *ping = wss_slot_tmf(slot);
	u32 abort_ms = slot->chan->caps & WSS_CAP_KEEPALIVE ? 0 : timeout_ms / 3;
	u32 received = wss_received(sess);

	if (wss_ping_stuck(slot->chan, WSS_SLOT_PING, timeout_ms) ||
	    wss_ping_stuck(slot->chan, WSS_SLOT_ABORT, timeout_ms)) {
		wss_session_error(sess, "the target neither answers a keep-alive nor ends it");
		return;
	}
	/* The last one may not be answered yet. Without a credit: the next one will go out. */
	if (!smp_load_acquire(&ping->busy) && !wss_ping_send(slot))
		return;
	if (wait_event_timeout(sess->wait, wss_ping_ended(sess, ping), msecs_to_jiffies(timeout_ms - abort_ms)))
		return;
	sess->ping_unit++;
	if (abort_ms)
		wss_ping_abort(slot, abort_ms);
	if (wss_received(sess) == received)
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
