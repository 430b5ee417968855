// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of a session: one row per CPU, written without atomics, summed when read.
 */
#include "wss.h"

/**
 * wss_stat_sum - sum of one counter over all CPUs
 * @sess: the session
 * @counter: the counter
 * Return: the sum; exact when nothing is in flight.
 */
u64 wss_stat_sum(const struct wss_session *sess, enum wss_counter counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(sess->stats, cpu)->count[counter];
	return sum;
}

static ssize_t wss_show_sum(struct device *dev, char *page, enum wss_counter counter)
{
	const struct wss_session *sess = container_of(dev, struct wss_session, dev);

	return sysfs_emit(page, "%llu\n", wss_stat_sum(sess, counter));
}

/*
 * Shows the difference of two counters, for example the regions in use. It is 0 when nothing is in
 * flight, except for regions with invalidate=lazy, which stay valid until they are used again.
 */
static ssize_t wss_show_active(struct device *dev, char *page, enum wss_counter in,
			       enum wss_counter out)
{
	const struct wss_session *sess = container_of(dev, struct wss_session, dev);

	return sysfs_emit(page, "%lld\n", (s64)(wss_stat_sum(sess, in) - wss_stat_sum(sess, out)));
}

#define WSS_COUNTER_SHOW(name, help)                                                           \
	static ssize_t name##_show(struct device *dev, struct device_attribute *a, char *page) \
	{                                                                                      \
		return wss_show_sum(dev, page, WSS_STAT_##name);                               \
	}                                                                                      \
	static DEVICE_ATTR_RO(name);
WSS_COUNTERS(WSS_COUNTER_SHOW)

static ssize_t regions_active_show(struct device *dev, struct device_attribute *a, char *page)
{
	return wss_show_active(dev, page, WSS_STAT_regions_registered, WSS_STAT_regions_released);
}
static DEVICE_ATTR_RO(regions_active);

static ssize_t dma_mapped_show(struct device *dev, struct device_attribute *a, char *page)
{
	return wss_show_active(dev, page, WSS_STAT_dma_maps, WSS_STAT_dma_unmaps);
}
static DEVICE_ATTR_RO(dma_mapped);

#define WSS_COUNTER_ATTR(name, help) &dev_attr_##name.attr,
static struct attribute *wss_stats_attrs[] = {
	&dev_attr_regions_active.attr,
	&dev_attr_dma_mapped.attr,
	WSS_COUNTERS(WSS_COUNTER_ATTR) /* each ends with a comma */
	NULL,
};

const struct attribute_group wss_stats_group = {
	.name = "stats",
	.attrs = wss_stats_attrs,
};
