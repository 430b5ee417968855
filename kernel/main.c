// SPDX-License-Identifier: GPL-2.0
/*
 * Module entry and exit, and the module parameters. The simplest way to map a volume is `insmod
 * wss.ko target=ADDR:PORT volume=NAME`.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "wss.h"

/* Maximum length of all parameters as `key=value` words. */
#define WSS_PARAM_TEXT 1024

/* Work queues of all sessions; a work item does not overlap with itself. */
struct workqueue_struct *wss_wqs[WSS_WQS];

#define WSS_WQ_ROW(name, flags) { "wss-" #name, flags },
static const struct {
	const char *name;
	unsigned int flags;
} wss_wq_rows[WSS_WQS] = { WSS_WORK_QUEUES(WSS_WQ_ROW) };

/* X(name, help): the keys of /sys/class/wss/map that are also module parameters. */
#define WSS_PARAMS(X)                                                                          \
	X(target, "ADDR:PORT of a target to map from when the module is loaded")               \
	X(volume, "volume to map when the module is loaded: its name, lun:N or naa.HEX")       \
	X(queues, "queue pairs of the session (one per CPU, at most 8)")                       \
	X(poll_queues, "further queue pairs for polled I/O (0)")                               \
	X(queue_depth, "commands in flight per queue pair (128)")                              \
	X(reconnect_delay, "seconds between attempts to reconnect, or off (2)")                \
	X(fast_io_fail_tmo, "seconds after which requests fail while the target is away, or off (15)") \
	X(dev_loss_tmo, "seconds after which a lost target is given up, or off (600)")         \
	X(id_ext, "first half of the target port id, 16 hex digits (0)")                       \
	X(ioc_guid, "second half of the target port id, 16 hex digits (0)")                    \
	X(max_imm, "largest write sent along with its command, in bytes (16384)")              \
	X(keepalive_tmo, "seconds until a dead target is detected, or off (5)")                \
	X(ack_timeout, "ms until the device sends unacknowledged packets again, 0: default (0)")    \
	X(retry, "on: keep trying in the background while the volume cannot be mapped (off)")      \
	X(initiator, "name to authenticate as; its secret is the logon key wss:NAME (none)")    \
	X(target_name, "name that the target must prove, with initiator= (that of the first login)") \
	X(caps, "protocol extensions to request, a bit mask (all)")                            \
	X(mlockv, "off: one region per 4 KiB segment, for comparison (on)")                    \
	X(invalidate, "strict or lazy: when memory regions are invalidated (strict)")

#define WSS_DEFINE_PARAM(name, help)     \
	static char *name;               \
	module_param(name, charp, 0444); \
	MODULE_PARM_DESC(name, help);
WSS_PARAMS(WSS_DEFINE_PARAM)

#define WSS_PARAM_ROW(name, help) { #name, &name },
static const struct {
	const char *key;
	char **value;
} wss_params[] = { WSS_PARAMS(WSS_PARAM_ROW) };

static int wss_map_from_parameters(void)
{
	struct wss_error err = {};
	struct wss_options opts;
	char *text = kzalloc(WSS_PARAM_TEXT, GFP_KERNEL);
	int at = 0;
	int ret;
	int i;

	if (!text)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(wss_params); i++) {
		if (*wss_params[i].value)
			at += scnprintf(text + at, WSS_PARAM_TEXT - at, "%s=%s ", wss_params[i].key,
					*wss_params[i].value);
	}
	wss_default_options(&opts);
	ret = wss_parse_options(text, &opts, &err);
	if (ret)
		pr_err("wss: %s\n", err.text);
	else
		ret = wss_map(&opts, &err);
	kfree(text);
	return ret;
}

static void wss_destroy_work_queues(void)
{
	int i;

	for (i = 0; i < WSS_WQS; i++) {
		if (wss_wqs[i])
			destroy_workqueue(wss_wqs[i]);
	}
}

static int __init wss_create_work_queues(void)
{
	int i;

	for (i = 0; i < WSS_WQS; i++) {
		wss_wqs[i] = alloc_workqueue("%s", WQ_UNBOUND | wss_wq_rows[i].flags, 0,
					    wss_wq_rows[i].name);
		if (!wss_wqs[i]) {
			wss_destroy_work_queues();
			return -ENOMEM;
		}
	}
	return 0;
}

static int __init wss_init(void)
{
	int ret = wss_create_work_queues();

	if (ret)
		return ret;
	wss_debugfs_init();
	ret = class_register(&wss_class);
	if (ret)
		goto exit_debugfs;
	ret = wss_devices_init();
	if (ret)
		goto unregister_class;
	ret = wss_power_init();
	if (ret)
		goto exit_devices;
	if (target || volume) {
		ret = wss_map_from_parameters();
		if (ret)
			goto await_volumes;
	}
	return 0;

await_volumes:
	/* The map has undone itself, and there is no other (map_store()). */
	wss_volumes_await();
	wss_power_exit();
exit_devices:
	wss_devices_exit();
unregister_class:
	class_unregister(&wss_class);
exit_debugfs:
	wss_debugfs_exit();
	wss_destroy_work_queues();
	return ret;
}

static void __exit wss_exit(void)
{
	wss_unmap_all();
	wss_volumes_await();
	wss_power_exit();
	wss_devices_exit();
	class_unregister(&wss_class);
	wss_debugfs_exit();
	wss_destroy_work_queues();
}

module_init(wss_init);
module_exit(wss_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("the WSS authors");
MODULE_DESCRIPTION("Block device over RDMA: initiator of Wire Speed Storage");
