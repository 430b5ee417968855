// SPDX-License-Identifier: GPL-2.0
/*
 * The RDMA devices of the machine, as far as sessions use them.
 *
 * A device may be pulled out at any time. Sessions therefore hold a count on it, and removal waits
 * until every session has let go: they do at once, because losing the device is for them losing the
 * connection.
 */
#include "wss.h"

static LIST_HEAD(wss_devices);
/* Protects wss_devices. */
static DEFINE_MUTEX(wss_devices_mutex);

/**
 * wss_device_get - take a device into use
 * @ibdev: the device, alive because the caller is inside a CM event of it
 * Return: the device, or NULL when it is on its way out.
 */
struct wss_device *wss_device_get(struct ib_device *ibdev)
{
	struct wss_device *wdev;
	struct wss_device *found = NULL;

	mutex_lock(&wss_devices_mutex);
	list_for_each_entry(wdev, &wss_devices, node) {
		if (wdev->ibdev == ibdev && refcount_inc_not_zero(&wdev->users)) {
			found = wdev;
			break;
		}
	}
	mutex_unlock(&wss_devices_mutex);
	return found;
}

/**
 * wss_device_put - mirror of wss_device_get()
 * @wdev: the device; may be freed by the remover right after
 */
void wss_device_put(struct wss_device *wdev)
{
	if (refcount_dec_and_test(&wdev->users))
		complete(&wdev->gone);
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
	refcount_set(&wdev->users, 1);
	init_completion(&wdev->gone);
	mutex_lock(&wss_devices_mutex);
	list_add_tail(&wdev->node, &wss_devices);
	mutex_unlock(&wss_devices_mutex);
	return 0;
}

static void wss_device_remove(struct ib_device *ibdev, void *client_data)
{
	struct wss_device *wdev;
	struct wss_device *found = NULL;

	mutex_lock(&wss_devices_mutex);
	list_for_each_entry(wdev, &wss_devices, node) {
		if (wdev->ibdev == ibdev) {
			found = wdev;
			list_del(&wdev->node);
			break;
		}
	}
	mutex_unlock(&wss_devices_mutex);
	if (!found)
		return;

	wss_device_put(found);
	wss_sessions_lose_device(found);
	wait_for_completion(&found->gone);
	kfree(found);
}

static struct ib_client wss_ib_client = {
	.name = "wss",
	.add = wss_device_add,
	.remove = wss_device_remove,
};

/**
 * wss_devices_init - begin to follow the devices of the machine
 * Return: 0 or -errno.
 */
int wss_devices_init(void)
{
	return ib_register_client(&wss_ib_client);
}

/** wss_devices_exit - mirror of wss_devices_init(); no session exists any more */
void wss_devices_exit(void)
{
	ib_unregister_client(&wss_ib_client);
}
