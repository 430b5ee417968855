/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Volumes: a logical unit as a disk, /dev/wssN.
 */
#ifndef WSS_VOLUME_H
#define WSS_VOLUME_H

#include <linux/blkdev.h>
#include <linux/kref.h>

#include "session.h"

/*
 * struct wss_limits - limits and features of a volume, as wss_read_limits() reads them
 */
struct wss_limits {
	u64 blocks;
	u32 block_bytes;
	u32 physical_bytes;
	u32 max_blocks;		/* per transfer, 0: no limit */
	u32 opt_blocks;
	u32 max_unmap_blocks;	/* 0: no UNMAP */
	u32 max_unmap_ranges;
	u32 unmap_granularity;
	u32 unmap_alignment;
	u64 max_same_blocks;	/* WRITE SAME(16); 0: no limit reported */
	bool unmap;
	bool write_same;
	bool write_same_unmap;	/* WRITE SAME may deallocate blocks, which then read as 0 */
	bool ndob;		/* WRITE SAME needs no data buffer */
	bool rotational;
	bool write_cache;
	bool fua;
	bool read_only;
};

/**
 * struct wss_lun_id - identity of a logical unit
 * @lun: SAM LUN as on the wire
 * @name: volume name, or `lun:N` if the target has none
 * @named: the target provided the name
 * @wwid: `naa.HEX` or the like; stable across restarts. Empty: the unit has no identifier
 */
struct wss_lun_id {
	u8 lun[8];
	char name[WSS_NAME_MAX];
	bool named;
	char wwid[WSS_WWID_MAX];
};

/**
 * enum wss_volume_state - presence of a volume's unit (revalidate.c)
 * @WSS_VOLUME_PRESENT: the target has the unit, as far as is known
 * @WSS_VOLUME_UNSURE: the target has reported changed units, so the LUN may denote a different one.
 *	Requests wait until the unit is identified
 * @WSS_VOLUME_ABSENT: the unit was not found, or could not be identified: requests wait or fail
 * @WSS_VOLUME_DEAD: the unit will not return, or the disk is being removed: requests fail; the last
 *	state
 *
 * Changes under sess->mutex, in wss_volume_set_state() and wss_volume_confirm(). The change from
 * present to unsure can happen in any context (wss_session_doubt()). All three hold sess->lock.
 */
enum wss_volume_state {
	WSS_VOLUME_PRESENT,
	WSS_VOLUME_UNSURE,
	WSS_VOLUME_ABSENT,
	WSS_VOLUME_DEAD,
};

/*
 * struct wss_volume - a logical unit as a disk
 */
struct wss_volume {
	struct wss_session *sess;	/* holds a reference */
	struct kref refs;		/* held by the added disk, by walks and removals */
	struct list_head node;		/* in sess->volumes; changes under sess->mutex and sess->lock */
	struct gendisk *disk;
	int index;
	struct wss_lun_id id;		/* id.lun changes under look_mutex, mutex, lock and quiesce */
	unsigned int looked;		/* last walk that visited it; under mutex */
	struct wss_limits limits;	/* as the target reported them (revalidate.c) */
	u8 block_shift;
	bool no_write_same;		/* the target rejected one; reset when its limits change */
	bool no_unmap;			/* likewise */
	bool added;			/* the disk exists; valid when @mapped is complete */
	struct completion mapped;	/* the map that created it has ended, successfully or not */
	enum wss_volume_state state;	/* also read without a lock */
	unsigned long absent_since;	/* jiffies; start of the state while unsure or absent */
	bool unflushed;			/* a completed write is not yet covered by a flush */
	bool lost;			/* an acknowledged write may be lost: the next flush must fail */
	bool quiesced;			/* under sess->mutex */
	spinlock_t open_lock;		/* protects the next two */
	unsigned int openers;
	bool removing;
};

/**
 * struct wss_pdu - data of a request, in addition to its slot
 * @retries: immediate retries since login @login
 * @busy: how often it was delayed since login @login, because the target was busy or its data
 *	could not be mapped; at most 255
 * @losses: how often it was lost with its connection, at most 255
 * @lost_until: jiffies when such losses are no longer tolerated; valid when @losses is not 0
 * @login: number of the login to which @retries and @busy refer; valid when either is not 0
 * @busy_until: jiffies when such delays are no longer tolerated; valid when @busy is not 0
 * @aborts: how often it was aborted because the target did not respond
 * @timed_out: not answered in time; abort.c handles it
 * @error: an error that the driver detected, which @sense does not express
 * @sense: how the target ended it
 */
