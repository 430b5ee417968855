// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent reservations, for the ioctls of linux/pr.h (blkpr, cluster software).
 *
 * The target stores them. It identifies an initiator by the port identifier, which a session keeps
 * across reconnections. A disk uses the registration of its session. Two sessions are two initiators,
 * even on one machine. A command that the reservation of another initiator forbids ends with
 * RESERVATION CONFLICT (scsi.c).
 */
#include <linux/delay.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "log.h"
#include "wss.h"

enum { WSS_RESERVE_IN = 0x5e, WSS_RESERVE_OUT = 0x5f };

enum wss_reserve_in { WSS_READ_KEYS, WSS_READ_RESERVATION };

enum wss_reserve_out {
	WSS_REGISTER = 0x00,
	WSS_RESERVE = 0x01,
	WSS_RELEASE = 0x02,
	WSS_CLEAR = 0x03,
	WSS_PREEMPT = 0x04,
	WSS_PREEMPT_AND_ABORT = 0x05,
	WSS_REGISTER_AND_IGNORE = 0x06,
};

#define WSS_RESERVE_LIST_BYTES 24
#define WSS_RESERVE_PERSIST 0x01 /* APTPL: persist through a power loss of the target */
/* How long to wait for a reconnection. */
#define WSS_RESERVE_WAIT_MS 30000
#define WSS_RESERVE_LOOK_MS 100
#define WSS_RESERVE_TRIES 10 /* attempts while the target reports changed units */

/* SPC reservation types by enum pr_type. */
static const u8 wss_reserve_types[] = {
	[PR_WRITE_EXCLUSIVE] = 1,
	[PR_EXCLUSIVE_ACCESS] = 3,
	[PR_WRITE_EXCLUSIVE_REG_ONLY] = 5,
	[PR_EXCLUSIVE_ACCESS_REG_ONLY] = 6,
	[PR_WRITE_EXCLUSIVE_ALL_REGS] = 7,
	[PR_EXCLUSIVE_ACCESS_ALL_REGS] = 8,
};

static u8 wss_reserve_type(enum pr_type type)
{
	return type < ARRAY_SIZE(wss_reserve_types) ? wss_reserve_types[type] : 0;
}

static struct wss_volume *wss_bdev_volume(struct block_device *bdev)
{
	return bdev->bd_disk->private_data;
}

/*
 * Takes admin_mutex when the session is live and the volume present. @lun: filled with the
 * volume's LUN. A walk cannot identify units while the mutex is held. Return: 0 with the mutex
 * held, or -errno without it.
 */
static int wss_reserve_begin(struct wss_volume *vol, u8 lun[8])
{
	unsigned long end = jiffies + msecs_to_jiffies(WSS_RESERVE_WAIT_MS);
	struct wss_session *sess = vol->sess;

	for (;;) {
		enum wss_volume_state unit;
		enum wss_state state;

		if (mutex_lock_interruptible(&sess->admin_mutex))
			return -EINTR;
		state = smp_load_acquire(&sess->state); /* pairs with wss_set_state() */
		/* A walk that has already identified the unit may be changing its LUN. */
		spin_lock_irq(&sess->lock);
		unit = vol->state;
		memcpy(lun, vol->id.lun, sizeof(vol->id.lun));
		spin_unlock_irq(&sess->lock);
		if (state == WSS_LIVE && unit == WSS_VOLUME_PRESENT)
			return 0;
		mutex_unlock(&sess->admin_mutex);
		if (unit == WSS_VOLUME_DEAD || state == WSS_FAILED || state == WSS_REMOVING)
			return -ENXIO;
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		if (msleep_interruptible(WSS_RESERVE_LOOK_MS))
			return -EINTR;
	}
}

/*
 * Return value of the ioctl: 0, the SAM status that enum pr_status has for a conflict, or -errno.
 */
static int wss_reserve_result(struct wss_session *sess, int ret)
{
	const struct wss_sense *sense = &sess->admin.sense;

	if (ret >= 0)
		return 0;
	if (ret != -EREMOTEIO)
		return ret;
	if (sense->status == WSS_SAM_RESERVATION_CONFLICT)
		return WSS_SAM_RESERVATION_CONFLICT;
	/*
	 * INVALID COMMAND OPERATION CODE; otherwise INVALID FIELD of the command or of its
	 * parameter list.
	 */
	if (sense->key == WSS_KEY_ILLEGAL && sense->asc == 0x20)
		return -EOPNOTSUPP;
	return sense->key == WSS_KEY_ILLEGAL ? -EINVAL : -EIO;
}

/*
 * @list: the parameter list; NULL: data is received. Return: bytes transferred, or -errno as
 * returned by wss_admin_command(), with admin_mutex held if @locked is set.
 */
static int wss_reserve_run(struct wss_volume *vol, const u8 cdb[10], const u8 *list, u32 bytes, bool *locked)
{
	struct wss_session *sess = vol->sess;
	struct wss_error err;
	unsigned int noio;
	int tries;
	u8 lun[8];
	int ret;

	*locked = false;
	for (tries = 0; tries < WSS_RESERVE_TRIES; tries++) {
		ret = wss_reserve_begin(vol, lun);
		if (ret)
			return ret;
		noio = memalloc_noio_save();
		ret = wss_admin_on_volume(sess, lun, cdb, 10, list, bytes, &err);
		memalloc_noio_restore(noio);
		*locked = ret != -ESTALE;
		if (*locked)
			return ret;
		mutex_unlock(&sess->admin_mutex);
	}
	return -EBUSY;
}

