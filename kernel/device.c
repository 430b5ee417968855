// SPDX-License-Identifier: GPL-2.0
/*
 * The RDMA devices of the machine, and the sessions that use them.
 *
 * A device may be removed at any time. A session is on the device's list while it holds a reference
 * to the device, whatever the state of the session. The list and the reference change together
 * under one mutex, so that a removal reaches every session that it then waits for. Each session
 * releases the device at once, because the loss of the device is a loss of the connection.
 */
#include "wss.h"

static LIST_HEAD(wss_devices);
/* Protects wss_devices, and the list of sessions of each device. */
static DEFINE_MUTEX(wss_devices_mutex);

/**
 * wss_device_get - let a session use a device
 * @sess: the session, which uses no device yet
 * @ibdev: the device, alive because the caller processes one of its CM events
 * Return: 0, or -ENODEV when the device is being removed.
 */
int wss_device_get(struct wss_session *sess, struct ib_device *ibdev)
{
	struct wss_device *wdev;
	int ret = -ENODEV;

	mutex_lock(&wss_devices_mutex);
	list_for_each_entry(wdev, &wss_devices, node) {
		if (wdev->ibdev == ibdev) {
			list_add_tail(&sess->wdev_node, &wdev->sessions);
			sess->wdev = wdev;
			ret = 0;
			break;
		}
	}
	mutex_unlock(&wss_devices_mutex);
	return ret;
}

/**
 * wss_device_put - mirror of wss_device_get()
 * @sess: the session; it no longer owns anything on its device. The device may be removed right after
 *	this call
 */
void wss_device_put(struct wss_session *sess)
{
	mutex_lock(&wss_devices_mutex);
	list_del_init(&sess->wdev_node);
	if (sess->wdev->removed && list_empty(&sess->wdev->sessions))
		complete(&sess->wdev->unused);
	sess->wdev = NULL;
	mutex_unlock(&wss_devices_mutex);
}

static int wss_device_add(struct ib_device *ibdev)
{
	struct wss_device *wdev;

	if (!(ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;
	wdev = kzalloc(sizeof(*wdev), GFP_KERNEL);
	if (!wdev)
		return -ENOMEM;
	wdev->ibdev = ibdev;
	INIT_LIST_HEAD(&wdev->sessions);
	init_completion(&wdev->unused);
	mutex_lock(&wss_devices_mutex);
	list_add_tail(&wdev->node, &wss_devices);
	mutex_unlock(&wss_devices_mutex);
	return 0;
}

static void wss_device_remove(struct ib_device *ibdev, void *client_data)
{
	struct wss_device *wdev;
	struct wss_device *found = NULL;
	struct wss_session *sess;

	mutex_lock(&wss_devices_mutex);
	list_for_each_entry(wdev, &wss_devices, node) {
		if (wdev->ibdev == ibdev) {
			found = wdev;
			break;
		}
	}
	if (!found) {
		mutex_unlock(&wss_devices_mutex);
		return;
	}
	/* No further session can use the device; those that do are all on the list. */
	list_del(&found->node);
	found->removed = true;
	list_for_each_entry(sess, &found->sessions, wdev_node)
		wss_session_error(sess, "the RDMA device is being removed");
	if (list_empty(&found->sessions))
		complete(&found->unused);
	mutex_unlock(&wss_devices_mutex);

	wait_for_completion(&found->unused);
	/* The last session may still hold the mutex. */
	mutex_lock(&wss_devices_mutex);
	mutex_unlock(&wss_devices_mutex);
	kfree(found);
}

static struct ib_client wss_ib_client = {
	.name = "wss",
	.add = wss_device_add,
	.remove = wss_device_remove,
};

/**
 * wss_devices_init - register for the machine's RDMA devices
 * Return: 0 or -errno.
 */
int wss_devices_init(void)
{
	return ib_register_client(&wss_ib_client);
}

/** wss_devices_exit - mirror of wss_devices_init(); all sessions are gone */
void wss_devices_exit(void)
{
	ib_unregister_client(&wss_ib_client);
}
