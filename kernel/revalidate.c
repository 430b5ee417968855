// SPDX-License-Identifier: GPL-2.0
/*
 * Volumes are looked at again after each login, and when the target reports a change.
 *
 *   present   the unit was found, by its identity: size, limits, caches and read-only state follow it
 *   unsure    the target has reported other units since: a LUN may denote another one. Requests wait until it is identified,
 *             for fast_io_fail_tmo: then it is absent
 *   absent    it was not found, or could not be identified: a target that starts, a unit that is formatted, an
 *             access list. It is looked for again, at growing intervals, until it is there
 *   dead      it will not come back: another volume has its name, or it has another block size
 *
 * Each volume has a state of its own: one that is absent does not keep the others of its session from working. While a
 * volume is absent none of its requests goes out, because its LUN may be that of another volume. After a login, and where
 * the unit could not be identified, the requests wait, for fast_io_fail_tmo. If the target reports in a live
 * session that it has no such unit, they fail at once.
 *
 * While the session recovers, requests of all volumes wait for the walk. So those that are absent are not looked at: that is
 * done as soon as the session is live. And the units that do not answer share one time limit.
 *
 * The target is asked first, under look_mutex, and what it says is applied then, under sess->mutex: a unit that takes
 * seconds to answer, or never does, must not hold up those who take volumes away or stop their queues.
 */
#include <linux/sched/mm.h>

#include "compat.h"
#include "log.h"
#include "wss.h"

/* An absent unit is looked for again after a quarter of the time that it has been absent, at the latest after this. */
#define WSS_ABSENT_DELAY_MAX (60 * HZ)
/* A unit is asked anew when the target reports other units meanwhile; a target that always does is not waited for. */
#define WSS_LOOK_TRIES 3
/* With fast_io_fail_tmo off a volume is unsure for so many seconds at most. */
#define WSS_UNSURE_MAX_S 60
/* What a unit answered says nothing of what is there now. */
#define WSS_OUTDATED 1

/* Is this about one unit? Other errors concern the connection, or this machine, and thus all volumes. */
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
 * wss_volume_waits - do the requests of a volume wait although its session is live?
 * @vol: the volume
 *
 * Context: sess->mutex held.
 * Return: whether they do.
 */
bool wss_volume_waits(const struct wss_volume *vol)
{
	const struct wss_session *sess = vol->sess;
	int tmo = sess->opts.fast_io_fail_tmo;

	if (vol->state != WSS_VOLUME_ABSENT || READ_ONCE(sess->state) != WSS_LIVE)
		return false;
	return tmo < 0 || time_before(jiffies, vol->absent_since + tmo * HZ);
}

/* @known: the target has no such unit; else that is not known. @since: jiffies */
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
	wss_warn_rl(sess, "/dev/%s: volume '%s' is absent (%s); its I/O %s until it is there again", vol->disk->disk_name,
		    vol->id.name, why->text, wait ? "waits" : "fails");
}

/* Return: false: not if the target has reported other units since @doubts. */
static bool wss_volume_is_present(struct wss_volume *vol, int doubts)
{
	enum wss_volume_state before = READ_ONCE(vol->state);

	if (!wss_volume_confirm(vol, doubts))
		return false;
	if (before == WSS_VOLUME_ABSENT)
		wss_info(vol->sess, "/dev/%s: volume '%s' is there again", vol->disk->disk_name, vol->id.name);
	/* Otherwise recovery does so, when the session is live. */
	if (before == WSS_VOLUME_PRESENT || READ_ONCE(vol->sess->state) != WSS_LIVE)
		return true;
	wss_volume_unquiesce(vol);
	blk_mq_run_hw_queues(vol->disk->queue, true);
	return true;
}

/* Submitters read the LUN. */
static void wss_volume_renumber(struct wss_volume *vol, const u8 lun[8])
{
	bool stop = !vol->quiesced;

	if (!memcmp(vol->id.lun, lun, sizeof(vol->id.lun)))
		return;
	if (stop)
		wss_volume_quiesce(vol);
	memcpy(vol->id.lun, lun, sizeof(vol->id.lun));
	if (stop)
		wss_volume_unquiesce(vol);
}

/*
 * The logical unit may have another number now; another volume may have its number. @lun: filled with its number.
 * Context: look_mutex held, so that vol->id does not change.
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
	/* Without an identifier nothing shows that a unit at another LUN is this one. */
	if (!vol->id.wwid[0])
		return wss_fail(err, -ENXIO, "the target has another unit, or none, at its LUN");
	ret = wss_find_unit(vol->sess, &vol->id, READ_ONCE(vol->state) == WSS_VOLUME_ABSENT, &id, err);
	if (!ret)
		memcpy(lun, id.lun, sizeof(id.lun));
	return ret;
}

/* What the target has refused it may take under other limits. */
static void wss_volume_allow(struct wss_volume *vol, const struct wss_limits *limits)
{
	if (limits->max_same_blocks != vol->limits.max_same_blocks)
		WRITE_ONCE(vol->no_write_same, false);
	if (limits->max_unmap_blocks != vol->limits.max_unmap_blocks ||
	    limits->max_unmap_ranges != vol->limits.max_unmap_ranges)
		WRITE_ONCE(vol->no_unmap, false);
}

