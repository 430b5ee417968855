// SPDX-License-Identifier: GPL-2.0
/*
 * sysfs files of the class, of sessions and of disks. Documentation/ABI/testing/sysfs-class-wss
 * describes each.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "wss.h"

static DEFINE_MUTEX(wss_last_error_mutex); /* protects the next variable */
static struct wss_error wss_last_error;

/**
 * wss_set_last_error - set the text of /sys/class/wss/last_error
 * @err: copied
 */
void wss_set_last_error(const struct wss_error *err)
{
	mutex_lock(&wss_last_error_mutex);
	wss_last_error = *err;
	mutex_unlock(&wss_last_error_mutex);
}

static ssize_t map_show(WSS_CLASS_CONST struct class *class,
			WSS_CLASS_CONST struct class_attribute *a, char *page)
{
	return wss_options_usage(page);
}

static ssize_t map_store(WSS_CLASS_CONST struct class *class,
			 WSS_CLASS_CONST struct class_attribute *a, const char *text, size_t count)
{
	struct wss_error err = {};
	struct wss_options opts;
	char *copy = kstrndup(text, count, GFP_KERNEL);
	int ret;

	if (!copy) {
		ret = wss_fail(&err, -ENOMEM, "%s", wss_reason(ENOMEM));
	} else if (READ_ONCE(THIS_MODULE->state) == MODULE_STATE_COMING) {
		/* If the map of the module's parameters fails, the module goes, and all disks with it. */
		ret = wss_fail(&err, -EAGAIN, "the module is still being loaded: try again");
	} else {
		wss_default_options(&opts);
		ret = wss_parse_options(copy, &opts, &err);
		if (!ret)
			ret = wss_map(&opts, &err);
	}
	wss_set_last_error(&err);
	kfree(copy);
	return ret ?: count;
}
static CLASS_ATTR_RW(map);

static ssize_t unmap_show(WSS_CLASS_CONST struct class *class,
			  WSS_CLASS_CONST struct class_attribute *a, char *page)
{
	return sysfs_emit(page, "Write: wssN [force], or pendingN\n");
}

static ssize_t unmap_store(WSS_CLASS_CONST struct class *class,
			   WSS_CLASS_CONST struct class_attribute *a, const char *text,
			   size_t count)
{
	struct wss_error err = {};
	char name[DISK_NAME_LEN];
	char word[8] = "";
	int words = sscanf(text, "%31s %7s", name, word);
	int ret;

	if (words < 1 || (words == 2 && strcmp(word, "force")))
		ret = wss_fail(&err, -EINVAL, "write: wssN [force], or pendingN");
	else
		ret = wss_unmap(!strncmp(name, "/dev/", 5) ? name + 5 : name, words == 2, &err);
	wss_set_last_error(&err);
	return ret ?: count;
}
static CLASS_ATTR_RW(unmap);

static ssize_t last_error_show(WSS_CLASS_CONST struct class *class,
			       WSS_CLASS_CONST struct class_attribute *a, char *page)
{
	ssize_t ret;

	mutex_lock(&wss_last_error_mutex);
	ret = sysfs_emit(page, "%s\n", wss_last_error.text);
	mutex_unlock(&wss_last_error_mutex);
	return ret;
}
static CLASS_ATTR_RO(last_error);

static ssize_t pending_show(WSS_CLASS_CONST struct class *class,
			    WSS_CLASS_CONST struct class_attribute *a, char *page)
{
	return wss_pending_show(page);
}
static CLASS_ATTR_RO(pending);

static struct attribute *wss_class_attrs[] = {
	&class_attr_pending.attr,
	&class_attr_map.attr,
	&class_attr_unmap.attr,
	&class_attr_last_error.attr,
	NULL,
};
ATTRIBUTE_GROUPS(wss_class);

static void wss_session_dev_release(struct device *dev)
{
	wss_session_free(container_of(dev, struct wss_session, dev));
}

struct class wss_class = {
	.name = "wss",
	.class_groups = wss_class_groups,
	.dev_release = wss_session_dev_release,
};

