/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options of a map request.
 */
#ifndef WSS_OPTIONS_H
#define WSS_OPTIONS_H

#include <linux/socket.h>

#include "error.h"

/* When the driver invalidates a region that the target did not invalidate. */
enum wss_invalidate {
	WSS_INVALIDATE_STRICT, /* before the request ends */
	WSS_INVALIDATE_LAZY,   /* before the region is used again: only for a trusted target */
};

struct key;

/**
 * struct wss_options - options of a map request; immutable once a session has copied them
 * @target: address and port
 * @target_text: @target in the user's own spelling
 * @volume: name of the volume, or `lun:N`, or its wwid (for example `naa.HEX`)
 * @queues: channels for I/O with interrupts
 * @poll_queues: further channels for polled I/O
 * @queue_depth: commands per channel
 * @reconnect_delay: seconds between attempts; -1: do not reconnect
 * @fast_io_fail_tmo: seconds until waiting requests fail; -1: never
 * @dev_loss_tmo: seconds until the driver gives the session up; -1: never
 * @keepalive_tmo: seconds within which the driver detects a dead target; -1: only keep-alives
 *	that the target requires
 * @ack_timeout: milliseconds after which the device sends unacknowledged packets again; 0: the
 *	connection manager chooses the time
 * @retry: keep a map pending if it fails for a temporary reason (wss_worth_retrying())
 * @mlockv: one region per request; false: one per segment (segments.c)
 * @net: network namespace of the caller; each object that keeps it holds a reference
 * @id_ext: first half of the target port identifier
 * @ioc_guid: second half of it
 * @max_imm: largest immediate write to request, in bytes; 0: none
 * @invalidate: enum wss_invalidate
 * @caps: enum wss_cap to request
 * @initiator: the name under which to authenticate; empty: no authentication
 * @target_name: the name that the target must prove, zero-padded; empty: any
 * @key: the key that holds the secret, with a reference (auth.c)
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
	u32 ack_timeout;
	bool retry;
	bool mlockv;
	struct net *net;
	u64 id_ext;
	u64 ioc_guid;
	u32 max_imm;
	u32 invalidate;
	u32 caps;
	char initiator[WSS_AUTH_NAME_BYTES];
	char target_name[WSS_AUTH_NAME_BYTES];
	struct key *key;
};

/* options.c */
int wss_parse_options(char *text, struct wss_options *opts, struct wss_error *err);
void wss_default_options(struct wss_options *opts);
ssize_t wss_options_usage(char *page);

#endif /* WSS_OPTIONS_H */
