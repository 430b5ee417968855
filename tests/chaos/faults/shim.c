// SPDX-License-Identifier: Apache-2.0
/*
 * A library that is preloaded into a program under test. It moves the program's time of day, lets its
 * accesses to one file system fail or take long, and breaks its TCP connections before they deliver a
 * message. The page that WSS_CHAOS_SHIM names (shim.py) controls all this while the program runs, and counts
 * the effects. Monotonic clocks are not changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000LL
#define USEC_PER_SEC 1000000LL

/* The order is that of FIELDS in shim.py. */
struct page {
	int64_t clock_offset_us;
	int64_t device; /* st_dev of the file system */
	int64_t fail_writes, fail_syncs, fail_reads; /* every n-th access of the kind fails with EIO; 0:
	                                              * none */
	int64_t delay_us; /* delay of each access */
	int64_t clock_reads, failures, delays; /* numbers of effects, which are counted here */
	int64_t lose_replies; /* number of connections that are still to be broken */
	int64_t lost_replies;
};

static volatile struct page *page;

__attribute__((constructor)) static void map_page(void)
{
	const char *path = getenv("WSS_CHAOS_SHIM");
	const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *mapped;

	if (file < 0)
		abort();
	mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		abort();
	close(file);
	page = mapped;
}

/* The function with this name in the next library. */
#define REAL(name)                                                          \
	({                                                                  \
		static __typeof__(&name) found;                             \
		if (!found)                                                 \
			found = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
		found;                                                      \
	})

/* --- the time of day --- */

static int64_t clock_offset(void)
{
	const int64_t offset = page ? page->clock_offset_us : 0;

	if (offset)
		__atomic_fetch_add(&page->clock_reads, 1, __ATOMIC_RELAXED);
	return offset;
}

static void move(struct timespec *time, int64_t us)
{
	const int64_t ns = time->tv_nsec + us % USEC_PER_SEC * 1000;

	time->tv_sec += us / USEC_PER_SEC + (ns < 0 ? -1 : ns / NSEC_PER_SEC);
	time->tv_nsec = ns < 0 ? ns + NSEC_PER_SEC : ns % NSEC_PER_SEC;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const int result = REAL(clock_gettime)(clock, time);

	if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		move(time, clock_offset());
	return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

/* A deadline that the program computed from its time of day. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
			   const struct timespec *restrict deadline)
{
	typedef int (*wait_fn)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	static wait_fn real;
	struct timespec moved = *deadline;

	if (!real)
		real = (wait_fn)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	move(&moved, -clock_offset());
	return real(cond, mutex, &moved);
}

/* --- the disk --- */

static int is_on_disk(int file)
{
	struct stat there;

	return fstat(file, &there) == 0 && S_ISREG(there.st_mode) && (int64_t)there.st_dev == page->device;
}

/*
 * Returns whether the access must fail; if so, errno is set. `every` and `count` belong to the kind of
 * the access.
 */
static int is_failed(int file, int64_t every, uint64_t *count)
{
	const int64_t delay = page ? page->delay_us : 0;

	if (!page || (!every && !delay) || !is_on_disk(file))
		return 0;
	if (delay) {
		usleep(delay);
		__atomic_fetch_add(&page->delays, 1, __ATOMIC_RELAXED);
	}
	if (!every || __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) % every)
		return 0;
	__atomic_fetch_add(&page->failures, 1, __ATOMIC_RELAXED);
	errno = EIO;
	return 1;
}

static uint64_t writes, syncs, reads;

ssize_t write(int file, const void *data, size_t length)
{
	if (is_failed(file, page ? page->fail_writes : 0, &writes))
		return -1;
	return REAL(write)(file, data, length);
}

ssize_t pwrite(int file, const void *data, size_t length, off_t offset)
{
	if (is_failed(file, page ? page->fail_writes : 0, &writes))
		return -1;
	return REAL(pwrite)(file, data, length, offset);
}

ssize_t pread(int file, void *data, size_t length, off_t offset)
{
	if (is_failed(file, page ? page->fail_reads : 0, &reads))
		return -1;
	return REAL(pread)(file, data, length, offset);
}

/* A failed sync may have written the data, so the real function runs first. */
int fdatasync(int file)
{
	const int result = REAL(fdatasync)(file);

	return is_failed(file, page ? page->fail_syncs : 0, &syncs) ? -1 : result;
}

int fsync(int file)
{
	const int result = REAL(fsync)(file);

	return is_failed(file, page ? page->fail_syncs : 0, &syncs) ? -1 : result;
}

/* --- connections --- */

/* Only for TCP, because a peer over shm cannot lose what it has received. */
static int is_tcp(int file)
{
	struct sockaddr_storage there;
	socklen_t length = sizeof(there);

	return getpeername(file, (struct sockaddr *)&there, &length) == 0 &&
	       (there.ss_family == AF_INET || there.ss_family == AF_INET6);
}

/* The result of a receive, or an error if the connection is broken instead. */
static ssize_t received(int file, ssize_t got)
{
	if (got <= 0 || !page || page->lose_replies <= 0 || !is_tcp(file))
		return got;
	if (__atomic_fetch_sub(&page->lose_replies, 1, __ATOMIC_RELAXED) <= 0)
		return got;
	__atomic_fetch_add(&page->lost_replies, 1, __ATOMIC_RELAXED);
	shutdown(file, SHUT_RDWR);
	errno = ECONNRESET;
	return -1;
}

ssize_t recv(int file, void *data, size_t length, int flags)
{
	return received(file, REAL(recv)(file, data, length, flags));
}

ssize_t readv(int file, const struct iovec *data, int count)
{
	return received(file, REAL(readv)(file, data, count));
}
