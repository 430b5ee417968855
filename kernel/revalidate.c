// SPDX-License-Identifier: GPL-2.0
/*
 * Revalidation of volumes, after each login and when the target reports a change.
 *
 *   present   the unit was found, by its identity: size, limits, caches and read-only state follow it
 *   unsure    the target has since reported changed units, so the LUN may denote another one.
 *             Requests wait until it is identified, at most for fast_io_fail_tmo; then it becomes
 *             absent
 *   absent    it was not found, or could not be identified, for example because the target is
 *             starting or an access list hides it. The driver looks for it again, at growing
 *             intervals
 *   dead      it will not come back: another volume has its name, its block size has changed, or the
 *             disk is being removed
 *
 * Each volume has a state of its own, so that an absent one does not affect the others of its
 * session. While a volume is absent none of its requests is sent, because its LUN may be that of
 * another volume. After a login, and where the unit could not be identified, the requests wait for up
 * to fast_io_fail_tmo. If the target reports in a live session that it has no such unit, they fail at
 * once.
 *
 * A walk revalidates the volumes of a session one after another. While the session recovers, requests
 * of all volumes wait for the end of the walk. The walk therefore skips absent volumes until the
 * session is live. After the first unit that does not answer, further silent units get much less time
 * (WSS_ADMIN_RECOVERY_MS, WSS_ADMIN_BRIEF_MS).
 *
 * A revalidation first sends commands to the target, under look_mutex, and then applies the
 * results, under sess->mutex. A unit that takes seconds to answer, or never does, must not delay
 * unmaps or the quiescing of queues.
 */
#include <linux/sched/mm.h>

#include "compat.h"
#include "log.h"
#include "wss.h"

/*
 * The driver looks for an absent unit again after a quarter of the time for which it has been
 * absent. The delay is at most this, or reconnect_delay if that is longer.
 */
#define WSS_ABSENT_DELAY_MAX (60 * HZ)
/* Maximum number of examinations of a unit if the target reports changed units during each. */
#define WSS_LOOK_TRIES 3
/* With fast_io_fail_tmo off, a volume is unsure for at most this time. */
#define WSS_UNSURE_MAX_S 60
/* A result: the target has reported changed units since the unit answered. */
#define WSS_OUTDATED 1

/*
 * True for errors that concern one unit. Others concern the connection or this machine, and thus
 * all volumes.
 */
static bool wss_concerns_unit(int error)
{
	switch (error) {
	case -EREMOTEIO:
	case -EBUSY:
	case -EPROTO:
	case -EINVAL:
	case -ENODEV:
	case -ENXIO:
	case -ESTALE:
	case -EAGAIN:
		return true;
	default:
		return false;
	}
}

static void wss_volume_lost(struct wss_volume *vol, const char *why)
{
	if (vol->state != WSS_VOLUME_DEAD)
		wss_warn(vol->sess, "/dev/%s: volume '%s' %s; its I/O fails", vol->disk->disk_name,
			 vol->id.name, why);
	wss_volume_kill(vol);
}

/**
 * wss_volume_waits - test whether a volume's requests wait although its session is live
 * @vol: the volume
 *
 * Context: sess->mutex held.
 * Return: true if they do.
 */
bool wss_volume_waits(const struct wss_volume *vol)
{
	const struct wss_session *sess = vol->sess;
	int tmo = sess->opts.fast_io_fail_tmo;

	if (vol->state != WSS_VOLUME_ABSENT || READ_ONCE(sess->state) != WSS_LIVE)
		return false;
	return tmo < 0 || time_before(jiffies, vol->absent_since + tmo * HZ);
}

/*
 * @known: the target has reported that it has no such unit; otherwise it could not be identified.
 *	@since: jiffies
 */
static void wss_volume_is_absent(struct wss_volume *vol, bool known, unsigned long since, const struct wss_error *why)
{
	struct wss_session *sess = vol->sess;
	bool wait = vol->quiesced || (!known && !READ_ONCE(sess->fail_fast));

	if (vol->state != WSS_VOLUME_PRESENT && vol->state != WSS_VOLUME_UNSURE)
		return;
	vol->absent_since = since;
	wss_volume_set_state(vol, WSS_VOLUME_ABSENT);
	if (wait)
		wss_volume_quiesce(vol);
	wss_warn_rl(sess, "/dev/%s: volume '%s' is absent (%s); its I/O %s until it returns", vol->disk->disk_name,
		    vol->id.name, why->text, wait ? "waits" : "fails");
}

