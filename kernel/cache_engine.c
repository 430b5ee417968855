// SPDX-License-Identifier: GPL-2.0
/*
 * Cache engines: processes, usually on other machines, that answer reads for the target and fetch the
 * data of writes (Documentation/protocol.md, 5.6).
 *
 * A channel has one queue pair to each engine that the target names, at most WSS_ENGINES. The queue
 * pair uses the session's protection domain, so that the engine can reach the regions of commands,
 * and the channel's completion queue, so that one context polls all of them. An engine WRITEs parts
 * of a read's data with the low bits of the command's tag in the immediate value. The read has ended
 * when all its bytes have arrived.
 *
 * When the target sends RETRY, because an engine will not answer a command, the queue pair to the
 * engine is flushed first. Every part that the engine wrote has then been counted, and no further
 * part can arrive. Only then is the command sent again. The same fence precedes the end of a
 * channel.
 *
 * One work item of each channel starts and closes the connections, because both can sleep. Events
 * of the connection manager create the queue pairs. On a failure, events and completions only mark
 * their connection as failed, and the work item closes it. Recovery waits for the work and for the
 * events, so their allocations may not start I/O.
 */
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/sched/mm.h>

#include "fault.h"
#include "log.h"
#include "trace.h"
#include "wss.h"

#define WSS_ENGINE_DRAIN_MS 2000

/* wr_id of a receive: the entry of its connection, and the use count of this entry. */
#define WSS_ENGINE_USE_SHIFT 8
#define WSS_ENGINE_USE_MASK (U32_MAX >> WSS_ENGINE_USE_SHIFT)
static_assert(WSS_ENGINES <= 1 << WSS_ENGINE_USE_SHIFT, "an entry has 8 bits of a wr_id");

/* Return: true if this call changed the state, false if the change is not allowed. */
static bool wss_engine_set_state(struct wss_engine *engine, enum wss_engine_state to)
{
	static const u8 next[] = {
		[WSS_ENGINE_FREE] = BIT(WSS_ENGINE_OPEN),
		[WSS_ENGINE_OPEN] = BIT(WSS_ENGINE_FAILED),
		[WSS_ENGINE_FAILED] = BIT(WSS_ENGINE_CLOSING),
		[WSS_ENGINE_CLOSING] = BIT(WSS_ENGINE_FREE),
	};
	u32 from = READ_ONCE(engine->state);

	do {
		if (!(next[from] & BIT(to)))
			return false;
	} while (!try_cmpxchg(&engine->state, &from, to));
	return true;
}

static bool wss_engine_is_open(const struct wss_engine *engine)
{
	return READ_ONCE(engine->state) == WSS_ENGINE_OPEN;
}

static void wss_engine_put(struct wss_engine *engine)
{
	if (atomic_dec_and_test(&engine->posted))
		complete(&engine->drained);
}

/* @use: use count of the connection; engine->use may already be that of the next one */
static int wss_engine_post_recv(struct wss_engine *engine, u32 use)
{
	u32 entry = engine - engine->chan->engines;
	struct ib_recv_wr wr = {
		.wr_id = WSS_WR_ID(WSS_WR_ENGINE, use << WSS_ENGINE_USE_SHIFT | entry),
	};
	int ret;

	atomic_inc(&engine->posted);
	ret = ib_post_recv(engine->qp, &wr, NULL);
	if (ret)
		wss_engine_put(engine);
	return ret;
}

static void wss_engine_failed(struct wss_engine *engine)
{
	if (wss_engine_set_state(engine, WSS_ENGINE_FAILED))
		queue_work(wss_wq(engine), &engine->chan->engine_work);
}

