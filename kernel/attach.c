// SPDX-License-Identifier: GPL-2.0
/*
 * Mapping and unmapping, as requested by /sys/class/wss/map and unmap.
 *
 * A map may take long: it connects, sends commands and reads a partition table. Neither an unmap
 * nor a map of another target's volume may wait for it. So a mutex of the session serializes its
 * maps, and another mutex protects the lists. The latter is held only for a bounded time. It is held
 * while the driver waits for a target only when the machine shuts down. sess->mappers counts the
 * maps and unmaps in progress. The last of them destroys a session that has no volume.
 *
 * The first map of a session connects it. If that fails, the session leaves the list. Maps that
 * waited for it start again with a new session.
 *
 * With `retry=on` the driver keeps a map that fails for a temporary reason, such as an unreachable
 * target, as a pending map. It tries the map again every reconnect_delay seconds, or less often
 * after -EBUSY (wss_pending_delay()), until the map succeeds, fails permanently or is removed.
 */
#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "log.h"
#include "wss.h"

/* Maximum number of attempts of a map if the target changes during each. */
#define WSS_MAP_TRIES 3
/* Maximum interval between the attempts of a pending map that ended with -EBUSY. */
#define WSS_PENDING_DELAY_MAX (60UL * HZ)

/**
 * struct wss_pending - a map that is tried again until it succeeds or fails permanently
 * @node: in wss_pendings
 * @id: its number; users name it pendingN
 * @opts: options of the map; holds a reference to the network namespace
 * @work: the next attempt
 * @sess: the session that an attempt uses at present; under wss_map_mutex
 * @gone: the map was removed, so no further attempt connects or maps; written under wss_map_mutex
 * @tries: number of attempts
 * @put_off: number of the latest consecutive attempts that ended with -EBUSY, at most 5; used only
 *	by the work
 * @err: why the last attempt failed; written by the work under wss_map_mutex
 */
struct wss_pending {
	struct list_head node;
	int id;
	struct wss_options opts;
	struct delayed_work work;
	struct wss_session *sess;
	bool gone;
	unsigned int tries;
	unsigned int put_off;
	struct wss_error err;
};

/* Maps in progress hold this lock for reading, so that unloading waits for their end. */
static DECLARE_RWSEM(wss_maps_sem);
/* Protects the variables below. Held only for a bounded time, whatever targets do. */
static DEFINE_MUTEX(wss_map_mutex);
static LIST_HEAD(wss_sessions);
static LIST_HEAD(wss_pendings);
static bool wss_closing; /* the module is being unloaded, or the machine is shutting down */
static DEFINE_IDA(wss_pending_ida);

static struct wss_session *wss_session_find(const struct wss_options *opts)
{
	struct wss_session *sess;

	list_for_each_entry(sess, &wss_sessions, node) {
		if (!memcmp(&sess->opts.target, &opts->target, sizeof(opts->target)) &&
		    net_eq(sess->net, opts->net) && sess->opts.id_ext == opts->id_ext &&
		    sess->opts.ioc_guid == opts->ioc_guid &&
		    !strcmp(sess->opts.initiator, opts->initiator) &&
		    !strcmp(sess->opts.target_name, opts->target_name) && READ_ONCE(sess->state) != WSS_FAILED)
			return sess;
	}
	return NULL;
}

static int wss_check_unmapped(struct wss_session *sess, const struct wss_lun_id *id,
			      struct wss_error *err)
{
	struct wss_volume *vol;
	int ret = 0;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (wss_same_unit(&vol->id, id)) {
			ret = wss_fail(err, -EEXIST, "volume '%s' is mapped already, as /dev/%s",
				       id->name, vol->disk->disk_name);
			break;
		}
	}
	mutex_unlock(&sess->mutex);
	return ret;
}

/* Return: the volume, or an error pointer; -EAGAIN: the unit may have a different LUN by now. */
static struct wss_volume *wss_map_unit(struct wss_session *sess, const char *spec, struct wss_lun_id *id,
				       struct wss_error *err)
{
	int changes = atomic_read(&sess->changes);
	int ret = wss_find_volume(sess, spec, id, err);

