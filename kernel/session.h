/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sessions: a connection to one target, with its address, state, channels and volumes.
 */
#ifndef WSS_SESSION_H
#define WSS_SESSION_H

#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include "chan.h"
#include "options.h"
#include "stats.h"

struct wss_volume;

/**
 * enum wss_state - life of a session
 * @WSS_CONNECTING: first connection; no disk and no request exists yet
 * @WSS_LIVE: logged in; requests are sent
 * @WSS_RECOVERING: connection lost; requests wait (or fail, after fast_io_fail_tmo) while the
 *	driver tries to reconnect every reconnect_delay seconds
 * @WSS_FAILED: dev_loss_tmo has passed without a lasting connection; requests fail
 * @WSS_REMOVING: being removed; requests fail; the last state
 * @WSS_STATES: number of states
 */
enum wss_state {
	WSS_CONNECTING,
	WSS_LIVE,
	WSS_RECOVERING,
	WSS_FAILED,
	WSS_REMOVING,
	WSS_STATES,
};

/**
 * struct wss_admin - the administrative command of a session
 * @buffer: data of the command, WSS_ADMIN_BYTES
 * @busy: in flight; the device owns the buffer
 * @done: the command has ended; the fields below are valid
 * @error: 0, or -EIO without a response
 * @sense: how the target ended it
 * @residual: bytes that were not transferred
 */
struct wss_admin {
	void *buffer;
	bool busy;
	bool done;
	int error;
	struct wss_sense sense;
	u32 residual;
};

/**
 * struct wss_device_limits - limits of an RDMA device for one request
 * @segments: segments in one region
 * @mapping: bytes that can be mapped at once
 * @gaps: a region may have gaps between its segments
 */
struct wss_device_limits {
	u32 segments;
	u32 mapping;
	bool gaps;
};

/*
 * struct wss_session - one target
 */
struct wss_session {
	struct device dev;		/* /sys/class/wss/sessionN; its release frees the session */
	struct list_head node;		/* in wss_sessions, under wss_map_mutex */
	unsigned int mappers;		/* maps and unmaps in progress, under wss_map_mutex */
	int id;
	struct wss_options opts;	/* immutable; opts.volume is not used */
	struct net *net;
	u8 initiator_port_id[16];
	char target_name[WSS_AUTH_NAME_BYTES]; /* name that is required, or else the one that the first
	                                        * login has proven; zero-padded; written before the
	                                        * session is visible */

	spinlock_t lock;		/* protects the next block, and the states of volumes */
	enum wss_state state;		/* also read without the lock */
	const char *broken;		/* why the connection, or an attempt to connect, failed */
	unsigned long lost_at;		/* jiffies of the loss from which the timers count */
	unsigned long live_since;	/* jiffies of the last login; still valid after a loss */
	struct wss_error last_error;	/* why the connection was lost, or could not be restored */
	u64 epoch;			/* of the last login; used only by recovery work and creator */

	bool fail_fast;			/* fast_io_fail_tmo passed: requests fail at once */
	wait_queue_head_t wait;		/* channel connected, admin done, broken, removing */

	struct mutex map_mutex;		/* one map at a time; protects the next two */
	bool tried;			/* the first connection was attempted */
	bool connected;			/* this attempt has succeeded */

	atomic_t logins;		/* number of logins; answers from before the last one are outdated */
	atomic_t changes;		/* logins, and changes that the target has reported */
	atomic_t doubts;		/* logins and reports of changed units: LUNs may have changed */
	struct mutex look_mutex;	/* one walk over the volumes at a time (revalidate.c) */
	unsigned int look;		/* number of the last walk; under @mutex */
	u32 patience_ms;		/* timeout of administrative commands; see wss_begin_walk() */

	struct mutex mutex;		/* protects the list of volumes and their quiesced flags */
	struct list_head volumes;	/* changes under @lock as well: either lock suffices to read it */

	struct mutex ping_mutex;	/* one keep-alive at a time; protects @up and the next one */
	u32 ping_unit;			/* receives TEST UNIT READY; after a timeout, the next unit */
	struct mutex admin_mutex;	/* one administrative command at a time */
	struct wss_admin admin;

	struct wss_device *wdev;	/* the RDMA device while connected (device.c) */
	struct list_head wdev_node;	/* in wdev->sessions */
	struct ib_pd *pd;
	struct wss_chan *chans;		/* array of @nr_queues that lives as long as the session: no
					 * lock. Once up, they are taken down under @admin_mutex. */
	struct wss_queue *queues;
	u32 nr_queues;			/* number of hardware queues, and maximum of channels */
	u32 nr_default;			/* the number of them that are not polled */
	u32 up_default;			/* channels of this connection that are not polled */
	u32 up_polled;
	u32 tag_depth;			/* requests per queue; fixed by the first connection */
	struct wss_device_limits device_limits; /* of the first device; later ones must have at least these */
	u32 request_imm;		/* immediate bytes that logins request; lowered when rejected */
	u32 boot_id;			/* boot id of the last login that carried one; 0: none yet */
	bool cache_lost;		/* boot_id has changed, and the volumes are not yet marked */
	bool up;			/* channels are logged in; set by recovery, or by the
	        			 * creator or remover */
	bool tags_ready;
	bool rescan_all;		/* the next walk must revalidate all volumes */
	struct blk_mq_tag_set tags;
	struct request_queue *keeper;	/* keeps @tags shared (tags.c); NULL before the second disk */
	atomic_t disks;			/* disks whose queues may use @tags */

