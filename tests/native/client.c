/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every function of libwss.so's API in plain C. Usage: client URI VOLUME */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wss.h>

#define MUST(expression)                                                                     \
	do {                                                                                 \
		if (!(expression)) {                                                         \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #expression, wss_error()); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

enum { BLOCK = 4096, DEPTH = 16, TOTAL = 2000 };

static void synchronous(struct wss_volume *volume)
{
	static char data[BLOCK * 64], back[BLOCK * 64], other[512];
	struct iovec parts[3] = { { back + 100, 1000 }, { back + 8192, 4096 }, { back + 4096, 3096 } };
	uint64_t mismatch = 0;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 7 + i / 512);
	MUST(wss_write(volume, data, sizeof data, BLOCK, 0) == 0);
	MUST(wss_write(volume, data, 512, 0, WSS_FUA) == 0);
	MUST(wss_flush(volume) == 0);
	MUST(wss_read(volume, back, sizeof back, BLOCK) == 0);
	MUST(memcmp(data, back, sizeof data) == 0);
	MUST(wss_readv(volume, parts, 3, BLOCK) == 0);
	MUST(memcmp(back + 100, data, 1000) == 0 && memcmp(back + 8192, data + 1000, 4096) == 0);
	MUST(wss_compare_and_write(volume, data, other, 512, 0, &mismatch) == 0);
	MUST(wss_compare_and_write(volume, data, other, 512, 0, &mismatch) == WSS_MISMATCH);
	MUST(mismatch == 1); /* data[0] is 0 too */
	MUST(wss_write_zeroes(volume, 8192, BLOCK, 0) == 0);
	MUST(wss_discard(volume, 8192, 4 * BLOCK) == 0);
	MUST(wss_read(volume, back, 8192, BLOCK) == 0);
	for (size_t i = 0; i < 8192; i++)
		MUST(back[i] == 0);
	MUST(wss_read(volume, back, 100, 0) == -EINVAL);
	MUST(strstr(wss_error(), "block size") != NULL);
	MUST(wss_read(volume, back, 512, UINT64_MAX - 511) == -EINVAL);
	MUST(wss_read(volume, back, 0, 0) == 0);
}

/* Writes TOTAL blocks, DEPTH at a time. Waits with poll(2) on the queue's descriptor. */
static void asynchronous(struct wss_client *client, struct wss_volume *volume)
{
	struct wss_queue *queue;
	struct wss_completion over[DEPTH];
	char *memory;
	int submitted = 0, completed = 0;

	MUST(wss_queue_create(client, DEPTH, &queue) == 0);
	MUST(wss_allocate(client, DEPTH * BLOCK, (void **)&memory) == 0);
	MUST(wss_poll(queue, over, DEPTH) == 0);
	MUST(wss_wait(queue, over, DEPTH, 10) == 0);
	for (int i = 0; i < DEPTH; i++)
		memset(memory + i * BLOCK, i + 1, BLOCK);
	while (completed < TOTAL) {
		struct pollfd readable = { .fd = wss_queue_fd(queue), .events = POLLIN };

		while (submitted < TOTAL && submitted - completed < DEPTH) {
			struct wss_io io = { .volume = volume, .operation = WSS_OP_WRITE, .length = BLOCK,
					     .offset = (uint64_t)submitted * BLOCK,
					     .buffer = memory + submitted % DEPTH * BLOCK, .user = &readable };
			MUST(wss_submit(queue, &io) == 0);
			submitted++;
		}
		MUST(poll(&readable, 1, 10000) == 1);
		int count = wss_poll(queue, over, DEPTH);
		for (int i = 0; i < count; i++)
			MUST(over[i].result == 0);
		completed += count;
	}
	struct wss_io flush = { .volume = volume, .operation = WSS_OP_FLUSH };
	for (int i = 0; i < DEPTH; i++)
		MUST(wss_submit(queue, &flush) == 0);
	MUST(wss_submit(queue, &flush) == -EAGAIN);
	for (completed = 0; completed < DEPTH;)
		completed += wss_wait(queue, over, DEPTH, 10000);
	struct wss_io wrong = { .volume = volume, .operation = WSS_OP_READ, .length = 100, .buffer = memory };
	MUST(wss_submit(queue, &wrong) == 0);
	MUST(wss_wait(queue, over, DEPTH, 10000) == 1 && over[0].result == -EINVAL && over[0].message[0] != 0);
	MUST(wss_read(volume, memory, BLOCK, 5 * BLOCK) == 0 && memory[0] == 6 && memory[BLOCK - 1] == 6);
	wss_queue_destroy(queue);
	MUST(wss_release(client, memory) == 0);
	MUST(wss_release(client, memory) == -ENOENT);
}

static void memory_of_ours(struct wss_client *client, struct wss_volume *volume)
{
	char *memory = aligned_alloc(BLOCK, 256 * BLOCK);

	MUST(memory != NULL);
	MUST(wss_register(client, memory, 256 * BLOCK) == 0);
	MUST(wss_register(client, memory + BLOCK, BLOCK) == -EEXIST);
	memset(memory, 0x3c, 256 * BLOCK);
	MUST(wss_write(volume, memory, 128 * BLOCK, 0, 0) == 0);
	MUST(wss_read(volume, memory + 128 * BLOCK, 128 * BLOCK, 0) == 0);
	MUST(memcmp(memory, memory + 128 * BLOCK, 128 * BLOCK) == 0);
	MUST(wss_release(client, memory) == 0);
	MUST(wss_write(volume, memory, 128 * BLOCK, 0, 0) == 0);
	MUST(wss_invalidate(client, memory, 256 * BLOCK) == 0);
	free(memory);
}

static int count_one(void *context, const char *name)
{
	++*(int *)context;
	return name[0] == 0;
}

int main(int argc, char **argv)
{
	struct wss_options options = { .size = sizeof options, .channels = 2, .pin_at_least = 65536 };
	struct wss_client *client;
	struct wss_volume *volume, *again;
	struct wss_info info;
	int volumes = 0;

	MUST(argc == 3);
	MUST(wss_connect("tcp://", NULL, &client) == -EINVAL);
	MUST(wss_connect(argv[1], &options, &client) == 0);
	MUST(wss_list(client, count_one, &volumes) == 0 && volumes > 0);
	MUST(wss_open(client, "no such volume", &volume) == -ENOENT);
	MUST(wss_open(client, argv[2], &volume) == 0);
	MUST(wss_open(client, argv[2], &again) == 0);
	MUST(wss_get_info(volume, &info) == 0);
	MUST(strcmp(info.name, argv[2]) == 0 && info.block_size == 512 && info.wwid != 0);
	synchronous(volume);
	asynchronous(client, volume);
	memory_of_ours(client, again);
	wss_close(again);
	wss_close(volume);
	wss_disconnect(client);
	printf("%llu bytes\n", (unsigned long long)info.bytes);
	return 0;
}
