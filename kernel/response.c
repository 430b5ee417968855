// SPDX-License-Identifier: GPL-2.0
/*
 * Messages from the target. This is the hot path, and the target is not trusted: every length, tag,
 * key and count is checked before it is used (I6). An invalid message ends the connection.
 */
#include "fault.h"
#include "log.h"
#include "trace.h"
#include "wss.h"

static void wss_give_credits(struct wss_chan *chan, s32 delta)
{
	if (unlikely(delta < 0 || delta > WSS_MAX_DEPTH + 1 ||
		     atomic_read(&chan->credits) > 2 * WSS_MAX_DEPTH)) {
		wss_chan_protocol_error(chan, "the target returned more credits than exist");
		return;
	}
	if (unlikely(!delta) || wss_fault(withhold))
		return;
	atomic_add(delta, &chan->credits);
	if (unlikely(READ_ONCE(chan->starved_since)))
		WRITE_ONCE(chan->starved_since, 0);
}

/*
 * Takes the slot of a live tag: no other context can end this command (I3). Returns NULL if no
 * slot has this tag.
 */
static struct wss_slot *wss_take_slot(struct wss_chan *chan, u32 index, u64 tag)
{
	struct wss_slot *slot;

	u32 nr_slots = smp_load_acquire(&chan->nr_slots); /* pairs with wss_slots_alloc() */

	if (unlikely(!nr_slots || index >= nr_slots + WSS_CONTROL_SLOTS))
		return NULL;
	slot = &chan->slots[index];
	if (unlikely(!tag || cmpxchg(&slot->live, tag, 0) != tag))
		return NULL;
	return slot;
}

/**
 * wss_late_work - process the responses that a fault has delayed
 * @work: late_work of their channel
 */
void wss_late_work(struct work_struct *work)
{
	struct wss_chan *chan = container_of(to_delayed_work(work), struct wss_chan, late_work);
	struct wss_slot *slot, *next;

	llist_for_each_entry_safe(slot, next, llist_del_all(&chan->late), late)
		wss_slot_put(slot, NULL);
}

/*
 * Simulates a logical unit other than 0 that does not answer an administrative command, or a LUN 0
 * that does not answer a keep-alive.
 */
static bool wss_fault_silence(struct wss_slot *slot)
{
	static const u8 lun0[8];
	const struct wss_srp_cmd *cmd = slot->cmd.data;
	bool is_lun0 = !memcmp(cmd->lun, lun0, sizeof(lun0));
	u32 which = slot->index - slot->chan->nr_slots;

	if (!(which == WSS_SLOT_ADMIN && !is_lun0 && wss_fault(silence)) &&
	    !(which == WSS_SLOT_PING && is_lun0 && wss_fault(mute)))
		return false;
	wss_stat_inc(slot->chan->sess, faults);
	WRITE_ONCE(slot->live, slot->tag);
	return true;
}

/* Stores the sense data of a response. */
static void wss_take_sense(struct wss_slot *slot, const u8 *data, u32 len)
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;

	if (wss_parse_sense(data, len, &slot->sense) && cmd->opcode == WSS_SRP_CMD)
		wss_volume_lose_write(slot->chan->sess, cmd->lun);
}

static void wss_fault_sense(struct wss_slot *slot)
{
	const struct wss_sense forced = wss_forced_sense();
	u8 data[14] = { wss_force_deferred ? 0x71 : 0x70, 0, forced.key };

	data[12] = forced.asc;
	data[13] = forced.ascq;
	slot->sense = (struct wss_sense){ .status = forced.status };
	wss_take_sense(slot, data, sizeof(data));
}

/* Returns true if the response must be processed later, or not at all. */
static bool wss_fault_answer(struct wss_slot *slot)
{
	struct wss_chan *chan = slot->chan;

	if (slot->index >= chan->nr_slots)
		return wss_fault_silence(slot);
	if (wss_fault(drop)) {
		wss_stat_inc(chan->sess, faults);
		WRITE_ONCE(slot->live, slot->tag);
		return true;
	}
	if (wss_fault(delay)) {
		wss_stat_inc(chan->sess, faults);
		llist_add(&slot->late, &chan->late);
		queue_delayed_work(wss_wq(admin), &chan->late_work, msecs_to_jiffies(wss_force_delay_ms));
		return true;
	}
	if (wss_fault(error)) {
		wss_stat_inc(chan->sess, faults);
		wss_fault_sense(slot);
	}
	return false;
}

/**
 * wss_slot_answered - process the response to a slot's command, which is in slot->sense
 * @slot: the caller has taken slot->live
 * @iob: batch of the poller
 */