static int wss_engine_connect(struct wss_engine *engine)
{
	struct wss_chan *chan = engine->chan;
	struct ib_qp_init_attr attr = {
		.send_cq = chan->cq,
		.recv_cq = chan->cq,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = WSS_ENGINE_RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct rdma_conn_param param = {
		.private_data = &engine->login,
		.private_data_len = sizeof(engine->login),
		/* Engines read write data by RDMA READ. */
		.responder_resources = clamp(chan->ibdev->attrs.max_qp_rd_atom, 1, 16),
		.retry_count = 6,
		.rnr_retry_count = 7,
	};
	int ret;
	int i;

	ret = rdma_create_qp(engine->cm_id, chan->sess->pd, &attr);
	if (ret)
		return ret;
	engine->qp = engine->cm_id->qp;
	for (i = 0; i < WSS_ENGINE_RECVS; i++) {
		ret = wss_engine_post_recv(engine, engine->use);
		if (ret)
			return ret;
	}
	wss_set_ack_timeout(engine->cm_id, chan->sess->opts.ack_timeout);
	return rdma_connect_locked(engine->cm_id, &param);
}

static int wss_engine_step(struct wss_engine *engine, struct rdma_cm_event *event)
{
	struct rdma_cm_id *cm_id = engine->cm_id;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		/*
		 * Regions belong to one device, so an engine that is reached through another
		 * device cannot be used.
		 */
		return cm_id->device == engine->chan->ibdev ?
			       rdma_resolve_route(cm_id, WSS_CM_TIMEOUT_MS) : -EXDEV;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return wss_engine_connect(engine);
	case RDMA_CM_EVENT_ESTABLISHED:
		wss_stat_inc(engine->chan->sess, engines_connected);
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	default:
		return -ENOTCONN;
	}
}

/* Context: the CM's worker; sleeps. Never returns non-zero: only the work destroys the id. */
static int wss_engine_event(struct rdma_cm_id *cm_id, struct rdma_cm_event *event)
{
	unsigned int noio = memalloc_noio_save();
	struct wss_engine *engine = cm_id->context;

	if (wss_fault(event)) {
		wss_stat_inc(engine->chan->sess, faults);
		msleep(wss_force_delay_ms);
	}
	/*
	 * A failed connection must not create a queue pair. The CM holds the lock that
	 * wss_engine_quiesce() takes.
	 */
	if (wss_engine_is_open(engine) && wss_engine_step(engine, event))
		wss_engine_failed(engine);
	memalloc_noio_restore(noio);
	return 0;
}

static void wss_engine_quiesce(struct wss_engine *engine)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	/* Waits for an event that is being handled. Later events create no queue pair. */
	rdma_lock_handler(engine->cm_id);
	wss_engine_set_state(engine, WSS_ENGINE_CLOSING);
	rdma_unlock_handler(engine->cm_id);
	rdma_disconnect(engine->cm_id);
	if (engine->qp)
		ib_modify_qp(engine->qp, &attr, IB_QP_STATE);
	wss_engine_put(engine);
}

/*
 * After this, completions of the current connection are ignored, except one that a poller is
 * processing.
 */
static void wss_engine_renew(struct wss_engine *engine)
{
	WRITE_ONCE(engine->use, (engine->use + 1) & WSS_ENGINE_USE_MASK);
}

static void wss_engine_drain(struct wss_engine *engine, unsigned long deadline)
{
	unsigned long now = jiffies;
	unsigned long left = time_before(now, deadline) ? deadline - now : 0;

	if (wait_for_completion_timeout(&engine->drained, left))
		return;
	/*
	 * A queue pair that does not flush is destroyed nevertheless; its commands time out.
	 * Afterwards no poller may use the entry for this queue pair, because the entry may then
	 * belong to another connection with its own count. Pollers run in softirq, or hold a
	 * spinlock.
	 */
	wss_engine_renew(engine);
	synchronize_rcu();
}

static void wss_engine_destroy(struct wss_engine *engine)
{
	if (engine->qp) {
		rdma_destroy_qp(engine->cm_id);
		engine->qp = NULL;
	}
	rdma_destroy_id(engine->cm_id);
	engine->cm_id = NULL;
	wss_engine_set_state(engine, WSS_ENGINE_FREE);
}

