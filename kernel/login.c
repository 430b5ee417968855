// SPDX-License-Identifier: GPL-2.0
/*
 * The SRP login of a channel: what the driver requests, what the target grants or why it refuses,
 * and whether it has fenced the previous login of the session.
 */
#include "fault.h"
#include "wss.h"

/* One credit for I/O, and one reserved for control slots. */
#define WSS_LEAST_CREDITS 2U

/*
 * Length of the longest command that this session may send: with immediate data or, with mlockv=off,
 * with a list of descriptors. Without either, 64 bytes after the offset of immediate data are enough
 * for a command with one descriptor.
 */
static u32 wss_longest_command(const struct wss_session *sess)
{
	u32 bytes = WSS_SRP_IMM_DATA_OFFSET + max(sess->request_imm, 64U);

	return sess->opts.mlockv ? bytes : max(bytes, (u32)WSS_CMD_SEGMENTS_BYTES);
}

/**
 * wss_fill_login - compose the LOGIN_REQ of a channel
 * @chan: the channel; keeps a copy for the proofs (auth.c)
 * @req: the request
 */
void wss_fill_login(struct wss_chan *chan, struct wss_srp_login_req *req)
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
	if (sess->request_imm) {
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

/**
 * wss_reject_reason - describe a refused login
 * @reason: enum wss_srp_rej_reason
 * Return: a constant string.
 */
const char *wss_reject_reason(u32 reason)
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

/**
 * wss_take_grants - store what the target granted
 * @chan: the channel
 * @rsp: the response. The target has chosen every number in it, so each is bounded (I6)
 * Return: 0; or -errno. chan->connect_error may state the reason.
 */
int wss_take_grants(struct wss_chan *chan, const struct wss_srp_login_rsp *rsp)
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
	WRITE_ONCE(chan->starved_since, 0);
	chan->max_imm = 0;
	if ((rsp->rsp_flags & WSS_SRP_LOGIN_RSP_IMMED_SUPP) && iu_len > WSS_SRP_IMM_DATA_OFFSET)
		chan->max_imm = min(iu_len - WSS_SRP_IMM_DATA_OFFSET, chan->sess->request_imm);
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

/**
 * wss_check_epoch - the initiator's half of fencing
 * @sess: its channels are logged in
 * @err: the reason for a failure
 *
 * The target ends the old session, its writes included, before it accepts a new login, and gives the
 * new session a new epoch. If the epoch is the old one, or differs between channels, the target has
 * not fenced the old session.
 *
 * Return: 0 or -EPROTO.
 */
int wss_check_epoch(struct wss_session *sess, struct wss_error *err)
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