void wss_slot_answered(struct wss_slot *slot, struct io_comp_batch *iob)
{
	wss_note(slot, ANSWERED);
	trace_wss_response(slot);
	if (static_branch_unlikely(&wss_faults_on) && wss_fault_answer(slot))
		return;
	wss_slot_put(slot, iob);
}

/* True for the TEST UNIT READY of a keep-alive. */
static bool wss_is_ping_command(struct wss_chan *chan, u32 index)
{
	const struct wss_srp_cmd *cmd;

	if (index != chan->nr_slots + WSS_SLOT_PING)
		return false;
	cmd = chan->slots[index].cmd.data;
	return cmd->opcode == WSS_SRP_CMD;
}

/*
 * Processes a GOOD completion, identified by the low bits of its tag. Returns false if no command
 * has this tag.
 */
static bool wss_take_good(struct wss_chan *chan, u32 index, struct io_comp_batch *iob)
{
	struct wss_slot *slot = NULL;

	/* Task management is never completed in this way: its status is in a response. */
	if (likely(chan->nr_slots && (index <= chan->nr_slots + WSS_SLOT_ADMIN || wss_is_ping_command(chan, index))))
		slot = wss_take_slot(chan, index, READ_ONCE(chan->slots[index].live));
	if (unlikely(!slot))
		return false;
	slot->sense = (struct wss_sense){};
	wss_slot_answered(slot, iob);
	return true;
}

static void wss_recv_fused(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob)
{
	u32 imm = be32_to_cpu(wc->ex.imm_data);
	u32 index = (imm >> WSS_FUSED_TAG_SHIFT) & WSS_FUSED_TAG_MASK;

	if (unlikely(!(chan->caps & WSS_CAP_FUSED_COMPLETION) || (imm & WSS_FUSED_RESERVED_MASK))) {
		wss_chan_protocol_error(chan, "fused completion that was not negotiated");
		return;
	}
	wss_give_credits(chan, (imm >> WSS_FUSED_CREDIT_SHIFT) & WSS_FUSED_CREDIT_MASK);
	if (unlikely(!wss_take_good(chan, index, iob))) {
		wss_chan_protocol_error(chan, "fused completion for an unknown command");
		return;
	}
	wss_stat_inc(chan->sess, fused_completions);
}

static void wss_recv_batch(struct wss_chan *chan, const struct wss_srp_batch_rsp *msg,
			   const struct ib_wc *wc, struct io_comp_batch *iob)
{
	const __be16 *tags = (const __be16 *)(msg + 1);
	u32 count = wc->byte_len < sizeof(*msg) ? 0 : msg->count;
	u32 i;

	if (unlikely(!(chan->caps & WSS_CAP_BATCHED_COMPLETION) || !count || msg->reserved[0] ||
		     msg->reserved[1] || wc->byte_len < sizeof(*msg) + count * sizeof(*tags) ||
		     wc->wc_flags & IB_WC_WITH_INVALIDATE)) {
		wss_chan_protocol_error(chan, "invalid batched completion");
		return;
	}
	wss_give_credits(chan, be32_to_cpu(msg->req_lim_delta));
	for (i = 0; i < count; i++) {
		if (unlikely(!wss_take_good(chan, be16_to_cpu(tags[i]), iob))) {
			wss_chan_protocol_error(chan, "batched completion for an unknown command");
			break;
		}
	}
	wss_stat_add(chan->sess, batched_completions, i);
}

/* If the target invalidated a region with its response, it must be the region of that command. */
static bool wss_remote_invalidated(struct wss_slot *slot, const struct ib_wc *wc)
{
	struct wss_session *sess = slot->chan->sess;

	if (!(wc->wc_flags & IB_WC_WITH_INVALIDATE))
		return true;
	if (unlikely(slot->mapping != WSS_MAP_REGION || wc->ex.invalidate_rkey != slot->mr->rkey))
		return false;
	slot->region_live = false;
	wss_stat_inc(sess, remote_invalidations);
	wss_stat_inc(sess, regions_released);
	return true;
}

/*
 * Parses status, sense data and residuals of an SRP_RSP. Returns false if its lengths do not fit
 * the message.
 */