/*
 * Return: false without a change, if the volume is dead or the target has reported changed units
 * since @doubts.
 */
static bool wss_volume_is_present(struct wss_volume *vol, int doubts)
{
	enum wss_volume_state before = READ_ONCE(vol->state);

	if (!wss_volume_confirm(vol, doubts))
		return false;
	if (before == WSS_VOLUME_ABSENT)
		wss_info(vol->sess, "/dev/%s: volume '%s' has returned", vol->disk->disk_name, vol->id.name);
	/* If the session is not live, recovery does this later. */
	if (before == WSS_VOLUME_PRESENT || READ_ONCE(vol->sess->state) != WSS_LIVE)
		return true;
	wss_volume_unquiesce(vol);
	blk_mq_run_hw_queues(vol->disk->queue, true);
	return true;
}

/*
 * Quiesces the queue, because submitters read the LUN. Other code that uses the LUN holds
 * look_mutex, sess->mutex or sess->lock.
 */
static void wss_volume_renumber(struct wss_volume *vol, const u8 lun[8])
{
	bool stop = !vol->quiesced;
	unsigned long flags;

	if (!memcmp(vol->id.lun, lun, sizeof(vol->id.lun)))
		return;
	if (stop)
		wss_volume_quiesce(vol);
	spin_lock_irqsave(&vol->sess->lock, flags);
	memcpy(vol->id.lun, lun, sizeof(vol->id.lun));
	spin_unlock_irqrestore(&vol->sess->lock, flags);
	if (stop)
		wss_volume_unquiesce(vol);
}

/*
 * Finds the volume's unit. It may have another LUN now, and another unit may have its old LUN.
 * @lun: filled with its LUN. Context: look_mutex held, so that vol->id does not change.
 */
static int wss_volume_find_again(struct wss_volume *vol, u8 lun[8], struct wss_error *err)
{
	struct wss_lun_id id;
	int ret;

	memcpy(lun, vol->id.lun, sizeof(id.lun));
	ret = wss_identify(vol->sess, vol->id.lun, &id, err);
	if (!ret && wss_same_unit(&id, &vol->id))
		return 0;
	if (ret && ret != -ENODEV)
		return ret;
	/* Without an identifier the unit cannot be recognized at another LUN. */
	if (!vol->id.wwid[0])
		return wss_fail(err, -ENXIO, "the target has a different unit, or none, at its LUN");
	ret = wss_find_unit(vol->sess, &vol->id, READ_ONCE(vol->state) == WSS_VOLUME_ABSENT, &id, err);
	if (!ret)
		memcpy(lun, id.lun, sizeof(id.lun));
	return ret;
}

/* An operation that the target has rejected may be valid under new limits. */
static void wss_volume_allow(struct wss_volume *vol, const struct wss_limits *limits)
{
	if (limits->max_same_blocks != vol->limits.max_same_blocks)
		WRITE_ONCE(vol->no_write_same, false);
	if (limits->max_unmap_blocks != vol->limits.max_unmap_blocks ||
	    limits->max_unmap_ranges != vol->limits.max_unmap_ranges)
		WRITE_ONCE(vol->no_unmap, false);
}

/*
 * Returns false if another user is changing the queue's limits; vol->limits then keeps its
 * values.
 */
static bool wss_volume_follow_limits(struct wss_volume *vol, const struct wss_limits *limits)
{
	const struct wss_limits known = vol->limits;
	blk_features_t features = wss_features(vol);
	struct queue_limits before;
	struct queue_limits after;
	int ret = 0;

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	wss_limit_queue(vol, &before);
	wss_volume_allow(vol, limits);
	vol->limits = *limits;
	wss_limit_queue(vol, &after);
	if (memcmp(&before, &after, sizeof(before)))
		ret = wss_change_limits(vol->disk->queue, &after);
	if (ret == -EBUSY)
		goto busy;
	if (ret)
		wss_warn_rl(vol->sess, "/dev/%s: invalid new limits from the target (error %d): keeping the old ones",
			    vol->disk->disk_name, ret);
	if (wss_features(vol) == features || wss_change_cache(vol->disk->queue, wss_features(vol)))
		return true;

busy:
	vol->limits = known;
	return false;
}

