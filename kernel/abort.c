// SPDX-License-Identifier: GPL-2.0
/*
 * Handling of commands that the target does not answer in time.
 *
 *   blk-mq's timer (queue/io_timeout, 30 s)
 *     -> ABORT TASK, on the channel of the command
 *     -> LOGICAL UNIT RESET, on every channel, with the disk's queue quiesced
 *     -> the connection is given up, and recovery sends everything again (recovery.c)
 *
 * The driver takes the next step when the target rejects the current one, or does not respond for
 * WSS_TMF_TIMEOUT_MS. A target that has executed an abort or a reset neither answers the command nor
 * accesses its memory afterwards (T10 SRP 6.7, and the target's Q3). The driver then ends the command
 * and sends it again, at most WSS_MAX_ABORTS times.
 *
 * A request that was answered may still wait for the machine's own RDMA device: for an invalidation
 * or an immediate SEND. If the device does not complete it within WSS_COMPLETION_TIMEOUT_MS, the
 * driver gives up the connection without an abort.
 *
 * Order: a response that is in transit when the driver sends the abort must be processed before the
 * command is reclaimed. Otherwise it would arrive as a response to an unknown command. Messages and
 * their completions stay in order only within one channel. So each channel gets a request of its
 * own.
 *
 * LUNs: a unit may get a different LUN in the meantime. An abort or a reset then reaches the unit
 * that has the LUN now, and its success does not end a command that the previous unit executes. So
 * the driver reclaims only commands of the disk concerned, and only if the target has reported no
 * changed units since the request was sent.
 *
 * Task management requests have slots and credits of their own, so that they work when stuck
 * commands hold all other credits.
 */
#include <linux/delay.h>

#include "log.h"
#include "mq.h"
#include "trace.h"
#include "wss.h"

/* With more timed-out commands than this, the unit is reset at once. */
#define WSS_VICTIMS_MAX 8

/* @disk: holds a reference, because a request that has ended no longer holds one */
struct wss_victim {
	struct gendisk *disk;
	struct wss_slot *slot;
	u64 tag;
	u8 lun[8];
};

/*
 * @all: number of timed-out commands without a response, which may exceed @count
 * @incomplete: the first command that was answered but still waits for the device; its slot is NULL
 *	if there is none
 */
struct wss_victims {
	struct wss_victim of[WSS_VICTIMS_MAX];
	unsigned int count;
	unsigned int all;
	struct wss_victim incomplete;
};

/**
 * wss_mq_timeout - blk-mq: a request has timed out
 * @rq: the request, started
 * Return: BLK_EH_RESET_TIMER; wss_abort_work() handles the request.
 */
enum blk_eh_timer_return wss_mq_timeout(struct request *rq)
{
	struct wss_volume *vol = rq->q->queuedata;
	struct wss_session *sess = vol->sess;
	struct wss_pdu *pdu = blk_mq_rq_to_pdu(rq);