	if (!ret)
		ret = wss_check_unmapped(sess, id, err);
	return ret ? ERR_PTR(ret) : wss_volume_create(sess, id, changes, err);
}

static int wss_map_volume(struct wss_session *sess, const char *spec, struct wss_error *err)
{
	struct wss_lun_id id;
	struct wss_volume *vol;
	int tries = WSS_MAP_TRIES;
	int ret;

	ret = wss_tags_share(sess, err);
	if (ret)
		return ret;
	do {
		vol = wss_map_unit(sess, spec, &id, err);
	} while (vol == ERR_PTR(-EAGAIN) && --tries);
	if (IS_ERR(vol))
		return PTR_ERR(vol);
	wss_info(sess, "volume '%s' is /dev/%s, %llu blocks of %u bytes%s", id.name,
		 vol->disk->disk_name, vol->limits.blocks, vol->limits.block_bytes,
		 vol->limits.read_only ? ", read-only" : "");
	if (!id.wwid[0])
		wss_warn(sess, "/dev/%s: logical unit %s has no identifier (NAA, EUI-64, T10, serial number): the driver identifies it only by its LUN",
			 vol->disk->disk_name, id.name);
	/* From here on another caller may unmap the volume, which frees it. */
	vol->added = true;
	complete_all(&vol->mapped);
	return 0;
}

/*
 * Joins the session of @opts, and creates it if there is none. wss_session_leave() is its mirror.
 * @pending: the pending map of this attempt, or NULL
 */
static struct wss_session *wss_session_join(const struct wss_options *opts, struct wss_pending *pending,
					    struct wss_error *err)
{
	struct wss_session *sess;
	enum wss_state state;
	int ret = 0;

	mutex_lock(&wss_map_mutex);
	sess = wss_session_find(opts);
	state = sess ? READ_ONCE(sess->state) : WSS_CONNECTING;
	if (wss_closing) {
		ret = wss_fail(err, -ESHUTDOWN, "the module is being unloaded, or the machine shut down");
	} else if (pending && pending->gone) {
		ret = wss_fail(err, -EINTR, "the pending map was removed");
	} else if (state != WSS_LIVE && state != WSS_CONNECTING) {
		ret = wss_fail(err, -EAGAIN, "the session with the target is %s: try again later",
			       wss_state_name(state));
	} else if (!sess) {
		sess = wss_session_alloc(opts);
		if (sess)
			list_add_tail(&sess->node, &wss_sessions);
		else
			ret = wss_fail(err, -ENOMEM, "no memory for a session");
	}
	if (!ret)
		sess->mappers++;
	if (!ret && pending)
		pending->sess = sess;
	mutex_unlock(&wss_map_mutex);
	return ret ? ERR_PTR(ret) : sess;
}

static void wss_session_leave(struct wss_session *sess, struct wss_pending *pending)
{
	bool unused;

	mutex_lock(&wss_map_mutex);
	if (pending)
		pending->sess = NULL;
	unused = !--sess->mappers && list_empty(&sess->volumes);
	if (unused)
		list_del_init(&sess->node);
	mutex_unlock(&wss_map_mutex);
	/* Other maps can no longer find it. */
	if (unused)
		wss_session_destroy(sess);
}

/* Prevents further maps from joining a session that could not be connected. */
static void wss_session_retire(struct wss_session *sess)
{
	mutex_lock(&wss_map_mutex);
	list_del_init(&sess->node);
	mutex_unlock(&wss_map_mutex);
}

/* Context: sess->map_mutex held. */
static int wss_session_first_connect(struct wss_session *sess, struct wss_error *err)
{
	int ret;

	if (sess->connected)
		return 0;
	sess->tried = true;
	ret = wss_session_connect(sess, err);
	sess->connected = !ret;
	if (ret)
		wss_session_retire(sess);
	return ret;
}

/*
 * @again: true if this map was not tried, because another map failed to connect the session that
 *	both share.
 */
static int wss_map_try(const struct wss_options *opts, struct wss_pending *pending, bool *again,
		       struct wss_error *err)
{
	struct wss_session *sess = wss_session_join(opts, pending, err);
	int ret;

