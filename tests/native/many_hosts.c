/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: many_hosts URI VOLUME HOSTS CHANNELS. Logs in HOSTS initiators at the same time, with CHANNELS
 * channels each. Each initiator writes its own blocks, one per channel, and reads them back. Then the program
 * prints "connected", waits for a line on standard input, and logs out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wss.h>

#define MUST(expression)                                                                                        \
	do {                                                                                                    \
		if (!(expression)) {                                                                            \
			fprintf(stderr, "host %u, line %d: %s: %s\n", host, __LINE__, #expression, wss_error()); \
			exit(1);                                                                                \
		}                                                                                               \
	} while (0)

enum { BLOCK = 4096, HOSTS_MAX = 1000, CHANNELS_MAX = 16 };

static struct wss_client *clients[HOSTS_MAX];
static struct wss_volume *volumes[HOSTS_MAX];
static struct wss_queue *queues[HOSTS_MAX];
static char data[HOSTS_MAX][CHANNELS_MAX][BLOCK];

static void collect(uint32_t host, uint32_t count)
{
	struct wss_completion over[CHANNELS_MAX];

	while (count > 0) {
		int got = wss_wait(queues[host], over, CHANNELS_MAX, 60000);

		MUST(got > 0);
		for (int i = 0; i < got; i++)
			MUST(over[i].result == 0);
		count -= (uint32_t)got;
	}
}

/* Submits one command per channel at the same time. A client distributes its outstanding commands over its channels. */
static void everywhere(uint32_t hosts, uint32_t channels, int writes)
{
	for (uint32_t host = 0; host < hosts; host++)
		for (uint32_t i = 0; i < channels; i++) {
			uint64_t offset = ((uint64_t)host * channels + i) * BLOCK;

			struct wss_io io = { .volume = volumes[host], .operation = writes ? WSS_OP_WRITE : WSS_OP_READ,
					     .offset = offset, .length = BLOCK, .buffer = data[host][i] };

			MUST(wss_submit(queues[host], &io) == 0);
		}
	for (uint32_t host = 0; host < hosts; host++)
		collect(host, channels);
}

int main(int argc, char **argv)
{
	uint32_t hosts = argc == 5 ? (uint32_t)atoi(argv[3]) : 0, channels = argc == 5 ? (uint32_t)atoi(argv[4]) : 0;
	struct wss_options options = { .size = sizeof options, .channels = channels, .bounce_bytes = 2 << 20, .connect_timeout_ms = 60000 };

	if (hosts == 0 || hosts > HOSTS_MAX || channels == 0 || channels > CHANNELS_MAX)
		return 2;
	for (uint32_t host = 0; host < hosts; host++) {
		MUST(wss_connect(argv[1], &options, &clients[host]) == 0);
		MUST(wss_open(clients[host], argv[2], &volumes[host]) == 0);
		MUST(wss_queue_create(clients[host], channels, &queues[host]) == 0);
		for (uint32_t i = 0; i < channels; i++)
			memset(data[host][i], (int)(host * 31 + i + 1), BLOCK);
	}
	everywhere(hosts, channels, 1);
	memset(data, 0, sizeof data);
	everywhere(hosts, channels, 0);
	for (uint32_t host = 0; host < hosts; host++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t at = 0; at < BLOCK; at++)
				MUST(data[host][i][at] == (char)(host * 31 + i + 1));
	puts("connected");
	fflush(stdout);
	getchar();
	for (uint32_t host = 0; host < hosts; host++) {
		wss_queue_destroy(queues[host]);
		wss_close(volumes[host]);
		wss_disconnect(clients[host]);
	}
	return 0;
}
