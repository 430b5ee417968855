// SPDX-License-Identifier: GPL-2.0
/*
 * Fault injection (fault.h).
 */
#include <linux/atomic.h>
#include <linux/fault-inject.h>
#include <linux/module.h>

#include "fault.h"

DEFINE_STATIC_KEY_FALSE(wss_faults_on);

static unsigned int wss_every[WSS_FAULT_KINDS];
static atomic_t wss_times[WSS_FAULT_KINDS];

unsigned int wss_force_delay_ms = 500;
module_param_named(force_delay_ms, wss_force_delay_ms, uint, 0644);
MODULE_PARM_DESC(force_delay_ms, "milliseconds of force_delay, force_poll and force_event (500)");

unsigned int wss_force_sense = 0x020b0000;
module_param_named(force_sense, wss_force_sense, uint, 0644);
MODULE_PARM_DESC(force_sense, "SAM status, sense key, ASC and ASCQ of force_error, a byte each (0x020b0000)");

bool wss_force_deferred;
module_param_named(force_deferred, wss_force_deferred, bool, 0644);
MODULE_PARM_DESC(force_deferred, "force_error returns deferred sense, which reports the failure of an earlier command");

unsigned int wss_force_channels;
module_param_named(force_channels, wss_force_channels, uint, 0644);
MODULE_PARM_DESC(force_channels, "simulate a target that accepts at most this many channels; 0: no limit");

unsigned int wss_force_credits;
module_param_named(force_credits, wss_force_credits, uint, 0644);
MODULE_PARM_DESC(force_credits, "simulate a target that grants at most this many credits to a channel, which needs two; 0: no limit");

bool wss_force_no_inline;
module_param_named(force_no_inline, wss_force_no_inline, bool, 0644);
MODULE_PARM_DESC(force_no_inline, "simulate a device that cannot send commands inline");

unsigned int wss_force_mapping;
module_param_named(force_mapping, wss_force_mapping, uint, 0644);
MODULE_PARM_DESC(force_mapping, "simulate an RDMA device that maps at most this many bytes at once; 0: no limit");

unsigned int wss_force_segments;
module_param_named(force_segments, wss_force_segments, uint, 0644);
MODULE_PARM_DESC(force_segments, "simulate an RDMA device whose regions have at most this many segments; 0: no limit");

#if defined(CONFIG_FAULT_INJECTION) && defined(CONFIG_FAULT_INJECTION_DEBUG_FS)
#define WSS_FAULT_ATTR(name, help) [WSS_FAULT_##name] = FAULT_ATTR_INITIALIZER,
static struct fault_attr wss_fault_attrs[WSS_FAULT_KINDS] = { WSS_FAULTS(WSS_FAULT_ATTR) };

static bool wss_should_fail(enum wss_fault fault)
{
	return should_fail(&wss_fault_attrs[fault], 1);
}

/*
 * A fault attribute may be enabled at any time, without notice to the driver. So the hooks are
 * always active.
 */
static void wss_create_attrs(struct dentry *folder)
{
#define WSS_FAULT_FILE(name, help) \
	fault_create_debugfs_attr("fail_" #name, folder, &wss_fault_attrs[WSS_FAULT_##name]);
	WSS_FAULTS(WSS_FAULT_FILE)
	static_branch_enable(&wss_faults_on);
}
#else
static bool wss_should_fail(enum wss_fault fault)
{
	return false;
}

static void wss_create_attrs(struct dentry *folder)
{
}
#endif

static int wss_set_fault(const char *text, const struct kernel_param *param)
{
	unsigned int *every = param->arg;
	unsigned int before = *every;
	int ret = param_set_uint(text, param);

	if (ret)
		return ret;
	/* Parameters are set one at a time. */
	if (*every && !before)
		static_branch_inc(&wss_faults_on);
	else if (!*every && before)
		static_branch_dec(&wss_faults_on);
	return 0;
}

static const struct kernel_param_ops wss_fault_ops = {
	.set = wss_set_fault,
	.get = param_get_uint,
};

#define WSS_FAULT_PARAM(name, help)                                                              \
	module_param_cb(force_##name, &wss_fault_ops, &wss_every[WSS_FAULT_##name], 0644);       \
	MODULE_PARM_DESC(force_##name, "every N-th time, " help);
WSS_FAULTS(WSS_FAULT_PARAM)

/**
 * wss_fault_fires - test whether a fault happens now
 * @fault: the fault
 *
 * Context: any.
 * Return: true if it happens.
 */
bool wss_fault_fires(enum wss_fault fault)
{
	unsigned int every = READ_ONCE(wss_every[fault]);

	if (every && (unsigned int)atomic_inc_return(&wss_times[fault]) % every == 0)
		return true;
	return wss_should_fail(fault);
}

/**
 * wss_faults_init - create the fault attributes, if the kernel supports them
 * @folder: the module's directory in debugfs; its removal removes them
 */
void wss_faults_init(struct dentry *folder)
{
	wss_create_attrs(folder);
}
