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
 *   Results       0, or a negative errno; wss_error() then tells the calling thread in words what failed.
 *   Units         offsets and lengths are bytes, and multiples of wss_info.block_size where they address the
 *                 volume; times are milliseconds.
 *   Threads       every function may be called from any thread at any time, on the same objects too, except
 *                 those that destroy an object: nobody may use it meanwhile or afterwards.
 *   Blocking      functions block in bounded time: the connect timeout, or the request timeout.
 *   Order         requests that are under way at the same time may happen in any order. A flush covers every
 *                 write that completed before the flush was submitted, through whatever handle or thread.
 *   Losses        when the target is lost, requests wait for it to come back (reconnect_timeout_ms) and are
 *                 done again then; after that time they fail with -ENOTCONN until it is back. A write that
 *                 failed may or may not have happened.
 *   fork          connect after fork(), not before: a child has no thread to do the work.
 */
#ifndef WSS_H
#define WSS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wss_client; /* a connection to a target, with a thread of its own */
struct wss_volume;
struct wss_queue; /* asynchronous requests and their completions */

/* What failed last in this thread, for people; "" if nothing did. Valid until the next call that fails in
 * this thread. */
const char* wss_error(void);

/* ---- Connecting ---------------------------------------------------------------------------------------- */

/* Zero means: the default. Set `size`, so that the structure may grow. */
struct wss_options {
    size_t size;                   /* sizeof(struct wss_options) */
    uint32_t channels;             /* connections to the target; 1 */
    uint32_t queue_depth;          /* commands on the wire of each; 128, at most 1024 */
    uint32_t connect_timeout_ms;   /* 5000 */
    uint32_t request_timeout_ms;   /* 30000; from submission, whatever happens in between */
    uint32_t reconnect_timeout_ms; /* 15000 */
    /*
     * Buffers that were neither allocated nor registered here are copied. With this set, those of at least so
     * many bytes are registered when first used and stay registered: call wss_invalidate() before you give
     * such memory back (free, munmap), else the target may reach pages that are no longer yours. Ignored
     * over shm://.
     */
    uint32_t pin_at_least;
    size_t bounce_bytes; /* registered memory for those copies; 16 MiB, at least 2 MiB */
    /*
     * File with the line NAME:SECRET that the target has of us, readable by nobody else; `wssctl secret`
     * makes one. With it both ends prove who they are, and one that cannot is refused. NULL: none.
     */
    const char* secret_file;
    /*
     * PEM files for tls:// addresses. tls_ca: the authorities that sign the certificate of the target, which
     * must be of HOST, and of cache engines; not needed where the target has the secret above, which then is
     * the key. tls_cert and tls_key: our certificate, for targets that want one. NULL: none.
     */
    const char* tls_ca;
    const char* tls_cert;
    const char* tls_key;
};

/*
 * Connects to rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or shm:///PATH. `options` may be NULL.
 * -EINVAL: the address is malformed; -EACCES: a secret file that others can read, or a target that cannot
 * prove who it is; -ECONNREFUSED: nobody listens there, or the target said no; -ETIMEDOUT; -ENODEV: no such
 * device.
 */
int wss_connect(const char* uri, const struct wss_options* options, struct wss_client** client);
/* Every volume and queue of the client must be gone. Memory from wss_allocate() goes with it. */
void wss_disconnect(struct wss_client* client);

/* Calls `visit` for each volume of the target; a result other than 0 ends that and is returned. */
int wss_list(struct wss_client* client, int (*visit)(void* context, const char* name), void* context);

/* ---- Volumes ------------------------------------------------------------------------------------------- */

/* `name` NULL or "": the only volume. -ENOENT: there is none of that name; wss_error() names those there are.
 */
int wss_open(struct wss_client* client, const char* name, struct wss_volume** volume);
/* No request to it may be under way. */
void wss_close(struct wss_volume* volume);

#define WSS_READ_ONLY (1u << 0)    /* writes fail with -EROFS */
#define WSS_WRITE_CACHE (1u << 1)  /* completed writes are stable after a flush only */
#define WSS_DISCARD (1u << 2)      /* wss_discard() works */
#define WSS_WRITE_ZEROES (1u << 3) /* wss_write_zeroes() works */
#define WSS_ROTATIONAL (1u << 4)
#define WSS_GONE (1u << 5) /* deleted at the target, or replaced */

