// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a channel: message buffers, slots with their regions, receives. All of it is allocated
 * when the channel starts and freed when it stops, so that no I/O ever allocates.
 */
#include <linux/slab.h>

#include "wss.h"

static unsigned int wss_ius_per_page(const struct wss_iu_array *array)
{
	return PAGE_SIZE / array->iu_bytes;
}

/**
 * wss_iu_array_alloc - allocate message buffers
 * @array: filled; call wss_iu_array_free() even after a failure
 * @ibdev: device that will access them
 * @count: number of buffers
 * @iu_bytes: size of each, a power of two up to a page
 * @dir: DMA direction
 * Return: 0 or -ENOMEM.
 */
int wss_iu_array_alloc(struct wss_iu_array *array, struct ib_device *ibdev, unsigned int count,
		       unsigned int iu_bytes, enum dma_data_direction dir)
{
	unsigned int i;

	array->iu_bytes = iu_bytes;
	array->dir = dir;
	array->nr_pages = DIV_ROUND_UP(count, wss_ius_per_page(array));
	array->pages = kcalloc(array->nr_pages, sizeof(*array->pages), GFP_KERNEL);
	array->dma = kcalloc(array->nr_pages, sizeof(*array->dma), GFP_KERNEL);
	if (!array->pages || !array->dma)
		return -ENOMEM;

	for (i = 0; i < array->nr_pages; i++) {
		array->pages[i] = (void *)get_zeroed_page(GFP_KERNEL);
		if (!array->pages[i])
			return -ENOMEM;
		array->dma[i] = ib_dma_map_single(ibdev, array->pages[i], PAGE_SIZE, dir);
		if (ib_dma_mapping_error(ibdev, array->dma[i])) {
			array->dma[i] = 0;
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * wss_iu_array_free - mirror of wss_iu_array_alloc(), even if that failed or was not called
 * @array: the array; empty afterwards
 * @ibdev: the device for which it was mapped
 */
void wss_iu_array_free(struct wss_iu_array *array, struct ib_device *ibdev)
{
	unsigned int i;

	for (i = 0; array->pages && array->dma && i < array->nr_pages; i++) {
		if (array->dma[i])
			ib_dma_unmap_single(ibdev, array->dma[i], PAGE_SIZE, array->dir);
		free_page((unsigned long)array->pages[i]);
	}
	kfree(array->dma);
	kfree(array->pages);
	memset(array, 0, sizeof(*array));
}

/**
 * wss_iu_at - get one buffer
 * @array: the array
 * @index: index of the buffer
 * Return: its address and DMA address.
 */
struct wss_iu wss_iu_at(const struct wss_iu_array *array, unsigned int index)
{
	unsigned int page = index / wss_ius_per_page(array);
	unsigned int offset = index % wss_ius_per_page(array) * array->iu_bytes;

	return (struct wss_iu){ .data = array->pages[page] + offset,
				.dma = array->dma[page] + offset };
}

static void wss_slot_init(struct wss_chan *chan, unsigned int index)
{
	struct wss_slot *slot = &chan->slots[index];
	struct wss_srp_cmd *cmd;

	slot->chan = chan;
	slot->index = index;
	slot->cmd = wss_iu_at(&chan->cmd_ius, index);
	cmd = slot->cmd.data;
	cmd->opcode = WSS_SRP_CMD;
	slot->sgl = &chan->sgl[index * chan->sess->device_limits.segments];
	sg_init_table(slot->sgl, chan->sess->device_limits.segments);

	slot->sge[0].addr = chan->send_inline ? (uintptr_t)slot->cmd.data : slot->cmd.dma;
	slot->sge[0].lkey = chan->lkey;
	slot->send_wr.opcode = IB_WR_SEND;
	slot->send_wr.sg_list = slot->sge;
	slot->reg_wr.wr.opcode = IB_WR_REG_MR;
	slot->reg_wr.wr.wr_id = WSS_WR_ID(WSS_WR_REG, index);
	slot->reg_wr.wr.next = &slot->send_wr;
	slot->reg_wr.mr = slot->mr;
	slot->inv_wr.opcode = IB_WR_LOCAL_INV;
	slot->inv_wr.wr_id = WSS_WR_ID(WSS_WR_INV, index);
}

/**
 * wss_slots_alloc - allocate the slots of a channel, each with its region
 * @chan: logged in; chan->banks is set; each bank has sess->tag_depth slots
 * Return: 0 or -errno; call wss_slots_free() even after a failure.
 */
int wss_slots_alloc(struct wss_chan *chan)
{
	struct wss_session *sess = chan->sess;
	unsigned int count = sess->tag_depth * chan->banks + WSS_CONTROL_SLOTS;
	int node = ibdev_to_node(chan->ibdev);
	enum ib_mr_type type = sess->device_limits.gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG;
	unsigned int i;
	int ret;

	ret = wss_iu_array_alloc(&chan->cmd_ius, chan->ibdev, count,
				 sess->opts.mlockv ? WSS_CMD_IU_BYTES : WSS_CMD_IU_SEGMENTS_BYTES,
				 DMA_TO_DEVICE);
	if (ret)
		return ret;
	chan->slots = kvmalloc_node(array_size(count, sizeof(*chan->slots)), GFP_KERNEL | __GFP_ZERO, node);
	chan->sgl = kvmalloc_node(array3_size(count, sess->device_limits.segments, sizeof(*chan->sgl)),
				  GFP_KERNEL | __GFP_ZERO, node);
	if (!chan->slots || !chan->sgl)
		return -ENOMEM;
	chan->slot_count = count;

	for (i = 0; i < count; i++) {
		/* One page more than segments, because data need not begin at a page boundary. */
		struct ib_mr *mr = ib_alloc_mr(sess->pd, type, sess->device_limits.segments + 1);

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		chan->slots[i].mr = mr;
		wss_slot_init(chan, i);
		if (i < count - WSS_CONTROL_SLOTS)
			ret = wss_segments_alloc(&chan->slots[i]);
		if (ret)
			return ret;
	}
	/* From here on, responses find their slots. */
	smp_store_release(&chan->nr_slots, count - WSS_CONTROL_SLOTS);
	return 0;
}

/**
 * wss_slots_free - mirror of wss_slots_alloc()
 * @chan: its queue pair is destroyed, so that the peer cannot reach a region of a slot
 */
void wss_slots_free(struct wss_chan *chan)
{
	unsigned int i;

	for (i = 0; i < chan->slot_count; i++) {
		wss_segments_free(&chan->slots[i]);
		if (chan->slots[i].mr)
			ib_dereg_mr(chan->slots[i].mr);
		if (chan->slots[i].region_live)
			wss_stat_inc(chan->sess, regions_released);
	}
	kvfree(chan->sgl);
	kvfree(chan->slots);
	chan->sgl = NULL;
	chan->slots = NULL;
	chan->slot_count = 0;
	chan->nr_slots = 0;
	wss_iu_array_free(&chan->cmd_ius, chan->ibdev);
}

/**
 * wss_recvs_alloc - allocate the receives of a channel, and the buffers of enum wss_message
 * @chan: nr_recvs and ibdev are set
 * Return: 0 or -ENOMEM; call wss_recvs_free() even after a failure.
 */
int wss_recvs_alloc(struct wss_chan *chan)
{
	unsigned int i;
	int ret;

	ret = wss_iu_array_alloc(&chan->recv_ius, chan->ibdev, chan->nr_recvs,
				 WSS_SRP_MAX_TI_IU_LEN, DMA_FROM_DEVICE);
	if (ret)
		return ret;
	ret = wss_iu_array_alloc(&chan->message_ius, chan->ibdev, WSS_MESSAGES, WSS_SRP_MAX_TI_IU_LEN,
				 DMA_TO_DEVICE);
	if (ret)
		return ret;
	chan->recvs = kvmalloc_node(array_size(chan->nr_recvs, sizeof(*chan->recvs)),
				    GFP_KERNEL | __GFP_ZERO, ibdev_to_node(chan->ibdev));
	if (!chan->recvs)
		return -ENOMEM;

	for (i = 0; i < chan->nr_recvs; i++) {
		struct wss_recv *recv = &chan->recvs[i];

		recv->iu = wss_iu_at(&chan->recv_ius, i);
		recv->sge.addr = recv->iu.dma;
		recv->sge.length = WSS_SRP_MAX_TI_IU_LEN;
		recv->sge.lkey = chan->lkey;
		recv->wr.wr_id = WSS_WR_ID(WSS_WR_RECV, i);
		recv->wr.sg_list = &recv->sge;
		recv->wr.num_sge = 1;
	}
	return 0;
}

/**
 * wss_recvs_free - mirror of wss_recvs_alloc()
 * @chan: its queue pair is destroyed
 */
void wss_recvs_free(struct wss_chan *chan)
{
	kvfree(chan->recvs);
	chan->recvs = NULL;
	wss_iu_array_free(&chan->message_ius, chan->ibdev);
	wss_iu_array_free(&chan->recv_ius, chan->ibdev);
}
