// SPDX-License-Identifier: GPL-2.0
/*
 * blk-mq operations: the mapping of hardware queues to the session's queues, and the table of
 * callbacks.
 */
#include "mq.h"
#include "wss.h"

static int wss_mq_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct wss_session *sess = data;

	hctx->driver_data = &sess->queues[index];
	return 0;
}

static void wss_mq_map_queues(struct blk_mq_tag_set *set)
{
	struct wss_session *sess = set->driver_data;
	int type;

	for (type = 0; type < set->nr_maps; type++) {
		struct blk_mq_queue_map *map = &set->map[type];

		map->nr_queues = sess->nr_default;
		map->queue_offset = 0;
		if (type == HCTX_TYPE_POLL) {
			map->nr_queues = sess->nr_queues - sess->nr_default;
			map->queue_offset = sess->nr_default;
		}
		blk_mq_map_queues(map);
	}
}

const struct blk_mq_ops wss_mq_ops = {
	.queue_rq = wss_queue_rq,
	.queue_rqs = wss_queue_rqs,
	.commit_rqs = wss_commit_rqs,
	.complete = wss_mq_complete,
	.timeout = wss_mq_timeout,
	.poll = wss_mq_poll,
	.init_hctx = wss_mq_init_hctx,
	.map_queues = wss_mq_map_queues,
};
