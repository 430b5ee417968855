/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwss: volumes of a WSS target from user space, in plain C.
 *
 *     struct wss_client *client;
 *     struct wss_volume *volume;
 *     char data[4096];
 *
 *     if (wss_connect("shm:///run/wss.sock", NULL, &client) < 0 ||
 *         wss_open(client, "disk1", &volume) < 0 ||
 *         wss_read(volume, data, sizeof data, 0) < 0)
 *             errx(1, "%s", wss_error());
 *
 * Conventions
 *   Results       0, or a negative errno; wss_error() then describes the failure to the calling thread.
 *   Units         offsets and lengths are bytes, and multiples of wss_info.block_size where they address the
 *                 volume; times are milliseconds.
 *   Threads       any thread may call any function at any time, even on the same objects. Exception: no
 *                 thread may use an object during or after the call that destroys it.
 *   Blocking      functions block for a bounded time: the connect timeout, the request timeout, or the
 *                 timeout passed.
 *   Order         requests in flight at the same time may be executed in any order. A flush covers every
 *                 write that completed before the flush was submitted, through any handle and thread.
 *   Losses        when the target is lost, requests wait for its return (reconnect_timeout_ms) and are then
 *                 sent again. After that time requests fail with -ENOTCONN until it is back. A write that
 *                 failed may or may not have taken effect.
 *   fork          connect after fork(), not before: the child does not have the client's thread.
 */
#ifndef WSS_H
#define WSS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wss_client; /* a connection to a target, with its own thread */
struct wss_volume;
struct wss_queue; /* asynchronous requests and their completions */

/* Message of the latest failure in this thread; "" if there was none. Valid until the next call that fails in
 * this thread. */
const char* wss_error(void);

/* ---- Connecting ---------------------------------------------------------------------------------------- */

/* 0 selects the default that the comment names. Set `size`, so that the structure may grow. */
struct wss_options {
    size_t size;                   /* sizeof(struct wss_options) */
    uint32_t channels;             /* connections to the target; 1 */
    uint32_t queue_depth;          /* commands in flight on each; 128, at most 1024 */
    uint32_t connect_timeout_ms;   /* 5000 */
    uint32_t request_timeout_ms;   /* 30000; from submission to completion, reconnects included */
    uint32_t reconnect_timeout_ms; /* 15000 */
    /*
     * Buffers that were neither allocated nor registered here are copied. If this is not 0, those of at least
     * this many bytes are registered when first used and stay registered: call wss_invalidate() before you
     * release such memory (free, munmap), else the target may access pages that are no longer yours. Ignored
     * over shm://.
     */
    uint32_t pin_at_least;
    size_t bounce_bytes; /* registered memory for those copies; 16 MiB, at least 2 MiB */
    /*
     * File with the line NAME:SECRET that the target has for this client. No other user may be able to read
     * it. `wssctl secret` creates one. With it both ends prove their identity, and each refuses a peer that
     * cannot. NULL: none.
     */
    const char* secret_file;
    /*
     * PEM files for tls:// addresses. tls_ca: the authorities that sign the certificates of the target (for
     * HOST) and of cache engines. It is not needed if the target has the secret above, which is then the
     * source of the key. tls_cert and tls_key: the client's certificate, for targets that require one. NULL:
     * none.
     */
    const char* tls_ca;
    const char* tls_cert;
    const char* tls_key;
    /*
     * The name that the target must prove (wss-target --name); needs secret_file. NULL: the first connection
     * accepts any name. Each reconnect then requires the same name, so that it cannot reach another target.
     */
    const char* target_name;
};

/*
 * Connects to rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or shm:///PATH. `options` may be NULL.
 * -EINVAL: the address is malformed; -EACCES: a secret file that others can read, or a target that cannot
 * prove its identity; -ECONNREFUSED: no process listens there, or the target refused; -ETIMEDOUT; -ENOENT: no
 * RDMA device.
 */
int wss_connect(const char* uri, const struct wss_options* options, struct wss_client** client);
/* REQUIRES: every volume and queue of the client is closed. Frees memory from wss_allocate(). */
void wss_disconnect(struct wss_client* client);

/* Calls `visit` for each volume of the target; a result other than 0 ends the list and is returned. */
int wss_list(struct wss_client* client, int (*visit)(void* context, const char* name), void* context);

/* ---- Volumes ------------------------------------------------------------------------------------------- */

/* A `name` of NULL or "" selects the only volume; -EINVAL if there are several. -ENOENT: no volume has
 * that name; wss_error() lists the names. */
int wss_open(struct wss_client* client, const char* name, struct wss_volume** volume);
/* REQUIRES: no request for it is in flight. */
void wss_close(struct wss_volume* volume);

#define WSS_READ_ONLY (1u << 0)    /* writes fail with -EROFS */
#define WSS_WRITE_CACHE (1u << 1)  /* completed writes are stable only after a flush */
#define WSS_DISCARD (1u << 2)      /* wss_discard() works */
#define WSS_WRITE_ZEROES (1u << 3) /* wss_write_zeroes() works */
#define WSS_ROTATIONAL (1u << 4)
#define WSS_GONE (1u << 5) /* deleted at the target, or replaced */

