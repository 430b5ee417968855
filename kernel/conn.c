// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: from an address to a logged-in queue pair, and back.
 *
 * wss_chans_start() connects channel 0, which opens the session on the target (MULTICHAN_SINGLE),
 * and then the others at once, which join it (MULTICHAN_MULTI). A target may grant fewer channels
 * than requested, and a different number after a reconnection. A channel then serves several
 * hardware queues, with separate slots for each. The slots are therefore allocated last.
 *
 * The RDMA/CM event that ends a step of a connection starts the next one. The caller sleeps until
 * every channel has connected or failed. wss_chans_take_down() frees the resources of a channel in
 * any state (teardown.c).
 */
#include <linux/delay.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "fault.h"
#include "log.h"
#include "trace.h"
#include "wss.h"

/* REG_MR, SEND, LOCAL_INV per command; twice that, because unsignalled entries retire late. */
#define WSS_WRS_PER_SLOT 6
/* The messages of enum wss_message, the marker of a drain and a spare; and the control slots. */
#define WSS_WRS_EXTRA (5 + WSS_CONTROL_SLOTS * WSS_WRS_PER_SLOT)
/* One for I/O, and one reserved for control slots. */
#define WSS_LEAST_CREDITS 2U
/* Maximum number of attempts after the peer rejects one as stale (wss_first_chan_start()). */
#define WSS_STALE_MAX 16

static int wss_connect_failed(struct wss_chan *chan, int status)
{
	chan->connect_status = status;
	smp_store_release(&chan->connect_done, true); /* pairs with wss_chans_settled() */
	wake_up_all(&chan->sess->wait);
	return 0;
}

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

/*
 * Begins to process messages. The target may send some as soon as the connection is established, and
 * their meaning depends on what it granted. So the driver first takes the grants of the login.
 */
static void wss_chan_listen(struct wss_chan *chan)
{
	if (chan->polled)
		return;
	if (ib_req_notify_cq(chan->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0)
		irq_poll_sched(&chan->iop);
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

static int wss_chan_alloc(struct wss_chan *chan)
{
	struct wss_session *sess = chan->sess;
	const struct ib_device_attr *attrs = &chan->ibdev->attrs;
	u32 max_wr = attrs->max_qp_wr;
	u32 per_slot = WSS_WRS_PER_SLOT;
	u32 max_send_wr;
	int ret;

	/*
	 * REG_MR and LOCAL_INV of each further segment, once: a slot is used again only after its
	 * last LOCAL_INV, which is signalled, has retired them.
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

/*
 * Bytes that can be mapped for a device at once: a bounce buffer or an IOMMU may accept less than
 * one request transfers.
 */
static u32 wss_max_mapping(struct ib_device *ibdev)
{
	/* A software device does not use DMA. */
	size_t bytes = ibdev->dma_device ? dma_max_mapping_size(ibdev->dma_device) : SIZE_MAX;

	bytes = min_t(size_t, bytes, ib_dma_max_seg_size(ibdev));
	if (wss_force_mapping)
		bytes = min_t(size_t, bytes, wss_force_mapping);
	return min_t(size_t, bytes, UINT_MAX);
}

static void wss_measure_device(const struct wss_session *sess, struct ib_device *ibdev,
			       struct wss_device_limits *limits)
{
	u32 pages = ibdev->attrs.max_fast_reg_page_list_len;
	u32 most = sess->opts.mlockv ? WSS_MAX_SEGMENTS : WSS_SEGMENT_REGIONS;

	/* One page more than segments, because data need not begin at a page boundary. */
	limits->segments = clamp_t(u32, pages, 2, most + 1) - 1;
	if (wss_force_segments)
		limits->segments = min(limits->segments, wss_force_segments);
	limits->mapping = min(wss_max_mapping(ibdev), limits->segments * SZ_4K);
	limits->gaps = sess->opts.mlockv && (ibdev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG);
}

/*
 * The disks have the limits of the session's first device, and requests of that size may be
 * waiting. The session can therefore not use a device with lower limits. With a device of higher
 * limits, it still uses only those of the first one.
 */
static int wss_check_device(struct wss_session *sess, struct ib_device *ibdev, struct wss_error *err)
{
	const struct wss_device_limits *wanted = &sess->device_limits;
	struct wss_device_limits limits;

	wss_measure_device(sess, ibdev, &limits);
	if (!sess->tags_ready)
		sess->device_limits = limits;
	if (limits.segments < wanted->segments)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s registers %u segments at once, the session's disks need %u: unmap them and map them again to use it",
				dev_name(&ibdev->dev), limits.segments, wanted->segments);
	if (limits.mapping < wanted->mapping)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s maps %u bytes at once, the session's disks need %u: unmap them and map them again to use it",
				dev_name(&ibdev->dev), limits.mapping, wanted->mapping);
	if (!limits.gaps && wanted->gaps)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s cannot register memory with gaps, which the session's disks need: unmap them and map them again to use it",
				dev_name(&ibdev->dev));
	return 0;
}