	*again = false;
	if (IS_ERR(sess))
		return PTR_ERR(sess);
	ret = mutex_lock_interruptible(&sess->map_mutex);
	if (ret) {
		wss_session_leave(sess, pending);
		return wss_fail(err, ret, "interrupted");
	}
	*again = sess->tried && !sess->connected;
	if (pending && READ_ONCE(pending->gone)) {
		*again = false;
		ret = wss_fail(err, -EINTR, "the pending map was removed");
	}
	if (!ret && !*again)
		ret = wss_session_first_connect(sess, err);
	/* Connecting may have taken long: check again. */
	if (!ret && pending && READ_ONCE(pending->gone))
		ret = wss_fail(err, -EINTR, "the pending map was removed");
	if (!ret && !*again)
		ret = wss_map_volume(sess, opts->volume, err);
	mutex_unlock(&sess->map_mutex);
	wss_session_leave(sess, pending);
	return ret;
}

/* @pending: the pending map of this attempt, or NULL */
static int wss_map_once(const struct wss_options *opts, struct wss_pending *pending, struct wss_error *err)
{
	int ret = down_read_interruptible(&wss_maps_sem);
	bool again;

	if (ret)
		return wss_fail(err, ret, "interrupted");
	do {
		ret = wss_map_try(opts, pending, &again, err);
	} while (again);
	up_read(&wss_maps_sem);
	return ret;
}

/*
 * Pending maps
 */

/* Returns true if the same map may succeed later without a change to its options. */
static bool wss_worth_retrying(int error)
{
	switch (error) {
	case -EINVAL:
	case -EEXIST:
	case -ESHUTDOWN:
	case -EINTR:
	case -ERESTARTSYS:
	case -EOPNOTSUPP:
	case -ENOKEY:
	case -EKEYREVOKED:
	case -EKEYEXPIRED:
		return false;
	default:
		return true;
	}
}

/* Context: wss_map_mutex held; the work is not running, or is the caller. */
static void wss_pending_free(struct wss_pending *pending)
{
	list_del(&pending->node);
	ida_free(&wss_pending_ida, pending->id);
	wss_auth_put_key(&pending->opts);
	put_net(pending->opts.net);
	kfree(pending);
}

/*
 * @ret: result of the last attempt. While it is -EBUSY (a wait for a disk's freeze or for a silent
 *	unit), the interval grows.
 */
static unsigned long wss_pending_delay(struct wss_pending *pending, int ret)
{
	unsigned long delay = (unsigned long)max(pending->opts.reconnect_delay, 1) * HZ;

	pending->put_off = ret == -EBUSY ? min(pending->put_off + 1, 5U) : 0;
	return max(delay, min(delay << pending->put_off, WSS_PENDING_DELAY_MAX));
}

static void wss_pending_work(struct work_struct *work)
{
	struct wss_pending *pending =
		container_of(to_delayed_work(work), struct wss_pending, work);
	struct wss_error err = {};
	int ret = wss_map_once(&pending->opts, pending, &err);

	if (ret && !wss_worth_retrying(ret) && !READ_ONCE(pending->gone))
		pr_err("wss: pending%d failed: %s\n", pending->id, err.text);
	mutex_lock(&wss_map_mutex);
	pending->tries++;
	pending->err = err;
	if (pending->gone) {
		/*
		 * The map was removed in the meantime. The remover waits for this work and
		 * frees the map.
		 */
	} else if (ret && wss_worth_retrying(ret)) {
		queue_delayed_work(wss_wq(map), &pending->work, wss_pending_delay(pending, ret));
	} else {
		wss_pending_free(pending);
	}
	mutex_unlock(&wss_map_mutex);
}

