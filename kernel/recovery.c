// SPDX-License-Identifier: GPL-2.0
/*
 * A lost connection.
 *
 *   error -> recovering: timers start; queues quiesced, channels destroyed, requests back in their queues
 *         -> every reconnect_delay seconds: connect, log in, look at the volumes again
 *              -> live: requests are sent (again)
 *         -> after fast_io_fail_tmo: waiting and new requests fail with EIO, attempts go on
 *         -> after dev_loss_tmo: failed; nothing more is tried
 *
 * One work item does it all, so that no two steps of it ever run at once; whatever sees an error
 * calls wss_session_error() and goes on. The queues' wait is not a sleep of anybody in the driver:
 * no process is stuck here, and unmap works in every state.
 *
 * Memory may be short because dirty pages or swap wait for these very disks. So whatever recovery
 * does or may have to wait for allocates without writing back: this work, the events of the
 * connection manager (conn.c), and who holds the session's mutexes (volume.c, discover.c).
 *
 * A connection that is lost right after its login, again and again, must not reset the timers each time: a
 * request that each connection dies of would be sent for ever. Where the life was shorter than wss_steady_time() the
 * timers go on from the loss before. And a request that was lost with many connections fails (end.c).
 */
#include <linux/sched/mm.h>

#include "log.h"
#include "trace.h"
#include "wss.h"

static unsigned long wss_secs(int seconds)
{
	return (unsigned long)seconds * HZ;
}

static bool wss_passed(struct wss_session *sess, int tmo)
{
	return tmo >= 0 && time_after_eq(jiffies, sess->lost_at + wss_secs(tmo));
}

/**
 * wss_dev_loss_passed - is it time to give the session up?
 * @sess: recovering
 * Return: whether dev_loss_tmo has passed.
 */
bool wss_dev_loss_passed(struct wss_session *sess)
{
	return wss_passed(sess, sess->opts.dev_loss_tmo);
}

/*
 * The timers count from the loss, and start there: recovery itself may have to wait for memory that
 * requests of these disks hold. Context: sess->lock held, so that no timer starts after wss_session_stop().
 */
static void wss_arm_fast_io_fail(struct wss_session *sess)
{
	unsigned long deadline = sess->lost_at + wss_secs(sess->opts.fast_io_fail_tmo);
	unsigned long now = jiffies;

	lockdep_assert_held(&sess->lock);
	if (sess->state == WSS_RECOVERING && sess->opts.fast_io_fail_tmo >= 0 && !sess->fail_fast)
		mod_delayed_work(wss_wq(timer), &sess->fail_work,
				 time_before(now, deadline) ? deadline - now : 0);
}

/**
 * wss_steady_time - how long a connection must have lived for its loss to be a new one
 * @sess: the session
 * Return: in jiffies.
 */
unsigned long wss_steady_time(const struct wss_session *sess)
{
	int tmo = sess->opts.keepalive_tmo;

	return wss_secs(tmo < 0 ? WSS_STEADY_S : min(tmo, WSS_STEADY_S));
}

/**
 * wss_session_error - the connection cannot be relied on any more
 * @sess: the session
 * @why: constant string for log and sysfs
 *
 * The first call after the session went live starts recovery; others only mark the attempt as lost.
 *
 * Context: any.
 */
void wss_session_error(struct wss_session *sess, const char *why)
{
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&sess->lock, flags);
	/* The first reason is the cause of those that follow. */
	if (!sess->broken)
		WRITE_ONCE(sess->broken, why);
	mine = wss_set_state(sess, WSS_RECOVERING);
	if (mine) {
		if (time_after_eq(jiffies, sess->live_since + wss_steady_time(sess)))
			sess->lost_at = jiffies;
		strscpy(sess->last_error.text, why, sizeof(sess->last_error.text));
		wss_arm_fast_io_fail(sess);
		mod_delayed_work(wss_wq(recovery), &sess->recover_work, 0);
	}
	spin_unlock_irqrestore(&sess->lock, flags);
	wake_up_all(&sess->wait);
	if (!mine)
		return;
	trace_wss_error(sess, why);
	wss_warn_rl(sess, "connection lost (%s), recovering", why);
}

