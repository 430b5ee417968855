// SPDX-License-Identifier: GPL-2.0
/*
 * Volumes as disks: creation, limits, removal. revalidate.c handles changes while they are mapped.
 */
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "log.h"
#include "wss.h"

static DEFINE_IDA(wss_volume_ida);
/*
 * Volumes that are not yet freed. Some are freed after the last user of their disk has put the
 * module.
 */
static atomic_t wss_volumes_left = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(wss_volumes_wait);

static int wss_open(WSS_OPEN_ARGS)
{
	struct wss_volume *vol = wss_opened_disk()->private_data;
	int ret = 0;

	spin_lock(&vol->open_lock);
	if (vol->removing)
		ret = -ENXIO;
	else
		vol->openers++;
	spin_unlock(&vol->open_lock);
	return ret;
}

static void wss_release(WSS_RELEASE_ARGS)
{
	struct wss_volume *vol = disk->private_data;

	spin_lock(&vol->open_lock);
	vol->openers--;
	spin_unlock(&vol->open_lock);
}

static void wss_volume_free(struct kref *refs)
{
	struct wss_volume *vol = container_of(refs, struct wss_volume, refs);

	ida_free(&wss_volume_ida, vol->index);
	put_device(&vol->sess->dev);
	kfree(vol);
	if (atomic_dec_and_test(&wss_volumes_left))
		wake_up_all(&wss_volumes_wait);
}

/**
 * wss_volumes_await - module exit: wait until all volumes are freed and wss_volume_free() has
 * returned
 *
 * When a disk is closed, the block layer first puts the module and then the disk, whose release
 * frees the volume.
 */
void wss_volumes_await(void)
{
	wait_event(wss_volumes_wait, !atomic_read(&wss_volumes_left));
	synchronize_rcu_tasks();
}

/**
 * wss_volume_put - mirror of kref_get(&vol->refs)
 * @vol: the volume
 */
void wss_volume_put(struct wss_volume *vol)
{
	kref_put(&vol->refs, wss_volume_free);
}

/* Called only for disks that were added. */
static void wss_free_disk(struct gendisk *disk)
{
	struct wss_volume *vol = disk->private_data;

	atomic_dec(&vol->sess->disks);
	wss_volume_put(vol);
}

static const struct block_device_operations wss_fops = {
	.owner = THIS_MODULE,
	.open = wss_open,
	.release = wss_release,
	.free_disk = wss_free_disk,
	.pr_ops = &wss_pr_ops,
};

/** wss_sectors - size of a volume in sectors, for the block layer */
sector_t wss_sectors(const struct wss_volume *vol)
{
	return vol->limits.blocks << (vol->block_shift - SECTOR_SHIFT);
}

/*
 * Converts blocks to sectors. The result is limited so that its number of bytes fits into an
 * unsigned int.
 */
static unsigned int wss_clamp_sectors(const struct wss_volume *vol, u64 blocks)
{
	return min_t(u64, blocks, UINT_MAX >> vol->block_shift)
	       << (vol->block_shift - SECTOR_SHIFT);
}

static void wss_limit_discard(const struct wss_volume *vol, struct queue_limits *queue)
{
	const struct wss_limits *limits = &vol->limits;

	if (!limits->unmap || !limits->max_unmap_blocks || READ_ONCE(vol->no_unmap))
		return;
	queue->discard_granularity =
		min_t(u64, (u64)max(limits->unmap_granularity, 1U) << vol->block_shift, SZ_1G);
	queue->discard_alignment =
		min_t(u64, (u64)limits->unmap_alignment << vol->block_shift, SZ_1G);
	queue->max_hw_discard_sectors = wss_clamp_sectors(vol, limits->max_unmap_blocks);
	queue->max_discard_segments =
		clamp_t(u32, limits->max_unmap_ranges, 1, WSS_MAX_UNMAP_RANGES);
}

static void wss_limit_transfer(const struct wss_volume *vol, struct queue_limits *queue)
{
	const struct wss_session *sess = vol->sess;
	const struct wss_device_limits *device = &sess->device_limits;
	const struct wss_limits *limits = &vol->limits;
	unsigned int sectors = device->segments << (12 - SECTOR_SHIFT);

	sectors = min(sectors, device->mapping >> SECTOR_SHIFT);
	if (limits->max_blocks)
		sectors = min(sectors, wss_clamp_sectors(vol, limits->max_blocks));
	sectors = max_t(unsigned int, sectors, PAGE_SIZE >> SECTOR_SHIFT);
	queue->max_hw_sectors = sectors;
	queue->max_segments = device->segments;
	if (!sess->opts.mlockv)
		queue->max_segment_size = SZ_4K; /* each segment is a region: gaps do not matter */
	else if (device->gaps)
		queue->max_segment_size = device->mapping;
	else
		queue->virt_boundary_mask = SZ_4K - 1; /* I1: no gap inside a region */
	queue->dma_alignment = 3;
}