static int wss_pending_add(const struct wss_options *opts, const struct wss_error *why)
{
	struct wss_pending *pending = kzalloc(sizeof(*pending), GFP_KERNEL);
	int id;

	if (!pending)
		return -ENOMEM;
	id = ida_alloc(&wss_pending_ida, GFP_KERNEL);
	if (id < 0) {
		kfree(pending);
		return -ENOMEM;
	}
	pending->id = id;
	pending->opts = *opts;
	wss_auth_get_key(&pending->opts);
	get_net(pending->opts.net);
	pending->err = *why;
	pending->tries = 1;
	INIT_DELAYED_WORK(&pending->work, wss_pending_work);
	mutex_lock(&wss_map_mutex);
	list_add_tail(&pending->node, &wss_pendings);
	if (wss_closing) {
		wss_pending_free(pending);
		mutex_unlock(&wss_map_mutex);
		return -ESHUTDOWN;
	}
	queue_delayed_work(wss_wq(map), &pending->work, wss_pending_delay(pending, 0));
	mutex_unlock(&wss_map_mutex);
	pr_info("wss: volume '%s' of target %s cannot be mapped yet (%s): pending%d keeps trying\n",
		opts->volume, opts->target_text, why->text, id); /* @pending may be freed by now */
	return 0;
}

/*
 * Cuts an attempt in progress short, unless other maps use its session. Waits until the attempt has
 * ended, and frees the pending map. Context: no lock held.
 */
static void wss_pending_remove(struct wss_pending *pending)
{
	mutex_lock(&wss_map_mutex);
	if (pending->sess && pending->sess->mappers == 1)
		wss_session_cancel(pending->sess);
	mutex_unlock(&wss_map_mutex);
	cancel_delayed_work_sync(&pending->work);
	mutex_lock(&wss_map_mutex);
	INIT_LIST_HEAD(&pending->node);
	wss_pending_free(pending);
	mutex_unlock(&wss_map_mutex);
}

/*
 * Removes a pending map from the list, so that only the caller can use it. @id: its number;
 * -1: any map
 */
static struct wss_pending *wss_pending_take(int id)
{
	struct wss_pending *pending;
	struct wss_pending *found = NULL;

	mutex_lock(&wss_map_mutex);
	list_for_each_entry(pending, &wss_pendings, node) {
		if (id < 0 || pending->id == id) {
			found = pending;
			WRITE_ONCE(pending->gone, true);
			list_del_init(&pending->node);
			break;
		}
	}
	mutex_unlock(&wss_map_mutex);
	return found;
}

/**
 * wss_pending_show - list the pending maps
 * @page: a page for the text; one line each
 * Return: its length.
 */
ssize_t wss_pending_show(char *page)
{
	struct wss_pending *pending;
	int at = 0;

	mutex_lock(&wss_map_mutex);
	list_for_each_entry(pending, &wss_pendings, node)
		at += sysfs_emit_at(page, at, "pending%d %s %s tries=%u %s\n", pending->id,
				    pending->opts.target_text, pending->opts.volume,
				    pending->tries, pending->err.text);
	mutex_unlock(&wss_map_mutex);
	return at;
}

/**
 * wss_map - create a disk for a volume
 * @opts: the volume and the options of its session
 * @err: the reason for a failure, a complete sentence
 *
 * Context: sleeps, bounded and interruptible while connecting.
 * Return: 0 if the disk exists or, with opts->retry, the map is pending; or -errno.
 */
int wss_map(struct wss_options *opts, struct wss_error *err)
{
	struct wss_error why = {};
	int ret;

	opts->net = current->nsproxy->net_ns;
	ret = wss_auth_find_key(opts, &why);
	if (!ret)
		ret = wss_map_once(opts, NULL, &why);
	if (ret && opts->retry && wss_worth_retrying(ret)) {
		ret = wss_pending_add(opts, &why);
		if (ret)
			wss_fail(&why, ret, "it cannot be retried in the background either: %s", wss_reason(ret));
	}
	if (ret) {
		wss_fail(err, ret, "cannot map volume '%s' of target %s: %s", opts->volume,
			 opts->target_text, why.text[0] ? why.text : wss_reason(ret));
		pr_err("wss: %s\n", err->text);
	}
	wss_auth_put_key(opts);
	return ret;
}

/*
 * Unmapping
 */

/*
 * Claims a disk for removal, and counts the caller as a mapper of its session. @disk_name may be
 * NULL, for any disk that is not yet claimed. Return: the disk's volume, or an error pointer. With
 * @force, NULL if the disk is already claimed: its removal then no longer waits for requests.
 */
static struct wss_volume *wss_claim_disk(const char *disk_name, bool force, struct wss_error *err)
{
	struct wss_session *sess;
	struct wss_volume *vol;

