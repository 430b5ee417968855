// SPDX-License-Identifier: GPL-2.0
/*
 * The RDMA devices of the machine, and the sessions that use them.
 *
 * A device may be removed at any time. A session is on the device's list while it holds a reference
 * to the device, whatever the state of the session. The list and the reference change together
 * under one mutex, so that a removal reaches every session that it then waits for. Each session
 * releases the device at once, because the loss of the device is a loss of the connection.
 */
#include "fault.h"
#include "wss.h"

static LIST_HEAD(wss_devices);
/* Protects wss_devices, and the list of sessions of each device. */
static DEFINE_MUTEX(wss_devices_mutex);

/* Returns -ENODEV if the device is being removed. */
static int wss_device_get(struct wss_session *sess, struct ib_device *ibdev)
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

/* The session no longer owns anything on its device, which may be removed right after this call. */
static void wss_device_put(struct wss_session *sess)
{
	mutex_lock(&wss_devices_mutex);
	list_del_init(&sess->wdev_node);
	if (sess->wdev->removed && list_empty(&sess->wdev->sessions))
		complete(&sess->wdev->unused);
	sess->wdev = NULL;
	mutex_unlock(&wss_devices_mutex);
}

/*
 * Bytes that can be mapped for a device at the same time. A bounce buffer or an IOMMU may accept
 * less than one request transfers.
 */
static u32 wss_max_mapping(struct ib_device *ibdev)
{
	/* A software device does not use DMA. */
	size_t bytes = ibdev->dma_device ? dma_max_mapping_size(ibdev->dma_device) : SIZE_MAX;

	bytes = min_t(size_t, bytes, ib_dma_max_seg_size(ibdev));
	if (wss_force_mapping)
		bytes = min_t(size_t, bytes, wss_force_mapping);
	return min_t(size_t, bytes, UINT_MAX);
}

static void wss_measure_device(const struct wss_session *sess, struct ib_device *ibdev,
			       struct wss_device_limits *limits)
{
	u32 pages = ibdev->attrs.max_fast_reg_page_list_len;
	u32 most = sess->opts.mlockv ? WSS_MAX_SEGMENTS : WSS_SEGMENT_REGIONS;

	/* One page more than segments, because data need not begin at a page boundary. */
	limits->segments = clamp_t(u32, pages, 2, most + 1) - 1;
	if (wss_force_segments)
		limits->segments = min(limits->segments, wss_force_segments);
	limits->mapping = min(wss_max_mapping(ibdev), limits->segments * SZ_4K);
	limits->gaps = sess->opts.mlockv && (ibdev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG);
}

/*
 * The disks have the limits of the session's first device, and requests of that size may be
 * waiting. The session can therefore not use a device with lower limits. With a device of higher
 * limits, it still uses only those of the first one.
 */
static int wss_check_device(struct wss_session *sess, struct ib_device *ibdev, struct wss_error *err)
{
	const struct wss_device_limits *wanted = &sess->device_limits;
	struct wss_device_limits limits;

	wss_measure_device(sess, ibdev, &limits);
	if (!sess->tags_ready)
		sess->device_limits = limits;
	if (limits.segments < wanted->segments)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s registers at most %u segments at once, but the session's disks need %u: unmap them and map them again to use this device",
				dev_name(&ibdev->dev), limits.segments, wanted->segments);
	if (limits.mapping < wanted->mapping)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s maps at most %u bytes at once, but the session's disks need %u: unmap them and map them again to use this device",
				dev_name(&ibdev->dev), limits.mapping, wanted->mapping);
	if (!limits.gaps && wanted->gaps)
		return wss_fail(err, -EOPNOTSUPP, "RDMA device %s cannot register memory with gaps, which the session's disks need: unmap them and map them again to use this device",
				dev_name(&ibdev->dev));
	return 0;
}

/**
 * wss_session_bind - let a session use a device, with a protection domain of its own
 * @sess: the session; stays bound to the device that it already uses
 * @ibdev: the device, alive because the caller processes one of its CM events
 * @err: the reason for a failure; may stay empty
 * Return: 0, -EXDEV when the session uses another device, or another -errno.
 */
int wss_session_bind(struct wss_session *sess, struct ib_device *ibdev, struct wss_error *err)
{
	struct ib_pd *pd;
	int ret;

	if (sess->wdev)
		return sess->wdev->ibdev == ibdev ? 0 : -EXDEV;
	ret = wss_check_device(sess, ibdev, err);
	if (ret)
		return ret;
	ret = wss_device_get(sess, ibdev);
	if (ret)
		return ret;
	pd = ib_alloc_pd(ibdev, 0);
	if (IS_ERR(pd)) {
		wss_device_put(sess);
		return PTR_ERR(pd);
	}
	sess->pd = pd;
	return 0;
}

/**
 * wss_session_unbind - mirror of wss_session_bind()
 * @sess: the session; all its channels are down. No effect if it is not bound
 */
void wss_session_unbind(struct wss_session *sess)
{
	if (!sess->wdev)
		return;
	ib_dealloc_pd(sess->pd);
	sess->pd = NULL;
	wss_device_put(sess);
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
