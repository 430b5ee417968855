/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernel versions. The driver is written for the newest kernel; this file adds
 * what an older one lacks. Kbuild searches the kernel's headers for each interface (WSS_HAVE_*),
 * because distributions backport newer interfaces, which the version number does not reveal.
 *
 * The driver is built for, and tested on, Debian's kernels 6.1, 6.12 and 7.3. Between two of these
 * kernels, an interface may have had a third form. The driver does not compile on kernels with
 * that form.
 */
#ifndef WSS_COMPAT_H
#define WSS_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/pr.h>

#ifndef BLK_STS_RESV_CONFLICT
#define BLK_STS_RESV_CONFLICT BLK_STS_NEXUS
#endif

#ifdef WSS_HAVE_CONST_CLASS
#define WSS_CLASS_CONST const
#else
#define WSS_CLASS_CONST
#endif

#ifdef WSS_HAVE_ASSIGN_STR /* takes the source from __string() */
#define wss_assign_str(field, source) __assign_str(field)
#else
#define wss_assign_str(field, source) __assign_str(field, source)
#endif

#ifdef WSS_HAVE_DISK_OPEN
#define WSS_OPEN_ARGS struct gendisk *disk, blk_mode_t mode
#define WSS_RELEASE_ARGS struct gendisk *disk
#define wss_opened_disk() disk
#else
#define WSS_OPEN_ARGS struct block_device *bdev, fmode_t mode
#define WSS_RELEASE_ARGS struct gendisk *disk, fmode_t mode
#define wss_opened_disk() (bdev->bd_disk)
#endif

#ifdef WSS_HAVE_PR_READ
#define WSS_PR_READ_OPS(read_keys, read_reservation) \
	.pr_read_keys = read_keys, .pr_read_reservation = read_reservation,
#else
#define WSS_PR_READ_OPS(read_keys, read_reservation)
struct pr_keys {
	u32 generation;
	u32 num_keys;
	u64 keys[];
};
struct pr_held_reservation {
	u64 key;
	u32 generation;
	enum pr_type type;
};
#endif

/* Always on in newer kernels, a flag in older ones */
#ifdef WSS_HAVE_MERGE_FLAG
#define WSS_TAGS_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define WSS_TAGS_MERGE 0
#endif

/** wss_rq_sgl - fill @sgl with the segments of a request; returns their number */
static inline int wss_rq_sgl(struct request *rq, struct scatterlist *sgl)
{
#ifdef WSS_HAVE_MAP_SG_QUEUE
	return blk_rq_map_sg(rq->q, rq, sgl);
#else
	return blk_rq_map_sg(rq, sgl);
#endif
}

/** wss_free_queue - mirror of wss_alloc_queue() */
static inline void wss_free_queue(struct request_queue *q)
{
#ifdef WSS_HAVE_QUEUE_REFS
	blk_mq_destroy_queue(q);
	blk_put_queue(q);
#else
	/*
	 * blk_mq_destroy_queue() puts the queue in early versions of 6.1.y and does not in later
	 * ones. The reference count shows whether it did.
	 */
	WARN_ON_ONCE(!blk_get_queue(q));
	blk_mq_destroy_queue(q);
	if (kref_read(&q->kobj.kref) > 1)
		blk_put_queue(q);
	blk_put_queue(q);
#endif
}

/** wss_unfreeze - mirror of blk_freeze_queue_start() */
static inline void wss_unfreeze(struct request_queue *q)
{
#ifdef WSS_HAVE_FREEZE_FLAGS
	blk_mq_unfreeze_queue_nomemrestore(q);
#else
	blk_mq_unfreeze_queue(q);
#endif
}

/*
 * A list of requests has a tail pointer in newer kernels. In older ones it is a pointer to the
 * first request.
 */
#ifdef WSS_HAVE_RQ_LIST
#define WSS_RQ_LIST struct rq_list

/**
 * wss_rq_list_put_back - put back the requests that queue_rqs could not send, in the same
 * order
 */
static inline void wss_rq_list_put_back(struct rq_list *list, struct request *first,
					struct request *last)
{
	list->head = first;
	list->tail = last;
}

static inline bool wss_batch_empty(const struct io_comp_batch *iob)
{
	return rq_list_empty(&iob->req_list);
}
#else
#define WSS_RQ_LIST struct request *

static inline void wss_rq_list_put_back(struct request **list, struct request *first,
					struct request *last)
{
	*list = first;
}

static inline bool wss_batch_empty(const struct io_comp_batch *iob)
{
	return rq_list_empty(iob->req_list);
}
#endif

/*
 * Queue limits and features: passed at the creation of a queue; set one by one in older kernels
 */
#ifdef WSS_HAVE_FEATURES
/**
 * wss_alloc_disk - allocate a disk with @limits and @features; returns the disk or an error
 * pointer
 */
static inline struct gendisk *wss_alloc_disk(struct blk_mq_tag_set *set,
					     struct queue_limits *limits, blk_features_t features,
					     void *data)
{
	limits->features = features;
	return blk_mq_alloc_disk(set, limits, data);
}

/*
 * Takes the lock of the limits without waiting. A write to a limit in sysfs holds the lock while it
 * waits for the queue's requests. These may wait for recovery, which may have called this function.
 */
