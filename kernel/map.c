// SPDX-License-Identifier: GPL-2.0
/*
 * One memory region for each request.
 *
 * The block layer passes a request as segments: pages, or parts of pages, anywhere in memory and
 * perhaps without a kernel address. If each segment were described to the target separately, the
 * target would need one RDMA operation for each, and these, not the wire, would limit throughput.
 * wss_mlockv() therefore registers all segments as one region. To the target they are one
 * contiguous range {va, rkey, length}, and one RDMA operation transfers them.
 *
 * The cost is low because the region object belongs to the slot and lives as long as the channel.
 * For each request only its page list is rewritten, and a REG_MR work request goes in front of the
 * command, in the same doorbell. This needs no allocation, no pool and no lock.
 *
 * A region is a list of whole pages with an offset in the first and an end in the last. Devices
 * with SG_GAPS take any list. For the others the queue's virt_boundary makes the block layer split
 * requests where a gap would be (volume.c), so that a request that arrives here always fits.
 *
 * Small writes need no region: their pages are further segments of the SEND that carries the
 * command (immediate data). The device owns these pages until the SEND has completed, not only
 * until the response has arrived, because a retransmission would read them again.
 *
 * Nothing here reads a page's contents or uses its kernel mapping.
 */
#include "fault.h"
#include "wss.h"

static int wss_dma_map(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;
	struct sg_table table = { .sgl = slot->sgl, .nents = slot->nents, .orig_nents = slot->nents };
	int ret;

	if (wss_fault(map)) {
		wss_stat_inc(chan->sess, faults);
		return -ENOMEM;
	}
	if (wss_fault(unmappable)) {
		wss_stat_inc(chan->sess, faults);
		return -EREMOTEIO;
	}
	ret = ib_dma_map_sgtable_attrs(chan->ibdev, &table, slot->dir, 0);
	if (unlikely(ret))
		return ret;
	wss_stat_inc(chan->sess, dma_maps);
	return table.nents;
}

static void wss_dma_unmap(struct wss_slot *slot)
{
	ib_dma_unmap_sg(slot->chan->ibdev, slot->sgl, slot->nents, slot->dir);
	wss_stat_inc(slot->chan->sess, dma_unmaps);
}

/**
 * wss_mlockv - register all segments of a slot's scatterlist as one memory region
 * @slot: has sgl, nents and dir set; maps the list for DMA and prepares the REG_MR in slot->reg_wr
 *
 * The peer can access the region once the work requests starting with slot->first_wr are posted.
 * In lazy mode the region's previous registration may still be valid; a LOCAL_INV in the same
 * chain invalidates it first.
 *
 * Context: any; does not sleep.
 * Return: 0; -EINVAL if the list can never be one region; or the error of the DMA mapping: -ENOMEM
 * and -EIO may be temporary (a full bounce buffer causes -EIO), other errors are not.
 */
int wss_mlockv(struct wss_slot *slot)
{
	struct ib_mr *mr = slot->mr;
	int count = wss_dma_map(slot);

	if (unlikely(count < 0))
		return count;
	if (wss_has_segments(slot)) {
		if (!wss_segments_map(slot, count))
			return 0;
		wss_dma_unmap(slot);
		return -EINVAL;
	}
	if (unlikely(ib_map_mr_sg(mr, slot->sgl, count, NULL, SZ_4K) != count)) {
		wss_dma_unmap(slot);
		return -EINVAL;
	}

	slot->first_wr = &slot->reg_wr.wr;
	if (slot->region_live) {
		slot->inv_wr.ex.invalidate_rkey = mr->rkey;
		slot->inv_wr.send_flags = 0;
		slot->inv_wr.next = slot->first_wr;
		slot->first_wr = &slot->inv_wr;
		wss_stat_inc(slot->chan->sess, local_invalidations);
		wss_stat_inc(slot->chan->sess, regions_released);
	}
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	slot->reg_wr.key = mr->rkey;
	slot->reg_wr.access = slot->dir == DMA_TO_DEVICE ?
				      IB_ACCESS_REMOTE_READ :
				      IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	slot->region_live = true;
	wss_stat_inc(slot->chan->sess, regions_registered);
	return 0;
}

/**
 * wss_munlockv - unmap a slot's segments
 * @slot: after wss_map_region() or wss_map_immediate(); otherwise this has no effect
 *
 * The caller has ensured that the peer can no longer reach the segments (I2), except in lazy mode.
 */
void wss_munlockv(struct wss_slot *slot)
{
	if (slot->mapping == WSS_MAP_NONE)
		return;
	wss_dma_unmap(slot);
	slot->mapping = WSS_MAP_NONE;
}

/**
 * wss_map_region - map the slot's data as a region
 * @slot: see wss_mlockv()
 * Return: as wss_mlockv().
 */
int wss_map_region(struct wss_slot *slot)
{
	int ret = wss_mlockv(slot);

	if (likely(!ret))
		slot->mapping = WSS_MAP_REGION;
	return ret;
}

/**
 * wss_map_immediate - map the slot's data as immediate data of its command
 * @slot: has sgl and nents set; nents does not exceed chan->imm_segments
 * Return: 0, or as wss_mlockv() where the list cannot be mapped.
 */
int wss_map_immediate(struct wss_slot *slot)
{
	struct scatterlist *sg;
	int count = wss_dma_map(slot);
	int i;

	if (unlikely(count < 0))
		return count;
	for_each_sg(slot->sgl, sg, count, i) {
		slot->sge[1 + i].addr = sg_dma_address(sg);
		slot->sge[1 + i].length = sg_dma_len(sg);
		slot->sge[1 + i].lkey = slot->chan->lkey;
	}
	slot->send_wr.num_sge = 1 + count;
	slot->mapping = WSS_MAP_IMMEDIATE;
	wss_stat_inc(slot->chan->sess, immediate_writes);
	return 0;
}

/**
 * wss_describe_region - write the data descriptor of a region into the command
 * @slot: after wss_map_region()
 * @data_out: the target reads the region; otherwise it writes it
 */
void wss_describe_region(struct wss_slot *slot, bool data_out)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	struct wss_srp_direct_buf *desc = (void *)(cmd + 1);

	if (wss_has_segments(slot) && slot->extra) {
		wss_segments_describe(slot, data_out);
		return;
	}
	cmd->buf_fmt = data_out ? WSS_SRP_DESC_DIRECT << 4 : WSS_SRP_DESC_DIRECT;
	desc->va = cpu_to_be64(slot->mr->iova);
	desc->key = cpu_to_be32(slot->mr->rkey);
	desc->len = cpu_to_be32(slot->mr->length);
	slot->sge[0].length = WSS_CMD_DIRECT_BYTES;
}

/**
 * wss_describe_immediate - write the data descriptor of immediate data into the command
 * @slot: the slot
 * @bytes: length of the data
 */
void wss_describe_immediate(struct wss_slot *slot, u32 bytes)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	struct wss_srp_imm_buf *desc = (void *)(cmd + 1);

	cmd->buf_fmt = WSS_SRP_DESC_IMM << 4;
	desc->len = cpu_to_be32(bytes);
	slot->sge[0].length = WSS_SRP_IMM_DATA_OFFSET;
}
