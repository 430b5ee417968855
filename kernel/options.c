// SPDX-License-Identifier: GPL-2.0
/*
 * Parser for the `key=value` words of a map request. One table holds the parser and the help of
 * each option; the usage text of /sys/class/wss/map is printed from it.
 */
#include <linux/cpumask.h>
#include <linux/inet.h>
#include <linux/nsproxy.h>

#include "wss.h"

/* keepalive_tmo in milliseconds must fit in an int. */
#define WSS_KEEPALIVE_MAX ((int)(INT_MAX / MSEC_PER_SEC))
#define WSS_ACK_TIMEOUT_MAX 8796093 /* 4.096 us * 2^31, the longest that a queue pair can have */

struct wss_option {
	const char *token;
	int (*parse)(const char *value, struct wss_options *opts, size_t offset,
		     struct wss_error *err);
	size_t offset;
	u32 min;
	u32 max;
	const char *help;
};

static int wss_parse_target(const char *value, struct wss_options *opts, size_t offset,
			    struct wss_error *err)
{
	char text[WSS_NAME_MAX];
	char *addr = text;
	char *port;

	if (!strncmp(value, "rdma://", 7))
		value += 7;
	if (strscpy(text, value, sizeof(text)) < 0)
		return wss_fail(err, -EINVAL, "target=%s: too long", value);
	strscpy(opts->target_text, value, sizeof(opts->target_text));
	if (text[0] == '[') {
		addr = text + 1;
		port = strchr(addr, ']');
		if (!port)
			return wss_fail(err, -EINVAL, "target=%s: ']' is missing", value);
		*port++ = '\0';
	} else {
		port = strchr(text, ':');
	}
	if (port && *port == ':')
		*port++ = '\0';
	else
		port = NULL;
	if (inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, addr, port ?: "5555",
				 &opts->target))
		return wss_fail(err, -EINVAL,
				"target=%s: must be a numeric ADDR:PORT or [ADDR6]:PORT", value);
	return 0;
}

static int wss_parse_volume(const char *value, struct wss_options *opts, size_t offset,
			    struct wss_error *err)
{
	if (!*value || strscpy(opts->volume, value, sizeof(opts->volume)) < 0)
		return wss_fail(err, -EINVAL, "volume=%s: empty or too long", value);
	return 0;
}

static int wss_parse_initiator(const char *value, struct wss_options *opts, size_t offset,
			       struct wss_error *err)
{
	if (!*value || strscpy(opts->initiator, value, sizeof(opts->initiator)) < 0)
		return wss_fail(err, -EINVAL, "initiator=%s: empty or longer than %u", value,
				WSS_AUTH_NAME_BYTES - 1);
	return 0;
}

static int wss_parse_target_name(const char *value, struct wss_options *opts, size_t offset,
				 struct wss_error *err)
{
	if (!*value || strscpy_pad(opts->target_name, value, sizeof(opts->target_name)) < 0)
		return wss_fail(err, -EINVAL, "target_name=%s: empty or longer than %u", value,
				WSS_AUTH_NAME_BYTES - 1);
	return 0;
}

static int wss_parse_u32(const char *value, struct wss_options *opts, size_t offset,
			 struct wss_error *err)
{
	return kstrtou32(value, 0, (u32 *)((char *)opts + offset));
}

static int wss_parse_secs(const char *value, struct wss_options *opts, size_t offset,
			  struct wss_error *err)
{
	int *to = (int *)((char *)opts + offset);
	int ret;

	if (!strcmp(value, "off")) {
		*to = -1;
		return 0;
	}
	ret = kstrtoint(value, 0, to);
	return ret ?: *to < 0 || *to > INT_MAX / HZ ? -EINVAL : 0;
}

static int wss_parse_switch(const char *value, struct wss_options *opts, size_t offset,
			    struct wss_error *err)
{
	return kstrtobool(value, (bool *)((char *)opts + offset));
}

static int wss_parse_id(const char *value, struct wss_options *opts, size_t offset,
			struct wss_error *err)
{
	if (strlen(value) != 16)
		return wss_fail(err, -EINVAL, "%s: must be 16 hex digits", value);
	return kstrtou64(value, 16, (u64 *)((char *)opts + offset));
}

