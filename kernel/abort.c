// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that are not answered in time.
 *
 *   blk-mq's timer (queue/io_timeout, 30 s)
 *     -> ABORT TASK, on the channel of the command
 *     -> LOGICAL UNIT RESET, on every channel, with the disk's queue stopped
 *     -> the connection is given up, and recovery sends everything again (recovery.c)
 *
 * The next step is taken when the target says no, or nothing for WSS_TMF_TIMEOUT_MS. After a yes the
 * target will neither answer the command nor touch its memory any more (T10 SRP 6.7, and the target's
 * Q3), so that the driver ends it and sends it again, WSS_MAX_ABORTS times at most.
 *
 * A request that was answered may still wait for the machine's own device, for an invalidation or an immediate SEND. If
 * that is not completed either, the connection is given up at once.
 *
 * Order. An answer that was under way when the abort was asked for must be seen before the command is
 * reclaimed: else it would arrive as an answer to nothing. On one channel, messages and their
 * completions stay in order; that is why each channel is asked by itself.
 *
 * Units may get other numbers meanwhile. An abort or a reset that was addressed to the unit that has the LUN now says nothing
 * of a command that the unit before it executes. So commands are reclaimed only if the target has reported no other units since
 * the question went out, and only those of the disk that it was about.
 *
 * Requests for task management have slots and credits of their own: a target whose credits are all
 * with stuck commands can still be told to drop them.
 */
#include <linux/delay.h>

#include "log.h"
#include "mq.h"
#include "trace.h"
#include "wss.h"

/* More commands than this at once are a matter for a reset. */
#define WSS_VICTIMS_MAX 8

/* @disk: held by a reference; a request that ends would hold it no longer */
struct wss_victim {
	struct gendisk *disk;
	struct wss_slot *slot;
	u64 tag;
	u8 lun[8];
};

/* @incomplete: of those that were answered and wait for their own device, the first one; its slot is NULL if there is none */
struct wss_victims {
	struct wss_victim of[WSS_VICTIMS_MAX];
	unsigned int count;
	unsigned int all;
	struct wss_victim incomplete;
};

/**
 * wss_mq_timeout - blk-mq: a request has been out for too long
 * @rq: the request, started
 * Return: that its timer runs anew; what happens to it is decided in wss_abort_work().
 */
enum blk_eh_timer_return wss_mq_timeout(struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_session *sess = vol->sess;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	/* Recovery has it already. */
	if (smp_load_acquire(&sess->state) != WSS_LIVE)
		return BLK_EH_RESET_TIMER;
	wss_stat_inc(sess, timeouts);
	WRITE_ONCE(pdu->timed_out, true);
	queue_work(wss_wq(abort), &sess->abort_work);
	return BLK_EH_RESET_TIMER;
}

static bool wss_tmf_ended(struct wss_session *sess, const struct wss_tmf *tmf)
{
	/* Pairs with the release in wss_tmf_finish(). */
	return !smp_load_acquire(&tmf->busy) || READ_ONCE(sess->broken) ||
	       READ_ONCE(sess->state) == WSS_REMOVING;
}

static void wss_tmf_wait(struct wss_chan *chan, const struct wss_tmf *tmf, u32 timeout_ms)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(timeout_ms);

	if (!chan->polled) {
		wait_event_timeout(chan->sess->wait, wss_tmf_ended(chan->sess, tmf),
				   msecs_to_jiffies(timeout_ms));
		return;
	}
	while (!wss_tmf_ended(chan->sess, tmf) && time_before(jiffies, deadline)) {
		wss_chan_poll_now(chan);
		usleep_range(500, 1000);
	}
}