#define WSS_SESSION_SHOW(name, fmt, ...)                                                     \
	static ssize_t session_##name##_show(struct device *dev, struct device_attribute *a, \
					     char *page)                                     \
	{                                                                                    \
		struct wss_session *sess = container_of(dev, struct wss_session, dev);       \
                                                                                             \
		return sysfs_emit(page, fmt "\n", ##__VA_ARGS__);                            \
	}                                                                                    \
	static struct device_attribute session_attr_##name =                                 \
		__ATTR(name, 0444, session_##name##_show, NULL)

WSS_SESSION_SHOW(state, "%s", wss_state_name(READ_ONCE(sess->state)));
WSS_SESSION_SHOW(target, "%s", sess->opts.target_text);
WSS_SESSION_SHOW(initiator, "%s", sess->opts.initiator[0] ? sess->opts.initiator : "none");
WSS_SESSION_SHOW(target_name, "%s", sess->target_name[0] ? sess->target_name : "none");
WSS_SESSION_SHOW(queues, "%u", wss_nr_chans(sess));
WSS_SESSION_SHOW(queue_depth, "%u", sess->tags.queue_depth);
WSS_SESSION_SHOW(capabilities, "0x%x", sess->chans[0].caps);
WSS_SESSION_SHOW(immediate_bytes, "%u", sess->chans[0].max_imm);
WSS_SESSION_SHOW(epoch, "%llu", sess->chans[0].epoch);
WSS_SESSION_SHOW(reconnect_delay, "%d", sess->opts.reconnect_delay);
WSS_SESSION_SHOW(fast_io_fail_tmo, "%d", sess->opts.fast_io_fail_tmo);
WSS_SESSION_SHOW(dev_loss_tmo, "%d", sess->opts.dev_loss_tmo);
WSS_SESSION_SHOW(keepalive_tmo, "%d", sess->opts.keepalive_tmo);
WSS_SESSION_SHOW(ack_timeout, "%u", sess->opts.ack_timeout);

static ssize_t session_last_error_show(struct device *dev, struct device_attribute *a, char *page)
{
	struct wss_session *sess = container_of(dev, struct wss_session, dev);
	struct wss_error copy;

	spin_lock_irq(&sess->lock);
	copy = sess->last_error;
	spin_unlock_irq(&sess->lock);
	return sysfs_emit(page, "%s\n", copy.text);
}
static struct device_attribute session_attr_last_error =
	__ATTR(last_error, 0444, session_last_error_show, NULL);

static ssize_t session_reset_store(struct device *dev, struct device_attribute *a, const char *text,
				   size_t count)
{
	struct wss_session *sess = container_of(dev, struct wss_session, dev);
	bool yes;
	int ret = kstrtobool(text, &yes);

	if (ret || !yes)
		return ret ?: -EINVAL;
	if (READ_ONCE(sess->state) != WSS_LIVE)
		return -ENOTCONN;
	wss_session_error(sess, "reset by the administrator");
	return count;
}
static struct device_attribute session_attr_reset = __ATTR(reset, 0200, NULL, session_reset_store);

static struct attribute *wss_session_attrs[] = {
	&session_attr_reset.attr,
	&session_attr_state.attr,
	&session_attr_target.attr,
	&session_attr_initiator.attr,
	&session_attr_target_name.attr,
	&session_attr_queues.attr,
	&session_attr_queue_depth.attr,
	&session_attr_capabilities.attr,
	&session_attr_immediate_bytes.attr,
	&session_attr_epoch.attr,
	&session_attr_reconnect_delay.attr,
	&session_attr_fast_io_fail_tmo.attr,
	&session_attr_dev_loss_tmo.attr,
	&session_attr_keepalive_tmo.attr,
	&session_attr_ack_timeout.attr,
	&session_attr_last_error.attr,
	NULL,
};

static const struct attribute_group wss_session_group = {
	.attrs = wss_session_attrs,
};

const struct attribute_group *wss_session_groups[] = {
	&wss_session_group,
	&wss_stats_group,
	NULL,
};

#define WSS_DISK_SHOW(name, fmt, ...)                                                     \
	static ssize_t disk_##name##_show(struct device *dev, struct device_attribute *a, \
					  char *page)                                     \
	{                                                                                 \
		struct wss_volume *vol = dev_to_disk(dev)->private_data;                  \
                                                                                          \
		return sysfs_emit(page, fmt "\n", ##__VA_ARGS__);                         \
	}                                                                                 \
	static struct device_attribute disk_attr_##name =                                 \
		__ATTR(name, 0444, disk_##name##_show, NULL)

/*
 * While the session is not live, its state is shown instead of the last known state of the
 * volume, unless the volume is dead.
 */
static const char *wss_disk_state(const struct wss_volume *vol)
{
	enum wss_state state = READ_ONCE(vol->sess->state);

	switch (READ_ONCE(vol->state)) {
	case WSS_VOLUME_DEAD:
		return "dead";
	case WSS_VOLUME_ABSENT:
		return state == WSS_LIVE ? "absent" : wss_state_name(state);
	default:
		return wss_state_name(state);
	}
}

WSS_DISK_SHOW(volume, "%s", vol->id.name);
WSS_DISK_SHOW(lun, "%*phN", 8, vol->id.lun);
WSS_DISK_SHOW(wwid, "%s", vol->id.wwid);
WSS_DISK_SHOW(session, "%s", dev_name(&vol->sess->dev));
WSS_DISK_SHOW(state, "%s", wss_disk_state(vol));

static struct attribute *wss_disk_attrs[] = {
	&disk_attr_volume.attr,	 &disk_attr_lun.attr,	&disk_attr_wwid.attr,
	&disk_attr_session.attr, &disk_attr_state.attr, NULL,
};

static const struct attribute_group wss_disk_group = {
	.name = "wss",
	.attrs = wss_disk_attrs,
};

const struct attribute_group *wss_disk_groups[] = {
	&wss_disk_group,
	NULL,
};
