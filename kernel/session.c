// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: one per target address, target port, initiator name, required target name and network
 * namespace, shared by all volumes that are mapped with the same values.
 *
 * The first of these volumes creates the session, and the removal of the last one destroys it
 * (attach.c). A session is a device, /sys/class/wss/sessionN. Each of its disks holds a
 * reference, so that the session outlives a disk that is still open after a forced unmap.
 */
#include <linux/debugfs.h>
#include <linux/idr.h>
#include <linux/once.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "log.h"
#include "wss.h"

static DEFINE_IDA(wss_session_ida);

static u64 wss_hash_options(const struct wss_options *opts, const siphash_key_t *key)
{
	const u64 parts[] = {
		siphash(&opts->target, sizeof(opts->target), key),
		siphash(opts->initiator, strlen(opts->initiator), key),
		siphash(opts->target_name, strlen(opts->target_name), key),
		opts->id_ext,
		opts->ioc_guid,
		(uintptr_t)opts->net,
	};

	return siphash(parts, sizeof(parts), key);
}

/*
 * Sets the initiator port id. The target ends the former session of an id, its writes included,
 * before it accepts a login with this id. So a session that replaces an earlier one has the id of
 * that one, even after an unmap or after dev_loss_tmo. Sessions that may exist at the same time,
 * such as those of two addresses of one target, have different ids: the id is derived from all values
 * that wss_session_find() compares. It differs from those of other machines because the keys are
 * random.
 */
static void wss_set_port_id(struct wss_session *sess)
{
	static siphash_key_t keys[2];

	get_random_once(keys, sizeof(keys));
	put_unaligned_be64(wss_hash_options(&sess->opts, &keys[0]), sess->initiator_port_id);
	put_unaligned_be64(wss_hash_options(&sess->opts, &keys[1]), sess->initiator_port_id + 8);
}

/**
 * wss_session_free - free a session after its last reference
 * @sess: freed
 */
void wss_session_free(struct wss_session *sess)
{
	if (!sess->opts.mlockv)
		static_branch_dec(&wss_by_segments);
	wss_auth_put_key(&sess->opts);
	put_net(sess->net);
	ida_free(&wss_session_ida, sess->id);
	kfree(sess->admin.buffer);
	kvfree(sess->chans);
	kfree(sess->queues);
	wss_stages_free(sess);
	free_percpu(sess->stats);
	kfree(sess);
}

static void wss_session_init(struct wss_session *sess, const struct wss_options *opts)
{
	u32 i;

	sess->opts = *opts;
	wss_auth_get_key(&sess->opts);
	/*
	 * Done here and not in wss_segments_alloc(), because recovery must not wait for CPU
	 * hotplug.
	 */
	if (!opts->mlockv)
		static_branch_inc(&wss_by_segments);
	memcpy(sess->target_name, opts->target_name, sizeof(sess->target_name));
	sess->request_imm = opts->max_imm;
	sess->nr_default = opts->queues;
	sess->nr_queues = opts->queues + opts->poll_queues;
	sess->state = WSS_CONNECTING;
	sess->patience_ms = WSS_ADMIN_TIMEOUT_MS;
	sess->net = get_net(opts->net);
	wss_set_port_id(sess);
	spin_lock_init(&sess->lock);
	init_waitqueue_head(&sess->wait);
	mutex_init(&sess->map_mutex);
	mutex_init(&sess->look_mutex);
	mutex_init(&sess->mutex);
	mutex_init(&sess->ping_mutex);
	mutex_init(&sess->admin_mutex);
	INIT_LIST_HEAD(&sess->volumes);
	INIT_LIST_HEAD(&sess->node);
	INIT_LIST_HEAD(&sess->wdev_node);
	INIT_DELAYED_WORK(&sess->recover_work, wss_recover_work);
	INIT_DELAYED_WORK(&sess->fail_work, wss_fail_work);
	INIT_DELAYED_WORK(&sess->keepalive_work, wss_keepalive_work);
	INIT_DELAYED_WORK(&sess->rescan_work, wss_rescan_work);
	INIT_WORK(&sess->abort_work, wss_abort_work);
	for (i = 0; i < sess->nr_queues; i++) {
		struct wss_chan *chan = &sess->chans[i];

		chan->sess = sess;
		chan->index = i;
		chan->polled = i >= sess->nr_default;
		init_llist_head(&chan->late);
		INIT_DELAYED_WORK(&chan->late_work, wss_late_work);
		INIT_WORK(&chan->engine_work, wss_engine_work);
		spin_lock_init(&chan->engine_lock);
		spin_lock_init(&chan->pending_lock);
		spin_lock_init(&chan->poll_lock);
	}
	device_initialize(&sess->dev);
	sess->dev.class = &wss_class;
	sess->dev.groups = wss_session_groups;
}