static int wss_session_bind(struct wss_session *sess, struct ib_device *ibdev, struct wss_error *err)
{
	struct ib_pd *pd;
	int ret;

	if (sess->wdev)
		return sess->wdev->ibdev == ibdev ? 0 : -EXDEV;
	ret = wss_check_device(sess, ibdev, err);
	if (ret)
		return ret;
	ret = wss_device_get(sess, ibdev);
	if (ret)
		return ret;
	pd = ib_alloc_pd(ibdev, 0);
	if (IS_ERR(pd)) {
		wss_device_put(sess);
		return PTR_ERR(pd);
	}
	sess->pd = pd;
	return 0;
}

static void wss_session_unbind(struct wss_session *sess)
{
	if (!sess->wdev)
		return;
	ib_dealloc_pd(sess->pd);
	sess->pd = NULL;
	wss_device_put(sess);
}

static int wss_on_addr_resolved(struct wss_chan *chan)
{
	struct ib_device *ibdev = chan->cm_id->device;
	int ret = wss_session_bind(chan->sess, ibdev, &chan->connect_error);

	if (ret) {
		if (!chan->connect_error.text[0])
			wss_fail(&chan->connect_error, ret, "RDMA device %s cannot be used: %s",
				 dev_name(&ibdev->dev), wss_reason(ret));
		return wss_connect_failed(chan, ret);
	}
	chan->ibdev = ibdev;
	ret = wss_chan_alloc(chan);
	if (ret) {
		wss_fail(&chan->connect_error, ret,
			 "no queue pair of depth %u on %s (%s); try a smaller queue_depth= or queues=",
			 chan->depth, dev_name(&ibdev->dev), wss_reason(ret));
		return wss_connect_failed(chan, ret);
	}
	ret = rdma_resolve_route(chan->cm_id, WSS_CM_TIMEOUT_MS);
	if (ret) {
		wss_fail(&chan->connect_error, ret,
			 "no RDMA route to the target (%s): use an address of the RDMA network",
			 wss_reason(ret));
		return wss_connect_failed(chan, ret);
	}
	return 0;
}

/*
 * Length of the longest command that this session may send: with immediate data or, with mlockv=off,
 * with a list of descriptors. Without either, 64 bytes after the offset of immediate data are more
 * than a command with one descriptor needs.
 */
static u32 wss_longest_command(const struct wss_session *sess)
{
	u32 bytes = WSS_SRP_IMM_DATA_OFFSET + max(sess->ask_imm, 64U);

	return sess->opts.mlockv ? bytes : max(bytes, (u32)WSS_CMD_SEGMENTS_BYTES);
}

