// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: one per target address, shared by all its volumes.
 *
 * A session is created by the first volume mapped from a target and removed with the last. It is a
 * device, /sys/class/wss/sessionN; each of its disks holds a reference, so that a disk that
 * somebody keeps open after a forced unmap still finds it.
 */
#include <linux/idr.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/nsproxy.h>
#include <net/net_namespace.h>

#include "log.h"
#include "wss.h"

static LIST_HEAD(wss_sessions);
/* Protects wss_sessions; map, unmap and exit exclude each other. */
static DEFINE_MUTEX(wss_map_mutex);
/* The module is on its way out; under wss_map_mutex. */
static bool wss_closing;
static DEFINE_IDA(wss_session_ida);

/**
 * wss_fail - note why something failed
 * @err: filled
 * @errno_value: returned
 * @fmt: text for people
 * Return: @errno_value.
 */
int wss_fail(struct wss_error *err, int errno_value, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return errno_value;
}

/**
 * wss_session_free - the last reference is gone
 * @sess: freed
 */
void wss_session_free(struct wss_session *sess)
{
	put_net(sess->net);
	ida_free(&wss_session_ida, sess->id);
	kfree(sess->admin.buffer);
	kvfree(sess->chans);
	free_percpu(sess->stats);
	kfree(sess);
}

static void wss_session_init(struct wss_session *sess, const struct wss_options *opts)
{
	u32 i;

	sess->opts = *opts;
	sess->ask_imm = opts->max_imm;
	sess->nr_default = opts->queues;
	sess->nr_chans = opts->queues + opts->poll_queues;
	sess->state = WSS_CONNECTING;
	sess->net = get_net(current->nsproxy->net_ns);
	get_random_bytes(sess->initiator_port_id, sizeof(sess->initiator_port_id));
	spin_lock_init(&sess->lock);
	init_waitqueue_head(&sess->wait);
	mutex_init(&sess->mutex);
	mutex_init(&sess->admin_mutex);
	INIT_LIST_HEAD(&sess->volumes);
	INIT_LIST_HEAD(&sess->node);
	INIT_DELAYED_WORK(&sess->recover_work, wss_recover_work);
	INIT_DELAYED_WORK(&sess->fail_work, wss_fail_work);
	INIT_DELAYED_WORK(&sess->keepalive_work, wss_keepalive_work);
	INIT_WORK(&sess->rescan_work, wss_rescan_work);
	for (i = 0; i < sess->nr_chans; i++) {
		struct wss_chan *chan = &sess->chans[i];

		chan->sess = sess;
		chan->index = i;
		chan->polled = i >= sess->nr_default;
		spin_lock_init(&chan->pending_lock);
		spin_lock_init(&chan->poll_lock);
	}
	device_initialize(&sess->dev);
	sess->dev.class = &wss_class;
	sess->dev.groups = wss_session_groups;
}

/* Memory only; from here put_device() frees it. */
static struct wss_session *wss_session_alloc(const struct wss_options *opts)
{
	struct wss_session *sess = kzalloc(sizeof(*sess), GFP_KERNEL);

	if (!sess)
		return NULL;
	sess->chans = kvcalloc(opts->queues + opts->poll_queues, sizeof(*sess->chans), GFP_KERNEL);
	sess->stats = alloc_percpu(struct wss_stats);
	sess->admin.buffer = kmalloc(WSS_ADMIN_BYTES, GFP_KERNEL);
	sess->id = ida_alloc(&wss_session_ida, GFP_KERNEL);
	if (sess->chans && sess->stats && sess->admin.buffer && sess->id >= 0) {
		wss_session_init(sess, opts);
		return sess;
	}
	if (sess->id >= 0)
		ida_free(&wss_session_ida, sess->id);
	kfree(sess->admin.buffer);
	free_percpu(sess->stats);
	kvfree(sess->chans);
	kfree(sess);
	return NULL;
}

static int wss_session_create_tags(struct wss_session *sess)
{
	struct blk_mq_tag_set *set = &sess->tags;
	u32 depth = sess->opts.queue_depth;
	u32 i;
	int ret;

	for (i = 0; i < sess->nr_chans; i++)
		depth = min3(depth, (u32)sess->chans[i].depth, sess->chans[i].granted - 1);
	set->ops = &wss_mq_ops;
	set->nr_hw_queues = sess->nr_chans;
	set->nr_maps = sess->nr_chans > sess->nr_default ? HCTX_MAX_TYPES : 1;
	set->queue_depth = depth;
	set->cmd_size = sizeof(struct wss_pdu);
	set->numa_node = ibdev_to_node(sess->wdev->ibdev);
	set->timeout = msecs_to_jiffies(WSS_IO_TIMEOUT_MS);
	/* The data is in RAM across a network: an elevator costs and brings nothing. */
	set->flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	set->driver_data = sess;
	ret = blk_mq_alloc_tag_set(set);
	if (!ret)
		sess->tags_ready = true;
	return ret;
}

