// SPDX-License-Identifier: GPL-2.0
/*
 * One memory region for each segment of a request. This mode serves to measure the benefit of the
 * driver's usual one.
 *
 * With mlockv=off a request's segments of at most 4 KiB are registered one by one, and the command
 * describes each. The target then needs one RDMA operation for each. The last segment uses the
 * slot's own region, so that invalidation and teardown work as for one region. The other segments
 * use the regions in slot->segments, which are invalidated before the slot's own region.
 *
 * This mode is for measurements only. Such a channel has many more regions and work requests, sends
 * no command with more than one descriptor inline, and requests no remote invalidation, which would
 * invalidate only one region.
 */
#include <linux/slab.h>

#include "wss.h"

/*
 * Off unless a session uses mlockv=off. While it is off, tests of it in the hot path are
 * no-ops.
 */
DEFINE_STATIC_KEY_FALSE(wss_by_segments);

struct wss_segment {
	struct ib_mr *mr;
	struct ib_reg_wr reg_wr;
	struct ib_send_wr inv_wr;
};

static void wss_segment_init(struct wss_segment *segment, unsigned int index)
{
	segment->reg_wr.wr.opcode = IB_WR_REG_MR;
	segment->reg_wr.wr.wr_id = WSS_WR_ID(WSS_WR_REG, index);
	segment->reg_wr.mr = segment->mr;
	segment->inv_wr.opcode = IB_WR_LOCAL_INV;
	segment->inv_wr.wr_id = WSS_WR_ID(WSS_WR_INV, index);
}

/**
 * wss_segments_alloc - allocate further regions for a slot, if its session uses mlockv=off
 * @slot: the slot
 * Return: 0 or -errno; call wss_segments_free() even after a failure.
 */
int wss_segments_alloc(struct wss_slot *slot)
{
	struct wss_session *sess = slot->chan->sess;
	unsigned int i;

	if (sess->opts.mlockv)
		return 0;
	slot->segments = kcalloc(WSS_SEGMENT_REGIONS - 1, sizeof(*slot->segments), GFP_KERNEL);
	if (!slot->segments)
		return -ENOMEM;
	for (i = 0; i < WSS_SEGMENT_REGIONS - 1; i++) {
		/* An IOMMU may merge segments, so each region can hold a whole request. */
		struct ib_mr *mr = ib_alloc_mr(sess->pd, IB_MR_TYPE_MEM_REG,
					       WSS_SEGMENT_REGIONS + 1);

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		slot->segments[i].mr = mr;
		wss_segment_init(&slot->segments[i], slot->index);
	}
	return 0;
}

/**
 * wss_segments_free - mirror of wss_segments_alloc()
 * @slot: the queue pair is destroyed
 */
void wss_segments_free(struct wss_slot *slot)
{
	unsigned int i;

	if (!slot->segments)
		return;
	for (i = 0; i < WSS_SEGMENT_REGIONS - 1; i++)
		if (slot->segments[i].mr)
			ib_dereg_mr(slot->segments[i].mr);
	wss_stat_add(slot->chan->sess, regions_released, slot->extra);
	kfree(slot->segments);
	slot->segments = NULL;
}

static int wss_segment_map(struct wss_slot *slot, struct ib_reg_wr *wr, struct scatterlist *sg)
{
	struct ib_mr *mr = wr->mr;

	if (unlikely(ib_map_mr_sg(mr, sg, 1, NULL, SZ_4K) != 1))
		return -EIO;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	wr->key = mr->rkey;
	wr->access = slot->dir == DMA_TO_DEVICE ? IB_ACCESS_REMOTE_READ :
						  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	return 0;
}

/**
 * wss_segments_map - register each segment of a slot's mapped scatterlist
 * @slot: has further regions; slot->first_wr is set to a chain that ends in slot->send_wr
 * @count: number of segments
 * Return: 0 or -EIO.
 */
int wss_segments_map(struct wss_slot *slot, int count)
{
	struct ib_send_wr **link = &slot->first_wr;
	struct scatterlist *sg;
	int i;

	if (WARN_ON_ONCE(count > WSS_SEGMENT_REGIONS))
		return -EIO;
	for_each_sg(slot->sgl, sg, count, i) {
		struct ib_reg_wr *wr = i < count - 1 ? &slot->segments[i].reg_wr : &slot->reg_wr;

		if (wss_segment_map(slot, wr, sg))
			return -EIO;
		*link = &wr->wr;
		link = &wr->wr.next;
	}
	*link = &slot->send_wr;
	slot->extra = count - 1;
	slot->region_live = true;
	wss_stat_add(slot->chan->sess, regions_registered, count);
	return 0;
}

/*
 * Posts the invalidations of these regions before that of the slot's own region. The completion of
 * the last one stands for all.
 */
void wss_segments_invalidate(struct wss_slot *slot)
{
	unsigned int i;

	if (!slot->extra)
		return;
	for (i = 0; i < slot->extra; i++) {
		struct wss_segment *segment = &slot->segments[i];

		segment->inv_wr.ex.invalidate_rkey = segment->mr->rkey;
		segment->inv_wr.next = i + 1 < slot->extra ? &slot->segments[i + 1].inv_wr : NULL;
	}
	if (unlikely(ib_post_send(slot->chan->qp, &slot->segments[0].inv_wr, NULL)))
		wss_chan_break(slot->chan, "a LOCAL_INV could not be posted");
	wss_stat_add(slot->chan->sess, local_invalidations, slot->extra);
	wss_segments_forget(slot);
}

/* Notes that the further regions of a slot are invalid, or never became valid. */
void wss_segments_forget(struct wss_slot *slot)
{
	wss_stat_add(slot->chan->sess, regions_released, slot->extra);
	slot->extra = 0;
}

static void wss_segment_describe(struct wss_srp_direct_buf *desc, const struct ib_mr *mr)
{
	desc->va = cpu_to_be64(mr->iova);
	desc->key = cpu_to_be32(mr->rkey);
	desc->len = cpu_to_be32(mr->length);
}

/**
 * wss_segments_describe - write an indirect data descriptor into the command
 * @slot: after wss_segments_map()
 * @data_out: the target reads the regions; otherwise it writes them
 */
void wss_segments_describe(struct wss_slot *slot, bool data_out)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	struct wss_srp_indirect_buf *table = (void *)(cmd + 1);
	struct wss_srp_direct_buf *list = (void *)(table + 1);
	u32 count = slot->extra + 1;
	u64 total = slot->mr->length;
	unsigned int i;

	for (i = 0; i < slot->extra; i++) {
		wss_segment_describe(&list[i], slot->segments[i].mr);
		total += slot->segments[i].mr->length;
	}
	wss_segment_describe(&list[i], slot->mr);
	/* The command holds the whole list, so the target need not read it. */
	table->table_desc = (struct wss_srp_direct_buf){ .len = cpu_to_be32(count * sizeof(*list)) };
	table->len = cpu_to_be32(total);
	cmd->buf_fmt = data_out ? WSS_SRP_DESC_INDIRECT << 4 : WSS_SRP_DESC_INDIRECT;
	cmd->data_out_desc_cnt = data_out ? count : 0;
	cmd->data_in_desc_cnt = data_out ? 0 : count;
	slot->sge[0].length = sizeof(*cmd) + sizeof(*table) + count * sizeof(*list);
}
