// SPDX-License-Identifier: GPL-2.0
/*
 * The queue pair of a channel, with its completion queue and its receives. teardown.c frees them.
 */
#include "fault.h"
#include "wss.h"

/*
 * Each command needs REG_MR, SEND and LOCAL_INV. Twice that number is reserved, because
 * unsignalled entries retire late.
 */
#define WSS_WRS_PER_SLOT 6
/*
 * Entries for the messages of enum wss_message, the marker of a drain, a spare, and the
 * control slots.
 */
#define WSS_WRS_EXTRA (5 + WSS_CONTROL_SLOTS * WSS_WRS_PER_SLOT)

static void wss_cq_event(struct ib_cq *cq, void *context)
{
	struct wss_chan *chan = context;

	irq_poll_sched(&chan->iop);
}

static void wss_cq_error(struct ib_event *event, void *context)
{
	wss_chan_break(context, ib_event_msg(event->event));
}

static void wss_qp_event(struct ib_event *event, void *context)
{
	struct wss_chan *chan = context;

	if (event->event != IB_EVENT_COMM_EST)
		wss_chan_break(chan, ib_event_msg(event->event));
}

static int wss_create_cq(struct wss_chan *chan, u32 max_send_wr)
{
	struct ib_cq_init_attr attr = {
		.cqe = min_t(int, max_send_wr + chan->nr_recvs + 2 + WSS_ENGINES * WSS_ENGINE_RECVS,
			     chan->ibdev->attrs.max_cqe),
		.comp_vector = chan->index % max(chan->ibdev->num_comp_vectors, 1),
	};
	struct ib_cq *cq = ib_create_cq(chan->ibdev, chan->polled ? NULL : wss_cq_event,
					wss_cq_error, chan, &attr);

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	chan->cq = cq;
	irq_poll_init(&chan->iop, WSS_POLL_BUDGET, wss_irq_poll);
	return 0;
}

static int wss_create_qp(struct wss_chan *chan, u32 max_send_wr)
{
	u32 max_sge = min_t(u32, 1 + WSS_IMM_SEGMENTS, chan->ibdev->attrs.max_send_sge);
	struct ib_qp_init_attr attr = {
		.event_handler = wss_qp_event,
		.qp_context = chan,
		.send_cq = chan->cq,
		.recv_cq = chan->cq,
		.cap = {
			.max_send_wr = max_send_wr,
			.max_recv_wr = chan->nr_recvs + 1, /* for the marker of a drain */
			.max_send_sge = max_sge,
			.max_recv_sge = 1,
			.max_inline_data = wss_force_no_inline ? 0 : WSS_CMD_DIRECT_BYTES,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret;

	ret = rdma_create_qp(chan->cm_id, chan->sess->pd, &attr);
	if (ret) {
		/* A device without inline sends refuses the queue pair. */
		attr.cap.max_inline_data = 0;
		ret = rdma_create_qp(chan->cm_id, chan->sess->pd, &attr);
	}
	if (ret)
		return ret;
	chan->qp = chan->cm_id->qp;
	chan->send_inline = !wss_force_no_inline &&
			    attr.cap.max_inline_data >= WSS_CMD_DIRECT_BYTES;
	chan->imm_segments = max_sge - 1;
	return 0;
}

static int wss_post_all_recvs(struct wss_chan *chan)
{
	u32 i;

	for (i = 0; i < chan->nr_recvs; i++) {
		int ret = ib_post_recv(chan->qp, &chan->recvs[i].wr, NULL);

		if (ret)
			return ret;
	}
	return 0;
}

/**
 * wss_chan_alloc - create the queue pair of a channel and post its receives
 * @chan: has its address resolved, and its session is bound to the device
 *
 * Sets the depth to what the device supports.
 *
 * Return: 0; or -errno, when wss_chans_take_down() frees what was allocated.
 */
int wss_chan_alloc(struct wss_chan *chan)
{
	struct wss_session *sess = chan->sess;
	const struct ib_device_attr *attrs = &chan->ibdev->attrs;
	u32 max_wr = attrs->max_qp_wr;
	u32 per_slot = WSS_WRS_PER_SLOT;
	u32 max_send_wr;
	int ret;

	/*
	 * REG_MR and LOCAL_INV of each further segment. They are counted once: a slot is used
	 * again only after its last LOCAL_INV, which is signalled, has retired them.
	 */
	if (!sess->opts.mlockv)
		per_slot += 2 * (WSS_SEGMENT_REGIONS - 1);
	if (max_wr < WSS_WRS_EXTRA + 3 * per_slot)
		return -EOPNOTSUPP;
	chan->depth = min_t(u32, sess->opts.queue_depth, (max_wr - WSS_WRS_EXTRA) / per_slot - 1);
	max_send_wr = per_slot * (chan->depth + 1) + WSS_WRS_EXTRA;
	chan->nr_recvs = chan->depth + WSS_CONTROL_SLOTS + WSS_RECV_EXTRA + WSS_RECV_BATCH;
	chan->lkey = sess->pd->local_dma_lkey;
	chan->lazy = sess->opts.invalidate == WSS_INVALIDATE_LAZY;

	ret = wss_create_cq(chan, max_send_wr);
	if (ret)
		return ret;
	ret = wss_create_qp(chan, max_send_wr);
	if (ret)
		return ret;
	ret = wss_recvs_alloc(chan);
	if (ret)
		return ret;
	return wss_post_all_recvs(chan);
}

/**
 * wss_chan_listen - begin to process messages
 * @chan: has taken the grants of its login (wss_take_grants()). The target may send messages as soon
 *	as the connection is established, and their meaning depends on what it granted
 */
void wss_chan_listen(struct wss_chan *chan)
{
	if (chan->polled)
		return;
	if (ib_req_notify_cq(chan->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0)
		irq_poll_sched(&chan->iop);
}