static void wss_volume_follow(struct wss_volume *vol, const struct wss_limits *limits)
{
	if (limits->block_bytes != vol->limits.block_bytes) {
		wss_volume_lost(vol, "changed its block size");
		return;
	}
	if (!wss_volume_follow_limits(vol, limits)) {
		/*
		 * Try again in a second, or after recovery. The next attempt comes sooner if a
		 * walk is already queued.
		 */
		WRITE_ONCE(vol->sess->rescan_all, true);
		queue_delayed_work(wss_wq(admin), &vol->sess->rescan_work, HZ);
		return;
	}
	if (get_capacity(vol->disk) != wss_sectors(vol))
		set_capacity_and_notify(vol->disk, wss_sectors(vol));
	if (get_disk_ro(vol->disk) != limits->read_only)
		set_disk_ro(vol->disk, limits->read_only);
}

/* The target's answers about a volume. @has_limits: @limits is valid */
struct wss_look {
	u8 lun[8];
	bool has_limits;
	struct wss_limits limits;
};

/*
 * Sends the commands of a revalidation. Context: sleeps, bounded; look_mutex held. Return: 0 or
 * -errno, for one unit or all (wss_concerns_unit()).
 */
static int wss_volume_query(struct wss_volume *vol, struct wss_look *look, struct wss_error *err)
{
	int ret = wss_volume_find_again(vol, look->lun, err);

	if (ret)
		return ret;
	ret = wss_read_limits(vol->sess, look->lun, &look->limits, err);
	look->has_limits = !ret;
	/*
	 * A unit that refuses these commands, for example while it is being formatted, is still the
	 * right one.
	 */
	return ret == -EREMOTEIO || ret == -EBUSY ? 0 : ret;
}

/*
 * Applies the results. @ret: result of wss_volume_query(); an error concerns only this unit.
 * @doubts: sess->doubts before that call. Context: sess->mutex held. Return: 0 or WSS_OUTDATED.
 */
static int wss_volume_apply(struct wss_volume *vol, const struct wss_look *look, int ret, int doubts,
			    const struct wss_error *why)
{
	lockdep_assert_held(&vol->sess->mutex);
	if (list_empty(&vol->node) || (READ_ONCE(vol->removing) && vol->state != WSS_VOLUME_UNSURE))
		return 0;
	if (atomic_read(&vol->sess->doubts) != doubts)
		return WSS_OUTDATED;
	if (!ret) {
		/*
		 * If changed units are reported from here on, the volume becomes unsure, and
		 * nothing is sent to this LUN.
		 */
		wss_volume_renumber(vol, look->lun);
		if (look->has_limits && !READ_ONCE(vol->removing))
			wss_volume_follow(vol, &look->limits);
		return vol->state == WSS_VOLUME_DEAD || wss_volume_is_present(vol, doubts) ? 0 : WSS_OUTDATED;
	}
	if (READ_ONCE(vol->removing))
		wss_volume_kill(vol); /* its removal waits for its requests */
	else if (ret == -ESTALE)
		wss_volume_lost(vol, "was recreated on the target; its old contents are lost");
	else
		wss_volume_is_absent(vol, ret == -ENXIO || ret == -ENODEV, jiffies, why);
	return 0;
}

/* Return: 0, WSS_OUTDATED, or -errno of an error that concerns all volumes. */
static int wss_volume_look(struct wss_volume *vol, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	int doubts = atomic_read(&sess->doubts);
	struct wss_look look = {};
	int ret = wss_volume_query(vol, &look, err);

	if (ret && !wss_concerns_unit(ret) && atomic_read(&sess->doubts) == doubts)
		return ret;
	mutex_lock(&sess->mutex);
	ret = wss_volume_apply(vol, &look, ret, doubts, err);
	mutex_unlock(&sess->mutex);
	return ret;
}

/*
 * Revalidates a volume: its state, size and limits follow the target. Context: sleeps, bounded;
 * look_mutex held. Return: 0 if the unit at the volume's LUN is known or no request of the volume
 * can be sent; otherwise -errno of an error that concerns all volumes.
 */
