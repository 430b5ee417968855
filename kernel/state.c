// SPDX-License-Identifier: GPL-2.0
/*
 * The states of a session, and the checks of its timers. No function here does I/O or sleeps.
 *
 *                 login                   connection lost
 *   connecting ----------> live <------------------------> recovering
 *       |                   |        logged in again        |      |
 *       | refused           |                               |      | dev_loss_tmo
 *       |                   v              unmap            v      v
 *       +------------->  removing <------------------------------ failed
 *
 * The table below also allows connecting -> failed, which the driver does not use. wss_set_state()
 * returns whether its caller has made the change.
 */
#include "trace.h"
#include "wss.h"

static const u8 wss_next[WSS_STATES] = {
	[WSS_CONNECTING] = BIT(WSS_LIVE) | BIT(WSS_FAILED) | BIT(WSS_REMOVING),
	[WSS_LIVE] = BIT(WSS_RECOVERING) | BIT(WSS_REMOVING),
	[WSS_RECOVERING] = BIT(WSS_LIVE) | BIT(WSS_FAILED) | BIT(WSS_REMOVING),
	[WSS_FAILED] = BIT(WSS_REMOVING),
	[WSS_REMOVING] = 0,
};

static const char *const wss_state_names[WSS_STATES] = {
	[WSS_CONNECTING] = "connecting", [WSS_LIVE] = "live",
	[WSS_RECOVERING] = "recovering", [WSS_FAILED] = "failed",
	[WSS_REMOVING] = "removing",
};

/**
 * wss_state_name - name of a state, in sysfs, log and traces
 * @state: the state
 * Return: a constant string.
 */
const char *wss_state_name(enum wss_state state)
{
	return state < WSS_STATES ? wss_state_names[state] : "?";
}

/**
 * wss_state_allowed - test whether a transition is allowed
 * @from: current state
 * @to: desired state
 * Return: true if @to may follow @from.
 */
bool wss_state_allowed(enum wss_state from, enum wss_state to)
{
	return from < WSS_STATES && to < WSS_STATES && (wss_next[from] & BIT(to));
}

/**
 * wss_set_state - change a session's state; nothing else changes it
 * @sess: the session
 * @to: the new state
 *
 * Wakes all tasks that wait for the session.
 *
 * Context: sess->lock held.
 * Return: true if this call made the change, false if it is not allowed.
 */
bool wss_set_state(struct wss_session *sess, enum wss_state to)
{
	lockdep_assert_held(&sess->lock);
	if (!wss_state_allowed(sess->state, to))
		return false;
	trace_wss_state(sess, sess->state, to);
	/*
	 * Pairs with wss_admit(): a submitter that reads LIVE reads the queues of this connection.
	 */
	smp_store_release(&sess->state, to);
	wake_up_all(&sess->wait);
	return true;
}

/**
 * wss_keepalive_period_ms - interval of keep-alives
 * @limit_ms: time in which a dead target must be detected
 *
 * A keep-alive is sent every two fifths of that time, and three fifths are left for its response.
 * Together they are the limit.
 *
 * Return: milliseconds.
 */
u32 wss_keepalive_period_ms(u32 limit_ms)
{
	return limit_ms / 5 * 2;
}

/**
 * wss_tmo_invalid - check whether the three timers are consistent
 * @reconnect_delay: seconds between attempts, -1: no attempts
 * @fast_io_fail_tmo: seconds until requests fail, -1: off
 * @dev_loss_tmo: seconds until the session is given up, -1: off
 *
 * The rules are those of the SRP transport class: requests must not wait for ever, and must fail
 * before the device is given up.
 *
 * Return: NULL, or the error.
 */
const char *wss_tmo_invalid(int reconnect_delay, int fast_io_fail_tmo, int dev_loss_tmo)
{
	if (reconnect_delay < 0 && fast_io_fail_tmo < 0 && dev_loss_tmo < 0)
		return "all timers are off: requests would wait forever";
	if (reconnect_delay == 0)
		return "reconnect_delay must be at least 1 second, or off";
	if (dev_loss_tmo == 0)
		return "dev_loss_tmo must be at least 1 second, or off";
	if (dev_loss_tmo > 0 && fast_io_fail_tmo >= dev_loss_tmo)
		return "fast_io_fail_tmo must be shorter than dev_loss_tmo";
	return NULL;
}
