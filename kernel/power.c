// SPDX-License-Identifier: GPL-2.0
/*
 * Shutdown and suspend of the machine.
 *
 * Shutdown: requests of disks that are still open fail instead of waiting for a target that may be
 * gone, so that a shutdown never hangs. The driver logs out of the targets.
 *
 * Suspend: the peer drops the connection, and the network may be a different one at resume. Nothing
 * is torn down before the suspend, because processes that wait for I/O could not be frozen then. At
 * resume every connection is checked at once, before a timer would detect its loss. The time asleep
 * does not count towards time-outs, which are in jiffies. If a driver removes its RDMA device for
 * the suspend, that is handled as a removal (device.c).
 */
#include <linux/reboot.h>
#include <linux/suspend.h>

#include "log.h"
#include "wss.h"

static void wss_session_shutdown(struct wss_session *sess)
{
	struct wss_volume *vol;

	if (READ_ONCE(sess->state) == WSS_CONNECTING) {
		wss_session_cancel(sess);
		return;
	}
	wss_info(sess, "closed: the machine is shutting down");
	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node)
		wss_volume_kill(vol);
	mutex_unlock(&sess->mutex);
	wss_session_stop(sess);
}

static int wss_reboot(struct notifier_block *nb, unsigned long event, void *data)
{
	/* Otherwise a pending map might connect to a target again after the logout. */
	wss_close_maps();
	wss_for_each_session(wss_session_shutdown);
	return NOTIFY_DONE;
}

static struct notifier_block wss_reboot_nb = { .notifier_call = wss_reboot };

static void wss_session_awake(struct wss_session *sess)
{
	switch (READ_ONCE(sess->state)) {
	case WSS_LIVE:
		wss_info(sess, "resumed: checking the connection");
		mod_delayed_work(wss_wq(keepalive), &sess->keepalive_work, 0);
		break;
	case WSS_RECOVERING:
		wss_info(sess, "resumed: reconnecting");
		mod_delayed_work(wss_wq(recovery), &sess->recover_work, 0);
		break;
	default:
		break;
	}
}

static int wss_pm(struct notifier_block *nb, unsigned long event, void *data)
{
	if (event == PM_POST_SUSPEND || event == PM_POST_HIBERNATION || event == PM_POST_RESTORE)
		wss_for_each_session(wss_session_awake);
	return NOTIFY_DONE;
}

static struct notifier_block wss_pm_nb = { .notifier_call = wss_pm };

/**
 * wss_power_init - register for shutdown and suspend
 * Return: 0 or -errno.
 */
int wss_power_init(void)
{
	int ret = register_reboot_notifier(&wss_reboot_nb);

	if (ret)
		return ret;
	ret = register_pm_notifier(&wss_pm_nb);
	if (ret)
		unregister_reboot_notifier(&wss_reboot_nb);
	return ret;
}

/** wss_power_exit - mirror of wss_power_init() */
void wss_power_exit(void)
{
	unregister_pm_notifier(&wss_pm_nb);
	unregister_reboot_notifier(&wss_reboot_nb);
}
