/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Callbacks of blk-mq (mq.c), by the file that defines them.
 */
#ifndef WSS_MQ_H
#define WSS_MQ_H

#include "compat.h"
#include "slot.h"

/* submit.c */
blk_status_t wss_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd);
void wss_queue_rqs(WSS_RQ_LIST *rqlist);
void wss_commit_rqs(struct blk_mq_hw_ctx *hctx);

/* end.c */
void wss_mq_complete(struct request *rq);

/* poll.c */
int wss_mq_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob);

/* abort.c */
enum blk_eh_timer_return wss_mq_timeout(struct request *rq);

#endif /* WSS_MQ_H */