static void wss_fill_login(struct wss_chan *chan, struct wss_srp_login_req *req)
{
	struct wss_session *sess = chan->sess;
	u32 caps = sess->opts.caps;

	/* iWARP has no RDMA WRITE WITH IMMEDIATE. */
	if (rdma_protocol_iwarp(chan->ibdev, chan->cm_id->port_num))
		caps &= ~WSS_CAP_FUSED_COMPLETION;
	/*
	 * The driver must process the completions of cache engines without a poller, even while it
	 * waits for their connections to close.
	 */
	if (chan->polled || !(caps & WSS_CAP_FUSED_COMPLETION))
		caps &= ~WSS_CAP_CACHE;
	if (!(caps & WSS_CAP_FUSED_COMPLETION))
		caps &= ~WSS_CAP_BATCHED_COMPLETION;

	memset(req, 0, sizeof(*req));
	req->opcode = WSS_SRP_LOGIN_REQ;
	req->tag = chan->index;
	req->req_it_iu_len = cpu_to_be32(wss_longest_command(sess));
	req->req_buf_fmt = cpu_to_be16(WSS_SRP_BUF_FORMAT_DIRECT | WSS_SRP_BUF_FORMAT_INDIRECT);
	req->req_flags = chan->index ? WSS_SRP_MULTICHAN_MULTI : WSS_SRP_MULTICHAN_SINGLE;
	if (sess->ask_imm) {
		req->req_flags |= WSS_SRP_IMMED_REQUESTED;
		req->imm_data_offset = cpu_to_be16(WSS_SRP_IMM_DATA_OFFSET);
	}
	/*
	 * The identifier does not depend on the RDMA device. The target uses it to fence the
	 * session's previous login, whichever path that login used.
	 */
	memcpy(req->initiator_port_id, sess->initiator_port_id, sizeof(req->initiator_port_id));
	put_unaligned_be64(sess->opts.id_ext, req->target_port_id);
	put_unaligned_be64(sess->opts.ioc_guid, req->target_port_id + 8);
	req->ext_magic = cpu_to_be16(WSS_EXT_MAGIC);
	if (sess->opts.key)
		caps |= WSS_CAP_AUTHENTICATE;
	req->ext_caps = cpu_to_be32(caps);
	chan->auth.login_req = *req;
}

static const char *wss_reject_reason(u32 reason)
{
	switch (reason) {
	case WSS_SRP_REJ_INSUFFICIENT_RESOURCES:
		return "the target has no resources left";
	case WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE:
		return "the target accepts no commands of that length";
	case WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL:
		return "the target has no such port (id_ext=, ioc_guid=)";
	case WSS_SRP_REJ_UNSUPPORTED_DESCRIPTOR_FMT:
		return "the target does not support direct descriptors";
	case WSS_SRP_REJ_MULTI_CHANNEL_UNSUPPORTED:
		return "the target supports only one channel";
	case WSS_SRP_REJ_CHANNEL_LIMIT_REACHED:
		return "the target has no channel left";
	default:
		return "the target refuses this initiator (access list?)";
	}
}

/**
 * wss_set_ack_timeout - apply the option ack_timeout to a queue pair of RoCE or InfiniBand
 * @cm_id: has a route but no connection yet. The CM has already derived its own timeouts from the
 *	route, so this one does not lengthen them
 * @ms: milliseconds, which are rounded up to 4.096 us * 2^n; 0 keeps the default
 */
void wss_set_ack_timeout(struct rdma_cm_id *cm_id, u32 ms)
{
	if (ms)
		rdma_set_ack_timeout(cm_id, order_base_2(DIV_ROUND_UP_ULL((u64)ms * NSEC_PER_MSEC, 4096)));
}

