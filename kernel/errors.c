// SPDX-License-Identifier: GPL-2.0
/*
 * Error messages. Texts for users (last_error, the kernel log, the terminal) describe what happened
 * rather than show an errno value.
 */
#include <linux/errno.h>

#include "wss.h"

static const struct {
	int value;
	const char *text;
} wss_reasons[] = {
	{ EPERM, "not permitted" },
	{ EIO, "input/output error" },
	{ ENXIO, "no such device or address" },
	{ EINTR, "interrupted" },
	{ EAGAIN, "not possible at the moment" },
	{ ENOMEM, "out of memory" },
	{ EACCES, "access denied" },
	{ EBUSY, "busy" },
	{ EEXIST, "it already exists" },
	{ EXDEV, "it belongs to a different RDMA device from the session's first channel" },
	{ ENODEV, "no such device" },
	{ EINVAL, "the device does not accept these parameters" },
	{ ENOSPC, "no space left" },
	{ EPROTO, "a protocol error" },
	{ EOPNOTSUPP, "the device does not support it" },
	{ EADDRNOTAVAIL, "no device has such an address" },
	{ ENETDOWN, "the network is down" },
	{ ENETUNREACH, "no route to the network" },
	{ ECONNABORTED, "the connection was aborted" },
	{ ECONNRESET, "the connection was reset" },
	{ ENOTCONN, "not connected" },
	{ ETIMEDOUT, "no answer in time" },
	{ ECONNREFUSED, "refused" },
	{ EHOSTUNREACH, "no route to the host" },
	{ ECANCELED, "cancelled" },
};

/**
 * wss_reason - text for an errno value
 * @error: errno value, of either sign
 * Return: a constant string.
 */
const char *wss_reason(int error)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(wss_reasons); i++) {
		if (wss_reasons[i].value == abs(error))
			return wss_reasons[i].text;
	}
	return "unknown error";
}

/**
 * wss_logout_reason - text for the reason of an SRP_T_LOGOUT
 * @logout: the message
 * @bytes: its length
 * Return: a constant string.
 */
const char *wss_logout_reason(const struct wss_srp_t_logout *logout, u32 bytes)
{
	switch (bytes < sizeof(*logout) ? 0 : be32_to_cpu(logout->reason)) {
	case WSS_SRP_LOGOUT_UNKNOWN_MESSAGE:
		return "the target refused a message of unknown type: damaged in transit?";
	case WSS_SRP_LOGOUT_MALFORMED:
		return "the target refused a malformed message: damaged in transit?";
	case WSS_SRP_LOGOUT_BEYOND_CREDITS:
		return "the target refused a command beyond its credits";
	case WSS_SRP_LOGOUT_NOT_AGREED:
		return "the target refused a message that was not negotiated";
	case WSS_SRP_LOGOUT_NOT_AUTHENTICATED:
		return "the target refused a message of the authentication: an older target does not know version 2";
	case WSS_SRP_LOGOUT_ENDED:
		return "an operator of the target ended the session";
	case WSS_SRP_LOGOUT_SHUTDOWN:
		return "the target is shutting down";
	default:
		return "the target logged out";
	}
}

/**
 * wss_fail - store an error message
 * @err: filled
 * @errno_value: returned
 * @fmt: the message, for users
 * Return: @errno_value.
 */
int wss_fail(struct wss_error *err, int errno_value, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return errno_value;
}