struct wss_info {
    char name[256];
    uint64_t wwid;             /* NAA identifier: the volume's for all its life */
    uint64_t bytes;            /* may change at any time: volumes can be resized */
    uint32_t block_size;       /* what offsets and lengths are multiples of */
    uint32_t physical_block;   /* what they had better be multiples of */
    uint32_t transfer_max;     /* longer reads and writes are cut in pieces of this, not atomic together */
    uint32_t transfer_optimal; /* 0: any */
    uint32_t compare_max;      /* longest wss_compare_and_write(); 0: not supported */
    uint32_t flags;
    uint64_t discard_granularity;
};
int wss_get_info(struct wss_volume* volume, struct wss_info* info);

/* ---- Synchronous requests ------------------------------------------------------------------------------ */

#define WSS_FUA (1u << 0)      /* stable when complete, like a write and a flush of it */
#define WSS_NO_UNMAP (1u << 1) /* wss_write_zeroes(): keep the space allocated */

int wss_read(struct wss_volume* volume, void* buffer, size_t length, uint64_t offset);
int wss_write(struct wss_volume* volume, const void* buffer, size_t length, uint64_t offset, uint32_t flags);
int wss_readv(struct wss_volume* volume, const struct iovec* iov, size_t iov_count, uint64_t offset);
int wss_writev(struct wss_volume* volume, const struct iovec* iov, size_t iov_count, uint64_t offset,
               uint32_t flags);
/* Every write that completed before is stable when this returns 0. */
int wss_flush(struct wss_volume* volume);
/* The range's content does not matter any more: it reads as zeroes or as before. */
int wss_discard(struct wss_volume* volume, uint64_t length, uint64_t offset);
int wss_write_zeroes(struct wss_volume* volume, uint64_t length, uint64_t offset, uint32_t flags);
/*
 * One atomic step: writes `write` if the volume holds `compare`. 0: written. WSS_MISMATCH: it holds something
 * else, nothing was written, and *mismatch (if not NULL) is the offset of the first differing byte, from
 * `offset`. -ENOTCONN: the connection was lost on the way, and it is unknown whether it was written.
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
    /* The data, for reads and writes: `buffer`, or where that is NULL, `iov`. Buffers, and the array behind
     * `iov`, belong to the library until the completion; struct wss_io itself does not. */
    void* buffer;
    const struct iovec* iov;
    size_t iov_count;
    uint32_t timeout_ms; /* 0: the client's */
    void* user;          /* comes back in the completion */
};

struct wss_completion {
    void* user;
    int result;          /* 0 or a negative errno */
    const char* message; /* static text: what `result` means here */
};

/* `depth`: requests under way at most. Nothing is allocated per request. */
int wss_queue_create(struct wss_client* client, uint32_t depth, struct wss_queue** queue);
/* Waits for what is under way; completions that nobody fetched are lost. */
void wss_queue_destroy(struct wss_queue* queue);
/* -EAGAIN: `depth` requests are under way or wait to be fetched. */
int wss_submit(struct wss_queue* queue, const struct wss_io* io);
/* Fetches up to `max` completions and returns how many, 0 if there is none (now). */
int wss_poll(struct wss_queue* queue, struct wss_completion* completions, uint32_t max);
/* As wss_poll(), but waits until there is at least one, for `timeout_ms` at most. */
int wss_wait(struct wss_queue* queue, struct wss_completion* completions, uint32_t max, uint32_t timeout_ms);
/* For event loops: readable while there are completions. Only watch it; the queue owns it. */
int wss_queue_fd(struct wss_queue* queue);

/* ---- Memory -------------------------------------------------------------------------------------------- */

/* Page-aligned, zeroed, and the fastest kind: the target moves data straight there. */
int wss_allocate(struct wss_client* client, size_t bytes, void** memory);
/*
 * Makes memory of yours the second fastest kind. Over shm:// it changes nothing: all memory but that of
 * wss_allocate() is copied. Not overlapping other registered memory.
 */
int wss_register(struct wss_client* client, void* memory, size_t bytes);
/* Ends either. `memory`: the beginning. -EBUSY: a request still uses it. */
int wss_release(struct wss_client* client, void* memory);
/* See wss_options.pin_at_least. */
int wss_invalidate(struct wss_client* client, const void* memory, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* WSS_H */