static void wss_session_stop(struct wss_session *sess)
{
	spin_lock_irq(&sess->lock);
	wss_set_state(sess, WSS_REMOVING);
	spin_unlock_irq(&sess->lock);
	cancel_delayed_work_sync(&sess->recover_work);
	cancel_delayed_work_sync(&sess->fail_work);
	cancel_delayed_work_sync(&sess->keepalive_work);
	wss_chans_stop(sess);
	cancel_work_sync(&sess->rescan_work);
}

/* Undoes wss_session_create(); its last volume is gone. */
static void wss_session_destroy(struct wss_session *sess)
{
	wss_session_stop(sess);
	list_del_init(&sess->node);
	device_del(&sess->dev);
	blk_mq_free_tag_set(&sess->tags);
	put_device(&sess->dev);
}

static struct wss_session *wss_session_create(const struct wss_options *opts, struct wss_error *err)
{
	struct wss_session *sess = wss_session_alloc(opts);
	int ret = -ENOMEM;

	if (!sess) {
		wss_fail(err, ret, "no memory for a session");
		return ERR_PTR(ret);
	}
	ret = wss_chans_start(sess, err);
	if (ret)
		goto put;
	ret = wss_session_create_tags(sess);
	if (ret) {
		wss_fail(err, ret, "no memory for %u queues", sess->nr_chans);
		goto stop;
	}
	ret = dev_set_name(&sess->dev, "session%d", sess->id);
	if (!ret)
		ret = device_add(&sess->dev);
	if (ret) {
		wss_fail(err, ret, "the session cannot appear in sysfs (error %d)", ret);
		goto free_tags;
	}
	spin_lock_irq(&sess->lock);
	if (sess->broken || !wss_set_state(sess, WSS_LIVE))
		ret = wss_fail(err, -ECONNRESET, "the connection broke right after login");
	spin_unlock_irq(&sess->lock);
	if (ret)
		goto del;
	list_add_tail(&sess->node, &wss_sessions);
	queue_delayed_work(wss_wq, &sess->keepalive_work, HZ);
	return sess;

del:
	device_del(&sess->dev);
free_tags:
	wss_session_stop(sess);
	blk_mq_free_tag_set(&sess->tags);
stop:
	wss_session_stop(sess);
put:
	put_device(&sess->dev);
	return ERR_PTR(ret);
}

static struct wss_session *wss_session_find(const struct wss_options *opts)
{
	struct wss_session *sess;

	list_for_each_entry(sess, &wss_sessions, node) {
		if (!memcmp(&sess->opts.target, &opts->target, sizeof(opts->target)) &&
		    net_eq(sess->net, current->nsproxy->net_ns) &&
		    sess->opts.id_ext == opts->id_ext && sess->opts.ioc_guid == opts->ioc_guid &&
		    READ_ONCE(sess->state) != WSS_FAILED)
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
		if (!strcmp(vol->id.wwid, id->wwid)) {
			ret = wss_fail(err, -EEXIST, "volume '%s' is mapped already, as /dev/%s",
				       id->name, vol->disk->disk_name);
			break;
		}
	}
	mutex_unlock(&sess->mutex);
	return ret;
}

static int wss_map_volume(struct wss_session *sess, const char *spec, struct wss_error *err)
{
	struct wss_lun_id id;
	struct wss_volume *vol;
	int ret;

	ret = wss_find_volume(sess, spec, &id, err);
	if (ret)
		return ret;
	ret = wss_check_unmapped(sess, &id, err);
	if (ret)
		return ret;
	vol = wss_volume_create(sess, &id, err);
	if (IS_ERR(vol))
		return PTR_ERR(vol);
	wss_info(sess, "volume '%s' is /dev/%s, %llu blocks of %u bytes%s", id.name,
		 vol->disk->disk_name, vol->limits.blocks, vol->limits.block_bytes,
		 vol->limits.read_only ? ", read-only" : "");
	return 0;
}

