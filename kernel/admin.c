// SPDX-License-Identifier: GPL-2.0
/*
 * Administrative commands: discovery, revalidation, persistent reservations.
 *
 * They do not use a disk's queue, because they are needed before one exists and while queues are
 * quiesced. Channel 0 reserves a slot and a credit for them, so that they work when I/O has used
 * all others. One command runs at a time, for a bounded time.
 *
 * If a logical unit does not answer, the connection is kept, because it serves other units as well.
 * The command is aborted, and the unit may answer later.
 */
#include <linux/delay.h>

#include "fault.h"
#include "log.h"
#include "wss.h"

/* Retries for UNIT ATTENTION after a login and for BUSY while the target starts. */
#define WSS_ADMIN_TRIES 10
#define WSS_ADMIN_RETRY_MS 100

/*
 * A command. If @list is set, its data is sent from there to the target. Otherwise its data is
 * received in sess->admin.buffer.
 */
struct wss_admin_command {
	const u8 *lun;
	const u8 *cdb;
	unsigned int cdb_len;
	const u8 *list;
	u32 bytes;
	bool of_volume; /* not sent again after a report of changed units: its unit may have moved */
};

static bool wss_admin_ended(struct wss_session *sess)
{
	/* Pairs with the release in wss_admin_finish(). */
	return smp_load_acquire(&sess->admin.done) || READ_ONCE(sess->broken) ||
	       READ_ONCE(sess->state) == WSS_REMOVING;
}

static int wss_admin_broken(struct wss_session *sess, int error, struct wss_error *err)
{
	const char *why = READ_ONCE(sess->broken);

	return wss_fail(err, error, "the connection broke%s%s", why ? ": " : "", why ?: "");
}

static void wss_admin_wait(struct wss_session *sess, u32 ms)
{
	wait_event_timeout(sess->wait, wss_admin_ended(sess), msecs_to_jiffies(ms));
}

/* The command has timed out. If an abort does not end it, the end of the connection will. */
static int wss_admin_abort(struct wss_slot *slot, u32 timeout_ms, struct wss_error *err)
{
	struct wss_session *sess = slot->chan->sess;
	bool done;

	wss_warn_rl(sess, "an administrative command was not answered within %u ms: aborting it", timeout_ms);
	if (wss_abort_command(slot, READ_ONCE(slot->tag), WSS_TMF_TIMEOUT_MS))
		wss_admin_wait(sess, WSS_COMPLETION_TIMEOUT_MS);
	done = smp_load_acquire(&sess->admin.done); /* pairs with wss_admin_finish() */
	if (done && !sess->admin.error)
		return 0; /* answered meanwhile */
	/* The device owns the buffer until the channel is torn down. */
	if (!done)
		wss_session_error(sess, "the target neither answers an administrative command nor ends it");
	return wss_fail(err, done ? -EBUSY : -ETIMEDOUT, "no answer within %u ms", timeout_ms);
}

static int wss_admin_end(struct wss_slot *slot, struct wss_error *err)
{
	struct wss_session *sess = slot->chan->sess;
	u32 timeout_ms = READ_ONCE(sess->patience_ms);

	wss_admin_wait(sess, timeout_ms);
	if (smp_load_acquire(&sess->admin.done)) /* pairs with wss_admin_finish() */
		return sess->admin.error ? wss_admin_broken(sess, sess->admin.error, err) : 0;
	if (wss_admin_ended(sess))
		return wss_admin_broken(sess, -ENOTCONN, err);
	/*
	 * From now on units get less time to answer, because requests may wait for the walk over the
	 * volumes. If the walk has ended meanwhile, it has already set a new time limit, which
	 * stays.
	 */
	if (timeout_ms < WSS_ADMIN_TIMEOUT_MS)
		cmpxchg(&sess->patience_ms, timeout_ms, WSS_ADMIN_BRIEF_MS);
	return wss_admin_abort(slot, timeout_ms, err);
}

static int wss_admin_begin(struct wss_session *sess, struct wss_slot **slot, struct wss_error *err)
{
	struct wss_chan *chan = &sess->chans[0];

	lockdep_assert_held(&sess->admin_mutex);
	if (sess->admin.busy || READ_ONCE(sess->broken) || !chan->nr_slots)
		return wss_fail(err, -ENOTCONN, "the connection is down");
	sess->admin.done = false;
	sess->admin.busy = true;
	sess->admin.error = 0;
	sess->admin.residual = 0;
	*slot = wss_control_slot(chan, WSS_SLOT_ADMIN);
	return 0;
}

static void wss_admin_fill(struct wss_session *sess, const struct wss_admin_command *command)
{
	if (command->list)
		memcpy(sess->admin.buffer, command->list, command->bytes);
	else
		memset(sess->admin.buffer, 0, command->bytes);
}

static int wss_admin_map(struct wss_slot *slot, const struct wss_admin_command *command)
{
	int ret;

	slot->nents = 0;
	slot->first_wr = &slot->send_wr;
	slot->sge[0].length = sizeof(struct wss_srp_cmd);
	if (!command->bytes)
		return 0;
	slot->dir = command->list ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	slot->nents = 1;
	sg_set_buf(slot->sgl, slot->chan->sess->admin.buffer, command->bytes);
	sg_mark_end(slot->sgl);
	ret = wss_map_region(slot);
	if (!ret)
		wss_describe_region(slot, command->list);
	return ret;
}

