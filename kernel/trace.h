/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: one per stage of a request, and one per event of a session. All stages of a request
 * except wss_queue show its wire tag. wss_queue and wss_map show its blk-mq tag.
 *
 *   wss_queue -> wss_map -> wss_post -> wss_response -> wss_end
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM wss

#if !defined(WSS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define WSS_TRACE_H

#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "wss.h"

TRACE_DEFINE_ENUM(WSS_CONNECTING);
TRACE_DEFINE_ENUM(WSS_LIVE);
TRACE_DEFINE_ENUM(WSS_RECOVERING);
TRACE_DEFINE_ENUM(WSS_FAILED);
TRACE_DEFINE_ENUM(WSS_REMOVING);
#define wss_show_state(state)                       \
	__print_symbolic(state,                     \
		{ WSS_CONNECTING, "connecting" },   \
		{ WSS_LIVE, "live" },               \
		{ WSS_RECOVERING, "recovering" },   \
		{ WSS_FAILED, "failed" },           \
		{ WSS_REMOVING, "removing" })

TRACE_DEFINE_ENUM(WSS_MAP_NONE);
TRACE_DEFINE_ENUM(WSS_MAP_IMMEDIATE);
TRACE_DEFINE_ENUM(WSS_MAP_REGION);
#define wss_show_mapping(mapping)                   \
	__print_symbolic(mapping,                   \
		{ WSS_MAP_NONE, "none" },           \
		{ WSS_MAP_IMMEDIATE, "immediate" }, \
		{ WSS_MAP_REGION, "region" })

TRACE_EVENT(wss_queue,
	TP_PROTO(const struct request *rq),
	TP_ARGS(rq),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, tag)
		__field(u32, op)
		__field(u64, sector)
		__field(u32, bytes)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->tag = rq->tag;
		__entry->op = (__force u32)req_op(rq);
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
	),
	TP_printk("dev=%d,%d rq_tag=%d op=%u sector=%llu bytes=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->tag, __entry->op, __entry->sector, __entry->bytes)
);

TRACE_EVENT(wss_map,
	TP_PROTO(const struct wss_slot *slot, const struct request *rq),
	TP_ARGS(slot, rq),
	TP_STRUCT__entry(
		__field(int, session)
		__field(u16, channel)
		__field(u64, tag)
		__field(int, rq_tag)
		__field(u8, mapping)
		__field(u16, nents)
	),
	TP_fast_assign(
		__entry->session = slot->chan->sess->id;
		__entry->channel = slot->chan->index;
		__entry->tag = slot->tag;
		__entry->rq_tag = rq->tag;
		__entry->mapping = slot->mapping;
		__entry->nents = slot->nents;
	),
	TP_printk("session=%d channel=%u tag=0x%llx rq_tag=%d mapping=%s segments=%u",
		  __entry->session, __entry->channel, __entry->tag, __entry->rq_tag,
		  wss_show_mapping(__entry->mapping), __entry->nents)
);

DECLARE_EVENT_CLASS(wss_slot_class,
	TP_PROTO(const struct wss_slot *slot),
	TP_ARGS(slot),
	TP_STRUCT__entry(
		__field(int, session)
		__field(u16, channel)
		__field(u64, tag)
		__field(u8, status)
		__field(u8, key)
		__field(u8, asc)
		__field(u8, ascq)
	),
	TP_fast_assign(
		__entry->session = slot->chan->sess->id;
		__entry->channel = slot->chan->index;
		__entry->tag = slot->tag;
		__entry->status = slot->sense.status;
		__entry->key = slot->sense.key;
		__entry->asc = slot->sense.asc;
		__entry->ascq = slot->sense.ascq;
	),
	TP_printk("session=%d channel=%u tag=0x%llx status=%02x sense=%x/%02x/%02x", __entry->session,
		  __entry->channel, __entry->tag, __entry->status, __entry->key, __entry->asc,
		  __entry->ascq)
);
DEFINE_EVENT(wss_slot_class, wss_post, TP_PROTO(const struct wss_slot *slot), TP_ARGS(slot));
DEFINE_EVENT(wss_slot_class, wss_response, TP_PROTO(const struct wss_slot *slot), TP_ARGS(slot));
DEFINE_EVENT(wss_slot_class, wss_end, TP_PROTO(const struct wss_slot *slot), TP_ARGS(slot));

TRACE_EVENT(wss_state,
	TP_PROTO(const struct wss_session *sess, enum wss_state from, enum wss_state to),
	TP_ARGS(sess, from, to),
	TP_STRUCT__entry(
		__field(int, session)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__entry->session = sess->id;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("session=%d %s -> %s", __entry->session, wss_show_state(__entry->from),
		  wss_show_state(__entry->to))
);

DECLARE_EVENT_CLASS(wss_text_class,
	TP_PROTO(const struct wss_session *sess, const char *text),
	TP_ARGS(sess, text),
	TP_STRUCT__entry(
		__field(int, session)
		__string(text, text)
	),
	TP_fast_assign(
		__entry->session = sess->id;
		wss_assign_str(text, text);
	),
	TP_printk("session=%d %s", __entry->session, __get_str(text))
);
/* The connection was lost; the text is the reason. */
DEFINE_EVENT(wss_text_class, wss_error,
	TP_PROTO(const struct wss_session *sess, const char *text), TP_ARGS(sess, text));
/* An attempt to reconnect failed; the text is the reason. */
DEFINE_EVENT(wss_text_class, wss_reconnect,
	TP_PROTO(const struct wss_session *sess, const char *text), TP_ARGS(sess, text));

TRACE_EVENT(wss_login,
	TP_PROTO(const struct wss_chan *chan),
	TP_ARGS(chan),
	TP_STRUCT__entry(
		__field(int, session)
		__field(u16, channel)
		__field(u32, credits)
		__field(u32, caps)
		__field(u64, epoch)
	),
	TP_fast_assign(
		__entry->session = chan->sess->id;
		__entry->channel = chan->index;
		__entry->credits = chan->granted;
		__entry->caps = chan->caps;
		__entry->epoch = chan->epoch;
	),
	TP_printk("session=%d channel=%u credits=%u caps=0x%x epoch=%llu", __entry->session,
		  __entry->channel, __entry->credits, __entry->caps, __entry->epoch)
);

TRACE_EVENT(wss_task_management,
	TP_PROTO(const struct wss_chan *chan, u8 function, u64 task, bool done),
	TP_ARGS(chan, function, task, done),
	TP_STRUCT__entry(
		__field(int, session)
		__field(u16, channel)
		__field(u8, function)
		__field(u64, task)
		__field(bool, done)
	),
	TP_fast_assign(
		__entry->session = chan->sess->id;
		__entry->channel = chan->index;
		__entry->function = function;
		__entry->task = task;
		__entry->done = done;
	),
	TP_printk("session=%d channel=%u %s task=0x%llx %s", __entry->session, __entry->channel,
		  __print_symbolic(__entry->function, { 0x01, "abort_task" }, { 0x08, "lun_reset" }),
		  __entry->task, __entry->done ? "done" : "not done")
);

#endif /* WSS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