/* Sends one request and waits for the answer. True: the target did it. Context: sess->admin_mutex held. */
static bool wss_tmf(struct wss_chan *chan, enum wss_control_slot which, u8 function,
		    const u8 lun[8], u64 task_tag, u32 timeout_ms)
{
	struct wss_slot *slot = wss_control_slot(chan, which);
	struct wss_srp_tsk_mgmt *msg = slot->cmd.data;
	struct wss_tmf *tmf = wss_slot_tmf(slot);
	bool done;

	/* An earlier one is not answered yet: who sent it may have waited for a short time only. */
	if (smp_load_acquire(&tmf->busy))
		wss_tmf_wait(chan, tmf, timeout_ms);
	if (smp_load_acquire(&tmf->busy))
		return false;
	BUILD_BUG_ON(offsetof(struct wss_srp_tsk_mgmt, tag) != offsetof(struct wss_srp_cmd, tag));
	memset(msg, 0, sizeof(*msg));
	msg->opcode = WSS_SRP_TSK_MGMT;
	memcpy(msg->lun, lun, sizeof(msg->lun));
	msg->tsk_mgmt_func = function;
	msg->task_tag = task_tag;
	slot->nents = 0;
	slot->first_wr = &slot->send_wr;
	slot->sge[0].length = sizeof(*msg);
	/* The target may have given too few to keep one back for each. */
	if (!wss_take_control_credit(slot, WSS_COMPLETION_TIMEOUT_MS))
		return false;
	tmf->status = WSS_SRP_TSK_MGMT_FAILED;
	tmf->since = jiffies;
	tmf->busy = true;
	wss_slot_start(slot, NULL, 0);
	wss_slot_send(slot);
	wss_tmf_wait(chan, tmf, timeout_ms);
	done = !smp_load_acquire(&tmf->busy) && tmf->status == WSS_SRP_TSK_MGMT_SUCCESS;
	trace_wss_task_management(chan, function, task_tag, done);
	return done;
}

static struct wss_victim wss_victim_of(struct request *rq, struct wss_slot *slot, u64 tag)
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_victim victim = { .disk = vol->disk, .slot = slot, .tag = tag };

	get_device(disk_to_dev(vol->disk));
	memcpy(victim.lun, cmd->lun, sizeof(victim.lun));
	return victim;
}

static void wss_put_victims(struct wss_victims *victims)
{
	unsigned int i;

	for (i = 0; i < victims->count; i++)
		put_disk(victims->of[i].disk);
	if (victims->incomplete.slot)
		put_disk(victims->incomplete.disk);
}

/* Context: blk-mq holds a reference to the request. */
static bool wss_find_victim(struct request *rq, void *data)
{
	struct wss_victims *victims = data;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);
	struct wss_queue *queue = rq->mq_hctx->driver_data;
	struct wss_slot *slot = queue->slots + rq->tag;
	u64 tag = smp_load_acquire(&slot->live); /* pairs with wss_slot_start() */

	if (!READ_ONCE(pdu->timed_out))
		return true;
	if (!tag) {
		if (!victims->incomplete.slot)
			victims->incomplete = wss_victim_of(rq, slot, READ_ONCE(slot->tag));
		return true;
	}
	if (victims->count < WSS_VICTIMS_MAX)
		victims->of[victims->count++] = wss_victim_of(rq, slot, tag);
	victims->all++;
	return true;
}

/* Has the target reported nothing that makes @lun another unit than the volume's since sess->doubts was @doubts? */
static bool wss_unit_stands(struct wss_volume *vol, const u8 lun[8], int doubts)
{
	struct wss_session *sess = vol->sess;
	bool stands;

	/* The LUN changes under this mutex, and only after a doubt was counted. */
	mutex_lock(&sess->mutex);
	stands = vol->state != WSS_VOLUME_UNSURE && !memcmp(vol->id.lun, lun, sizeof(vol->id.lun)) &&
		 atomic_read(&sess->doubts) == doubts;
	mutex_unlock(&sess->mutex);
	return stands;
}

