// SPDX-License-Identifier: GPL-2.0
/*
 * Time that requests spend in each stage, in debugfs:
 *
 *   /sys/kernel/debug/wss/measure            0 or 1
 *   /sys/kernel/debug/wss/sessionN/stages    a table; any write resets it
 *
 * A line of the table is `OP STAGE COUNT NS BUCKETS...`: number of requests and sum of their times.
 * Bucket i counts those that took from 2^i up to 2^(i+1) ns. Only requests whose time stamps are
 * complete are counted (wss_stages_complete()). There is one table per CPU. The CPU that ends a
 * request writes its own table without atomics, and the reader sums all tables.
 */
#include <linux/debugfs.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "fault.h"
#include "wss.h"

DEFINE_STATIC_KEY_FALSE(wss_measuring);

/* 2^36 ns is 69 s, longer than a request takes without an error. */
#define WSS_BUCKETS 36

enum wss_kind { WSS_KIND_READ, WSS_KIND_WRITE, WSS_KIND_OTHER, WSS_KINDS };

static const char *const wss_kind_names[WSS_KINDS] = { "read", "write", "other" };

#define WSS_STAGE_NAME(name, help) #name,
static const char *const wss_stage_names[] = { WSS_STAGES(WSS_STAGE_NAME) };

struct wss_stage_table {
	u64 count[WSS_KINDS][WSS_STAGE_COUNT];
	u64 ns[WSS_KINDS][WSS_STAGE_COUNT];
	u64 bucket[WSS_KINDS][WSS_STAGE_COUNT][WSS_BUCKETS];
};

/*
 * Time when measuring was turned on, in ns; U64_MAX while it is off. While measuring is off, no
 * stamp is cleared, so a slot may hold stamps of a request that began earlier.
 */
static u64 wss_measured_since = U64_MAX;

static struct dentry *wss_debugfs;
static bool wss_measure; /* under the mutex below */
static DEFINE_MUTEX(wss_measure_mutex);

static enum wss_kind wss_kind_of(const struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return WSS_KIND_READ;
	case REQ_OP_WRITE:
		return WSS_KIND_WRITE;
	default:
		return WSS_KIND_OTHER;
	}
}

static void wss_stage_add(struct wss_session *sess, enum wss_kind kind, enum wss_stage stage, u64 from,
			  u64 to)
{
	u64 ns = to > from ? to - from : 0; /* a response may overtake the return of its post */
	int bucket = min(ns ? ilog2(ns) : 0, WSS_BUCKETS - 1);

	this_cpu_inc(sess->stages->count[kind][stage]);
	this_cpu_add(sess->stages->ns[kind][stage], ns);
	this_cpu_inc(sess->stages->bucket[kind][stage][bucket]);
}

/*
 * True if the stamps are those of one request that the target answered. A command that was aborted, or
 * that is sent again because of RETRY, has no answer.
 */
static bool wss_stages_complete(const u64 *at)
{
	return at[WSS_AT_QUEUED] >= READ_ONCE(wss_measured_since) && at[WSS_AT_MAPPED] && at[WSS_AT_POSTED] &&
	       at[WSS_AT_ANSWERED];
}

/**
 * wss_stages_add - add the times of a request that has ended, unless it is only partly measured
 * @slot: its time stamps
 * @rq: the request
 */
void wss_stages_add(struct wss_slot *slot, const struct request *rq)
{
	struct wss_session *sess = slot->chan->sess;
	enum wss_kind kind = wss_kind_of(rq);
	u64 now = ktime_get_ns();
	const u64 *at = slot->at;
	u64 begin = at[WSS_AT_BLOCK] ?: at[WSS_AT_QUEUED];

	if (!wss_stages_complete(at))
		return;
	wss_stage_add(sess, kind, WSS_STAGE_block, begin, at[WSS_AT_QUEUED]);
	wss_stage_add(sess, kind, WSS_STAGE_map, at[WSS_AT_QUEUED], at[WSS_AT_MAPPED]);
	wss_stage_add(sess, kind, WSS_STAGE_post, at[WSS_AT_MAPPED], at[WSS_AT_POSTED]);
	wss_stage_add(sess, kind, WSS_STAGE_remote, at[WSS_AT_POSTED], at[WSS_AT_ANSWERED]);
	wss_stage_add(sess, kind, WSS_STAGE_finish, at[WSS_AT_ANSWERED], now);
	wss_stage_add(sess, kind, WSS_STAGE_total, begin, now);
}