static int wss_admin_once(struct wss_session *sess, const struct wss_admin_command *command, struct wss_error *err)
{
	struct wss_srp_cmd *cmd;
	struct wss_slot *slot;
	int ret;

	ret = wss_admin_begin(sess, &slot, err);
	if (ret)
		return ret;
	cmd = slot->cmd.data;
	memset(cmd, 0, sizeof(*cmd));
	cmd->opcode = WSS_SRP_CMD;
	memcpy(cmd->lun, command->lun, sizeof(cmd->lun));
	memcpy(cmd->cdb, command->cdb, command->cdb_len);
	wss_admin_fill(sess, command);
	if (!wss_take_control_credit(slot, READ_ONCE(sess->patience_ms))) {
		sess->admin.busy = false;
		return READ_ONCE(sess->broken) ? wss_admin_broken(sess, -ENOTCONN, err) :
						 wss_fail(err, -EBUSY, "the target grants no credit for a command");
	}
	ret = wss_admin_map(slot, command);
	if (ret) {
		sess->admin.busy = false;
		atomic_inc(&slot->chan->credits);
		/*
		 * Do not return @ret itself: callers would mistake it for a response from the
		 * target.
		 */
		return wss_fail(err, -ENOMEM, "no memory region for an administrative command");
	}
	wss_slot_start(slot, NULL, 0);
	wss_slot_send(slot);
	return wss_admin_end(slot, err);
}

static void wss_fault_refusal(struct wss_session *sess, const u8 lun[8])
{
	static const u8 lun0[8];

	if (!memcmp(lun, lun0, sizeof(lun0)) || !wss_fault(refuse))
		return;
	wss_stat_inc(sess, faults);
	sess->admin.sense = wss_forced_sense();
}

/* Return: bytes that were not transferred, or -errno as returned by wss_admin_command(). */
static int wss_admin_run(struct wss_session *sess, const struct wss_admin_command *command, struct wss_error *err)
{
	const struct wss_sense *sense = &sess->admin.sense;
	enum wss_disposition disposition = WSS_END;
	int tries;
	int ret;

	for (tries = 0; tries < WSS_ADMIN_TRIES; tries++) {
		blk_status_t status;
		enum wss_news news;

		ret = wss_admin_once(sess, command, err);
		if (ret)
			return ret;
		wss_fault_refusal(sess, command->lun);
		wss_session_attention(sess, sense);
		disposition = wss_decide_disposition(sense, REQ_OP_DRV_IN, &status, &news);
		if (disposition == WSS_END && status == BLK_STS_OK)
			return min(sess->admin.residual, command->bytes);
		if (disposition == WSS_END)
			break;
		if (news == WSS_NEWS_UNITS && command->of_volume)
			return wss_fail(err, -ESTALE, "the target reports changed units");
		if (disposition == WSS_RETRY_LATER)
			msleep(WSS_ADMIN_RETRY_MS);
	}
	return wss_fail(err, disposition == WSS_END ? -EREMOTEIO : -EBUSY,
			"the target refused command %02x (status %02x, sense %x/%02x/%02x)", command->cdb[0],
			sense->status, sense->key, sense->asc, sense->ascq);
}

/**
 * wss_admin_command - execute a command; its data is then in sess->admin.buffer
 * @sess: its channel 0 is up
 * @lun: logical unit
 * @cdb: the command
 * @cdb_len: its length, at most 16
 * @bytes: maximum number of data bytes to receive
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded. sess->admin_mutex held; the data is valid until the caller unlocks the
 * mutex.
 * Return: bytes received, or -errno; -EREMOTEIO: the target rejected the command, see
 * sess->admin.sense; -EBUSY: it may answer later.
 */
int wss_admin_command(struct wss_session *sess, const u8 lun[8], const u8 *cdb,
		      unsigned int cdb_len, u32 bytes, struct wss_error *err)
{
	const struct wss_admin_command command = { lun, cdb, cdb_len, NULL, bytes, false };
	int ret = wss_admin_run(sess, &command, err);

	return ret < 0 ? ret : bytes - ret;
}

/**
 * wss_admin_on_volume - execute a command on a volume, with or without a parameter list
 * @sess: its channel 0 is up
 * @lun: logical unit, identified as the volume's
 * @cdb: the command
 * @cdb_len: its length, at most 16
 * @list: the parameter list; NULL: data is received in sess->admin.buffer
 * @bytes: length of the list or maximum number of data bytes to receive, at most WSS_ADMIN_BYTES
 * @err: the reason for a failure
 *
 * Context: as wss_admin_command().
 * Return: bytes transferred, or -errno as returned by wss_admin_command(); -ESTALE: the target
 * reports changed units, so the volume must be identified again.
 */
int wss_admin_on_volume(struct wss_session *sess, const u8 lun[8], const u8 *cdb, unsigned int cdb_len,
			const u8 *list, u32 bytes, struct wss_error *err)
{
	const struct wss_admin_command command = { lun, cdb, cdb_len, list, bytes, true };
	int ret = wss_admin_run(sess, &command, err);

	return ret < 0 ? ret : bytes - ret;
}

/**
 * wss_log_out - send SRP_I_LOGOUT to the target
 * @sess: its state is REMOVING, and the queues of its volumes are quiesced
 *
 * The target answers by closing the connection. The driver waits for this for a short time, but
 * does not depend on it.
 *
 * Context: sleeps, at most WSS_LOGOUT_TIMEOUT_MS.
 */
void wss_log_out(struct wss_session *sess)
{
	struct wss_slot *slot;
	struct wss_error err;

	mutex_lock(&sess->admin_mutex);
	if (!wss_admin_begin(sess, &slot, &err)) {
		wss_slot_fill_short(slot, WSS_SRP_I_LOGOUT);
		wss_slot_start(slot, NULL, 0);
		wss_slot_send(slot);
		wait_event_timeout(sess->wait, READ_ONCE(sess->broken),
				   msecs_to_jiffies(WSS_LOGOUT_TIMEOUT_MS));
	}
	mutex_unlock(&sess->admin_mutex);
}