static int wss_on_route_resolved(struct wss_chan *chan)
{
	const struct ib_device_attr *attrs = &chan->ibdev->attrs;
	struct wss_srp_login_req req;
	struct rdma_conn_param param = {
		.private_data = &req,
		.private_data_len = sizeof(req),
		/* The target reads write data by RDMA READ: allow many at once. */
		.responder_resources = clamp(attrs->max_qp_rd_atom, 1, 128),
		.initiator_depth = clamp(attrs->max_qp_init_rd_atom, 1, 128),
		.flow_control = 1,
		/*
		 * One less than the maximum: soft RoCE retries for ever at 7 and would never
		 * detect a lost peer.
		 */
		.retry_count = 6,
		/*
		 * Retry for ever: a target that is slow to post receives is not lost.
		 * Keep-alives detect a lost one.
		 */
		.rnr_retry_count = 7,
	};
	int ret;

	if (wss_fault(reject) || (wss_force_channels && chan->index >= wss_force_channels)) {
		wss_stat_inc(chan->sess, faults);
		wss_fail(&chan->connect_error, 0, "login rejected: %s (injected fault)",
			 wss_reject_reason(WSS_SRP_REJ_CHANNEL_LIMIT_REACHED));
		return wss_connect_failed(chan, -EACCES);
	}
	wss_fill_login(chan, &req);
	wss_set_ack_timeout(chan->cm_id, chan->sess->opts.ack_timeout);
	ret = rdma_connect_locked(chan->cm_id, &param);
	if (ret) {
		wss_fail(&chan->connect_error, ret, "connect failed: %s", wss_reason(ret));
		return wss_connect_failed(chan, ret);
	}
	return 0;
}

/* Checks that the target granted what every command needs. */
static int wss_check_grants(struct wss_chan *chan, const struct wss_srp_login_rsp *rsp, u32 credits)
{
	u32 iu_len = be32_to_cpu(rsp->max_it_iu_len);
	bool mlockv = chan->sess->opts.mlockv;
	u32 least = mlockv ? WSS_CMD_DIRECT_BYTES : WSS_CMD_SEGMENTS_BYTES;
	u16 formats = WSS_SRP_BUF_FORMAT_DIRECT | (mlockv ? 0 : WSS_SRP_BUF_FORMAT_INDIRECT);

	if (credits < WSS_LEAST_CREDITS)
		return wss_fail(&chan->connect_error, -EPROTO,
				"the target grants %u credit%s per channel, the driver needs at least %u",
				credits, credits == 1 ? "" : "s", WSS_LEAST_CREDITS);
	if (iu_len < least)
		return wss_fail(&chan->connect_error, -EPROTO,
				"the target accepts commands of at most %u bytes, the driver needs %u%s",
				iu_len, least, mlockv ? "" : ": use mlockv=on");
	if ((be16_to_cpu(rsp->buf_fmt) & formats) != formats)
		return wss_fail(&chan->connect_error, -EPROTO, "the target does not support %s descriptors%s",
				mlockv ? "direct" : "direct and indirect", mlockv ? "" : ": use mlockv=on");
	return 0;
}

/* Stores what the target granted. The target chose every number, so each is bounded (I6). */
static int wss_take_grants(struct wss_chan *chan, const struct wss_srp_login_rsp *rsp)
{
	u32 credits = be32_to_cpu(rsp->req_lim_delta);
	u32 iu_len = be32_to_cpu(rsp->max_it_iu_len);
	int ret;

	if (rsp->opcode != WSS_SRP_LOGIN_RSP || credits > INT_MAX / 2)
		return -EPROTO;
	if (wss_force_credits)
		credits = min(credits, wss_force_credits);
	ret = wss_check_grants(chan, rsp, credits);
	if (ret)
		return ret;

	chan->granted = min_t(u32, credits, chan->depth + WSS_CONTROL_SLOTS);
	/*
	 * Control slots must be able to send when I/O has used all other credits
	 * (wss_take_control_credit()).
	 */
	chan->reserved = min_t(u32, WSS_CONTROL_SLOTS, (chan->granted + 1) / 2);
	atomic_set(&chan->credits, chan->granted - chan->reserved);
	chan->max_imm = 0;
	if ((rsp->rsp_flags & WSS_SRP_LOGIN_RSP_IMMED_SUPP) && iu_len > WSS_SRP_IMM_DATA_OFFSET)
		chan->max_imm = min(iu_len - WSS_SRP_IMM_DATA_OFFSET, chan->sess->ask_imm);
	chan->caps = 0;
	chan->epoch = 0;
	chan->keepalive_ms = 0;
	chan->boot_id = 0;
	if (be16_to_cpu(rsp->ext_magic) == WSS_EXT_MAGIC) {
		/* The target cannot grant what this channel has not requested. */
		chan->caps = be32_to_cpu(rsp->ext_caps & chan->auth.login_req.ext_caps) & ~WSS_CAP_AUTHENTICATE;
		chan->epoch = be64_to_cpu(rsp->session_epoch);
		chan->keepalive_ms = be32_to_cpu(rsp->keepalive_ms);
		chan->boot_id = be32_to_cpu(rsp->boot_id);
		chan->auth.granted = be32_to_cpu(rsp->ext_caps) & WSS_CAP_AUTHENTICATE;
		chan->auth.login_rsp = *rsp;
	}
	return 0;
}