static int wss_volume_revalidate(struct wss_volume *vol, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	int login = atomic_read(&sess->logins);
	int tries = WSS_LOOK_TRIES;
	int ret;

	do {
		ret = wss_volume_look(vol, err);
		/* The answers are from an earlier connection: recovery revalidates. */
		if (atomic_read(&sess->logins) != login)
			return 0;
		/*
		 * An absent volume can wait for the next walk; requests of other volumes wait for
		 * this one.
		 */
	} while (ret == WSS_OUTDATED && READ_ONCE(vol->state) != WSS_VOLUME_ABSENT && --tries);
	if (ret != WSS_OUTDATED)
		return ret;
	/* The report of changed units has queued another walk. */
	mutex_lock(&sess->mutex);
	if (vol->state == WSS_VOLUME_PRESENT) {
		vol->absent_since = jiffies;
		wss_volume_set_state(vol, WSS_VOLUME_UNSURE);
	}
	mutex_unlock(&sess->mutex);
	return 0;
}

static bool wss_volume_unseen(const struct wss_volume *vol, bool all)
{
	enum wss_volume_state state = READ_ONCE(vol->state);

	if (vol->looked == vol->sess->look)
		return false;
	/*
	 * This is done even while the volume is being removed: the removal may wait for requests,
	 * which wait for this walk.
	 */
	if (state == WSS_VOLUME_UNSURE)
		return true;
	if (READ_ONCE(vol->removing))
		return false;
	if (state == WSS_VOLUME_ABSENT)
		return READ_ONCE(vol->sess->state) == WSS_LIVE;
	return all && state == WSS_VOLUME_PRESENT;
}

/*
 * Returns the next volume that this walk has not visited, with a reference, or NULL if none is
 * left. Absent volumes come last.
 */
static struct wss_volume *wss_next_volume(struct wss_session *sess, bool all)
{
	struct wss_volume *found = NULL;
	struct wss_volume *vol;
	bool unsure = false;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		unsure = unsure || vol->state == WSS_VOLUME_UNSURE;
		if (wss_volume_unseen(vol, all) && (!found || found->state == WSS_VOLUME_ABSENT))
			found = vol;
	}
	if (found) {
		found->looked = sess->look;
		kref_get(&found->refs);
		/*
		 * No request waits for a walk over only absent volumes, unless changed units were
		 * reported meanwhile.
		 */
		if (unsure)
			cmpxchg(&sess->patience_ms, WSS_ADMIN_TIMEOUT_MS, WSS_ADMIN_RECOVERY_MS);
		else if (found->state == WSS_VOLUME_ABSENT)
			WRITE_ONCE(sess->patience_ms, WSS_ADMIN_TIMEOUT_MS);
	}
	mutex_unlock(&sess->mutex);
	return found;
}

/*
 * Returns the time in jiffies after which to look for an absent volume again. Ends the wait of its
 * requests when their time has run out.
 */
static unsigned long wss_volume_expire(struct wss_volume *vol)
{
	struct wss_session *sess = vol->sess;
	unsigned long absent = jiffies - vol->absent_since;
	unsigned long delay = max(sess->opts.reconnect_delay, 1) * HZ;
	unsigned long tmo = sess->opts.fast_io_fail_tmo * HZ;

	delay = max(delay, min_t(unsigned long, absent / 4, WSS_ABSENT_DELAY_MAX));
	if (!vol->quiesced || sess->opts.fast_io_fail_tmo < 0)
		return delay;
	if (wss_volume_waits(vol))
		return min(delay, absent < tmo ? tmo - absent : 1);
	wss_warn_rl(sess, "/dev/%s: volume '%s' has been absent for %d s; its I/O fails until it returns",
		    vol->disk->disk_name, vol->id.name, sess->opts.fast_io_fail_tmo);
	wss_volume_unquiesce(vol);
	return delay;
}

/* Returns the jiffies after which to look for absent volumes again; ULONG_MAX: none is absent. */
static unsigned long wss_volumes_expire(struct wss_session *sess)
{
	unsigned long again = ULONG_MAX;
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (!READ_ONCE(vol->removing) && vol->state == WSS_VOLUME_ABSENT)
			again = min(again, wss_volume_expire(vol));
	}
	mutex_unlock(&sess->mutex);
	return again;
}

