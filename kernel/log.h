/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log lines for the administrator: one line per event, prefixed by the session. wss_warn_rl() limits
 * the rate of lines that a target could provoke in quick succession.
 */
#ifndef WSS_LOG_H
#define WSS_LOG_H

#include <linux/printk.h>

#define wss_info(sess, fmt, ...) \
	pr_info("wss: session%d %s: " fmt "\n", (sess)->id, (sess)->opts.target_text, ##__VA_ARGS__)
#define wss_warn(sess, fmt, ...) \
	pr_warn("wss: session%d %s: " fmt "\n", (sess)->id, (sess)->opts.target_text, ##__VA_ARGS__)
#define wss_warn_rl(sess, fmt, ...)                                                              \
	pr_warn_ratelimited("wss: session%d %s: " fmt "\n", (sess)->id, (sess)->opts.target_text, \
			    ##__VA_ARGS__)

#endif /* WSS_LOG_H */