/* False: somebody else is changing the queue's limits; nothing was done. */
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
		wss_warn_rl(vol->sess, "/dev/%s: the target's new limits make no sense (error %d): the old ones stay",
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
		/* Soon, or when recovery is over; sooner if a walk is queued already. */
		WRITE_ONCE(vol->sess->rescan_all, true);
		queue_delayed_work(wss_wq(admin), &vol->sess->rescan_work, HZ);
		return;
	}
	if (get_capacity(vol->disk) != wss_sectors(vol))
		set_capacity_and_notify(vol->disk, wss_sectors(vol));
	if (get_disk_ro(vol->disk) != limits->read_only)
		set_disk_ro(vol->disk, limits->read_only);
}

/* What the target said of a volume. @told: its limits too */
struct wss_look {
	u8 lun[8];
	bool told;
	struct wss_limits limits;
};

/* Context: sleeps, bounded; look_mutex held. Return: 0, or why not, about this unit or all (wss_concerns_unit()). */
static int wss_volume_ask(struct wss_volume *vol, struct wss_look *look, struct wss_error *err)
{
	int ret = wss_volume_find_again(vol, look->lun, err);

	if (ret)
		return ret;
	ret = wss_read_limits(vol->sess, look->lun, &look->limits, err);
	look->told = !ret;
	/* A unit that refuses to tell, as while it is formatted, is still the right one. */
	return ret == -EREMOTEIO || ret == -EBUSY ? 0 : ret;
}

/*
 * Context: sess->mutex held. @ret: what wss_volume_ask() returned; it concerns this unit. @doubts: sess->doubts before.
 * Return: 0 or WSS_OUTDATED.
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
		/* If other units are reported from here on the volume is unsure then: nothing goes to this LUN. */
		wss_volume_renumber(vol, look->lun);
		if (look->told && !READ_ONCE(vol->removing))
			wss_volume_follow(vol, &look->limits);
		return vol->state == WSS_VOLUME_DEAD || wss_volume_is_present(vol, doubts) ? 0 : WSS_OUTDATED;
	}
	if (READ_ONCE(vol->removing))
		wss_volume_kill(vol); /* its removal waits for its requests */
	else if (ret == -ESTALE)
		wss_volume_lost(vol, "was made anew on the target, and what was in it is gone");
	else
		wss_volume_is_absent(vol, ret == -ENXIO || ret == -ENODEV, jiffies, why);
	return 0;
}

/* Return: 0, WSS_OUTDATED, or -errno for a reason that concerns all volumes. */
static int wss_volume_look(struct wss_volume *vol, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	int doubts = atomic_read(&sess->doubts);
	struct wss_look look = {};
	int ret = wss_volume_ask(vol, &look, err);

	if (ret && !wss_concerns_unit(ret) && atomic_read(&sess->doubts) == doubts)
		return ret;
	mutex_lock(&sess->mutex);
	ret = wss_volume_apply(vol, &look, ret, doubts, err);
	mutex_unlock(&sess->mutex);
	return ret;
}

/*
 * Looks again at what the target reports of a volume; its state, size and limits follow. Context: sleeps, bounded;
 * look_mutex held. Return: 0 when it is known what the volume's requests will meet, or none goes out. Else -errno, for a
 * reason that concerns all volumes.
 */
static int wss_volume_revalidate(struct wss_volume *vol, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	int login = atomic_read(&sess->logins);
	int tries = WSS_LOOK_TRIES;
	int ret;

	do {
		ret = wss_volume_look(vol, err);
		/* Said on a connection that is no more: recovery asks again. */
		if (atomic_read(&sess->logins) != login)
			return 0;
		/* An absent one comes again with the next walk; requests of others wait for that. */
	} while (ret == WSS_OUTDATED && READ_ONCE(vol->state) != WSS_VOLUME_ABSENT && --tries);
	if (ret != WSS_OUTDATED)
		return ret;
	/* What reported other units has queued another walk. */
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
	/* Even while it is removed: the removal may wait for requests that wait for this. */
	if (state == WSS_VOLUME_UNSURE)
		return true;
	if (READ_ONCE(vol->removing))
		return false;
	if (state == WSS_VOLUME_ABSENT)
		return READ_ONCE(vol->sess->state) == WSS_LIVE;
	return all && state == WSS_VOLUME_PRESENT;
}

/* The next volume that this walk has not come by, with a reference; NULL: none is left. Absent ones are the last. */
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
		/* Nobody waits for a walk that looks for absent volumes only, unless other units were reported meanwhile. */
		if (unsure)
			cmpxchg(&sess->patience_ms, WSS_ADMIN_TIMEOUT_MS, WSS_ADMIN_RECOVERY_MS);
		else if (found->state == WSS_VOLUME_ABSENT)
			WRITE_ONCE(sess->patience_ms, WSS_ADMIN_TIMEOUT_MS);
	}
	mutex_unlock(&sess->mutex);
	return found;
}