struct wss_info {
    char name[256];
    uint64_t wwid;             /* NAA identifier of the volume, the same for life */
    uint64_t bytes;            /* may change at any time: volumes can be resized */
    uint32_t block_size;       /* offsets and lengths must be multiples of it */
    uint32_t physical_block;   /* offsets and lengths should be multiples of it */
    uint32_t transfer_max;     /* longer reads and writes are split at this size, not atomic as a whole */
    uint32_t transfer_optimal; /* 0: any */
    uint32_t compare_max;      /* longest wss_compare_and_write(); 0: not supported */
    uint32_t flags;
    uint64_t discard_granularity;
};
int wss_get_info(struct wss_volume* volume, struct wss_info* info);

/* ---- Synchronous requests ------------------------------------------------------------------------------ */

#define WSS_FUA (1u << 0)      /* stable when complete, as after a write and a flush */
#define WSS_NO_UNMAP (1u << 1) /* wss_write_zeroes(): keep the space allocated */

int wss_read(struct wss_volume* volume, void* buffer, size_t length, uint64_t offset);
int wss_write(struct wss_volume* volume, const void* buffer, size_t length, uint64_t offset, uint32_t flags);
int wss_readv(struct wss_volume* volume, const struct iovec* iov, size_t iov_count, uint64_t offset);
int wss_writev(struct wss_volume* volume, const struct iovec* iov, size_t iov_count, uint64_t offset,
               uint32_t flags);
/* When this returns 0, every write that completed before the call is stable. */
int wss_flush(struct wss_volume* volume);
/* The content of the range is no longer needed: it reads as zeroes or as before. */
int wss_discard(struct wss_volume* volume, uint64_t length, uint64_t offset);
int wss_write_zeroes(struct wss_volume* volume, uint64_t length, uint64_t offset, uint32_t flags);
/*
 * One atomic step: writes `write` if the volume holds `compare`. 0: written. WSS_MISMATCH: it holds different
 * data, nothing was written, and *mismatch (if not NULL) is the offset of the first differing byte, from
 * `offset`. -ENOTCONN: the connection was lost meanwhile; it is unknown whether the data was written.
 */
#define WSS_MISMATCH 1
int wss_compare_and_write(struct wss_volume* volume, const void* compare, const void* write, size_t length,
                          uint64_t offset, uint64_t* mismatch);

/* ---- Asynchronous requests ----------------------------------------------------------------------------- */

enum wss_operation {
    WSS_OP_READ = 0,
    WSS_OP_WRITE = 1,
    WSS_OP_FLUSH = 2,
    WSS_OP_DISCARD = 3,
    WSS_OP_WRITE_ZEROES = 4,
};

struct wss_io {
    struct wss_volume* volume;
    enum wss_operation operation;
    uint32_t flags;
    uint64_t offset;
    uint64_t length;
    /* The data, for reads and writes: `buffer`, or `iov` if `buffer` is NULL. Buffers, and the array
     * of `iov`, belong to the library until the completion; struct wss_io itself does not. */
    void* buffer;
    const struct iovec* iov;
    size_t iov_count;
    uint32_t timeout_ms; /* 0: the timeout of the client */
    void* user;          /* returned in the completion */
};

struct wss_completion {
    void* user;
    int result;          /* 0 or a negative errno */
    const char* message; /* static text: meaning of `result` for this request */
};

/* `depth`: maximum number of requests in flight. Nothing is allocated per request. */
int wss_queue_create(struct wss_client* client, uint32_t depth, struct wss_queue** queue);
/* Waits for the requests in flight; completions that were not fetched are lost. */
void wss_queue_destroy(struct wss_queue* queue);
/* -EAGAIN: `depth` requests are in flight or completed but not fetched. */
int wss_submit(struct wss_queue* queue, const struct wss_io* io);
/* Fetches up to `max` completions and returns their number, 0 if there is none now. */
int wss_poll(struct wss_queue* queue, struct wss_completion* completions, uint32_t max);
/* The same as wss_poll(), but waits at most `timeout_ms` for the first completion. */
int wss_wait(struct wss_queue* queue, struct wss_completion* completions, uint32_t max, uint32_t timeout_ms);
/* For event loops: readable while there are completions. Only watch it; the queue owns it. */
int wss_queue_fd(struct wss_queue* queue);

/* ---- Memory -------------------------------------------------------------------------------------------- */

/* Page-aligned, zeroed, and the fastest kind: the target accesses it directly. */
int wss_allocate(struct wss_client* client, size_t bytes, void** memory);
/*
 * Makes your memory the second-fastest kind. Over shm:// it has no effect: all memory except that of
 * wss_allocate() is copied. It must not overlap other registered memory.
 */
int wss_register(struct wss_client* client, void* memory, size_t bytes);
/* Releases memory of either kind. `memory` is its beginning. -EBUSY: a request still uses it. */
int wss_release(struct wss_client* client, void* memory);
/* See wss_options.pin_at_least. */
int wss_invalidate(struct wss_client* client, const void* memory, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* WSS_H */