/**
 * wss_limit_queue - queue limits of a volume and of its session's RDMA device
 * @vol: the volume
 * @queue: filled; zeroed by the caller
 */
void wss_limit_queue(const struct wss_volume *vol, struct queue_limits *queue)
{
	const struct wss_limits *limits = &vol->limits;

	queue->logical_block_size = limits->block_bytes;
	queue->physical_block_size = limits->physical_bytes;
	queue->io_min = limits->physical_bytes;
	queue->io_opt = min_t(u64, (u64)limits->opt_blocks << vol->block_shift, SZ_16M);
	wss_limit_transfer(vol, queue);
	wss_limit_discard(vol, queue);
	/* If no limit is reported, use the maximum of the oldest form, WRITE SAME(10). */
	if (limits->write_same && !READ_ONCE(vol->no_write_same))
		queue->max_write_zeroes_sectors =
			wss_clamp_sectors(vol, limits->max_same_blocks ?: 0xffff);
}

/** wss_features - write cache and medium of a volume, for the block layer */
blk_features_t wss_features(const struct wss_volume *vol)
{
	const struct wss_limits *limits = &vol->limits;
	blk_features_t features = 0;

	if (limits->write_cache)
		features |= BLK_FEAT_WRITE_CACHE;
	if (limits->write_cache && limits->fua)
		features |= BLK_FEAT_FUA;
	if (limits->rotational)
		features |= BLK_FEAT_ROTATIONAL;
	return features;
}

static struct wss_volume *wss_volume_alloc(struct wss_session *sess, const struct wss_lun_id *id)
{
	struct wss_volume *vol = kzalloc(sizeof(*vol), GFP_KERNEL);

	if (!vol)
		return NULL;
	vol->index = ida_alloc(&wss_volume_ida, GFP_KERNEL);
	if (vol->index < 0) {
		kfree(vol);
		return NULL;
	}
	atomic_inc(&wss_volumes_left);
	vol->id = *id;
	spin_lock_init(&vol->open_lock);
	INIT_LIST_HEAD(&vol->node);
	get_device(&sess->dev);
	vol->sess = sess;
	kref_init(&vol->refs);
	init_completion(&vol->mapped);
	return vol;
}

/*
 * Adds the volume to its session's list. This precedes device_add_disk(): recovery must find the
 * volume as soon as it may have requests.
 */
static int wss_volume_list(struct wss_volume *vol, int changes, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	int ret = 0;

	mutex_lock(&sess->mutex);
	spin_lock_irq(&sess->lock);
	/*
	 * From here on every login, and every change that the target reports, revalidates the
	 * volume.
	 */
	if (atomic_read(&sess->changes) == changes)
		list_add_tail(&vol->node, &sess->volumes);
	else
		ret = wss_fail(err, -EAGAIN, "the target's volumes changed during the search");
	spin_unlock_irq(&sess->lock);
	mutex_unlock(&sess->mutex);
	return ret;
}

/* Mirror of wss_volume_list(). */
static void wss_volume_unlist(struct wss_volume *vol)
{
	struct wss_session *sess = vol->sess;

	mutex_lock(&sess->mutex);
	spin_lock_irq(&sess->lock);
	list_del_init(&vol->node);
	spin_unlock_irq(&sess->lock);
	mutex_unlock(&sess->mutex);
}

static int wss_volume_add_disk(struct wss_volume *vol, int changes, struct wss_error *err)
{
	struct wss_session *sess = vol->sess;
	struct queue_limits limits = {};
	int ret;

	wss_limit_queue(vol, &limits);
	vol->disk = wss_alloc_disk(&sess->tags, &limits, wss_features(vol), vol);
	if (IS_ERR(vol->disk))
		return wss_fail(err, PTR_ERR(vol->disk), "no memory for a disk");
	/*
	 * sess->disks includes the disk until it is released, even if it cannot be added. That costs
	 * at most a keeper (tags.c).
	 */
	atomic_inc(&sess->disks);
	snprintf(vol->disk->disk_name, sizeof(vol->disk->disk_name), "wss%d", vol->index);
	vol->disk->fops = &wss_fops;
	vol->disk->private_data = vol;
	set_disk_ro(vol->disk, vol->limits.read_only);
	set_capacity(vol->disk, wss_sectors(vol));

	ret = wss_volume_list(vol, changes, err);
	if (ret)
		goto put;
	ret = device_add_disk(&sess->dev, vol->disk, wss_disk_groups);
	if (!ret)
		return 0;
	wss_fail(err, ret, "the disk could not be created: %s", wss_reason(ret));
	wss_volume_unlist(vol);
	complete_all(&vol->mapped);
put:
	put_disk(vol->disk);
	return ret;
}