static int wss_on_established(struct wss_chan *chan, const struct rdma_conn_param *param)
{
	int ret = -EPROTO;

	if (param->private_data && param->private_data_len >= sizeof(struct wss_srp_login_rsp))
		ret = wss_take_grants(chan, param->private_data);
	if (!ret) {
		trace_wss_login(chan);
		wss_chan_listen(chan);
	} else if (!chan->connect_error.text[0]) {
		wss_fail(&chan->connect_error, ret,
			 "the peer accepted without a valid SRP login response: check that it is an SRP target");
	}
	return wss_connect_failed(chan, ret);
}

static int wss_on_rejected(struct wss_chan *chan, struct rdma_cm_event *event)
{
	const struct wss_srp_login_rej *rej;
	u8 len = 0;
	int text_len;

	rej = rdma_consumer_reject_data(chan->cm_id, event, &len);
	if (!rej || len < offsetof(struct wss_srp_login_rej, text) ||
	    rej->opcode != WSS_SRP_LOGIN_REJ) {
		wss_fail(&chan->connect_error, 0,
			 "connection refused (%s): is a target listening there?",
			 rdma_reject_msg(chan->cm_id, event->status));
		return wss_connect_failed(chan, event->status == IB_CM_REJ_STALE_CONN ?
							-ESTALE : -ECONNREFUSED);
	}
	chan->reject_reason = be32_to_cpu(rej->reason);
	text_len = min_t(int, len - offsetof(struct wss_srp_login_rej, text), WSS_SRP_REJ_TEXT_MAX);
	text_len = strnlen(rej->text, text_len);
	wss_fail(&chan->connect_error, 0, "login rejected: %s%s%*pE",
		 wss_reject_reason(chan->reject_reason), text_len ? "; message: " : "", text_len,
		 rej->text);
	return wss_connect_failed(chan, -EACCES);
}

static int wss_on_cm_error(struct wss_chan *chan, struct rdma_cm_event *event)
{
	int status = event->status < 0 ? event->status : -EHOSTUNREACH;

	wss_fail(&chan->connect_error, status,
		 "cannot reach the target over RDMA (%s, %s): check the address and `rdma link`",
		 rdma_event_msg(event->event), wss_reason(status));
	return wss_connect_failed(chan, status);
}

static int wss_on_cm_event(struct wss_chan *chan, struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return wss_on_addr_resolved(chan);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return wss_on_route_resolved(chan);
	case RDMA_CM_EVENT_ESTABLISHED:
		return wss_on_established(chan, &event->param.conn);
	case RDMA_CM_EVENT_REJECTED:
		return wss_on_rejected(chan, event);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return wss_on_cm_error(chan, event);
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		wss_chan_break(chan, event->event == RDMA_CM_EVENT_DISCONNECTED ?
					     wss_target_closed :
					     rdma_event_msg(event->event));
		if (!chan->connect_done) {
			wss_fail(&chan->connect_error, 0, "connection lost during setup: %s",
				 rdma_event_msg(event->event));
			return wss_connect_failed(chan, -ECONNRESET);
		}
		return 0;
	default:
		return 0;
	}
}