struct wss_pdu {
	u8 retries;
	u8 busy;
	u8 aborts;
	u8 losses;
	bool timed_out;
	blk_status_t error;
	struct wss_sense sense;
	int login;
	unsigned long busy_until;
	unsigned long lost_until;
};

/*
 * Notes that @rq, which succeeded, is not stable yet if it is a write. It becomes stable when a flush
 * that starts later has completed. One flag per volume records whether such writes exist. It is
 * written only when it changes.
 */
static inline void wss_note_written(struct wss_volume *vol, const struct request *rq)
{
	if (op_is_write(req_op(rq)) && !(rq->cmd_flags & REQ_FUA) && vol->limits.write_cache &&
	    !READ_ONCE(vol->unflushed))
		WRITE_ONCE(vol->unflushed, true);
}

/* discover.c */
int wss_find_volume(struct wss_session *sess, const char *spec, struct wss_lun_id *id,
		    struct wss_error *err);
int wss_find_unit(struct wss_session *sess, const struct wss_lun_id *unit, bool gives_way, struct wss_lun_id *id,
		  struct wss_error *err);
bool wss_same_unit(const struct wss_lun_id *a, const struct wss_lun_id *b);
int wss_read_limits(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
		    struct wss_error *err);
int wss_identify(struct wss_session *sess, const u8 lun[8], struct wss_lun_id *id,
		 struct wss_error *err);

/* scsi.c */
blk_status_t wss_build_command(struct wss_volume *vol, struct request *rq, struct wss_slot *slot,
			       u32 *inline_bytes);
bool wss_parse_sense(const u8 *data, u32 len, struct wss_sense *sense);
enum wss_disposition { WSS_END, WSS_RETRY_NOW, WSS_RETRY_LATER };
/*
 * What sense data reports about the target's units: nothing, a change that the driver must follow,
 * or that a LUN may denote a different unit.
 */
enum wss_news { WSS_NEWS_NONE, WSS_NEWS_CHANGE, WSS_NEWS_UNITS };
enum wss_disposition wss_decide_disposition(const struct wss_sense *sense, enum req_op op,
					    blk_status_t *status, enum wss_news *news);

/* reserve.c */
extern const struct pr_ops wss_pr_ops;

/* volume.c */
void wss_volumes_lose_cache(struct wss_session *sess);
void wss_volume_lose_write(struct wss_session *sess, const u8 lun[8]);
struct wss_volume *wss_volume_create(struct wss_session *sess, const struct wss_lun_id *id,
				     int changes, struct wss_error *err);
int wss_volume_claim(struct wss_volume *vol, bool force, struct wss_error *err);
void wss_volume_force(struct wss_volume *vol);
void wss_volume_remove(struct wss_volume *vol, bool force);
void wss_volume_put(struct wss_volume *vol);
void wss_volumes_await(void);
void wss_volume_set_state(struct wss_volume *vol, enum wss_volume_state to);
bool wss_volume_confirm(struct wss_volume *vol, int doubts);
void wss_volume_quiesce(struct wss_volume *vol);
void wss_volume_unquiesce(struct wss_volume *vol);
void wss_volume_kill(struct wss_volume *vol);
sector_t wss_sectors(const struct wss_volume *vol);
void wss_limit_queue(const struct wss_volume *vol, struct queue_limits *queue);

/* revalidate.c */
int wss_volumes_revalidate(struct wss_session *sess, struct wss_error *err);
bool wss_volumes_seen(struct wss_session *sess);
bool wss_volume_waits(const struct wss_volume *vol);
void wss_session_changed(struct wss_session *sess);
void wss_session_doubt(struct wss_session *sess);
void wss_session_news(struct wss_session *sess, enum wss_news news);
void wss_session_attention(struct wss_session *sess, const struct wss_sense *sense);
void wss_rescan_work(struct work_struct *work);

/* sysfs.c */
extern const struct attribute_group *wss_disk_groups[];

#endif /* WSS_VOLUME_H */
