// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery of a lost connection.
 *
 *   error -> recovering: timers start; queues quiesced, channels destroyed, requests back in their queues
 *         -> every reconnect_delay seconds: connect, log in, revalidate the volumes
 *              -> live: requests are sent (again)
 *         -> after fast_io_fail_tmo: waiting and new requests fail with EIO, attempts continue
 *         -> after dev_loss_tmo: failed; no further attempt
 *
 * One work item does all of this, so that no two steps run at once. Only the step of
 * fast_io_fail_tmo has a work item of its own, because it must not wait behind an attempt. Code that
 * detects an error calls wss_session_error() and returns. Requests wait in quiesced queues. No
 * process sleeps in the driver for them, and unmap works in every state.
 *
 * Memory may be short because dirty pages or swap wait for these very disks. So recovery, and everything
 * for which it may have to wait, allocates memory without starting I/O: this work, the events of the
 * connection manager (conn.c), and the holders of the session's mutexes (volume.c, discover.c).
 *
 * A connection that is lost repeatedly right after its login must not restart the timers each time.
 * Otherwise a request that breaks each connection would be sent for ever. After a connection
 * shorter than wss_steady_time() the timers keep counting from the previous loss. A request that
 * was lost with many connections fails (end.c).
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
 * wss_dev_loss_passed - test whether dev_loss_tmo has passed
 * @sess: recovering
 * Return: true if the session must be given up.
 */
bool wss_dev_loss_passed(struct wss_session *sess)
{
	return wss_passed(sess, sess->opts.dev_loss_tmo);
}

/*
 * Starts the timer of fast_io_fail_tmo, which counts from the loss. The timer must run while recovery
 * works, because recovery may have to wait for memory that requests of these disks hold. Context:
 * sess->lock held, so that no timer starts after wss_session_stop().
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
 * wss_steady_time - how long a connection must have lasted for its loss to restart the timers
 * @sess: the session
 * Return: the time in jiffies.
 */
unsigned long wss_steady_time(const struct wss_session *sess)
{
	int tmo = sess->opts.keepalive_tmo;

	return wss_secs(tmo < 0 ? WSS_STEADY_S : min(tmo, WSS_STEADY_S));
}

/**
 * wss_session_error - report that the connection can no longer be used
 * @sess: the session
 * @why: constant string for log and sysfs
 *
 * The first call while the session is live starts recovery. Other calls only end an attempt to
 * connect.
 *
 * Context: any.
 */
void wss_session_error(struct wss_session *sess, const char *why)
{
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&sess->lock, flags);
	/* The first reason is the cause of the later ones. */
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
 * wss_session_logged_out - process the target's SRP_T_LOGOUT
 * @sess: the session
 * @why: its reason, a constant string for log and sysfs
 *
 * The CM reports the disconnection separately, and its event may be processed before this message,
 * which was sent earlier. This reason then replaces that of the event.
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
 * wss_session_quiesce - stop all submitters
 * @sess: the session
 *
 * Context: sleeps; afterwards no queue_rq of the session's volumes runs or starts.
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
 * @sess: the session; its state and flags, and the states of its volumes, decide whether the
 *	requests are sent, wait or fail
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

/*
 * Kills the volumes that are being unmapped. The unmap waits for their requests, but must not wait
 * for the target. Requests of volumes that are dead already must not wait for it either.
 */
static void wss_release_dead(struct wss_session *sess)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (READ_ONCE(vol->removing) || vol->state == WSS_VOLUME_DEAD)
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
 * wss_fail_work - fail requests, because fast_io_fail_tmo has passed
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
	 * Submitters no longer use the channels: a submitter that starts now stops at wss_admit().
	 * The queues need not stay quiesced. They must not if requests already fail.
	 */
	if (READ_ONCE(sess->fail_fast))
		wss_session_unquiesce(sess);
	wss_chans_stop(sess);
	wss_release_dead(sess);
}

/*
 * Returns true if the session is live. Returns false if a volume was added in the meantime, the
 * connection was lost, or the session is being removed.
 */
static bool wss_go_live(struct wss_session *sess)
{
	bool live = false;

	mutex_lock(&sess->mutex);
	spin_lock_irq(&sess->lock);
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

/* Returns true if the session is live again. */
static bool wss_try_reconnect(struct wss_session *sess, struct wss_error *err)
{
	const char *broken;

	spin_lock_irq(&sess->lock);
	WRITE_ONCE(sess->broken, NULL);
	spin_unlock_irq(&sess->lock);
	if (wss_chans_start(sess, err))
		return false;
	if (sess->cache_lost)
		wss_volumes_lose_cache(sess);
	sess->cache_lost = false;
	/* No request may be sent before each volume's unit is identified. */
	while (!wss_volumes_revalidate(sess, err)) {
		/*
		 * fail_work must neither be running now nor run later: it would fail requests that
		 * the next loss delays, although these may still wait.
		 */
		cancel_delayed_work_sync(&sess->fail_work);
		if (wss_go_live(sess))
			return true;
		broken = READ_ONCE(sess->broken);
		if (broken || READ_ONCE(sess->state) != WSS_RECOVERING) {
			wss_fail(err, 0, "the connection broke during login: %s",
				 broken ?: "the session is being removed");
			break;
		}
	}
	/* Wakes tasks that wait for a response on these channels, for instance a map. */
	wss_session_error(sess, "the login was cancelled");
	/* No request has been submitted since the teardown, because the state was never LIVE. */
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
	wss_warn(sess, "no lasting connection for %d s: the driver gives up; unmap the volumes and map them again",
		 sess->opts.dev_loss_tmo);
	wss_fail_requests(sess);
}

static void wss_back_to_life(struct wss_session *sess)
{
	wss_session_unquiesce(sess);
	wss_stat_inc(sess, reconnects);
	wss_info(sess, "reconnected with %u channels", wss_nr_chans(sess));
	/*
	 * Looks for absent volumes, or revalidates all volumes if the target has reported a change
	 * in the meantime.
	 */
	mod_delayed_work(wss_wq(admin), &sess->rescan_work, 0);
}

static void wss_schedule_next(struct wss_session *sess)
{
	unsigned long delay = wss_secs(max(sess->opts.reconnect_delay, 1));

	/* The delay must not exceed the deadline. */
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
