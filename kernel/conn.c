// SPDX-License-Identifier: GPL-2.0
/*
 * One channel: from an address to a logged-in queue pair.
 *
 * The RDMA/CM event that ends a step of a connection starts the next one: address, queue pair (qp.c),
 * route, login (login.c). The caller sleeps until the channel has connected or failed (chans.c).
 */
#include <linux/delay.h>
#include <linux/sched/mm.h>
#include <rdma/ib_cm.h>

#include "fault.h"
#include "log.h"
#include "trace.h"
#include "wss.h"

static int wss_connect_failed(struct wss_chan *chan, int status)
{
	chan->connect_status = status;
	smp_store_release(&chan->connect_done, true); /* pairs with wss_chans_settled() */
	wake_up_all(&chan->sess->wait);
	return 0;
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
		/* The target reads write data by RDMA READ, so allow many at the same time. */
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

static int wss_on_established(struct wss_chan *chan, const struct rdma_conn_param *param)
{
	int ret = -EPROTO;

	if (param->private_data && param->private_data_len >= sizeof(struct wss_srp_login_rsp))
		ret = wss_take_grants(chan, param->private_data);
	if (!ret) {
		wss_auth_bind(chan, param->qp_num);
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
	/* Queue pairs are allocated here, and recovery waits for these allocations. */
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

/**
 * wss_chan_start - begin to connect a channel
 * @chan: is down
 *
 * Sets @chan->connect_done when the attempt has ended, and wakes up @chan->sess->wait.
 *
 * Return: 0; or -errno, with the reason in @chan->connect_error.
 */
int wss_chan_start(struct wss_chan *chan)
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