/*
 * Context: the CM's worker; sleeps. Never returns non-zero, which would make the CM destroy the id.
 */
static int wss_cm_event(struct rdma_cm_id *cm_id, struct rdma_cm_event *event)
{
	/* Queue pairs are allocated here, and recovery waits for them. */
	unsigned int noio = memalloc_noio_save();
	struct wss_chan *chan = cm_id->context;
	int ret = 0;

	if (wss_fault(event)) {
		wss_stat_inc(chan->sess, faults);
		msleep(wss_force_delay_ms);
	}
	/* The CM holds the lock under which wss_chan_quiesce() changes the state. */
	if (chan->state == WSS_CHAN_UP)
		ret = wss_on_cm_event(chan, event);
	memalloc_noio_restore(noio);
	return ret;
}

/**
 * wss_chan_break - report that a channel, and with it its session, is lost
 * @chan: the channel
 * @why: for the log; a constant string
 *
 * Context: any.
 */
void wss_chan_break(struct wss_chan *chan, const char *why)
{
	/* Errors of a channel that is being taken down are expected. */
	if (READ_ONCE(chan->state) == WSS_CHAN_UP)
		wss_session_error(chan->sess, why);
}

/**
 * wss_chan_set_state - change a channel's state; nothing else changes it
 * @chan: the channel; only recovery and the creator or remover of its session call this, one at a
 *	time
 * @to: the state that follows the current one
 */
void wss_chan_set_state(struct wss_chan *chan, enum wss_chan_state to)
{
	static const u8 next[] = {
		[WSS_CHAN_DOWN] = WSS_CHAN_UP,
		[WSS_CHAN_UP] = WSS_CHAN_STOPPING,
		[WSS_CHAN_STOPPING] = WSS_CHAN_DOWN,
	};

	WARN_ON_ONCE(next[chan->state] != to);
	WRITE_ONCE(chan->state, to);
}

static void wss_chan_reset(struct wss_chan *chan)
{
	chan->connect_done = false;
	chan->connect_status = 0;
	chan->reject_reason = 0;
	chan->connect_error.text[0] = '\0';
	chan->auth.awaited = 0;
	chan->auth.granted = false;
	chan->auth.proven = !chan->sess->opts.key;
	chan->depth = 0;
	memset(chan->tmf, 0, sizeof(chan->tmf));
	chan->sends = 0;
	chan->pending_first = NULL;
	chan->pending_last = NULL;
	chan->inv_first = NULL;
	chan->inv_last = NULL;
	chan->recv_first = NULL;
	chan->recv_last = NULL;
	chan->received = 0;
	chan->reposted = 0;
	chan->reply_busy = false;
	chan->reply_next = 0;
}

static int wss_chan_start(struct wss_chan *chan)
{
	struct wss_session *sess = chan->sess;
	struct rdma_cm_id *cm_id;
	int ret;

	wss_chan_reset(chan);
	cm_id = rdma_create_id(sess->net, wss_cm_event, chan, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(cm_id))
		return wss_fail(&chan->connect_error, PTR_ERR(cm_id),
				"no RDMA connection identifier: %s", wss_reason(PTR_ERR(cm_id)));
	chan->cm_id = cm_id;
	wss_chan_set_state(chan, WSS_CHAN_UP);
	ret = rdma_resolve_addr(cm_id, NULL, (struct sockaddr *)&sess->opts.target,
				WSS_CM_TIMEOUT_MS);
	if (ret)
		wss_fail(&chan->connect_error, ret,
			 "no RDMA device has a route to the target (%s): check the address and `rdma link`",
			 wss_reason(ret));
	return ret;
}

static bool wss_chans_settled(struct wss_session *sess, u32 from, u32 to)
{
	u32 i;

	if (READ_ONCE(sess->state) == WSS_REMOVING)
		return true;
	for (i = from; i < to; i++) {
		if (!smp_load_acquire(&sess->chans[i].connect_done)) /* pairs with wss_connect_failed() */
			return false;
	}
	return true;
}