static int wss_map_locked(struct wss_options *opts, struct wss_error *err)
{
	struct wss_session *sess = wss_session_find(opts);
	int ret;

	if (sess && READ_ONCE(sess->state) != WSS_LIVE)
		return wss_fail(err, -EAGAIN, "the connection to it is %s: try again later",
				wss_state_name(READ_ONCE(sess->state)));
	if (!sess)
		sess = wss_session_create(opts, err);
	if (IS_ERR(sess))
		return PTR_ERR(sess);
	ret = wss_map_volume(sess, opts->volume, err);
	if (list_empty(&sess->volumes))
		wss_session_destroy(sess);
	return ret;
}

/**
 * wss_map - make a disk of a volume
 * @opts: which and how
 * @err: says why not, in a complete sentence
 *
 * Context: sleeps, bounded and interruptible while connecting.
 * Return: 0, the disk exists; or -errno.
 */
int wss_map(struct wss_options *opts, struct wss_error *err)
{
	struct wss_error why = {};
	int ret = mutex_lock_interruptible(&wss_map_mutex);

	if (ret)
		return wss_fail(err, ret, "interrupted");
	if (wss_closing)
		ret = wss_fail(&why, -ESHUTDOWN, "the module is being unloaded");
	else
		ret = wss_map_locked(opts, &why);
	mutex_unlock(&wss_map_mutex);
	if (ret) {
		wss_fail(err, ret, "cannot map volume '%s' of target %s: %s", opts->volume,
			 opts->target_text, why.text[0] ? why.text : "unknown error");
		pr_err("wss: %s\n", err->text);
	}
	return ret;
}

static struct wss_volume *wss_volume_find(const char *disk_name)
{
	struct wss_session *sess;
	struct wss_volume *vol;

	list_for_each_entry(sess, &wss_sessions, node) {
		list_for_each_entry(vol, &sess->volumes, node) {
			if (!strcmp(vol->disk->disk_name, disk_name))
				return vol;
		}
	}
	return NULL;
}

static int wss_unmap_locked(const char *disk_name, bool force, struct wss_error *err)
{
	struct wss_volume *vol = wss_volume_find(disk_name);
	struct wss_session *sess;
	int ret;

	if (!vol)
		return wss_fail(err, -ENODEV, "'%s' is not a mapped disk", disk_name);
	sess = vol->sess;
	ret = wss_volume_remove(vol, force, err);
	if (ret)
		return ret;
	if (list_empty(&sess->volumes))
		wss_session_destroy(sess);
	return 0;
}

/**
 * wss_unmap - take a disk away
 * @disk_name: `wssN`
 * @force: also while it is open; what is in flight fails
 * @err: says why not
 *
 * Context: sleeps, bounded, whatever became of the target.
 * Return: 0, -ENODEV, or -EBUSY while it is open.
 */
int wss_unmap(const char *disk_name, bool force, struct wss_error *err)
{
	int ret = mutex_lock_interruptible(&wss_map_mutex);

	if (ret)
		return wss_fail(err, ret, "interrupted");
	ret = wss_unmap_locked(disk_name, force, err);
	mutex_unlock(&wss_map_mutex);
	return ret;
}

/** wss_unmap_all - module exit: no disk is open, no map or unmap can start any more */
void wss_unmap_all(void)
{
	struct wss_session *sess, *next_sess;
	struct wss_volume *vol, *next_vol;
	struct wss_error err;

	mutex_lock(&wss_map_mutex);
	wss_closing = true;
	list_for_each_entry_safe(sess, next_sess, &wss_sessions, node) {
		list_for_each_entry_safe(vol, next_vol, &sess->volumes, node) {
			if (wss_volume_remove(vol, false, &err))
				wss_volume_remove(vol, true, &err);
		}
		wss_session_destroy(sess);
	}
	mutex_unlock(&wss_map_mutex);
}

/**
 * wss_sessions_lose_device - an RDMA device goes away
 * @wdev: sessions on it recover, on another device or when it is back
 *
 * Sessions are found under their own references, not under wss_map_mutex: a map in progress holds
 * that, and may wait for this very device.
 */
void wss_sessions_lose_device(struct wss_device *wdev)
{
	struct class_dev_iter iter;
	struct device *dev;

	class_dev_iter_init(&iter, &wss_class, NULL, NULL);
	while ((dev = class_dev_iter_next(&iter))) {
		struct wss_session *sess = container_of(dev, struct wss_session, dev);

		if (READ_ONCE(sess->wdev) == wdev)
			wss_session_error(sess, "the RDMA device is being removed");
	}
	class_dev_iter_exit(&iter);
}