static int wss_parse_invalidate(const char *value, struct wss_options *opts, size_t offset,
				struct wss_error *err)
{
	if (!strcmp(value, "strict"))
		opts->invalidate = WSS_INVALIDATE_STRICT;
	else if (!strcmp(value, "lazy"))
		opts->invalidate = WSS_INVALIDATE_LAZY;
	else
		return wss_fail(err, -EINVAL, "invalidate=%s: must be strict or lazy", value);
	return 0;
}

#define WSS_AT(member) offsetof(struct wss_options, member)

static const struct wss_option wss_option_table[] = {
	{ "target", wss_parse_target, 0, 0, 0,
	  "address of the target, ADDR:PORT or [ADDR6]:PORT (required)" },
	{ "volume", wss_parse_volume, 0, 0, 0,
	  "name of the volume, or lun:N, or naa.HEX (required)" },
	{ "queues", wss_parse_u32, WSS_AT(queues), 1, WSS_MAX_CHANNELS,
	  "queue pairs of the session (one per CPU, at most 8)" },
	{ "poll_queues", wss_parse_u32, WSS_AT(poll_queues), 0, WSS_MAX_CHANNELS / 2,
	  "further queue pairs for polled I/O (0)" },
	{ "queue_depth", wss_parse_u32, WSS_AT(queue_depth), 2, WSS_MAX_DEPTH,
	  "commands in flight per queue pair (128)" },
	{ "reconnect_delay", wss_parse_secs, WSS_AT(reconnect_delay), 0, 0,
	  "seconds between attempts to reconnect, or off (2)" },
	{ "fast_io_fail_tmo", wss_parse_secs, WSS_AT(fast_io_fail_tmo), 0, 0,
	  "seconds after which requests fail while the target is away, or off (15)" },
	{ "dev_loss_tmo", wss_parse_secs, WSS_AT(dev_loss_tmo), 0, 0,
	  "seconds after which a lost target is given up, or off (600)" },
	{ "keepalive_tmo", wss_parse_secs, WSS_AT(keepalive_tmo), 0, 0,
	  "seconds until a dead target is detected, or off (5)" },
	{ "ack_timeout", wss_parse_u32, WSS_AT(ack_timeout), 0, WSS_ACK_TIMEOUT_MAX,
	  "ms until the device sends unacknowledged packets again, 0: default of the network (0)" },
	{ "retry", wss_parse_switch, WSS_AT(retry), 0, 0,
	  "on: keep trying in the background while the volume cannot be mapped (off)" },
	{ "id_ext", wss_parse_id, WSS_AT(id_ext), 0, 0,
	  "first half of the target port id, 16 hex digits (0)" },
	{ "ioc_guid", wss_parse_id, WSS_AT(ioc_guid), 0, 0,
	  "second half of the target port id, 16 hex digits (0)" },
	{ "max_imm", wss_parse_u32, WSS_AT(max_imm), 0, WSS_SRP_IMM_DATA_MAX,
	  "largest write sent along with its command, in bytes (16384)" },
	{ "caps", wss_parse_u32, WSS_AT(caps), 0, WSS_CAP_ALL | WSS_CAP_CACHE,
	  "protocol extensions to request, a bit mask (all)" },
	{ "initiator", wss_parse_initiator, 0, 0, 0,
	  "name to authenticate as; its secret is the logon key wss:NAME (none)" },
	{ "target_name", wss_parse_target_name, 0, 0, 0,
	  "name that the target must prove, with initiator= (that of the first login)" },
	{ "mlockv", wss_parse_switch, WSS_AT(mlockv), 0, 0,
	  "off: one region per 4 KiB segment, for comparison (on)" },
	{ "invalidate", wss_parse_invalidate, 0, 0, 0,
	  "strict: a region is invalidated before its request ends; lazy: when it is reused (strict)" },
};

/**
 * wss_default_options - set the defaults of all options
 * @opts: filled
 */