/**
 * wss_session_alloc - allocate a session that is not connected
 * @opts: the target and the options of the session
 * Return: the session, or NULL if memory is exhausted. Mirror: wss_session_destroy().
 */
struct wss_session *wss_session_alloc(const struct wss_options *opts)
{
	struct wss_session *sess = kzalloc(sizeof(*sess), GFP_KERNEL);

	if (!sess)
		return NULL;
	sess->chans = kvcalloc(opts->queues + opts->poll_queues, sizeof(*sess->chans), GFP_KERNEL);
	sess->queues = kcalloc(opts->queues + opts->poll_queues, sizeof(*sess->queues), GFP_KERNEL);
	sess->stats = alloc_percpu(struct wss_stats);
	sess->admin.buffer = kmalloc(WSS_ADMIN_BYTES, GFP_KERNEL);
	sess->id = ida_alloc(&wss_session_ida, GFP_KERNEL);
	if (sess->chans && sess->queues && sess->stats && sess->admin.buffer && sess->id >= 0 &&
	    !wss_stages_alloc(sess)) {
		wss_session_init(sess, opts);
		return sess;
	}
	if (sess->id >= 0)
		ida_free(&wss_session_ida, sess->id);
	kfree(sess->admin.buffer);
	free_percpu(sess->stats);
	kfree(sess->queues);
	kvfree(sess->chans);
	kfree(sess);
	return NULL;
}

/**
 * wss_session_stop - end a session's connection and all its work
 * @sess: the session; its requests fail from now on. Writes that the target has begun may still take
 *	effect, until a session with the same port id is logged in
 *
 * If the session is live, the driver sends SRP_I_LOGOUT, so that the target does not treat the end
 * as a failure.
 *
 * Context: sleeps, bounded, in any state of the target.
 */
void wss_session_stop(struct wss_session *sess)
{
	bool was_live;

	spin_lock_irq(&sess->lock);
	was_live = sess->state == WSS_LIVE && !sess->broken;
	wss_set_state(sess, WSS_REMOVING);
	spin_unlock_irq(&sess->lock);
	cancel_delayed_work_sync(&sess->recover_work);
	cancel_delayed_work_sync(&sess->fail_work);
	cancel_delayed_work_sync(&sess->keepalive_work);
	cancel_work_sync(&sess->abort_work);
	wss_session_quiesce(sess);
	if (was_live)
		wss_log_out(sess);
	wss_chans_stop(sess);
	wss_session_unquiesce(sess);
	cancel_delayed_work_sync(&sess->rescan_work);
	cancel_work_sync(&sess->abort_work);
}

/**
 * wss_session_destroy - mirror of wss_session_alloc() and wss_session_connect()
 * @sess: in no list, without volumes; others may hold its last reference
 */
void wss_session_destroy(struct wss_session *sess)
{
	wss_session_stop(sess);
	debugfs_remove_recursive(sess->debugfs);
	if (device_is_registered(&sess->dev))
		device_del(&sess->dev);
	wss_tags_free(sess);
	put_device(&sess->dev);
}

/**
 * wss_session_connect - log in for the first time
 * @sess: after wss_session_alloc()
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded; interruptible, and cut short by wss_session_cancel().
 * Return: 0 and the session is live; or -errno, and only wss_session_destroy() may follow.
 */
int wss_session_connect(struct wss_session *sess, struct wss_error *err)
{
	int ret = wss_chans_start(sess, err);

	if (ret)
		return ret;
	ret = wss_tags_create(sess);
	if (ret)
		return wss_fail(err, ret, "no memory for %u queues", sess->nr_queues);
	ret = dev_set_name(&sess->dev, "session%d", sess->id);
	if (!ret)
		ret = device_add(&sess->dev);
	if (ret)
		return wss_fail(err, ret, "cannot add the session to sysfs: %s", wss_reason(ret));
	wss_stages_show(sess);
	spin_lock_irq(&sess->lock);
	/* No loss precedes this login, so the loss of this connection must start the timers. */
	sess->live_since = jiffies - wss_steady_time(sess);
	if (sess->broken || !wss_set_state(sess, WSS_LIVE))
		ret = wss_fail(err, -ECONNRESET, "the connection broke right after login: %s",
			       sess->broken ?: "the session is being removed");
	spin_unlock_irq(&sess->lock);
	return ret;
}

/**
 * wss_session_cancel - end another context's attempt to connect
 * @sess: connecting; its creator cleans up
 */
void wss_session_cancel(struct wss_session *sess)
{
	spin_lock_irq(&sess->lock);
	if (sess->state == WSS_CONNECTING)
		wss_set_state(sess, WSS_REMOVING);
	spin_unlock_irq(&sess->lock);
}
