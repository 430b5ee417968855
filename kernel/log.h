/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an administrator reads: one line per event, prefixed by the session. Whatever a target can
 * provoke is rate-limited.
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