/*
 * Makes an unsure volume absent when its time has run out. @begun: start of the last walk; a volume
 * that became unsure later gets another walk. Context: sess->mutex held.
 */
static void wss_volume_give_up(struct wss_volume *vol, unsigned long begun)
{
	int tmo = vol->sess->opts.fast_io_fail_tmo;
	unsigned long limit = (tmo < 0 ? WSS_UNSURE_MAX_S : tmo) * HZ;
	unsigned long since = vol->absent_since;
	struct wss_error why;

	if (vol->state != WSS_VOLUME_UNSURE || !time_before(since, begun) || time_before(jiffies, since + limit))
		return;
	if (READ_ONCE(vol->removing)) {
		wss_volume_kill(vol); /* its removal waits for its requests */
		return;
	}
	wss_fail(&why, -EAGAIN, "it could not be identified for %lu s", limit / HZ);
	wss_volume_is_absent(vol, false, since, &why);
}

/*
 * A target that reports changed units during every walk, or a machine without memory for a walk,
 * must not make requests wait for ever. These requests were not started, so blk-mq has no timer
 * for them.
 */
static void wss_volumes_give_up(struct wss_session *sess, unsigned long begun)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (READ_ONCE(sess->state) == WSS_LIVE && !READ_ONCE(sess->broken))
			wss_volume_give_up(vol, begun);
	}
	mutex_unlock(&sess->mutex);
}

/* Revalidates all volumes, or the unsure and absent ones, while the session is in @state. */
static int wss_walk(struct wss_session *sess, enum wss_state state, bool all, struct wss_error *err)
{
	struct wss_volume *vol;
	int ret = 0;

	lockdep_assert_held(&sess->look_mutex);
	while (!ret && READ_ONCE(sess->state) == state && !READ_ONCE(sess->broken)) {
		if (state == WSS_RECOVERING && wss_dev_loss_passed(sess)) {
			ret = wss_fail(err, -ETIMEDOUT, "dev_loss_tmo expired before all volumes were revalidated");
			break;
		}
		vol = wss_next_volume(sess, all);
		if (!vol)
			break;
		ret = wss_volume_revalidate(vol, err);
		wss_volume_put(vol);
		/*
		 * The next unit may take a long time to answer; requests of absent volumes must not
		 * wait for it.
		 */
		if (state == WSS_LIVE)
			wss_volumes_expire(sess);
	}
	WRITE_ONCE(sess->patience_ms, WSS_ADMIN_TIMEOUT_MS);
	return ret;
}

/* @urgent: requests wait for the end of the walk */
static void wss_begin_walk(struct wss_session *sess, bool urgent)
{
	mutex_lock(&sess->mutex);
	sess->look++;
	mutex_unlock(&sess->mutex);
	WRITE_ONCE(sess->patience_ms, urgent ? WSS_ADMIN_RECOVERY_MS : WSS_ADMIN_TIMEOUT_MS);
}

/* True if requests wait for the identification of a unit. */
static bool wss_volumes_unsure(struct wss_session *sess)
{
	struct wss_volume *vol;
	bool unsure = false;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node)
		unsure = unsure || vol->state == WSS_VOLUME_UNSURE;
	mutex_unlock(&sess->mutex);
	return unsure;
}

/**
 * wss_volumes_revalidate - revalidate all volumes after a login
 * @sess: recovering, logged in
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded.
 * Return: 0; or -errno, and no request may be sent. A volume may have been added meanwhile, see
 * wss_volumes_seen().
 */
int wss_volumes_revalidate(struct wss_session *sess, struct wss_error *err)
{
	int ret;

	mutex_lock(&sess->look_mutex);
	wss_begin_walk(sess, true);
	ret = wss_walk(sess, WSS_RECOVERING, true, err);
	mutex_unlock(&sess->look_mutex);
	return ret;
}

/**
 * wss_volumes_seen - test whether the last walk has visited each volume
 * @sess: the session
 *
 * Context: sess->mutex held.
 * Return: true if it has.
 */
bool wss_volumes_seen(struct wss_session *sess)
{
	struct wss_volume *vol;

	list_for_each_entry(vol, &sess->volumes, node) {
		if (wss_volume_unseen(vol, true))
			return false;
	}
	return true;
}