/*
 * Closes the failed connections. Afterwards these engines cannot write to this machine through the
 * channel, and every part that they wrote has been counted, unless a queue pair did not flush
 * (wss_engine_drain()).
 */
static void wss_engines_close_failed(struct wss_chan *chan)
{
	bool closing[WSS_ENGINES];
	unsigned long deadline;
	int i;

	for (i = 0; i < WSS_ENGINES; i++) {
		closing[i] = READ_ONCE(chan->engines[i].state) == WSS_ENGINE_FAILED;
		if (closing[i])
			wss_engine_quiesce(&chan->engines[i]);
	}
	deadline = jiffies + msecs_to_jiffies(WSS_ENGINE_DRAIN_MS);
	for (i = 0; i < WSS_ENGINES; i++) {
		if (!closing[i])
			continue;
		wss_engine_drain(&chan->engines[i], deadline);
		wss_engine_destroy(&chan->engines[i]);
	}
}

/* Closes the connection to engine @index; WSS_CACHE_ENGINES_MAX: all connections. */
static void wss_engines_retire(struct wss_chan *chan, u32 index)
{
	int i;

	for (i = 0; i < WSS_ENGINES; i++) {
		struct wss_engine *engine = &chan->engines[i];

		if (index == WSS_CACHE_ENGINES_MAX || engine->index == index)
			wss_engine_set_state(engine, WSS_ENGINE_FAILED);
	}
	wss_engines_close_failed(chan);
}

/* Parses rdma://HOST:PORT with a numeric host. */
static int wss_engine_address(struct wss_session *sess, const char *uri, struct sockaddr_storage *addr)
{
	char text[WSS_CACHE_URI_MAX];
	char *host = text;
	char *port;

	if (strncmp(uri, "rdma://", 7))
		return -EAFNOSUPPORT;
	strscpy(text, uri + 7, sizeof(text));
	port = strrchr(text, ':');
	if (!port)
		return -EINVAL;
	*port++ = '\0';
	if (*host == '[') {
		host++;
		host[strcspn(host, "]")] = '\0';
	}
	return inet_pton_with_scope(sess->net, AF_UNSPEC, host, port, addr);
}

static void wss_engine_start(struct wss_chan *chan, const struct wss_srp_cache_engine *news)
{
	struct sockaddr_storage addr = {};
	struct wss_engine *engine = NULL;
	struct rdma_cm_id *cm_id;
	int i;

	for (i = 0; i < WSS_ENGINES && !engine; i++) {
		if (READ_ONCE(chan->engines[i].state) == WSS_ENGINE_FREE)
			engine = &chan->engines[i];
	}
	/* If an engine is unreachable, nothing is lost: the target answers the reads. */
	if (!engine || wss_engine_address(chan->sess, news->uri, &addr))
		return;
	engine->chan = chan;
	engine->index = be16_to_cpu(news->index);
	wss_engine_renew(engine);
	atomic_set(&engine->posted, 1);
	init_completion(&engine->drained);
	engine->login = (struct wss_cache_login){
		.magic = cpu_to_be32(WSS_CACHE_MAGIC),
		.version = WSS_CACHE_VERSION,
		.kind = WSS_CACHE_LOGIN_CLIENT,
		.handle = news->handle,
	};
	memcpy(engine->login.token, news->token, sizeof(engine->login.token));
	cm_id = rdma_create_id(chan->sess->net, wss_engine_event, engine, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(cm_id))
		return;
	engine->cm_id = cm_id;
	wss_engine_set_state(engine, WSS_ENGINE_OPEN);
	if (rdma_resolve_addr(cm_id, NULL, (struct sockaddr *)&addr, WSS_CM_TIMEOUT_MS))
		wss_engine_failed(engine);
}