/**
 * wss_volume_create - create a disk for a logical unit
 * @sess: its session, live
 * @id: the unit
 * @changes: sess->changes before the search for the unit
 * @err: the reason for a failure
 *
 * Context: sleeps, and does I/O, because it reads the partition table. Called after
 * wss_tags_share().
 * Return: the volume, or an error pointer; -EAGAIN: @id may be out of date.
 */
struct wss_volume *wss_volume_create(struct wss_session *sess, const struct wss_lun_id *id,
				     int changes, struct wss_error *err)
{
	struct wss_volume *vol = wss_volume_alloc(sess, id);
	int ret;

	if (!vol) {
		wss_fail(err, -ENOMEM, "no memory for a volume");
		return ERR_PTR(-ENOMEM);
	}
	ret = wss_read_limits(sess, id->lun, &vol->limits, err);
	if (ret)
		goto free;
	vol->block_shift = ilog2(vol->limits.block_bytes);
	ret = wss_volume_add_disk(vol, changes, err);
	if (ret)
		goto free;
	return vol;

free:
	wss_volume_put(vol);
	return ERR_PTR(ret);
}

/**
 * wss_volume_set_state - make a volume unsure, absent or dead
 * @vol: the volume
 * @to: the new state; WSS_VOLUME_DEAD is final
 *
 * Context: sess->mutex held.
 */
void wss_volume_set_state(struct wss_volume *vol, enum wss_volume_state to)
{
	struct wss_session *sess = vol->sess;

	lockdep_assert_held(&sess->mutex);
	spin_lock_irq(&sess->lock);
	if (vol->state != WSS_VOLUME_DEAD)
		WRITE_ONCE(vol->state, to);
	spin_unlock_irq(&sess->lock);
}

/**
 * wss_volume_confirm - mark a volume as present: vol->id.lun denotes its unit
 * @vol: the volume
 * @doubts: sess->doubts before the unit was identified
 *
 * Context: sess->mutex held.
 * Return: false without a change, if the volume is dead or the target has reported changed units
 * since.
 */
bool wss_volume_confirm(struct wss_volume *vol, int doubts)
{
	struct wss_session *sess = vol->sess;
	bool confirmed;

	lockdep_assert_held(&sess->mutex);
	spin_lock_irq(&sess->lock);
	confirmed = vol->state != WSS_VOLUME_DEAD && atomic_read(&sess->doubts) == doubts;
	if (confirmed)
		WRITE_ONCE(vol->state, WSS_VOLUME_PRESENT);
	spin_unlock_irq(&sess->lock);
	return confirmed;
}

/**
 * wss_volume_quiesce - stop all submitters of a volume; wss_volume_unquiesce() is its mirror
 * @vol: the volume
 *
 * Context: sleeps; sess->mutex held.
 */
void wss_volume_quiesce(struct wss_volume *vol)
{
	lockdep_assert_held(&vol->sess->mutex);
	if (vol->quiesced)
		return;
	vol->quiesced = true;
	blk_mq_quiesce_queue(vol->disk->queue);
}

/**
 * wss_volume_unquiesce - let requests be submitted again, the waiting ones first
 * @vol: the volume
 *
 * Context: sess->mutex held.
 */
void wss_volume_unquiesce(struct wss_volume *vol)
{
	lockdep_assert_held(&vol->sess->mutex);
	if (!vol->quiesced)
		return;
	vol->quiesced = false;
	blk_mq_unquiesce_queue(vol->disk->queue);
	blk_mq_run_hw_queues(vol->disk->queue, true);
}

/**
 * wss_volume_kill - fail all requests of a volume from now on, including waiting ones
 * @vol: the volume
 *
 * Context: sess->mutex held.
 */
void wss_volume_kill(struct wss_volume *vol)
{
	lockdep_assert_held(&vol->sess->mutex);
	wss_volume_set_state(vol, WSS_VOLUME_DEAD);
	wss_volume_unquiesce(vol);
}