static int wss_reserve_send(struct wss_volume *vol, enum wss_reserve_out action, u64 key, u64 action_key, u8 type,
			    u8 flags)
{
	u8 cdb[10] = { WSS_RESERVE_OUT, action, type, [8] = WSS_RESERVE_LIST_BYTES };
	struct wss_session *sess = vol->sess;
	u8 list[WSS_RESERVE_LIST_BYTES] = {};
	bool locked;
	int ret;

	put_unaligned_be64(key, list);
	put_unaligned_be64(action_key, list + 8);
	list[20] = flags;
	ret = wss_reserve_run(vol, cdb, list, sizeof(list), &locked);
	if (!locked)
		return ret;
	ret = wss_reserve_result(sess, ret);
	mutex_unlock(&sess->admin_mutex);
	return ret;
}

/*
 * Requests a persistent registration, as sd does. If the target rejects that, requests a
 * volatile one.
 */
static int wss_pr_register(struct block_device *bdev, u64 old_key, u64 new_key, u32 flags)
{
	struct wss_volume *vol = wss_bdev_volume(bdev);
	enum wss_reserve_out action = flags & PR_FL_IGNORE_KEY ? WSS_REGISTER_AND_IGNORE : WSS_REGISTER;
	int ret;

	if (flags & ~PR_FL_IGNORE_KEY)
		return -EOPNOTSUPP;
	ret = wss_reserve_send(vol, action, old_key, new_key, 0, WSS_RESERVE_PERSIST);
	return ret == -EINVAL ? wss_reserve_send(vol, action, old_key, new_key, 0, 0) : ret;
}

static int wss_pr_reserve(struct block_device *bdev, u64 key, enum pr_type type, u32 flags)
{
	if (flags)
		return -EOPNOTSUPP;
	return wss_reserve_send(wss_bdev_volume(bdev), WSS_RESERVE, key, 0, wss_reserve_type(type), 0);
}

static int wss_pr_release(struct block_device *bdev, u64 key, enum pr_type type)
{
	return wss_reserve_send(wss_bdev_volume(bdev), WSS_RELEASE, key, 0, wss_reserve_type(type), 0);
}

static int wss_pr_preempt(struct block_device *bdev, u64 old_key, u64 new_key, enum pr_type type, bool abort)
{
	return wss_reserve_send(wss_bdev_volume(bdev), abort ? WSS_PREEMPT_AND_ABORT : WSS_PREEMPT, old_key, new_key,
				wss_reserve_type(type), 0);
}

static int wss_pr_clear(struct block_device *bdev, u64 key)
{
	return wss_reserve_send(wss_bdev_volume(bdev), WSS_CLEAR, key, 0, 0, 0);
}

/* Return: bytes of the response, at least 8, with admin_mutex held; or -errno without it. */
static int wss_reserve_read(struct wss_volume *vol, enum wss_reserve_in action, u16 bytes)
{
	u8 cdb[10] = { WSS_RESERVE_IN, action };
	struct wss_session *sess = vol->sess;
	bool locked;
	int ret;

	put_unaligned_be16(bytes, &cdb[7]);
	ret = wss_reserve_run(vol, cdb, NULL, bytes, &locked);
	if (ret >= 8 || !locked)
		return ret;
	/*
	 * A refusal may return a SCSI status, which is positive. But no target may refuse to report its
	 * reservations.
	 */
	if (ret < 0)
		ret = min(wss_reserve_result(sess, ret), 0);
	mutex_unlock(&sess->admin_mutex);
	return ret < 0 ? ret : -EPROTO;
}

static int __maybe_unused wss_pr_read_keys(struct block_device *bdev, struct pr_keys *keys)
{
	u32 room = min_t(u32, keys->num_keys, (WSS_ADMIN_BYTES - 8) / 8);
	struct wss_volume *vol = wss_bdev_volume(bdev);
	const u8 *data = vol->sess->admin.buffer;
	int len = wss_reserve_read(vol, WSS_READ_KEYS, 8 + 8 * room);
	u32 i;

	if (len < 0)
		return len;
	keys->generation = get_unaligned_be32(data);
	keys->num_keys = get_unaligned_be32(data + 4) / 8;
	for (i = 0; i < min3(keys->num_keys, room, (u32)(len - 8) / 8); i++)
		keys->keys[i] = get_unaligned_be64(data + 8 + 8 * i);
	mutex_unlock(&vol->sess->admin_mutex);
	return 0;
}

static enum pr_type wss_pr_type(u8 type)
{
	unsigned int i;

	for (i = 1; i < ARRAY_SIZE(wss_reserve_types); i++)
		if (wss_reserve_types[i] == type)
			return i;
	return 0;
}

static int __maybe_unused wss_pr_read_reservation(struct block_device *bdev, struct pr_held_reservation *held)
{
	struct wss_volume *vol = wss_bdev_volume(bdev);
	const u8 *data = vol->sess->admin.buffer;
	int len = wss_reserve_read(vol, WSS_READ_RESERVATION, 24);

	if (len < 0)
		return len;
	memset(held, 0, sizeof(*held));
	held->generation = get_unaligned_be32(data);
	if (len >= 24) {
		held->key = get_unaligned_be64(data + 8);
		held->type = wss_pr_type(data[21] & 0xf);
	}
	mutex_unlock(&vol->sess->admin_mutex);
	return 0;
}

const struct pr_ops wss_pr_ops = {
	.pr_register = wss_pr_register,
	.pr_reserve = wss_pr_reserve,
	.pr_release = wss_pr_release,
	.pr_preempt = wss_pr_preempt,
	.pr_clear = wss_pr_clear,
	WSS_PR_READ_OPS(wss_pr_read_keys, wss_pr_read_reservation)
};