static bool wss_parse_rsp(struct wss_slot *slot, const struct wss_srp_rsp *rsp, u32 bytes)
{
	u32 resp_len = be32_to_cpu(rsp->resp_data_len);
	u32 sense_len = be32_to_cpu(rsp->sense_data_len);
	u32 room = bytes - sizeof(*rsp);
	bool admin = slot->index == slot->chan->nr_slots + WSS_SLOT_ADMIN;
	bool tmf = slot->index > slot->chan->nr_slots + WSS_SLOT_ADMIN;

	slot->sense = (struct wss_sense){ .status = rsp->status };
	resp_len = rsp->flags & WSS_SRP_RSP_FLAG_RSPVALID ? resp_len : 0;
	sense_len = rsp->flags & WSS_SRP_RSP_FLAG_SNSVALID ? sense_len : 0;
	if (resp_len > room || sense_len > room - resp_len)
		return false;
	if (tmf)
		wss_slot_tmf(slot)->status =
			resp_len >= 4 ? ((const u8 *)(rsp + 1))[3] : WSS_SRP_TSK_MGMT_FAILED;
	else if (resp_len)
		slot->error = BLK_STS_IOERR;
	if (sense_len)
		wss_take_sense(slot, (const u8 *)(rsp + 1) + resp_len, sense_len);
	if (rsp->flags & (WSS_SRP_RSP_FLAG_DOOVER | WSS_SRP_RSP_FLAG_DIOVER |
			  WSS_SRP_RSP_FLAG_DOUNDER | WSS_SRP_RSP_FLAG_DIUNDER)) {
		bool in = rsp->flags & (WSS_SRP_RSP_FLAG_DIUNDER | WSS_SRP_RSP_FLAG_DIOVER);
		u32 residual = be32_to_cpu(in ? rsp->data_in_res_cnt : rsp->data_out_res_cnt);

		if (admin && (rsp->flags & WSS_SRP_RSP_FLAG_DIUNDER))
			slot->chan->sess->admin.residual = residual;
		else if (residual && (!rsp->status || slot->sense.key == WSS_KEY_RECOVERED))
			slot->error = BLK_STS_IOERR; /* GOOD, but not all data was transferred */
	}
	return true;
}

static void wss_recv_rsp(struct wss_chan *chan, const struct wss_srp_rsp *rsp,
			 const struct ib_wc *wc, struct io_comp_batch *iob)
{
	struct wss_slot *slot = NULL;
	u64 tag;

	if (likely(wc->byte_len >= sizeof(*rsp))) {
		tag = READ_ONCE(rsp->tag);
		slot = wss_take_slot(chan, tag & WSS_FUSED_TAG_MASK, tag);
	}
	if (unlikely(!slot)) {
		wss_chan_protocol_error(chan, "response to an unknown command");
		return;
	}
	if (unlikely(!wss_remote_invalidated(slot, wc) ||
		     !wss_parse_rsp(slot, rsp, wc->byte_len))) {
		/* Teardown requeues the request: its slot still holds it. */
		wss_chan_protocol_error(chan, "response that does not match its command");
		return;
	}
	wss_give_credits(chan, be32_to_cpu(rsp->req_lim_delta));
	wss_slot_answered(slot, iob);
}

static void wss_recv_keepalive(struct wss_chan *chan, const struct wss_srp_short *msg, u32 bytes,
			       struct io_comp_batch *iob)
{
	struct wss_slot *slot = NULL;

	if (bytes >= sizeof(*msg))
		slot = wss_take_slot(chan, chan->nr_slots + WSS_SLOT_PING, msg->tag);
	if (!slot) {
		wss_chan_protocol_error(chan, "unexpected keep-alive answer");
		return;
	}
	slot->sense = (struct wss_sense){};
	wss_slot_put(slot, iob);
}

/**
 * wss_send_message - send a message that is not a command
 * @chan: the channel
 * @which: its buffer; no earlier message is in flight from there
 * @message: copied
 * @bytes: up to WSS_SRP_MAX_TI_IU_LEN
 * Return: 0 or -errno.
 */