static bool wss_send_abort(struct wss_slot *slot, u64 tag, u32 timeout_ms)
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;

	return wss_tmf(slot->chan, WSS_SLOT_ABORT, WSS_SRP_TSK_ABORT_TASK, cmd->lun, tag, timeout_ms);
}

static void wss_reclaim_aborted(struct wss_slot *slot, u64 tag)
{
	if (wss_slot_reclaim(slot, tag))
		wss_stat_inc(slot->chan->sess, aborts);
}

/**
 * wss_abort_command - have the target end a command of a control slot, and end it here
 * @slot: the slot
 * @tag: of the command
 * @timeout_ms: how long to wait for the target
 *
 * Context: sleeps, at most @timeout_ms for an earlier abort, as long for this one, and a wait for a credit; sess->admin_mutex held.
 * Return: whether the target did; the slot may wait for an invalidation yet.
 */
bool wss_abort_command(struct wss_slot *slot, u64 tag, u32 timeout_ms)
{
	if (!wss_send_abort(slot, tag, timeout_ms))
		return false;
	wss_reclaim_aborted(slot, tag);
	return true;
}

static bool wss_abort_task(struct wss_session *sess, const struct wss_victim *victim)
{
	struct wss_chan *chan = victim->slot->chan;
	int doubts = atomic_read(&sess->doubts);

	if (chan->polled)
		wss_chan_poll_now(chan);
	if (READ_ONCE(victim->slot->live) != victim->tag)
		return true; /* answered after all */
	wss_warn_rl(sess, "/dev/%s: a command was not answered in time: aborting it",
		    victim->disk->disk_name);
	if (!wss_send_abort(victim->slot, victim->tag, WSS_TMF_TIMEOUT_MS) ||
	    !wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
		return false;
	wss_reclaim_aborted(victim->slot, victim->tag);
	return true;
}

/* Of one disk, what was sent on one channel to one LUN. */
struct wss_reset_unit {
	const struct wss_chan *chan;
	const struct request_queue *q;
	const u8 *lun;
};

static void wss_reclaim_of_unit(struct wss_slot *slot, u64 tag, const u8 lun[8])
{
	const struct wss_srp_cmd *cmd = slot->cmd.data;

	if (tag && !memcmp(cmd->lun, lun, sizeof(cmd->lun)))
		wss_slot_reclaim(slot, tag);
}

/* Context: blk-mq holds a reference to the request. */
static bool wss_reclaim_request(struct request *rq, void *data)
{
	const struct wss_reset_unit *unit = data;
	struct wss_queue *queue = rq->mq_hctx->driver_data;
	struct wss_slot *slot = queue->slots + rq->tag;

	if (rq->q == unit->q && queue->chan == unit->chan)
		wss_reclaim_of_unit(slot, smp_load_acquire(&slot->live) /* pairs with wss_slot_start() */, unit->lun);
	return true;
}

/*
 * All of a disk that is still out for its logical unit on a channel that has answered the reset. @ping_tag: of the keep-alive
 * that was out before the reset, or 0
 */
static void wss_reclaim_unit(struct wss_chan *chan, const struct wss_victim *victim, u64 ping_tag)
{
	struct wss_reset_unit unit = { .chan = chan, .q = victim->disk->queue, .lun = victim->lun };
	struct wss_slot *ping = wss_control_slot(chan, WSS_SLOT_PING);
	const struct wss_srp_cmd *cmd = ping->cmd.data;

	blk_mq_tagset_busy_iter(&chan->sess->tags, wss_reclaim_request, &unit);
	/* The unit has dropped a TEST UNIT READY of ours as well; that it answers the reset is answer enough. */
	if (cmd->opcode == WSS_SRP_CMD)
		wss_reclaim_of_unit(ping, ping_tag, victim->lun);
}

static bool wss_reset_channels(struct wss_session *sess, const struct wss_victim *victim, int doubts)
{
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);
		/* Unlike the disk's queue the keep-alive goes on: the next one may go out behind the reset. */
		u64 ping_tag = smp_load_acquire(&wss_control_slot(chan, WSS_SLOT_PING)->live);

		if (!wss_tmf(chan, WSS_SLOT_RESET, WSS_SRP_TSK_LUN_RESET, victim->lun, 0, WSS_TMF_TIMEOUT_MS) ||
		    !wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
			return false;
		wss_reclaim_unit(chan, victim, ping_tag);
	}
	return true;
}