	lockdep_assert_held(&wss_map_mutex);
	list_for_each_entry(sess, &wss_sessions, node) {
		mutex_lock(&sess->mutex);
		list_for_each_entry(vol, &sess->volumes, node) {
			int ret;

			if (disk_name ? strcmp(vol->disk->disk_name, disk_name) : READ_ONCE(vol->removing))
				continue;
			if (force && READ_ONCE(vol->removing)) {
				wss_volume_force(vol);
				mutex_unlock(&sess->mutex);
				return NULL;
			}
			ret = wss_volume_claim(vol, force, err);
			if (!ret)
				sess->mappers++;
			mutex_unlock(&sess->mutex);
			return ret ? ERR_PTR(ret) : vol;
		}
		mutex_unlock(&sess->mutex);
	}
	wss_fail(err, -ENODEV, "'%s' is not a mapped disk", disk_name ?: "");
	return ERR_PTR(-ENODEV);
}

/* Context: no lock held. */
static void wss_remove_claimed(struct wss_volume *vol, bool force)
{
	struct wss_session *sess = vol->sess;

	wss_volume_remove(vol, force);
	wss_session_leave(sess, NULL);
}

/**
 * wss_unmap - remove a disk or a pending map
 * @name: `wssN` or `pendingN`
 * @force: even while it is open; requests in flight fail. If another unmap of the disk waits for
 *	requests, that unmap becomes a forced one and removes the disk
 * @err: the reason for a failure
 *
 * Context: sleeps; bounded with @force, whatever the state of the target.
 * Return: 0; -ENODEV; -EBUSY while it is open, being mapped or being unmapped; or -EINTR.
 */
int wss_unmap(const char *name, bool force, struct wss_error *err)
{
	struct wss_pending *pending;
	struct wss_volume *vol;
	unsigned int id;
	int ret;

	if (!strncmp(name, "pending", 7) && !kstrtouint(name + 7, 10, &id)) {
		pending = wss_pending_take(id);
		if (!pending)
			return wss_fail(err, -ENODEV, "'%s' is not pending", name);
		wss_pending_remove(pending);
		return 0;
	}
	ret = mutex_lock_interruptible(&wss_map_mutex);
	if (ret)
		return wss_fail(err, ret, "interrupted");
	vol = wss_claim_disk(name, force, err);
	mutex_unlock(&wss_map_mutex);
	if (IS_ERR(vol))
		return PTR_ERR(vol);
	if (vol)
		wss_remove_claimed(vol, force);
	return 0;
}

/**
 * wss_close_maps - prevent further maps from beginning, pending ones included
 *
 * Cuts short the maps that are connecting, and does not wait for the others. Context: sleeps,
 * bounded.
 */
void wss_close_maps(void)
{
	struct wss_session *sess;

	mutex_lock(&wss_map_mutex);
	wss_closing = true;
	list_for_each_entry(sess, &wss_sessions, node)
		wss_session_cancel(sess);
	mutex_unlock(&wss_map_mutex);
}

/* Prevents further maps from beginning, and waits for the end of those in progress. */
static void wss_end_maps(void)
{
	struct wss_pending *pending;

	wss_close_maps();
	while ((pending = wss_pending_take(-1)))
		wss_pending_remove(pending);
	down_write(&wss_maps_sem);
	up_write(&wss_maps_sem);
}

/** wss_unmap_all - module exit: no disk is open */
void wss_unmap_all(void)
{
	struct wss_volume *vol;
	struct wss_error err;

	wss_end_maps();
	for (;;) {
		mutex_lock(&wss_map_mutex);
		/* A process may be about to open the disk, or to close it. */
		vol = wss_claim_disk(NULL, true, &err);
		mutex_unlock(&wss_map_mutex);
		if (IS_ERR(vol))
			return;
		wss_remove_claimed(vol, false);
	}
}

/**
 * wss_for_each_session - call a function for every session
 * @what: called under wss_map_mutex; its time is bounded
 */
void wss_for_each_session(void (*what)(struct wss_session *sess))
{
	struct wss_session *sess;

	mutex_lock(&wss_map_mutex);
	list_for_each_entry(sess, &wss_sessions, node)
		what(sess);
	mutex_unlock(&wss_map_mutex);
}