const char wss_target_closed[] = "the target closed the connection; its log has the reason";

/**
 * wss_session_logged_out - the target has ended the connection and says why
 * @sess: the session
 * @why: constant string for log and sysfs
 *
 * The news that the connection is closed comes by another way (the CM's) and may be taken before the message that was sent
 * ahead of it.
 *
 * Context: any.
 */
void wss_session_logged_out(struct wss_session *sess, const char *why)
{
	unsigned long flags;

	wss_session_error(sess, why);
	spin_lock_irqsave(&sess->lock, flags);
	if (sess->broken == wss_target_closed)
		WRITE_ONCE(sess->broken, why);
	if (!strcmp(sess->last_error.text, wss_target_closed))
		strscpy(sess->last_error.text, why, sizeof(sess->last_error.text));
	spin_unlock_irqrestore(&sess->lock, flags);
}

/**
 * wss_session_quiesce - let no submitter run any more
 * @sess: the session
 *
 * Context: sleeps; after it no queue_rq of the session's volumes runs or starts.
 */
void wss_session_quiesce(struct wss_session *sess)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node)
		wss_volume_quiesce(vol);
	mutex_unlock(&sess->mutex);
}

/**
 * wss_session_unquiesce - mirror of wss_session_quiesce()
 * @sess: the session; its state and flags, and the states of its volumes, decide what happens to the requests that now run
 */
void wss_session_unquiesce(struct wss_session *sess)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (!wss_volume_waits(vol))
			wss_volume_unquiesce(vol);
	}
	mutex_unlock(&sess->mutex);
}

/* Volumes whose unmap waits for their requests cannot wait for the target as well. */
static void wss_release_removed(struct wss_session *sess)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (READ_ONCE(vol->removing))
			wss_volume_kill(vol);
	}
	mutex_unlock(&sess->mutex);
}

static void wss_fail_requests(struct wss_session *sess)
{
	WRITE_ONCE(sess->fail_fast, true);
	wss_session_unquiesce(sess);
}

/**
 * wss_fail_work - fast_io_fail_tmo has passed
 * @work: sess->fail_work
 */
void wss_fail_work(struct work_struct *work)
{
	struct wss_session *sess =
		container_of(to_delayed_work(work), struct wss_session, fail_work);

	if (READ_ONCE(sess->state) != WSS_RECOVERING)
		return;
	wss_warn(sess, "no lasting connection for %d s: requests fail from now on",
		 sess->opts.fast_io_fail_tmo);
	wss_fail_requests(sess);
}

static void wss_tear_down(struct wss_session *sess)
{
	wss_session_quiesce(sess);
	/*
	 * No submitter uses the channels any more: those that begin now stop at wss_admit(). So the
	 * queues need not stand still, and do not where requests fail already.
	 */
	if (READ_ONCE(sess->fail_fast))
		wss_session_unquiesce(sess);
	wss_chans_stop(sess);
	wss_release_removed(sess);
}

/* True when the session is live. False: a volume was added meanwhile, or the connection broke. */
static bool wss_go_live(struct wss_session *sess, struct wss_error *err)
{
	bool live = false;

	mutex_lock(&sess->mutex);
	spin_lock_irq(&sess->lock);
	wss_fail(err, 0, "the connection broke during login: %s", sess->broken ?: "unmapped");
	if (!sess->broken && wss_volumes_seen(sess))
		live = wss_set_state(sess, WSS_LIVE);
	if (live) {
		sess->live_since = jiffies;
		WRITE_ONCE(sess->fail_fast, false);
		sess->last_error.text[0] = '\0';
	}
	wss_arm_fast_io_fail(sess);
	spin_unlock_irq(&sess->lock);
	mutex_unlock(&sess->mutex);
	return live;
}