/**
 * wss_volume_claim - claim a volume for removal; wss_volume_remove() follows
 * @vol: in its session's list, under sess->mutex
 * @force: even while it is open, or still being mapped
 * @err: the reason for a failure
 *
 * Return: 0 with a reference, and no other caller can claim it; or -EBUSY.
 */
int wss_volume_claim(struct wss_volume *vol, bool force, struct wss_error *err)
{
	const char *why = NULL;

	spin_lock(&vol->open_lock);
	if (vol->removing)
		why = "is being unmapped already";
	else if (!force && !completion_done(&vol->mapped))
		why = "is still being mapped; wait, or force";
	else if (!force && vol->openers)
		why = "is in use (mounted or open); close it, or force";
	else
		WRITE_ONCE(vol->removing, true);
	spin_unlock(&vol->open_lock);
	if (!why)
		kref_get(&vol->refs);
	return why ? wss_fail(err, -EBUSY, "/dev/%s %s", vol->disk->disk_name, why) : 0;
}

/* Returns true if all volumes of the session are dead. Context: sess->mutex held. */
static bool wss_volumes_dead(struct wss_session *sess)
{
	struct wss_volume *vol;

	list_for_each_entry(vol, &sess->volumes, node) {
		if (vol->state != WSS_VOLUME_DEAD)
			return false;
	}
	return true;
}

/**
 * wss_volume_force - stop the removal of a volume from waiting for requests
 * @vol: claimed
 *
 * Context: sess->mutex held.
 */
void wss_volume_force(struct wss_volume *vol)
{
	struct wss_session *sess = vol->sess;

	if (list_empty(&vol->node))
		return;
	wss_volume_kill(vol);
	/* If no other volume needs the connection, do not wait for a target that may be hung. */
	if (wss_volumes_dead(sess))
		wss_session_error(sess, "forced unmap");
}

/**
 * wss_volume_remove - mirror of wss_volume_create()
 * @vol: claimed; freed after the last opener has closed it
 * @force: its requests fail
 *
 * Context: sleeps. With @force the wait is bounded: if the target does not answer, requests fail.
 * Otherwise it lasts until all requests have ended.
 */
void wss_volume_remove(struct wss_volume *vol, bool force)
{
	struct wss_session *sess = vol->sess;
	struct gendisk *disk = vol->disk;

	mutex_lock(&sess->mutex);
	/*
	 * From here on recovery fails this volume's requests without waiting
	 * (wss_release_dead()).
	 */
	if (force)
		wss_volume_force(vol);
	else if (!list_empty(&vol->node) && (READ_ONCE(sess->state) != WSS_LIVE ||
					     (vol->state != WSS_VOLUME_PRESENT && vol->state != WSS_VOLUME_UNSURE)))
		wss_volume_kill(vol);
	mutex_unlock(&sess->mutex);

	/* A map in progress reads the partition table. If necessary, that read fails now. */
	wait_for_completion(&vol->mapped);
	if (vol->added) {
		del_gendisk(disk);
		wss_volume_unlist(vol);
		put_disk(disk);
	}
	wss_volume_put(vol);
}

/**
 * wss_volumes_lose_cache - mark volumes whose acknowledged, unflushed writes may be lost
 * @sess: the target's boot id has changed; the next flush of a marked volume fails
 */
void wss_volumes_lose_cache(struct wss_session *sess)
{
	struct wss_volume *vol;

	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (!xchg(&vol->unflushed, false))
			continue;
		wss_warn(sess, "/dev/%s: the target, or a storage machine behind it, restarted; unflushed writes may be lost; the next flush fails",
			 vol->disk->disk_name);
		WRITE_ONCE(vol->lost, true);
	}
	mutex_unlock(&sess->mutex);
}

/**
 * wss_volume_lose_write - mark a volume, because the target reports that an earlier command failed
 * @sess: the session
 * @lun: of the volume; its next flush fails
 *
 * Context: any.
 */
void wss_volume_lose_write(struct wss_session *sess, const u8 lun[8])
{
	struct wss_volume *vol;
	unsigned long flags;

	spin_lock_irqsave(&sess->lock, flags);
	list_for_each_entry(vol, &sess->volumes, node) {
		if (memcmp(vol->id.lun, lun, sizeof(vol->id.lun)))
			continue;
		wss_warn_rl(sess, "/dev/%s: the target reports that an earlier command failed%s",
			    vol->disk->disk_name, vol->limits.write_cache ? "; the next flush fails" : "");
		WRITE_ONCE(vol->lost, true);
	}
	spin_unlock_irqrestore(&sess->lock, flags);
}