/* Context: sess->admin_mutex held. */
static bool wss_reset_unit(struct wss_session *sess, const struct wss_victim *victim)
{
	struct request_queue *q = victim->disk->queue;
	int doubts = atomic_read(&sess->doubts);
	bool ok;

	/* The unit may have another number now, and its old one may be that of another disk. */
	if (!wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
		return false;
	wss_warn_rl(sess, "/dev/%s: aborting was not enough: resetting the logical unit",
		    victim->disk->disk_name);
	wss_stat_inc(sess, resets);
	/* What were sent between two of the resets would be reclaimed although it lives. */
	blk_mq_quiesce_queue(q);
	ok = wss_reset_channels(sess, victim, doubts);
	blk_mq_unquiesce_queue(q);
	return ok;
}

/* True: no command of these is with the target any more. */
static bool wss_end_victims(struct wss_session *sess, const struct wss_victims *victims)
{
	unsigned int i;

	for (i = 0; i < victims->count; i++) {
		const struct wss_victim *victim = &victims->of[i];

		if (victims->all <= WSS_VICTIMS_MAX && wss_abort_task(sess, victim))
			continue;
		/* Reset for one of the unit's commands, and all of them are gone. */
		if (READ_ONCE(victim->slot->live) == victim->tag && !wss_reset_unit(sess, victim))
			return false;
	}
	return true;
}

static bool wss_is_incomplete(const struct wss_victim *victim)
{
	const struct wss_slot *slot = victim->slot;

	return READ_ONCE(slot->rq) && READ_ONCE(slot->tag) == victim->tag && !READ_ONCE(slot->live);
}

/*
 * The target has answered, but the device has not completed the invalidation, or the immediate SEND. Perhaps it is
 * just about to; no abort could hurry it. True: it did.
 */
static bool wss_await_completion(struct wss_session *sess, const struct wss_victim *victim)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(WSS_COMPLETION_TIMEOUT_MS);

	while (victim->slot && wss_is_incomplete(victim) && !READ_ONCE(sess->broken)) {
		if (time_after(jiffies, deadline))
			return false;
		if (victim->slot->chan->polled)
			wss_chan_poll_now(victim->slot->chan);
		msleep(10);
	}
	return true;
}

/* Return: NULL, or why the connection is of no use any more. */
static const char *wss_abort_locked(struct wss_session *sess)
{
	struct wss_victims victims = {};
	const char *why = NULL;

	/* Channels are not taken down while admin_mutex is held (wss_chans_stop()). */
	if (READ_ONCE(sess->state) != WSS_LIVE || READ_ONCE(sess->broken))
		return NULL;
	blk_mq_tagset_busy_iter(&sess->tags, wss_find_victim, &victims);
	if (!wss_await_completion(sess, &victims.incomplete))
		why = "the RDMA device has not completed a work request in time";
	else if (!wss_end_victims(sess, &victims))
		why = "the target neither answers commands nor ends them";
	wss_put_victims(&victims);
	return why;
}

/**
 * wss_abort_work - see to requests that timed out
 * @work: sess->abort_work
 */
void wss_abort_work(struct work_struct *work)
{
	struct wss_session *sess = container_of(work, struct wss_session, abort_work);
	const char *why;

	mutex_lock(&sess->admin_mutex);
	why = wss_abort_locked(sess);
	mutex_unlock(&sess->admin_mutex);
	if (why)
		wss_session_error(sess, why);
}
