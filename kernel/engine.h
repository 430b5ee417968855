/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of a channel to cache engines (cache_engine.c).
 */
#ifndef WSS_ENGINE_H
#define WSS_ENGINE_H

#include <linux/completion.h>
#include <linux/workqueue.h>
#include <rdma/rdma_cm.h>

#include "slot.h"

#define WSS_ENGINES 4	    /* connections of a channel */
#define WSS_ENGINE_RECVS 64 /* receives of a connection; the engine delays further parts */
#define WSS_ENGINE_NEWS 8

/**
 * enum wss_engine_state - life of a connection to a cache engine
 * @WSS_ENGINE_FREE: the entry is unused
 * @WSS_ENGINE_OPEN: being connected, or connected
 * @WSS_ENGINE_FAILED: lost or no longer wanted; engine_work closes it
 * @WSS_ENGINE_CLOSING: being closed: connection events do nothing
 */
enum wss_engine_state {
	WSS_ENGINE_FREE,
	WSS_ENGINE_OPEN,
	WSS_ENGINE_FAILED,
	WSS_ENGINE_CLOSING,
};

/**
 * struct wss_engine - a connection of a channel to a cache engine
 * @chan: the channel
 * @state: enum wss_engine_state; changed only by wss_engine_set_state()
 * @index: the target's number of the engine
 * @use: number of this connection, in the wr_id of its receives
 * @cm_id: NULL while free
 * @qp: on the channel's completion queue
 * @posted: outstanding receives, plus one until the connection is closed
 * @drained: completed when @posted falls to 0
 * @login: private data of the connect request
 */
struct wss_engine {
	struct wss_chan *chan;
	u32 state;
	u32 index;
	u32 use;
	struct rdma_cm_id *cm_id;
	struct ib_qp *qp;
	atomic_t posted;
	struct completion drained;
	struct wss_cache_login login;
};

/* cache_engine.c */
void wss_engine_work(struct work_struct *work);
void wss_recv_cache_engine(struct wss_chan *chan, const struct wss_srp_cache_engine *msg, u32 bytes);
void wss_recv_retry(struct wss_chan *chan, const struct wss_srp_retry *msg, u32 bytes);
void wss_engine_completion(struct wss_chan *chan, const struct ib_wc *wc, struct io_comp_batch *iob);
void wss_engines_close(struct wss_chan *chan);
void wss_engines_await(struct wss_chan *chan);

#endif /* WSS_ENGINE_H */
