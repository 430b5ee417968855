// SPDX-License-Identifier: GPL-2.0
/*
 * Keep-alive: shows the target that the initiator is alive, and detects a dead target.
 *
 * Keep-alives are sent while the channels are logged in, in every state of the session. During a
 * walk over the volumes (revalidate.c), an administrative command may last longer than the target
 * waits for a message. A keep-alive therefore has its own slot, and its own credit if it costs one
 * and the target grants enough of them.
 */
#include "log.h"
#include "wss.h"

/*
 * Returns the time in which a dead peer must be detected: keepalive_tmo, or less where the target
 * would close the session earlier. 0: no keep-alives.
 */
static u32 wss_keepalive_limit_ms(const struct wss_session *sess)
{
	const struct wss_chan *chan = &sess->chans[0];
	u32 ms = sess->opts.keepalive_tmo < 0 ? 0 : sess->opts.keepalive_tmo * MSEC_PER_SEC;

	if ((chan->caps & WSS_CAP_KEEPALIVE) && chan->keepalive_ms)
		ms = min(ms ?: U32_MAX, max(chan->keepalive_ms, 300U));
	return ms;
}

/*
 * Chooses the unit for TEST UNIT READY. The choice stays the same while the unit answers. An
 * absent unit is not chosen, because it may never answer. If no volume is present, LUN 0 is
 * chosen. Context: ping_mutex held.
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

/* A target without WSS_CAP_KEEPALIVE gets a TEST UNIT READY, and any response is a sign of life. */
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

/* Messages received on all channels. */
static u32 wss_received(struct wss_session *sess)
{
	u32 received = 0;
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++)
		received += READ_ONCE(wss_up_chan(sess, i)->received);
	return received;
}

/*
 * Aborts a TEST UNIT READY, because perhaps only the unit is silent, and not the target. If the
 * target ends the command, the next one can go to another unit.
 */
static void wss_ping_abort(struct wss_slot *slot, u32 timeout_ms)
{
	struct wss_session *sess = slot->chan->sess;

	/* An administrative command is outstanding: its response is a sign of life as well. */
	if (!mutex_trylock(&sess->admin_mutex)) {
		wait_event_timeout(sess->wait, wss_ping_ended(sess, wss_slot_tmf(slot)), msecs_to_jiffies(timeout_ms));
		return;
	}
	wss_abort_command(slot, READ_ONCE(slot->tag), timeout_ms);
	mutex_unlock(&sess->admin_mutex);
}

/*
 * True if the target has neither answered nor ended a command for a long time. The command holds a
 * credit, which I/O may need if the target grants few. A request that waits for such a credit has
 * no timer yet.
 * @timeout_ms: time-out of a keep-alive; the limit leaves time for more than one abort.
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
 * Sends a keep-alive and waits. Any message of the target on any channel is a sign of life, because
 * a unit may take long to answer, or may never answer. Context: sleeps, about @timeout_ms;
 * sess->ping_mutex held and sess->up set.
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
	/*
	 * The last keep-alive may still be outstanding. If there is no credit, the next one is
	 * sent later.
	 */
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
 * wss_keepalive_work - send one keep-alive and schedule the next
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
 * wss_keepalive_start - start keep-alives, now that the channels are logged in; the first one is
 * sent before the target's time-out
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
 * wss_keepalive_stop - mirror of wss_keepalive_start(): afterwards no keep-alive is in flight, and
 * none follows
 * @sess: the session; the cause of this call has woken the sender of a keep-alive
 */
void wss_keepalive_stop(struct wss_session *sess)
{
	mutex_lock(&sess->ping_mutex);
	sess->up = false;
	mutex_unlock(&sess->ping_mutex);
}