int wss_send_message(struct wss_chan *chan, enum wss_message which, const void *message, u32 bytes)
{
	struct wss_iu iu = wss_iu_at(&chan->message_ius, which);
	struct ib_sge sge = { .addr = iu.dma, .length = bytes, .lkey = chan->lkey };
	struct ib_send_wr wr = {
		.wr_id = WSS_WR_ID(WSS_WR_MESSAGE, which),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	memcpy(iu.data, message, bytes);
	ib_dma_sync_single_for_device(chan->ibdev, iu.dma, bytes, DMA_TO_DEVICE);
	return ib_post_send(chan->qp, &wr, NULL);
}

/*
 * Sends an SRP_CRED_RSP or SRP_AER_RSP. The target may have one such request outstanding. It may
 * send the next one as soon as it has received the reply. The driver may receive that request
 * before the SEND of its own reply has completed. The next reply then waits for that completion.
 */
static void wss_reply(struct wss_chan *chan, u8 opcode, u64 tag)
{
	struct wss_srp_short msg = { .opcode = opcode, .tag = tag };

	if (chan->reply_busy) {
		if (chan->reply_next)
			wss_chan_protocol_error(chan, "a second request before the first is answered");
		chan->reply_next = opcode;
		chan->reply_next_tag = tag;
		return;
	}
	chan->reply_busy = true;
	if (wss_send_message(chan, WSS_MESSAGE_REPLY, &msg, sizeof(msg)))
		wss_chan_break(chan, "a reply could not be posted");
}

/**
 * wss_reply_sent - process the completion of a reply
 * @chan: the channel; the caller is its poller
 */
void wss_reply_sent(struct wss_chan *chan)
{
	u8 next = chan->reply_next;

	chan->reply_busy = false;
	chan->reply_next = 0;
	if (next)
		wss_reply(chan, next, chan->reply_next_tag);
}

/* Both SRP_CRED_REQ and SRP_AER_REQ begin with the fields of wss_srp_cred_req. */
static void wss_recv_cred_req(struct wss_chan *chan, const struct wss_srp_cred_req *msg, u8 reply)
{
	wss_give_credits(chan, be32_to_cpu(msg->req_lim_delta));
	wss_reply(chan, reply, msg->tag);
}

/* Messages that a target may send before it has proved its identity. */
static bool wss_needs_no_proof(u8 opcode)
{
	return opcode == WSS_SRP_AUTH_CHALLENGE || opcode == WSS_SRP_AUTH_RESULT ||
	       opcode == WSS_SRP_T_LOGOUT;
}

static void wss_recv_rare(struct wss_chan *chan, const void *data, u32 bytes,
			  struct io_comp_batch *iob)
{
	const struct wss_srp_short *msg = data;

	if (!chan->auth.proven && !wss_needs_no_proof(msg->opcode)) {
		wss_chan_protocol_error(chan, "a message before the target has proved its identity");
		return;
	}
	switch (msg->opcode) {
	case WSS_SRP_KEEPALIVE_RSP:
		wss_recv_keepalive(chan, msg, bytes, iob);
		return;
	case WSS_SRP_CRED_REQ:
		if (bytes < sizeof(struct wss_srp_cred_req))
			wss_chan_protocol_error(chan, "short SRP_CRED_REQ");
		else
			wss_recv_cred_req(chan, data, WSS_SRP_CRED_RSP);
		return;
	case WSS_SRP_AER_REQ:
		/* The driver does not decode the event, which may be a change of units. */
		if (bytes < sizeof(struct wss_srp_cred_req)) {
			wss_chan_protocol_error(chan, "short SRP_AER_REQ");
			return;
		}
		wss_session_doubt(chan->sess);
		wss_recv_cred_req(chan, data, WSS_SRP_AER_RSP);
		return;
	case WSS_SRP_NOTIFY:
		if (!(chan->caps & WSS_CAP_NOTIFY)) {
			wss_chan_protocol_error(chan, "NOTIFY was not negotiated");
			return;
		}
		wss_session_changed(chan->sess);
		return;
	case WSS_SRP_CACHE_ENGINE:
		wss_recv_cache_engine(chan, data, bytes);
		return;
	case WSS_SRP_RETRY:
		wss_recv_retry(chan, data, bytes);
		return;
	case WSS_SRP_AUTH_CHALLENGE:
	case WSS_SRP_AUTH_RESULT:
		wss_auth_recv(chan, data, bytes);
		return;
	case WSS_SRP_T_LOGOUT:
		wss_session_logged_out(chan->sess, wss_logout_reason(data, bytes));
		return;
	default:
		wss_chan_protocol_error(chan, "message of unknown type");
	}
}

/**
 * wss_recv_message - process a completed receive
 * @chan: the channel
 * @wc: its completion, successful
 * @iob: batch of the poller
 */
void wss_recv_message(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob)
{
	struct wss_recv *recv = &chan->recvs[(u32)wc->wr_id];
	const u8 *data = recv->iu.data;

	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM) {
		wss_recv_fused(chan, wc, iob);
	} else {
		ib_dma_sync_single_for_cpu(chan->ibdev, recv->iu.dma, WSS_SRP_MAX_TI_IU_LEN,
					   DMA_FROM_DEVICE);
		if (unlikely(wc->byte_len < 1 || wc->byte_len > WSS_SRP_MAX_TI_IU_LEN))
			wss_chan_protocol_error(chan, "message of invalid length");
		else if (likely(data[0] == WSS_SRP_RSP))
			wss_recv_rsp(chan, recv->iu.data, wc, iob);
		else if (likely(data[0] == WSS_SRP_BATCH_RSP))
			wss_recv_batch(chan, recv->iu.data, wc, iob);
		else
			wss_recv_rare(chan, data, wc->byte_len, iob);
		ib_dma_sync_single_for_device(chan->ibdev, recv->iu.dma, WSS_SRP_MAX_TI_IU_LEN,
					      DMA_FROM_DEVICE);
	}

	if (chan->recv_last)
		chan->recv_last->next = &recv->wr;
	else
		chan->recv_first = &recv->wr;
	chan->recv_last = &recv->wr;
	chan->received++;
}
