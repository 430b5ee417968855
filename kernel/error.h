/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Error messages for an administrator whose request has failed.
 */
#ifndef WSS_ERROR_H
#define WSS_ERROR_H

#include "limits.h"

/**
 * struct wss_error - why an administrator's request failed, as a message
 * @text: one line without a newline; empty when nothing failed
 */
struct wss_error {
	char text[WSS_ERROR_MAX];
};

/* errors.c */
int __printf(3, 4) wss_fail(struct wss_error *err, int errno_value, const char *fmt, ...);
const char *wss_reason(int error);
const char *wss_logout_reason(const struct wss_srp_t_logout *logout, u32 bytes);

#endif /* WSS_ERROR_H */