	struct delayed_work recover_work;
	struct delayed_work fail_work;
	struct delayed_work keepalive_work;
	struct delayed_work rescan_work;
	struct work_struct abort_work;
	struct wss_stats __percpu *stats;
	struct wss_stage_table __percpu *stages;
	struct dentry *debugfs;
};

/**
 * struct wss_device - an RDMA device that channels may use
 * @ibdev: the device
 * @node: in the list of devices
 * @sessions: sessions that use it, by their wdev_node
 * @removed: the device is being removed
 * @unused: completed when @removed and the last session has left
 */
struct wss_device {
	struct ib_device *ibdev;
	struct list_head node;
	struct list_head sessions;
	bool removed;
	struct completion unused;
};

/*
 * Work queues. When memory is short, a queue may have only one worker. Work items that wait for
 * each other are therefore on different queues: recovery waits for engine_work, and all work that
 * does I/O waits for recovery. Queues on which I/O depends have WQ_MEM_RECLAIM. X(name, flags)
 */
#define WSS_WORK_QUEUES(X)                                                          \
	X(recovery, WQ_MEM_RECLAIM) /* recover_work: may connect for seconds */     \
	X(timer, WQ_MEM_RECLAIM)    /* fail_work: must not wait behind recovery */  \
	X(abort, WQ_MEM_RECLAIM)    /* abort_work */                                \
	X(admin, WQ_MEM_RECLAIM)    /* rescan_work, late_work */                   \
	X(keepalive, WQ_MEM_RECLAIM) /* must not wait behind a rescan */            \
	X(engine, WQ_MEM_RECLAIM)   /* engine_work: recovery waits for it */        \
	X(map, 0)                   /* pending maps, which read partition tables */

#define WSS_WQ_ENUM(name, flags) WSS_WQ_##name,
enum wss_wq { WSS_WORK_QUEUES(WSS_WQ_ENUM) WSS_WQS };
extern struct workqueue_struct *wss_wqs[WSS_WQS];
#define wss_wq(name) wss_wqs[WSS_WQ_##name]

static inline u32 wss_nr_chans(const struct wss_session *sess)
{
	return sess->up_default + sess->up_polled;
}

/*
 * The n-th channel that is up. Polled channels are numbered starting with nr_default, even if
 * fewer others are up.
 */
static inline struct wss_chan *wss_up_chan(struct wss_session *sess, u32 n)
{
	return &sess->chans[n < sess->up_default ? n : sess->nr_default + n - sess->up_default];
}

/* state.c */
const char *wss_state_name(enum wss_state state);
bool wss_state_allowed(enum wss_state from, enum wss_state to);
bool wss_set_state(struct wss_session *sess, enum wss_state to);
u32 wss_keepalive_period_ms(u32 limit_ms);
const char *wss_tmo_invalid(int reconnect_delay, int fast_io_fail_tmo, int dev_loss_tmo);

/* device.c */
int wss_devices_init(void);
void wss_devices_exit(void);
int wss_session_bind(struct wss_session *sess, struct ib_device *ibdev, struct wss_error *err);
void wss_session_unbind(struct wss_session *sess);

/* login.c */
int wss_check_epoch(struct wss_session *sess, struct wss_error *err);

/* chans.c */
int wss_chans_start(struct wss_session *sess, struct wss_error *err);
void wss_chans_stop(struct wss_session *sess);

/* auth.c */
int wss_auth_find_key(struct wss_options *opts, struct wss_error *err);
void wss_auth_get_key(struct wss_options *opts);
void wss_auth_put_key(struct wss_options *opts);

/* abort.c */
void wss_abort_work(struct work_struct *work);

/* admin.c */
int wss_admin_command(struct wss_session *sess, const u8 lun[8], const u8 *cdb,
		      unsigned int cdb_len, u32 bytes, struct wss_error *err);
int wss_admin_on_volume(struct wss_session *sess, const u8 lun[8], const u8 *cdb, unsigned int cdb_len,
			const u8 *list, u32 bytes, struct wss_error *err);
void wss_log_out(struct wss_session *sess);

/* keepalive.c */
void wss_keepalive_work(struct work_struct *work);
void wss_keepalive_start(struct wss_session *sess);
void wss_keepalive_stop(struct wss_session *sess);

/* recovery.c */
extern const char wss_target_closed[];
bool wss_dev_loss_passed(struct wss_session *sess);
unsigned long wss_steady_time(const struct wss_session *sess);
void wss_session_error(struct wss_session *sess, const char *why);
void wss_session_logged_out(struct wss_session *sess, const char *why);
void wss_recover_work(struct work_struct *work);
void wss_fail_work(struct work_struct *work);
void wss_session_unquiesce(struct wss_session *sess);
void wss_session_quiesce(struct wss_session *sess);

/* session.c */
struct wss_session *wss_session_alloc(const struct wss_options *opts);
int wss_session_connect(struct wss_session *sess, struct wss_error *err);
void wss_session_cancel(struct wss_session *sess);
void wss_session_stop(struct wss_session *sess);
void wss_session_destroy(struct wss_session *sess);
void wss_session_free(struct wss_session *sess);

/* tags.c */
int wss_tags_create(struct wss_session *sess);
int wss_tags_share(struct wss_session *sess, struct wss_error *err);
void wss_tags_free(struct wss_session *sess);

/* sysfs.c */
extern const struct attribute_group *wss_session_groups[];

#endif /* WSS_SESSION_H */
