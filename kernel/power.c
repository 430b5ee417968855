// SPDX-License-Identifier: GPL-2.0
/*
 * The machine goes down, or to sleep.
 *
 * Down: whoever still has a disk open gets errors instead of a wait for a target that may be gone; a
 * shutdown never hangs on us, and the targets are told.
 *
 * Asleep: the peer forgets us, the network may be another one on waking. Nothing is torn down
 * beforehand - processes that wait for I/O could not be frozen then - but on waking every connection
 * is examined at once instead of when a timer finds it dead, and the time asleep counts against no
 * timeout (they are in jiffies). An RDMA device that its driver takes away for the sleep comes to us
 * as a removal (device.c).
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
	wss_info(sess, "closed: the machine shuts down");
	mutex_lock(&sess->mutex);
	list_for_each_entry(vol, &sess->volumes, node)
		wss_volume_kill(vol);
	mutex_unlock(&sess->mutex);
	wss_session_stop(sess);
}

static int wss_reboot(struct notifier_block *nb, unsigned long event, void *data)
{
	/* Else a pending map might connect to a target that was just told that we go. */
	wss_close_maps();
	wss_for_each_session(wss_session_shutdown);
	return NOTIFY_DONE;
}

static struct notifier_block wss_reboot_nb = { .notifier_call = wss_reboot };

static void wss_session_awake(struct wss_session *sess)
{
	switch (READ_ONCE(sess->state)) {
	case WSS_LIVE:
		wss_info(sess, "awake: looking whether the target is still there");
		mod_delayed_work(wss_wq(keepalive), &sess->keepalive_work, 0);
		break;
	case WSS_RECOVERING:
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
 * wss_power_init - follow the machine's power
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
