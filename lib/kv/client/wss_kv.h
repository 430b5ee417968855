/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwss: the WSS key-value store from plain C.
 *
 *     struct wss_kv *kv;
 *     struct wss_kv_write both[] = {{"user:7", 6, "Ada", 3, 0}, {"city:Turin:7", 12, "", 0, 0}};
 *
 *     if (wss_kv_connect("tcp://10.0.0.1:5600,tcp://10.0.0.2:5600", NULL, &kv) < 0 ||
 *         wss_kv_put_all(kv, both, 2, 0, NULL) < 0)
 *             errx(1, "%s", wss_kv_error());
 *
 * Isolation  Read Atomic: wss_kv_get_all() sees either everything or nothing of what one wss_kv_put_all()
 *            wrote to the keys that it reads. It is not serializable: two clients that read keys and then
 *            write some may lose an update, or produce write skew. wss_kv_put_all_if() prevents that for the
 *            versions named by its conditions.
 * Results    0, or a negative errno; wss_kv_error() then describes the failure to the calling thread.
 *            -EACCES: the client lacks a right to a key, to one-sided reads or to rings (the partitions'
 *            --kv-access).
 * Limits     Keys of 1 to 1024 bytes, values of up to 1 MiB, 1024 keys in a transaction.
 * Threads    Every function may be called from any thread, even on the same store, except
 *            wss_kv_disconnect(): no other thread may use the store during the call or afterwards.
 * Blocking   Functions without _submit_ in their name block until they are done, at most for the time-out.
 *            wss_kv_scan() and wss_kv_increment() send several requests, each with this time-out.
 * fork       Connect after fork(), not before.
 */
#ifndef WSS_KV_H
#define WSS_KV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wss_kv; /* a connection to all partitions of a store, with threads of its own */

/* Describes this thread's last failure; "" if there was none. */
const char* wss_kv_error(void);

enum wss_kv_algorithm {
    WSS_KV_RAMP_FAST,
    WSS_KV_RAMP_SMALL,
    WSS_KV_RAMP_HYBRID,
    WSS_KV_2PL_SEQUENTIAL, /* baselines for comparison */
    WSS_KV_2PL_PARALLEL,
    WSS_KV_NONE, /* no atomicity */
};

/* Zero selects a member's default. Set `size`; it allows the structure to grow. */
struct wss_kv_options {
    size_t size;                 /* sizeof(struct wss_kv_options) */
    uint32_t algorithm;          /* enum wss_kv_algorithm */
    uint32_t rings;              /* 1: messages are RDMA-written into rings */
    uint32_t one_sided;          /* 1: RDMA READs where possible, without the server's processor */
    uint32_t threads;            /* 1, at most 64 */
    uint32_t timeout_ms;         /* 10000; for a transaction with all its rounds */
    uint32_t connect_timeout_ms; /* 5000 */
    uint32_t address_cache;      /* 65536; keys whose slot addresses are cached; UINT32_MAX: none */
    /*
     * Files for tls:// addresses; NULL: none. secret_file: the client's line NAME:SECRET (mode 600), for
     * partitions that have it in --kv-secrets. tls_ca: the authorities (PEM) that sign the certificates of
     * the partitions. tls_cert and tls_key: the client's certificate, for partitions that require one.
     */
    const char* secret_file;
    const char* tls_ca;
    const char* tls_cert;
    const char* tls_key;
};

/* `targets`: the addresses of the partitions, in order, separated by commas. */
int wss_kv_connect(const char* targets, const struct wss_kv_options* options, struct wss_kv** kv);
/* Ends transactions in flight with -ESHUTDOWN first. */
void wss_kv_disconnect(struct wss_kv* kv);

/* ---- Reading ------------------------------------------------------------------------------------------- */

struct wss_kv_read {
    const void* key; /* in */
    size_t key_length;
    int found;          /* out */
    uint64_t timestamp; /* that of the version, even if it is a deletion; 0: never written, or forgotten */
    void* value;        /* free it with wss_kv_release(); a zero byte follows it */
    size_t value_length;
};

