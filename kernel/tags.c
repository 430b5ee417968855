// SPDX-License-Identifier: GPL-2.0
/*
 * The tag set, which the volumes of a session share.
 *
 * When the second queue of a tag set is added, or the last but one is removed, blk-mq freezes the
 * other queue. It then waits for that queue's requests, for ever if their target does not return.
 * Therefore the set gets a queue without requests, the keeper, before the second disk is added. The
 * keeper lives as long as the session, so that only the keeper is frozen when disks are added and
 * removed. Adding the keeper freezes the first disk once; this file limits the time.
 *
 * Without a second disk there is no keeper, because a shared tag set makes every request more
 * expensive, and older kernels do not use queue_rqs for it.
 */
#include <linux/cpu.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "wss.h"

/* Requests on a live session end sooner; requests that wait for a target need not end at all. */
#define WSS_FREEZE_TIMEOUT HZ

/**
 * wss_tags_create - allocate the tag set of a session
 * @sess: its first connection has fixed the depth
 *
 * Context: sleeps.
 * Return: 0 or -errno.
 */
int wss_tags_create(struct wss_session *sess)
{
	struct blk_mq_tag_set *set = &sess->tags;
	int ret;

	set->ops = &wss_mq_ops;
	set->nr_hw_queues = sess->nr_queues;
	set->nr_maps = sess->nr_queues > sess->nr_default ? HCTX_MAX_TYPES : 1;
	set->queue_depth = sess->tag_depth;
	set->cmd_size = sizeof(struct wss_pdu);
	set->numa_node = ibdev_to_node(sess->wdev->ibdev);
	set->timeout = msecs_to_jiffies(WSS_IO_TIMEOUT_MS);
	/* The storage is across a network: an I/O scheduler here would cost time without benefit. */
	set->flags = WSS_TAGS_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	set->driver_data = sess;
	ret = blk_mq_alloc_tag_set(set);
	sess->tags_ready = !ret;
	return ret;
}

/**
 * wss_tags_free - mirror of wss_tags_create() and wss_tags_share()
 * @sess: without volumes
 */
void wss_tags_free(struct wss_session *sess)
{
	if (!sess->tags_ready)
		return;
	if (sess->keeper)
		wss_free_queue(sess->keeper);
	blk_mq_free_tag_set(&sess->tags);
}

/*
 * Returns the session's first disk, with a reference, or NULL if the disk was removed but is still
 * open. Returns -EAGAIN while the disk is being removed, which may wait for requests.
 */
static struct gendisk *wss_first_disk(struct wss_session *sess)
{
	struct wss_volume *vol;
	struct gendisk *disk = NULL;

	mutex_lock(&sess->mutex);
	vol = list_first_entry_or_null(&sess->volumes, struct wss_volume, node);
	if (vol && READ_ONCE(vol->removing)) {
		disk = ERR_PTR(-EAGAIN);
	} else if (vol) {
		disk = vol->disk;
		get_device(disk_to_dev(disk));
	}
	mutex_unlock(&sess->mutex);
	return disk;
}

static int wss_tags_add_keeper(struct wss_session *sess)
{
	struct request_queue *keeper = wss_alloc_queue(&sess->tags);

	if (IS_ERR(keeper))
		return PTR_ERR(keeper);
	sess->keeper = keeper;
	return 0;
}

/**
 * wss_tags_share - prepare the tag set for another disk
 * @sess: the session; its map_mutex is held, so that no other disk is added
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded.
 * Return: 0; -EBUSY: requests of the first disk wait; or another -errno.
 */
int wss_tags_share(struct wss_session *sess, struct wss_error *err)
{
	struct gendisk *disk;
	unsigned int noreclaim;
	int ret;

	lockdep_assert_held(&sess->map_mutex);
	if (sess->keeper || !atomic_read(&sess->disks))
		return 0;
	disk = wss_first_disk(sess);
	if (!disk)
		return wss_tags_add_keeper(sess);
	if (IS_ERR(disk))
		return wss_fail(err, PTR_ERR(disk), "another disk of this target is being removed: try again");
	/*
	 * Nothing here may wait for a task that needs the frozen disk to get memory. So allocations
	 * may not reclaim: they draw on the reserves or fail. Nor may this code wait for the CPU
	 * hotplug lock, because a CPU that comes up allocates while holding it.
	 */
	cpu_hotplug_disable();
	noreclaim = memalloc_noreclaim_save();
	blk_freeze_queue_start(disk->queue);
	ret = -EBUSY;
	if (blk_mq_freeze_queue_wait_timeout(disk->queue, WSS_FREEZE_TIMEOUT) > 0)
		ret = wss_tags_add_keeper(sess);
	wss_unfreeze(disk->queue);
	memalloc_noreclaim_restore(noreclaim);
	cpu_hotplug_enable();
	if (ret == -EBUSY)
		wss_fail(err, ret, "requests of /dev/%s wait for the target: try again when it answers them",
			 disk->disk_name);
	else if (ret)
		wss_fail(err, ret, "no memory for another disk");
	put_disk(disk);
	return ret;
}