void wss_default_options(struct wss_options *opts)
{
	memset(opts, 0, sizeof(*opts));
	opts->queues = min_t(u32, num_online_cpus(), WSS_DEFAULT_CHANNELS);
	opts->queue_depth = WSS_DEFAULT_DEPTH;
	opts->reconnect_delay = 2;
	opts->fast_io_fail_tmo = 15;
	opts->dev_loss_tmo = 600;
	opts->keepalive_tmo = 5;
	opts->max_imm = WSS_SRP_IMM_DATA_MAX;
	opts->invalidate = WSS_INVALIDATE_STRICT;
	opts->caps = WSS_CAP_ALL | WSS_CAP_CACHE;
	opts->mlockv = true;
}

static int wss_parse_one(char *word, struct wss_options *opts, struct wss_error *err)
{
	char *value = strchr(word, '=');
	const struct wss_option *o;
	u32 number;
	int ret;

	if (!value)
		return wss_fail(err, -EINVAL, "'%s' is not key=value", word);
	*value++ = '\0';
	for (o = wss_option_table; o < wss_option_table + ARRAY_SIZE(wss_option_table); o++) {
		if (strcmp(o->token, word))
			continue;
		err->text[0] = '\0';
		ret = o->parse(value, opts, o->offset, err);
		if (!ret && o->parse == wss_parse_u32) {
			number = *(u32 *)((char *)opts + o->offset);
			if (number < o->min || number > o->max)
				ret = -ERANGE;
		}
		if (!ret || err->text[0])
			return ret;
		if (o->max)
			return wss_fail(err, -EINVAL, "%s=%s: must be a number from %u to %u",
					word, value, o->min, o->max);
		return wss_fail(err, -EINVAL, "%s=%s is not valid", word, value);
	}
	return wss_fail(err, -EINVAL, "unknown key '%s'; /sys/class/wss/map lists the valid keys",
			word);
}

/**
 * wss_parse_options - parse the words of a map request
 * @text: words separated by blanks, commas or newlines; destroyed
 * @opts: holds the defaults; gets the values of @text
 * @err: the reason for a failure; names the invalid word
 * Return: 0 or -EINVAL.
 */
int wss_parse_options(char *text, struct wss_options *opts, struct wss_error *err)
{
	const char *bad;
	char *word;
	int ret;

	while ((word = strsep(&text, " \t\n,"))) {
		if (!*word)
			continue;
		ret = wss_parse_one(word, opts, err);
		if (ret)
			return ret;
	}
	if (!opts->target_text[0] || !opts->volume[0])
		return wss_fail(err, -EINVAL, "target= and volume= are required");
	bad = wss_tmo_invalid(opts->reconnect_delay, opts->fast_io_fail_tmo, opts->dev_loss_tmo);
	if (bad)
		return wss_fail(err, -EINVAL, "%s", bad);
	if (opts->target_name[0] && !opts->initiator[0])
		return wss_fail(err, -EINVAL,
				"target_name= needs initiator=: without a secret the target proves nothing");
	if (!opts->mlockv && opts->invalidate == WSS_INVALIDATE_LAZY)
		return wss_fail(err, -EINVAL, "mlockv=off and invalidate=lazy are mutually exclusive");
	/*
	 * More hardware queues than CPUs would not be used. blk-mq does not create them, and since
	 * Linux 6.17 blk_mq_map_queues() would map CPUs to them nevertheless.
	 */
	opts->queues = min(opts->queues, num_possible_cpus());
	opts->poll_queues = min(opts->poll_queues, num_possible_cpus());
	/* A response can invalidate only one region, and a cache engine receives only one. */
	if (!opts->mlockv)
		opts->caps &= ~(WSS_CAP_REMOTE_INVALIDATE | WSS_CAP_CACHE);
	if (opts->keepalive_tmo == 0 || opts->keepalive_tmo > WSS_KEEPALIVE_MAX)
		return wss_fail(err, -EINVAL, "keepalive_tmo must be 1 to %d seconds, or off", WSS_KEEPALIVE_MAX);
	return 0;
}

/**
 * wss_options_usage - print the help of all options
 * @page: a page for the text
 * Return: its length.
 */
ssize_t wss_options_usage(char *page)
{
	const struct wss_option *o;
	int at;

	at = sysfs_emit(page, "Write: target=ADDR:PORT volume=NAME [key=value ...]\n");
	for (o = wss_option_table; o < wss_option_table + ARRAY_SIZE(wss_option_table); o++)
		at += sysfs_emit_at(page, at, "  %-17s %s\n", o->token, o->help);
	return at;
}