/**
 * wss_rescan_work - revalidate volumes: all after a change, absent ones from time to time
 * @work: sess->rescan_work
 */
void wss_rescan_work(struct work_struct *work)
{
	struct wss_session *sess = container_of(to_delayed_work(work), struct wss_session, rescan_work);
	unsigned int noio = memalloc_noio_save(); /* recovery may wait for the mutexes held here */
	struct wss_error err;
	unsigned long again = ULONG_MAX;
	bool all = false;
	int login;
	int ret = 0;

	mutex_lock(&sess->look_mutex);
	login = atomic_read(&sess->logins);
	/* Recovery queues this work again when the session is live. */
	if (READ_ONCE(sess->state) == WSS_LIVE) {
		unsigned long begun = jiffies;

		wss_begin_walk(sess, wss_volumes_unsure(sess));
		all = xchg(&sess->rescan_all, false);
		ret = wss_walk(sess, WSS_LIVE, all, &err);
		if (!ret || ret == -ENOMEM)
			wss_volumes_give_up(sess, begun);
		again = wss_volumes_expire(sess);
	}
	mutex_unlock(&sess->look_mutex);
	memalloc_noio_restore(noio);
	/*
	 * If memory or a free memory region is lacking, the connection is kept, because it may
	 * help to free some.
	 */
	if (ret == -ENOMEM) {
		if (all)
			WRITE_ONCE(sess->rescan_all, true);
		again = min_t(unsigned long, again, HZ);
		ret = 0;
	}
	/* After a new login recovery has revalidated all volumes. */
	if (ret && atomic_read(&sess->logins) == login)
		wss_session_error(sess, "revalidation of the volumes failed");
	else if (again != ULONG_MAX && READ_ONCE(sess->state) == WSS_LIVE)
		queue_delayed_work(wss_wq(admin), &sess->rescan_work, again);
}

/**
 * wss_session_changed - process a report of a change that leaves LUNs as they are
 * @sess: its volumes are revalidated, while their requests continue
 *
 * Context: any.
 */
void wss_session_changed(struct wss_session *sess)
{
	atomic_inc(&sess->changes);
	WRITE_ONCE(sess->rescan_all, true);
	mod_delayed_work(wss_wq(admin), &sess->rescan_work, 0);
}

/**
 * wss_session_doubt - process a report of changed units, or changed identities of units
 * @sess: each of its volumes is identified before another request of it is sent
 *
 * Commands in flight may already have reached another unit. The target reports the change once,
 * with the response to any command.
 *
 * Context: any.
 */
void wss_session_doubt(struct wss_session *sess)
{
	struct wss_volume *vol;
	unsigned long flags;

	spin_lock_irqsave(&sess->lock, flags);
	atomic_inc(&sess->changes);
	atomic_inc(&sess->doubts); /* together with the states: see wss_volume_confirm() */
	list_for_each_entry(vol, &sess->volumes, node) {
		if (vol->state != WSS_VOLUME_PRESENT)
			continue;
		vol->absent_since = jiffies;
		WRITE_ONCE(vol->state, WSS_VOLUME_UNSURE);
	}
	spin_unlock_irqrestore(&sess->lock, flags);
	WRITE_ONCE(sess->rescan_all, true);
	mod_delayed_work(wss_wq(admin), &sess->rescan_work, 0);
}

/**
 * wss_session_news - process what sense data reports about units
 * @sess: the session
 * @news: from wss_decide_disposition()
 *
 * Context: any.
 */
void wss_session_news(struct wss_session *sess, enum wss_news news)
{
	if (news == WSS_NEWS_UNITS)
		wss_session_doubt(sess);
	else if (news == WSS_NEWS_CHANGE)
		wss_session_changed(sess);
}

/**
 * wss_session_attention - process a unit attention in the response to one of the driver's own
 * commands
 * @sess: the session
 * @sense: of the response
 *
 * Other sense data concerns the command.
 *
 * Context: any.
 */
void wss_session_attention(struct wss_session *sess, const struct wss_sense *sense)
{
	enum wss_news news;
	blk_status_t status;

	if (sense->key != WSS_KEY_ATTENTION)
		return;
	wss_decide_disposition(sense, REQ_OP_DRV_IN, &status, &news);
	wss_session_news(sess, news);
}