/* When to look for an absent volume again, and whether its requests may wait any longer. */
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
	wss_warn_rl(sess, "/dev/%s: volume '%s' has been absent for %d s; its I/O fails until it is there again",
		    vol->disk->disk_name, vol->id.name, sess->opts.fast_io_fail_tmo);
	wss_volume_unquiesce(vol);
	return delay;
}

/* When to look for absent volumes again; ULONG_MAX: there is none. */
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

/* Context: sess->mutex held. @begun: when the last walk was begun, which had its chance to identify the volume. */
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
 * A target that reports other units during every look, or a machine without memory to look, must not let requests wait for
 * ever: they were not started, so that blk-mq has no timer for them.
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

/* Looks at all volumes, or at the absent ones, while the session is in @state. */
static int wss_walk(struct wss_session *sess, enum wss_state state, bool all, struct wss_error *err)
{
	struct wss_volume *vol;
	int ret = 0;

	lockdep_assert_held(&sess->look_mutex);
	while (!ret && READ_ONCE(sess->state) == state && !READ_ONCE(sess->broken)) {
		if (state == WSS_RECOVERING && wss_dev_loss_passed(sess)) {
			ret = wss_fail(err, -ETIMEDOUT, "dev_loss_tmo has passed before all volumes were looked at");
			break;
		}
		vol = wss_next_volume(sess, all);
		if (!vol)
			break;
		ret = wss_volume_revalidate(vol, err);
		wss_volume_put(vol);
		/* The next unit may take long to answer. */
		if (state == WSS_LIVE)
			wss_volumes_expire(sess);
	}
	WRITE_ONCE(sess->patience_ms, WSS_ADMIN_TIMEOUT_MS);
	return ret;
}

/* @urgent: requests wait for its end */
static void wss_begin_walk(struct wss_session *sess, bool urgent)
{
	mutex_lock(&sess->mutex);
	sess->look++;
	mutex_unlock(&sess->mutex);
	WRITE_ONCE(sess->patience_ms, urgent ? WSS_ADMIN_RECOVERY_MS : WSS_ADMIN_TIMEOUT_MS);
}

/* Do requests wait until it is known which unit a LUN denotes? */
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
 * wss_volumes_revalidate - after a login: find out what each volume's requests will meet
 * @sess: recovering, logged in
 * @err: says why not
 *
 * Context: sleeps, bounded.
 * Return: 0, or -errno: no request may go out. A volume may have been added meanwhile, see wss_volumes_seen().
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
 * wss_volumes_seen - has the last walk come by each volume?
 * @sess: the session
 *
 * Context: sess->mutex held.
 * Return: whether it has.
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
 * wss_rescan_work - look at volumes again: all of them when something changed, absent ones from time to time
 * @work: sess->rescan_work
 */
void wss_rescan_work(struct work_struct *work)
{
	struct wss_session *sess = container_of(to_delayed_work(work), struct wss_session, rescan_work);
	unsigned int noio = memalloc_noio_save(); /* recovery may wait for the mutexes */
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
	/* For want of memory, or of a free memory region: no reason to give up a connection that may help to free some. */
	if (ret == -ENOMEM) {
		if (all)
			WRITE_ONCE(sess->rescan_all, true);
		again = min_t(unsigned long, again, HZ);
		ret = 0;
	}
	/* Recovery looks until it has seen them all. */
	if (ret && atomic_read(&sess->logins) == login)
		wss_session_error(sess, "what changed on the target could not be found out");
	else if (again != ULONG_MAX && READ_ONCE(sess->state) == WSS_LIVE)
		queue_delayed_work(wss_wq(admin), &sess->rescan_work, again);
}

/**
 * wss_session_changed - the target reports that something changed
 * @sess: its volumes are looked at; their LUNs denote what they did, so that requests go on
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
 * wss_session_doubt - the target reports other units, or other identities of them
 * @sess: each of its volumes is identified before another request of it goes out
 *
 * What is in flight may have reached another unit already. The report comes once: with the answer to any command.
 *
 * Context: any.
 */
void wss_session_doubt(struct wss_session *sess)
{
	struct wss_volume *vol;
	unsigned long flags;

	spin_lock_irqsave(&sess->lock, flags);
	atomic_inc(&sess->changes);
	atomic_inc(&sess->doubts); /* with the states: see wss_volume_confirm() */
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
 * wss_session_news - follow what a sense reports
 * @sess: the session
 * @news: from wss_judge()
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
 * wss_session_attention - follow a unit attention that the answer to a command of the driver's own has brought
 * @sess: the session
 * @sense: of the answer
 *
 * Other sense is about the command.
 *
 * Context: any.
 */
void wss_session_attention(struct wss_session *sess, const struct wss_sense *sense)
{
	enum wss_news news;
	blk_status_t status;

	if (sense->key != WSS_KEY_ATTENTION)
		return;
	wss_judge(sense, REQ_OP_DRV_IN, &status, &news);
	wss_session_news(sess, news);
}