static int wss_chans_connect(struct wss_session *sess, u32 from, u32 to, struct wss_error *err)
{
	long left;
	u32 i;

	for (i = from; i < to; i++) {
		int ret = wss_chan_start(&sess->chans[i]);

		if (ret) {
			*err = sess->chans[i].connect_error;
			return ret;
		}
	}
	left = wait_event_interruptible_timeout(sess->wait,
						wss_chans_settled(sess, from, to) || READ_ONCE(sess->broken),
						msecs_to_jiffies(WSS_CONNECT_TIMEOUT_MS));
	if (left < 0)
		return wss_fail(err, -EINTR, "interrupted");
	if (READ_ONCE(sess->state) == WSS_REMOVING)
		return wss_fail(err, -ECANCELED, "the session is being removed");
	if (!wss_chans_settled(sess, from, to) && READ_ONCE(sess->broken))
		return wss_fail(err, -ECONNRESET, "connection lost during setup: %s", sess->broken);
	return 0;
}

static int wss_chan_outcome(struct wss_chan *chan, struct wss_error *err)
{
	if (!chan->connect_done)
		return wss_fail(err, -ETIMEDOUT,
				"no answer within %u s: is a target running there?",
				WSS_CONNECT_TIMEOUT_MS / 1000);
	if (chan->connect_status) {
		*err = chan->connect_error;
		return chan->connect_status;
	}
	return wss_auth_channel(chan, err);
}

static int wss_first_chan_start(struct wss_session *sess, struct wss_error *err)
{
	struct wss_chan *chan = &sess->chans[0];
	u32 stale = 0;
	int ret;

	for (;;) {
		ret = wss_chans_connect(sess, 0, 1, err);
		if (!ret)
			ret = wss_chan_outcome(chan, err);
		if (!ret)
			return 0;
		wss_chans_take_down(chan, 1);
		wss_session_unbind(sess);
		/*
		 * After a power cut of this machine, queue pairs get the same numbers as before. A
		 * peer that still has a connection to one of these numbers ends it and rejects the
		 * new one as stale, once for each connection.
		 */
		if (ret == -ESTALE && stale++ < WSS_STALE_MAX)
			continue;
		/*
		 * Some stock targets accept only shorter commands: request less immediate data,
		 * down to none.
		 */
		if (chan->reject_reason != WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE || !sess->ask_imm)
			return ret;
		sess->ask_imm = sess->ask_imm > 8192 ? 8192 : sess->ask_imm > 2048 ? 2048 : 0;
	}
}

/*
 * The initiator's half of fencing. The target ends the old session, its writes included, before it
 * accepts a new login, and gives the new session a new epoch. If the epoch is the old one, or
 * differs between channels, the target has not fenced the old session.
 */
static int wss_check_epoch(struct wss_session *sess, struct wss_error *err)
{
	u64 epoch = sess->chans[0].epoch;
	u32 i;

	for (i = 1; i < wss_nr_chans(sess); i++) {
		if (wss_up_chan(sess, i)->epoch != epoch)
			return wss_fail(err, -EPROTO,
					"channel %u joined another session (epoch %llu, not %llu)",
					i, wss_up_chan(sess, i)->epoch, epoch);
	}
	if (epoch && (epoch == sess->epoch || wss_fault(stale)))
		return wss_fail(err, -EPROTO,
				"the target did not end the previous session (epoch %llu)", epoch);
	sess->epoch = epoch;
	if (sess->boot_id && sess->chans[0].boot_id && sess->boot_id != sess->chans[0].boot_id)
		sess->cache_lost = true;
	if (sess->chans[0].boot_id)
		sess->boot_id = sess->chans[0].boot_id;
	return 0;
}

/*
 * Counts the channels [from, to) that are up, until the first that is not. That one and all after
 * it are taken down.
 */
static u32 wss_count_up(struct wss_session *sess, u32 from, u32 to, struct wss_error *err)
{
	u32 up = from;

	while (up < to && !wss_chan_outcome(&sess->chans[up], err))
		up++;
	if (up < to)
		wss_chans_take_down(&sess->chans[up], to - up);
	return up - from;
}

