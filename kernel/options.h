/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a map is asked for.
 */
#ifndef WSS_OPTIONS_H
#define WSS_OPTIONS_H

#include <linux/socket.h>

#include "error.h"

/* When a region dies that the target did not invalidate itself. */
enum wss_invalidate {
	WSS_INVALIDATE_STRICT, /* before the request ends */
	WSS_INVALIDATE_LAZY,   /* before the region is used again: only for a trusted target */
};

struct key;

/**
 * struct wss_options - what `map` was asked for; immutable afterwards
 * @target: address and port
 * @target_text: the same as the user wrote it
 * @volume: name of the volume, or `lun:N`, or `naa.HEX`
 * @queues: channels wanted; 0: one per CPU
 * @poll_queues: further channels for polled I/O
 * @queue_depth: commands per channel
 * @reconnect_delay: seconds between attempts; -1: do not reconnect
 * @fast_io_fail_tmo: seconds until waiting requests fail; -1: never
 * @dev_loss_tmo: seconds until reconnection is given up; -1: never
 * @keepalive_tmo: seconds in which a dead target is noticed; -1: never asked
 * @retry: a map whose target is not there stays pending
 * @net: network namespace of who asks; referenced by whoever keeps it
 * @id_ext: first half of the target port identifier
 * @ioc_guid: second half of it
 * @max_imm: largest immediate write to ask for, in bytes; 0: none
 * @invalidate: enum wss_invalidate
 * @caps: enum wss_cap to ask for
 * @initiator: the name under which to authenticate; empty: not at all
 * @key: the secret that proves it, with a reference (auth.c)
 */
struct wss_options {
	struct sockaddr_storage target;
	char target_text[WSS_NAME_MAX];
	char volume[WSS_NAME_MAX];
	u32 queues;
	u32 poll_queues;
	u32 queue_depth;
	int reconnect_delay;
	int fast_io_fail_tmo;
	int dev_loss_tmo;
	int keepalive_tmo;
	bool retry;
	bool mlockv;
	struct net *net;
	u64 id_ext;
	u64 ioc_guid;
	u32 max_imm;
	u32 invalidate;
	u32 caps;
	char initiator[WSS_AUTH_NAME_BYTES];
	struct key *key;
};

/* options.c */
int wss_parse_options(char *text, struct wss_options *opts, struct wss_error *err);
void wss_default_options(struct wss_options *opts);
ssize_t wss_options_usage(char *page);

#endif /* WSS_OPTIONS_H */