	/* Recovery already handles it. */
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

/*
 * Sends a task management request and waits for the response. Returns true if the target executed
 * it.
 * Context: sess->admin_mutex held.
 */
static bool wss_tmf(struct wss_chan *chan, enum wss_control_slot which, u8 function,
		    const u8 lun[8], u64 task_tag, u32 timeout_ms)
{
	struct wss_slot *slot = wss_control_slot(chan, which);
	struct wss_srp_tsk_mgmt *msg = slot->cmd.data;
	struct wss_tmf *tmf = wss_slot_tmf(slot);
	bool done;

	/*
	 * An earlier request may still be outstanding: its sender may have waited for a shorter
	 * time.
	 */
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
	/* The target may have granted too few credits to reserve one for each control slot. */
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

/*
 * Returns true if @lun is certainly still the volume's LUN: the volume is not unsure, and the
 * target has reported no changed units since sess->doubts had the value @doubts.
 */
static bool wss_unit_stands(struct wss_volume *vol, const u8 lun[8], int doubts)
{
	struct wss_session *sess = vol->sess;
	bool stands;

	/* The LUN changes only under this mutex. */
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
 * wss_abort_command - have the target abort a command of a control slot, and end it
 * @slot: the slot
 * @tag: the tag of the command
 * @timeout_ms: how long to wait for the target
 *
 * Context: sleeps: at most @timeout_ms for an earlier abort, the same for this one, and at most
 * WSS_COMPLETION_TIMEOUT_MS for a credit. sess->admin_mutex held.
 * Return: true if the target executed the abort; the slot may still wait for an invalidation.
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
		return true; /* answered meanwhile */
	wss_warn_rl(sess, "/dev/%s: a command was not answered in time: aborting it",
		    victim->disk->disk_name);
	if (!wss_send_abort(victim->slot, victim->tag, WSS_TMF_TIMEOUT_MS) ||
	    !wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
		return false;
	wss_reclaim_aborted(victim->slot, victim->tag);
	return true;
}

/* Selects the commands that one disk has sent to one LUN on one channel. */
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
 * Reclaims the commands that a disk has sent to its logical unit, on a channel where the reset
 * succeeded. @ping_tag: tag of the keep-alive that was outstanding before the reset, or 0
 */
static void wss_reclaim_unit(struct wss_chan *chan, const struct wss_victim *victim, u64 ping_tag)
{
	struct wss_reset_unit unit = { .chan = chan, .q = victim->disk->queue, .lun = victim->lun };
	struct wss_slot *ping = wss_control_slot(chan, WSS_SLOT_PING);
	const struct wss_srp_cmd *cmd = ping->cmd.data;

	blk_mq_tagset_busy_iter(&chan->sess->tags, wss_reclaim_request, &unit);
	/*
	 * The reset also ended a TEST UNIT READY of the keep-alive. The response to the reset is a
	 * sufficient sign of life.
	 */
	if (cmd->opcode == WSS_SRP_CMD)
		wss_reclaim_of_unit(ping, ping_tag, victim->lun);
}

static bool wss_reset_channels(struct wss_session *sess, const struct wss_victim *victim, int doubts)
{
	u32 i;

	for (i = 0; i < wss_nr_chans(sess); i++) {
		struct wss_chan *chan = wss_up_chan(sess, i);
		/*
		 * Keep-alives continue, unlike the disk's queue: the next one may be sent after the
		 * reset.
		 */
		u64 ping_tag = smp_load_acquire(&wss_control_slot(chan, WSS_SLOT_PING)->live);

		if (!wss_tmf(chan, WSS_SLOT_RESET, WSS_SRP_TSK_LUN_RESET, victim->lun, 0, WSS_TMF_TIMEOUT_MS) ||
		    !wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
			return false;
		wss_reclaim_unit(chan, victim, ping_tag);
	}
	return true;
}

/* @why: for the log, a constant string. Context: sess->admin_mutex held. */
static bool wss_reset_unit(struct wss_session *sess, const struct wss_victim *victim, const char *why)
{
	struct request_queue *q = victim->disk->queue;
	int doubts = atomic_read(&sess->doubts);
	bool ok;

	/* The unit may have another LUN now, and its old LUN may belong to another disk. */
	if (!wss_unit_stands(victim->disk->private_data, victim->lun, doubts))
		return false;
	wss_warn_rl(sess, "/dev/%s: %s: resetting the logical unit", victim->disk->disk_name, why);
	wss_stat_inc(sess, resets);
	/*
	 * A command sent between the resets of two channels would be reclaimed while it is active.
	 */
	blk_mq_quiesce_queue(q);
	ok = wss_reset_channels(sess, victim, doubts);
	blk_mq_unquiesce_queue(q);
	return ok;
}

/* Returns true if the target no longer executes any of these commands. */
static bool wss_end_victims(struct wss_session *sess, const struct wss_victims *victims)
{
	bool few = victims->all <= WSS_VICTIMS_MAX;
	const char *why = few ? "ABORT TASK did not end the command" : "many commands were not answered in time";
	unsigned int i;

	for (i = 0; i < victims->count; i++) {
		const struct wss_victim *victim = &victims->of[i];

		if (few && wss_abort_task(sess, victim))
			continue;
		/* A reset for one command of the unit ends all of them. */
		if (READ_ONCE(victim->slot->live) == victim->tag && !wss_reset_unit(sess, victim, why))
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
 * Waits for the device, which has not completed the invalidation or the immediate SEND of a command
 * that the target has answered. An abort has no effect on the device. Returns true if the device
 * has completed the work request, or the connection is lost.
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

/* Return: NULL, or why the connection must be given up. */
static const char *wss_abort_locked(struct wss_session *sess)
{
	struct wss_victims victims = {};
	const char *why = NULL;

	/* While admin_mutex is held, channels are not taken down (wss_chans_stop()). */
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
 * wss_abort_work - handle the requests that have timed out
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