/* Ends the commands for which the target has sent RETRY, so that their requests are sent again. */
static void wss_engines_retry(struct wss_chan *chan)
{
	u32 nr_slots = smp_load_acquire(&chan->nr_slots); /* pairs with wss_slots_alloc() */
	u32 i;

	for (i = 0; i < nr_slots; i++) {
		struct wss_slot *slot = &chan->slots[i];
		u64 tag = smp_load_acquire(&slot->again); /* pairs with wss_recv_retry() */

		if (!tag)
			continue;
		wss_engines_retire(chan, slot->again_engine);
		/*
		 * Closing takes time. The command may have ended meanwhile, and a RETRY for the
		 * slot's next command may have arrived. That RETRY has queued this work again.
		 */
		if (cmpxchg(&slot->again, tag, 0) != tag)
			continue;
		/* The command has ended meanwhile, for example because the engine had answered. */
		if (cmpxchg(&slot->live, tag, 0) != tag)
			continue;
		/* CHECK CONDITION, ABORTED COMMAND: the request is sent again. */
		slot->sense = (struct wss_sense){ .status = 0x02, .key = 0x0b };
		atomic_inc(&chan->credits);
		wss_stat_inc(chan->sess, engine_retries);
		wss_slot_put(slot, NULL);
	}
}

static bool wss_engine_next_news(struct wss_chan *chan, struct wss_srp_cache_engine *news)
{
	bool found;

	spin_lock_bh(&chan->engine_lock);
	found = chan->nr_news;
	if (found) {
		*news = chan->news[0];
		chan->nr_news--;
		memmove(&chan->news[0], &chan->news[1], chan->nr_news * sizeof(*news));
	}
	spin_unlock_bh(&chan->engine_lock);
	return found;
}

static void wss_engines_follow(struct wss_chan *chan)
{
	struct wss_srp_cache_engine news;

	wss_engines_close_failed(chan);
	while (wss_engine_next_news(chan, &news)) {
		wss_engines_retire(chan, be16_to_cpu(news.index));
		if (news.event == WSS_SRP_CACHE_ENGINE_ADDED)
			wss_engine_start(chan, &news);
	}
	wss_engines_retry(chan);
}

/**
 * wss_engine_work - create and close connections to engines
 * @work: engine_work of their channel
 */
void wss_engine_work(struct work_struct *work)
{
	struct wss_chan *chan = container_of(work, struct wss_chan, engine_work);
	unsigned int noio = memalloc_noio_save();

	/* A channel that stops meanwhile queues the work again (wss_engines_close()). */
	if (READ_ONCE(chan->state) == WSS_CHAN_UP)
		wss_engines_follow(chan);
	else
		wss_engines_retire(chan, WSS_CACHE_ENGINES_MAX);
	memalloc_noio_restore(noio);
}

/**
 * wss_recv_cache_engine - process CACHE_ENGINE: the target adds or removes an engine
 * @chan: the channel
 * @msg: the message
 * @bytes: its length
 *
 * Context: the poller.
 */
void wss_recv_cache_engine(struct wss_chan *chan, const struct wss_srp_cache_engine *msg, u32 bytes)
{
	if (!(chan->caps & WSS_CAP_CACHE) || bytes < sizeof(*msg) ||
	    be16_to_cpu(msg->index) >= WSS_CACHE_ENGINES_MAX) {
		wss_chan_protocol_error(chan, "invalid CACHE_ENGINE message");
		return;
	}
	spin_lock_bh(&chan->engine_lock);
	/*
	 * If the list is full, the engine is not used. An engine that is removed closes its
	 * connection itself.
	 */
	if (chan->nr_news < WSS_ENGINE_NEWS) {
		chan->news[chan->nr_news] = *msg;
		chan->news[chan->nr_news++].uri[WSS_CACHE_URI_MAX - 1] = '\0';
	}
	spin_unlock_bh(&chan->engine_lock);
	queue_work(wss_wq(engine), &chan->engine_work);
}

/**
 * wss_recv_retry - process RETRY: an engine will not answer a command
 * @chan: the channel
 * @msg: the message
 * @bytes: its length
 *
 * Context: the poller.
 */