/* True when the session is live again. */
static bool wss_try_reconnect(struct wss_session *sess, struct wss_error *err)
{
	spin_lock_irq(&sess->lock);
	WRITE_ONCE(sess->broken, NULL);
	spin_unlock_irq(&sess->lock);
	if (wss_chans_start(sess, err))
		return false;
	if (sess->cache_lost)
		wss_volumes_lose_cache(sess);
	sess->cache_lost = false;
	/* No request may go out before it is known that each volume is still where it was. */
	while (!wss_volumes_revalidate(sess, err)) {
		/* Not half-way either, or later: it would fail requests of the next loss, which may wait. */
		cancel_delayed_work_sync(&sess->fail_work);
		if (wss_go_live(sess, err))
			return true;
		if (READ_ONCE(sess->broken) || READ_ONCE(sess->state) != WSS_RECOVERING)
			break;
	}
	/* Whoever waits for an answer on these channels, a map for instance, is not waited for. */
	wss_session_error(sess, "the login was cancelled");
	/* Nobody has submitted since the tear-down: the state was never LIVE. */
	wss_chans_stop(sess);
	return false;
}

static void wss_give_up(struct wss_session *sess)
{
	bool mine;

	spin_lock_irq(&sess->lock);
	mine = wss_set_state(sess, WSS_FAILED);
	spin_unlock_irq(&sess->lock);
	if (!mine)
		return;
	wss_warn(sess, "no lasting connection for %d s: given up; unmap its volumes and map them again",
		 sess->opts.dev_loss_tmo);
	wss_fail_requests(sess);
}

static void wss_back_to_life(struct wss_session *sess)
{
	wss_session_unquiesce(sess);
	wss_stat_inc(sess, reconnects);
	wss_info(sess, "connected again with %u channels", wss_nr_chans(sess));
	/* Absent volumes are looked for; all, if the target reported a change meanwhile. */
	mod_delayed_work(wss_wq(admin), &sess->rescan_work, 0);
}

static void wss_schedule_next(struct wss_session *sess)
{
	unsigned long delay = wss_secs(max(sess->opts.reconnect_delay, 1));

	/* Never sleep over the deadline. */
	if (sess->opts.dev_loss_tmo >= 0) {
		unsigned long deadline = sess->lost_at + wss_secs(sess->opts.dev_loss_tmo);

		if (time_before(deadline, jiffies + delay))
			delay = time_after(deadline, jiffies) ? deadline - jiffies : 0;
	}
	queue_delayed_work(wss_wq(recovery), &sess->recover_work, delay);
}

static void wss_recover(struct wss_session *sess)
{
	struct wss_error err = {};

	if (READ_ONCE(sess->state) != WSS_RECOVERING)
		return;
	if (sess->up)
		wss_tear_down(sess);
	if (wss_dev_loss_passed(sess)) {
		wss_give_up(sess);
		return;
	}
	if (sess->opts.reconnect_delay > 0 && wss_try_reconnect(sess, &err)) {
		wss_back_to_life(sess);
		return;
	}
	if (READ_ONCE(sess->state) != WSS_RECOVERING)
		return;
	trace_wss_reconnect(sess, err.text);
	spin_lock_irq(&sess->lock);
	if (err.text[0] && strcmp(err.text, sess->last_error.text))
		sess->last_error = err;
	else
		err.text[0] = '\0';
	spin_unlock_irq(&sess->lock);
	if (err.text[0])
		wss_warn_rl(sess, "cannot reconnect: %s", err.text);
	wss_schedule_next(sess);
}

/**
 * wss_recover_work - one step of recovery
 * @work: sess->recover_work
 */
void wss_recover_work(struct work_struct *work)
{
	unsigned int noio = memalloc_noio_save();

	wss_recover(container_of(to_delayed_work(work), struct wss_session, recover_work));
	memalloc_noio_restore(noio);
}
