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
 * Isolation     Read Atomic: of what one wss_kv_put_all() wrote, a wss_kv_get_all() sees all that it asks
 * for, or nothing. It is not serializable: two clients that read keys and then write some may lose an update,
 * or write skew; wss_kv_put_all_if() prevents that for what its conditions name. Results       0, or a
 * negative errno; wss_kv_error() then tells the calling thread in words what failed. Limits        keys of 1
 * to 1024 bytes, values of up to 1 MiB, 1024 keys in a transaction. Threads       every function may be
 * called from any thread, on the same store too, except wss_kv_disconnect(): nobody may use the store
 * meanwhile or afterwards. Blocking      functions that are not named _submit_ block until they are done, at
 * most for the time-out. fork          connect after fork(), not before.
 */
#ifndef WSS_KV_H
#define WSS_KV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wss_kv; /* a connection to all partitions of a store, with threads of its own */

/* What failed last in this thread, for people; "" if nothing did. */
const char* wss_kv_error(void);

enum wss_kv_algorithm {
    WSS_KV_RAMP_FAST,
    WSS_KV_RAMP_SMALL,
    WSS_KV_RAMP_HYBRID,
    WSS_KV_2PL_SEQUENTIAL, /* baselines for comparison */
    WSS_KV_2PL_PARALLEL,
    WSS_KV_NONE, /* no atomicity */
};

/* Zero means: the default. Set `size`, so that the structure may grow. */
struct wss_kv_options {
    size_t size;                 /* sizeof(struct wss_kv_options) */
    uint32_t algorithm;          /* enum wss_kv_algorithm */
    uint32_t rings;              /* 1: messages are RDMA-written into rings */
    uint32_t one_sided;          /* 1: reads without the server's processor where possible */
    uint32_t threads;            /* 1, at most 64 */
    uint32_t timeout_ms;         /* 10000; of a transaction with all its rounds */
    uint32_t connect_timeout_ms; /* 5000 */
    uint32_t address_cache;      /* 65536 keys whose slots one-sided reads remember; UINT32_MAX: none */
    /*
     * Files for tls:// addresses; NULL: none. secret_file: our line NAME:SECRET (mode 600), for partitions
     * that have it in --kv-secrets. tls_ca: the authorities (PEM) that sign the certificates of the
     * partitions. tls_cert and tls_key: our certificate, for partitions that want one.
     */
    const char* secret_file;
    const char* tls_ca;
    const char* tls_cert;
    const char* tls_key;
};

/* `targets`: the addresses of the partitions in their order, separated by commas. */
int wss_kv_connect(const char* targets, const struct wss_kv_options* options, struct wss_kv** kv);
/* Transactions under way end with -ESHUTDOWN first. */
void wss_kv_disconnect(struct wss_kv* kv);

/* ---- Reading ------------------------------------------------------------------------------------------- */

struct wss_kv_read {
    const void* key; /* in */
    size_t key_length;
    int found;          /* out */
    uint64_t timestamp; /* of the version, also when that says "deleted"; 0: never written */
    void* value;        /* wss_kv_release() gives it back; one byte 0 stands behind it */
    size_t value_length;
};

/* Reads all keys as one transaction. On failure no value is set. */
int wss_kv_get_all(struct wss_kv* kv, struct wss_kv_read* reads, size_t count);
/* Gives the values back. Harmless for those that have none. */
void wss_kv_release(struct wss_kv_read* reads, size_t count);

/* Called on a thread of the store's, once; `result` is 0 or a negative errno. Must not block and must not
 * call functions that do. */
typedef void (*wss_kv_done)(void* context, int result);
/* As wss_kv_get_all() without waiting; `reads` and the keys must stay until `done` is called. */
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
 * Writes all keys as one transaction. `ttl_ms`: they are gone together after that time; 0: never. `timestamp`
 * (may be NULL): of the versions written. -EINPROGRESS: it is not known whether it happened; it becomes
 * visible as a whole, or never.
 */
int wss_kv_put_all(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                   uint64_t* timestamp);
/* Without waiting; keys and values are copied. `timestamp` (may be NULL) must stay until `done` is called. */
int wss_kv_submit_put_all(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                          uint64_t* timestamp, wss_kv_done done, void* context);

/*
 * Writes one key if its latest version is `expected` (0: if it is not there). -EAGAIN: it is not; `timestamp`
 * (may be NULL) then says what it is.
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
 * write is visible; their keys are distinct, and may be others than those written. Without writes they are
 * only checked. -EAGAIN: one does not hold, and nothing was written; `failed` (may be NULL) then is its index
 * and `timestamp` (may be NULL) the version that its key has, 0 if it is absent. -EINPROGRESS: as above.
 * -EOPNOTSUPP: a partition runs a version that knows no conditions.
 */
int wss_kv_put_all_if(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                      const struct wss_kv_condition* conditions, size_t condition_count, size_t* failed,
                      uint64_t* timestamp);
/* Without waiting; everything is copied. `failed` and `timestamp` must stay until `done` is called. */
int wss_kv_submit_put_all_if(struct wss_kv* kv, const struct wss_kv_write* writes, size_t count,
                             uint64_t ttl_ms, const struct wss_kv_condition* conditions,
                             size_t condition_count, size_t* failed, uint64_t* timestamp, wss_kv_done done,
                             void* context);
/*
 * The conditions that keys are as they were read, one for each read: read, compute, write on these
 * conditions, from the start again after -EAGAIN. They point to the keys of `reads`.
 */
void wss_kv_watch(const struct wss_kv_read* reads, size_t count, struct wss_kv_condition* conditions);

/*
 * Adds to a counter: a key whose value is a decimal number of 64 bits with a sign; one that is absent counts
 * as 0. It expires when it did before. `value` (may be NULL): the sum. -EINVAL: the value is no such number;
 * -ERANGE: the sum is none. Nothing was written then. -EINPROGRESS: it may happen later, once.
 */
int wss_kv_increment(struct wss_kv* kv, const void* key, size_t key_length, int64_t delta, int64_t* value);

/* ---- Listing ------------------------------------------------------------------------------------------- */

/* Return not 0 to end the scan. The bytes are valid during the call. */
typedef int (*wss_kv_visit)(void* context, const void* key, size_t key_length, uint64_t timestamp);
/* All keys that begin with `prefix`, partition by partition, in order within each. Not one transaction. */
int wss_kv_scan(struct wss_kv* kv, const void* prefix, size_t prefix_length, wss_kv_visit visit,
                void* context);

#ifdef __cplusplus
}
#endif

#endif