void wss_recv_retry(struct wss_chan *chan, const struct wss_srp_retry *msg, u32 bytes)
{
	u32 nr_slots = smp_load_acquire(&chan->nr_slots); /* pairs with wss_slots_alloc() */
	u32 index = msg->tag & WSS_FUSED_TAG_MASK;
	struct wss_slot *slot;

	if (!(chan->caps & WSS_CAP_CACHE) || bytes < sizeof(*msg) || index >= nr_slots) {
		wss_chan_protocol_error(chan, "invalid RETRY, or RETRY for an unknown command");
		return;
	}
	slot = &chan->slots[index];
	if (READ_ONCE(slot->live) != msg->tag)
		return; /* the engine had answered */
	slot->again_engine = min_t(u32, be32_to_cpu(msg->engine), WSS_CACHE_ENGINES_MAX);
	smp_store_release(&slot->again, msg->tag); /* pairs with wss_engines_retry() */
	queue_work(wss_wq(engine), &chan->engine_work);
}

/* Counts a part of a read's data. Returns false if it belongs to no read in flight. */
static bool wss_engine_part(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob)
{
	u32 imm = be32_to_cpu(wc->ex.imm_data);
	u32 index = (imm >> WSS_FUSED_TAG_SHIFT) & WSS_FUSED_TAG_MASK;
	u32 nr_slots = smp_load_acquire(&chan->nr_slots); /* pairs with wss_slots_alloc() */
	struct wss_slot *slot;
	u64 tag;

	if (wc->opcode != IB_WC_RECV_RDMA_WITH_IMM || index >= nr_slots || (imm & 0xffff))
		return false;
	slot = &chan->slots[index];
	tag = READ_ONCE(slot->live);
	/* An empty part is invalid, because it would end a write. */
	if (!tag || !wc->byte_len || wc->byte_len > slot->expected - slot->arrived)
		return false;
	slot->arrived += wc->byte_len;
	wss_stat_add(chan->sess, engine_bytes, wc->byte_len);
	if (slot->arrived < slot->expected)
		return true;
	if (cmpxchg(&slot->live, tag, 0) != tag)
		return true; /* aborted meanwhile */
	slot->sense = (struct wss_sense){};
	atomic_inc(&chan->credits);
	wss_stat_inc(chan->sess, engine_completions);
	wss_slot_answered(slot, iob);
	return true;
}

/**
 * wss_engine_completion - process a completed receive of an engine's queue pair
 * @chan: the channel
 * @wc: its completion, of any status
 * @iob: batch of the poller
 */
void wss_engine_completion(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob)
{
	u32 id = (u32)wc->wr_id;
	u32 use = id >> WSS_ENGINE_USE_SHIFT;
	struct wss_engine *engine = &chan->engines[id & ((1 << WSS_ENGINE_USE_SHIFT) - 1)];
	bool good;

	/* The connection did not flush in time (wss_engine_drain()). */
	if (unlikely(READ_ONCE(engine->use) != use))
		return;
	good = wc->status == IB_WC_SUCCESS && wss_engine_part(chan, wc, iob);
	/*
	 * Post the next receive before wss_engine_put(), so that the count does not reach zero
	 * while the connection is open.
	 */
	if (good && wss_engine_is_open(engine) && wss_engine_post_recv(engine, use))
		good = false;
	if (!good)
		wss_engine_failed(engine);
	wss_engine_put(engine);
}

/**
 * wss_engines_close - start to close all connections, at the end of a channel
 * @chan: stopping; its completion queue is still polled
 */
void wss_engines_close(struct wss_chan *chan)
{
	queue_work(wss_wq(engine), &chan->engine_work);
}

/**
 * wss_engines_await - wait until wss_engines_close() has closed all
 * @chan: the channel
 *
 * Context: sleeps, bounded.
 */
void wss_engines_await(struct wss_chan *chan)
{
	flush_work(&chan->engine_work);
}