static inline bool wss_lock_limits(struct request_queue *q, struct queue_limits *limits)
{
	if (!mutex_trylock(&q->limits_lock))
		return false;
	*limits = q->limits;
	return true;
}

/**
 * wss_change_cache - change the kind of write cache, while requests continue; returns false if
 * another user is changing the limits
 */
static inline bool wss_change_cache(struct request_queue *q, blk_features_t features)
{
	const blk_features_t cache = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	struct queue_limits limits;

	if (!wss_lock_limits(q, &limits))
		return false;
	limits.features = (limits.features & ~cache) | (features & cache);
	/* Cannot fail: the limits were valid before. */
	WARN_ON_ONCE(queue_limits_commit_update(q, &limits));
	return true;
}

/**
 * wss_change_limits - apply new limits of the target; limits of the RDMA device do not change
 *
 * Requests continue: some that were split for the old limits may still arrive. The queue is not
 * frozen, because a freeze does not end while requests wait for the target. Return: 0; -EBUSY:
 * another user is changing the limits; or another -errno.
 */
static inline int wss_change_limits(struct request_queue *q, const struct queue_limits *to)
{
	struct queue_limits limits;

	if (!wss_lock_limits(q, &limits))
		return -EBUSY;
	limits.physical_block_size = to->physical_block_size;
	limits.io_min = to->io_min;
	limits.io_opt = to->io_opt;
	limits.max_hw_sectors = to->max_hw_sectors;
	limits.max_hw_discard_sectors = to->max_hw_discard_sectors;
	limits.max_discard_segments = to->max_discard_segments;
	limits.discard_granularity = to->discard_granularity;
	limits.discard_alignment = to->discard_alignment;
	limits.max_write_zeroes_sectors = to->max_write_zeroes_sectors;
	return queue_limits_commit_update(q, &limits);
}

/** wss_alloc_queue - allocate a queue without a disk; returns it or an error pointer */
static inline struct request_queue *wss_alloc_queue(struct blk_mq_tag_set *set)
{
	return blk_mq_alloc_queue(set, NULL, NULL);
}
#else
#define blk_features_t unsigned int
#define BLK_FEAT_WRITE_CACHE BIT(0)
#define BLK_FEAT_FUA BIT(1)
#define BLK_FEAT_ROTATIONAL BIT(2)

static inline bool wss_change_cache(struct request_queue *q, blk_features_t features)
{
	blk_queue_write_cache(q, features & BLK_FEAT_WRITE_CACHE, features & BLK_FEAT_FUA);
	return true;
}

/* As in newer kernels, 0 is the default. */
static inline void wss_set_limits(struct request_queue *q, const struct queue_limits *limits)
{
	blk_queue_logical_block_size(q, limits->logical_block_size);
	blk_queue_physical_block_size(q, limits->physical_block_size);
	blk_queue_io_min(q, limits->io_min);
	blk_queue_io_opt(q, limits->io_opt);
	/*
	 * Setting max_hw_sectors, or the limit of discards, also resets a lower limit that the
	 * user has set. So set them only if they change.
	 */
	if (queue_max_hw_sectors(q) != limits->max_hw_sectors)
		blk_queue_max_hw_sectors(q, limits->max_hw_sectors);
	blk_queue_max_segments(q, limits->max_segments);
	if (limits->max_segment_size)
		blk_queue_max_segment_size(q, limits->max_segment_size);
	if (limits->virt_boundary_mask)
		blk_queue_virt_boundary(q, limits->virt_boundary_mask);
	blk_queue_dma_alignment(q, limits->dma_alignment);
	blk_queue_max_write_zeroes_sectors(q, limits->max_write_zeroes_sectors);
	q->limits.discard_granularity = limits->discard_granularity;
	q->limits.discard_alignment = limits->discard_alignment;
	if (q->limits.max_hw_discard_sectors != limits->max_hw_discard_sectors)
		blk_queue_max_discard_sectors(q, limits->max_hw_discard_sectors);
	if (limits->max_discard_segments)
		blk_queue_max_discard_segments(q, limits->max_discard_segments);
}

static inline int wss_change_limits(struct request_queue *q, const struct queue_limits *to)
{
	wss_set_limits(q, to);
	return 0;
}

static inline struct gendisk *wss_alloc_disk(struct blk_mq_tag_set *set,
					     struct queue_limits *limits, blk_features_t features,
					     void *data)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, data);

	if (IS_ERR(disk))
		return disk;
	wss_set_limits(disk->queue, limits);
	wss_change_cache(disk->queue, features);
	if (features & BLK_FEAT_ROTATIONAL)
		blk_queue_flag_clear(QUEUE_FLAG_NONROT, disk->queue);
	else
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, disk->queue);
	return disk;
}

static inline struct request_queue *wss_alloc_queue(struct blk_mq_tag_set *set)
{
	return blk_mq_init_queue(set);
}
#endif

/**
 * wss_forbid - stop the block layer from sending an operation that the target rejects
 *
 * Context: any.
 */
static inline void wss_forbid(struct request_queue *q, enum req_op op)
{
	if (op == REQ_OP_WRITE_ZEROES)
		WRITE_ONCE(q->limits.max_write_zeroes_sectors, 0);
	else if (op == REQ_OP_DISCARD)
		WRITE_ONCE(q->limits.max_discard_sectors, 0);
}

struct wss_volume;
blk_features_t wss_features(const struct wss_volume *vol); /* volume.c */

#endif