/*
 * Assigns a channel to a queue, and counts the bank of slots that the queue needs there. A polled
 * queue gets a polled channel if there is one, otherwise any.
 */
static void wss_assign_queue(struct wss_session *sess, u32 index)
{
	struct wss_queue *queue = &sess->queues[index];
	u32 nth = index % sess->up_default;

	if (index >= sess->nr_default && sess->up_polled)
		nth = sess->up_default + (index - sess->nr_default) % sess->up_polled;
	queue->chan = wss_up_chan(sess, nth);
	queue->chan->banks++;
}

static int wss_queues_start(struct wss_session *sess, struct wss_error *err)
{
	u32 depth = sess->opts.queue_depth;
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);

		depth = min3(depth, (u32)chan->depth, chan->granted - chan->reserved);
		chan->banks = 0;
	}
	if (!sess->tags_ready)
		sess->tag_depth = depth;
	for (i = 0; i < sess->nr_queues; i++)
		wss_assign_queue(sess, i);
	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);
		int ret = wss_slots_alloc(chan);

		if (ret)
			return wss_fail(err, ret, "cannot allocate %u memory regions on %s (%s); try a smaller queue_depth= or queues=",
					sess->tag_depth * chan->banks, dev_name(&chan->ibdev->dev),
					wss_reason(ret));
		chan->banks = 0;
	}
	for (i = 0; i < sess->nr_queues; i++) {
		struct wss_queue *queue = &sess->queues[i];

		queue->slots = queue->chan->slots + sess->tag_depth * queue->chan->banks++;
	}
	return 0;
}

static void wss_chans_end(struct wss_session *sess)
{
	/* The cause of this call has woken the sender of an outstanding administrative command. */
	mutex_lock(&sess->admin_mutex);
	wss_chans_take_down(sess->chans, sess->nr_queues);
	mutex_unlock(&sess->admin_mutex);
	wss_session_unbind(sess);
}

/**
 * wss_chans_start - connect and log in all channels of a session
 * @sess: the session; no channel is up
 * @err: the reason for a failure
 *
 * The first success fixes sess->tag_depth.
 *
 * Context: sleeps, for at most a few times WSS_CONNECT_TIMEOUT_MS; interruptible.
 * Return: 0; or -errno, with everything undone.
 */
int wss_chans_start(struct wss_session *sess, struct wss_error *err)
{
	struct wss_error why = {};
	int ret;

	ret = wss_first_chan_start(sess, err);
	if (ret)
		return ret;
	ret = wss_chans_connect(sess, 1, sess->nr_queues, err);
	if (ret)
		goto stop;
	sess->up_default = 1 + wss_count_up(sess, 1, sess->nr_default, &why);
	sess->up_polled = wss_count_up(sess, sess->nr_default, sess->nr_queues, &why);
	if (wss_nr_chans(sess) < sess->nr_queues)
		wss_warn(sess, "continuing with %u of %u channels: %s", wss_nr_chans(sess), sess->nr_queues,
			 why.text);
	ret = wss_check_epoch(sess, err);
	if (!ret)
		ret = wss_queues_start(sess, err);
	if (ret)
		goto stop;
	atomic_inc(&sess->logins);
	atomic_inc(&sess->changes);
	atomic_inc(&sess->doubts);
	wss_keepalive_start(sess);
	return 0;

stop:
	wss_chans_end(sess);
	return ret;
}

/**
 * wss_chans_stop - mirror of wss_chans_start(): requests in flight go back into their queues
 * @sess: not live, so that new requests do not use its channels; no earlier submitter runs
 *
 * Context: sleeps. Only the recovery work and the creator or remover of a session call this.
 */
void wss_chans_stop(struct wss_session *sess)
{
	if (!sess->up)
		return;
	wss_keepalive_stop(sess);
	wss_chans_end(sess);
}