static void wss_show_line(struct seq_file *file, struct wss_session *sess, int kind, int stage)
{
	u64 count = 0;
	u64 ns = 0;
	int bucket;
	int cpu;

	for_each_possible_cpu(cpu) {
		count += per_cpu_ptr(sess->stages, cpu)->count[kind][stage];
		ns += per_cpu_ptr(sess->stages, cpu)->ns[kind][stage];
	}
	seq_printf(file, "%s %s %llu %llu", wss_kind_names[kind], wss_stage_names[stage], count, ns);
	for (bucket = 0; bucket < WSS_BUCKETS; bucket++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu_ptr(sess->stages, cpu)->bucket[kind][stage][bucket];
		seq_printf(file, " %llu", sum);
	}
	seq_putc(file, '\n');
}

static int wss_stages_seq(struct seq_file *file, void *unused)
{
	int kind;
	int stage;

	for (kind = 0; kind < WSS_KINDS; kind++) {
		for (stage = 0; stage < WSS_STAGE_COUNT; stage++)
			wss_show_line(file, file->private, kind, stage);
	}
	return 0;
}

static int wss_stages_open(struct inode *inode, struct file *file)
{
	return single_open(file, wss_stages_seq, inode->i_private);
}

/*
 * Requests that end during this may remain partly counted. That is acceptable, because the
 * table is for observation only.
 */
static ssize_t wss_stages_clear(struct file *file, const char __user *text, size_t count, loff_t *at)
{
	struct wss_session *sess = ((struct seq_file *)file->private_data)->private;
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(sess->stages, cpu), 0, sizeof(struct wss_stage_table));
	return count;
}

static const struct file_operations wss_stages_fops = {
	.owner = THIS_MODULE,
	.open = wss_stages_open,
	.read = seq_read,
	.write = wss_stages_clear,
	.llseek = seq_lseek,
	.release = single_release,
};

static int wss_measure_get(void *data, u64 *value)
{
	*value = wss_measure;
	return 0;
}

static int wss_measure_set(void *data, u64 value)
{
	mutex_lock(&wss_measure_mutex);
	wss_measure = value;
	/* Requests that begin or end while the code is patched may lack stamps: they are not counted. */
	if (value) {
		static_branch_enable(&wss_measuring);
		WRITE_ONCE(wss_measured_since, ktime_get_ns());
	} else {
		WRITE_ONCE(wss_measured_since, U64_MAX);
		static_branch_disable(&wss_measuring);
	}
	mutex_unlock(&wss_measure_mutex);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(wss_measure_fops, wss_measure_get, wss_measure_set, "%llu\n");

/**
 * wss_stages_alloc - allocate the tables of a session
 * @sess: the session
 * Return: 0 or -ENOMEM.
 */
int wss_stages_alloc(struct wss_session *sess)
{
	sess->stages = alloc_percpu(struct wss_stage_table);
	return sess->stages ? 0 : -ENOMEM;
}

/**
 * wss_stages_free - mirror of wss_stages_alloc()
 * @sess: its files are closed
 */
void wss_stages_free(struct wss_session *sess)
{
	free_percpu(sess->stages);
}

/**
 * wss_stages_show - create the debugfs files of a session
 * @sess: already in sysfs; debugfs_remove_recursive(sess->debugfs) removes the files
 */
void wss_stages_show(struct wss_session *sess)
{
	sess->debugfs = debugfs_create_dir(dev_name(&sess->dev), wss_debugfs);
	debugfs_create_file("stages", 0600, sess->debugfs, sess, &wss_stages_fops);
}

/** wss_debugfs_init - create the module's directory; does nothing without debugfs */
void wss_debugfs_init(void)
{
	wss_debugfs = debugfs_create_dir("wss", NULL);
	debugfs_create_file_unsafe("measure", 0600, wss_debugfs, NULL, &wss_measure_fops);
	wss_faults_init(wss_debugfs);
}

/** wss_debugfs_exit - mirror of wss_debugfs_init() */
void wss_debugfs_exit(void)
{
	debugfs_remove_recursive(wss_debugfs);
}