/* Reads all keys as one transaction. On failure no value is set. */
int wss_kv_get_all(struct wss_kv* kv, struct wss_kv_read* reads, size_t count);
/* Frees the values. Does nothing for reads without one. */
void wss_kv_release(struct wss_kv_read* reads, size_t count);

/* Called once, on a thread of the store; `result` is 0 or a negative errno. Must not block and must not call
 * functions that block. */
typedef void (*wss_kv_done)(void* context, int result);
/* Like wss_kv_get_all(), without waiting. `reads` and the keys must stay valid until `done` is called. */
int wss_kv_submit_get_all(struct wss_kv* kv, struct wss_kv_read* reads, size_t count, wss_kv_done done,
                          void* context);

/* ---- Writing ------------------------------------------------------------------------------------------- */

struct wss_kv_write {
    const void* key;
    size_t key_length;
    const void* value;
    size_t value_length;
    int remove; /* not 0: delete the key; the value is ignored */
};

/*
 * Writes all keys as one transaction. `ttl_ms`: the keys expire together after this time; 0: never.
 * `timestamp` (may be NULL): of the versions written. -EINPROGRESS: the outcome is unknown; the write becomes
 * visible as a whole, or never.
 */
int wss_kv_put_all(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                   uint64_t* timestamp);
/*
 * The same without waiting. Copies keys and values. `timestamp` (may be NULL) must stay valid until `done`.
 */
int wss_kv_submit_put_all(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                          uint64_t* timestamp, wss_kv_done done, void* context);

/*
 * Writes one key if its latest version is `expected` (0: if the key is absent). -EAGAIN: the latest version is
 * another, and `timestamp` (may be NULL) is that version. -EINPROGRESS: as above.
 */
int wss_kv_put_if(struct wss_kv* kv, const struct wss_kv_write* write, uint64_t expected,
                  uint64_t* timestamp);

/* A condition of a write. */
struct wss_kv_condition {
    const void* key;
    size_t key_length;
    uint64_t expected; /* the version that must be the latest; 0: the key must be absent */
};

/*
 * Writes all keys as one transaction, if all conditions hold. They are checked together and hold until the
 * write is visible. Their keys must be distinct and need not be among those written. Without writes they are
 * only checked. -EAGAIN: a condition does not hold, and nothing was written; `failed` (may be NULL) is its
 * index, and `timestamp` (may be NULL) the version of its key, 0 if the key is absent. -EINPROGRESS: as above.
 * -EOPNOTSUPP: a partition runs a version without conditions.
 */
int wss_kv_put_all_if(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                      const struct wss_kv_condition* conditions, size_t condition_count, size_t* failed,
                      uint64_t* timestamp);
/* The same without waiting. Copies everything; `failed` and `timestamp` must stay valid until `done`. */
int wss_kv_submit_put_all_if(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count,
                             uint64_t ttl_ms, const struct wss_kv_condition* conditions,
                             size_t condition_count, size_t* failed, uint64_t* timestamp, wss_kv_done done,
                             void* context);
/*
 * Fills in one condition for each read: that the key is unchanged. For a read-modify-write: read, compute,
 * write with these conditions, and start over after -EAGAIN. The conditions point to the keys of `reads`.
 */
void wss_kv_watch(const struct wss_kv_read* reads, size_t count, struct wss_kv_condition* conditions);

/*
 * Adds to a counter: a key whose value is a signed 64-bit decimal number. An absent key counts as 0. The time
 * of expiry does not change. `value` (may be NULL): the sum. -EINVAL: the value is not such a number;
 * -ERANGE: the sum does not fit; nothing was written in both cases. -EINPROGRESS: the addition may happen
 * later, once.
 */
int wss_kv_increment(struct wss_kv* kv, const void* key, size_t key_length, int64_t delta, int64_t* value);

/* ---- Listing ------------------------------------------------------------------------------------------- */

/* Returns non-zero to end the scan. The key is valid during the call. */
typedef int (*wss_kv_visit)(void* context, const void* key, size_t key_length, uint64_t timestamp);
/* Visits all keys with `prefix`, partition by partition, in order within each; not as one transaction. */
int wss_kv_scan(struct wss_kv* kv, const void* prefix, size_t prefix_length, wss_kv_visit visit,
                void* context);

#ifdef __cplusplus
}
#endif

#endif
