// SPDX-License-Identifier: GPL-2.0
/*
 * Discovery: the volumes of a target, and the properties of each. The target is not trusted:
 * lengths are checked against the received bytes, and limits are clamped where the disk is created
 * (volume.c).
 */
#include <linux/slab.h>

#include "log.h"
#include "wss.h"

#define WSS_VPD_BYTES 1024
#define WSS_VENDOR "WSS     "
#define WSS_VENDOR_LEN 8
#define WSS_PRODUCT_LEN 16
#define WSS_SERIAL_MAX 128
/* Standard INQUIRY data, up to and including the revision. */
#define WSS_INQUIRY_BYTES 36
/* Maximum number of names in an error message. */
#define WSS_NAMES_SHOWN 8

static const u8 wss_lun0[8];

static u32 wss_lun_number(const u8 lun[8])
{
	/* Exact for peripheral (00b) and flat (01b) addressing; 14 bits of other addresses. */
	return get_unaligned_be16(lun) & 0x3fff;
}

static int wss_inquiry_vpd(struct wss_session *sess, const u8 lun[8], u8 page,
			   struct wss_error *err)
{
	u8 cdb[6] = { 0x12, 1, page };
	const u8 *data = sess->admin.buffer;
	int ret;

	put_unaligned_be16(WSS_VPD_BYTES, &cdb[3]);
	ret = wss_admin_command(sess, lun, cdb, sizeof(cdb), WSS_VPD_BYTES, err);
	/* LOGICAL UNIT NOT SUPPORTED; other errors concern the page. */
	if (ret == -EREMOTEIO && sess->admin.sense.asc == 0x25)
		return wss_fail(err, -ENODEV, "the target has no logical unit %u", wss_lun_number(lun));
	/* A missing page is reported as ILLEGAL REQUEST; other errors may be temporary. */
	if (ret == -EREMOTEIO && sess->admin.sense.key != WSS_KEY_ILLEGAL)
		return -EBUSY;
	if (ret < 0)
		return ret;
	if (ret < 4 || data[1] != page)
		return wss_fail(err, -EPROTO, "VPD page %02x: malformed answer", page);
	if (data[0] >> 5)
		return wss_fail(err, -ENODEV, "the target has no logical unit %u", wss_lun_number(lun));
	return min_t(int, ret, 4 + get_unaligned_be16(data + 2));
}

static void wss_copy_name(char *to, size_t size, const u8 *from, size_t len)
{
	size_t i;

	len = min(len, size - 1);
	for (i = 0; i < len && from[i] > ' ' && from[i] < 0x7f; i++)
		to[i] = from[i];
	to[i] = '\0';
}

/*
 * Parses NAME:IDENTITY. The name contains no colon. The NAA designator states the same
 * identity.
 */
static void wss_take_our_name(const u8 *from, size_t len, struct wss_lun_id *id)
{
	char *colon;

	wss_copy_name(id->name, sizeof(id->name), from, len);
	colon = strrchr(id->name, ':');
	if (colon)
		*colon = '\0';
}

/* Appends an identifier in the form of Linux's `wwid`: '_' replaces blanks and unprintable bytes. */
static void wss_append_id(struct wss_lun_id *id, const u8 *from, size_t len)
{
	size_t at = strlen(id->wwid);
	size_t i;

	for (i = 0; i < len && at < sizeof(id->wwid) - 1; i++)
		id->wwid[at++] = from[i] > ' ' && from[i] < 0x7f ? from[i] : '_';
	id->wwid[at] = '\0';
}

/* Length of a text without trailing blanks and zeros. */
static size_t wss_text_len(const u8 *text, size_t len)
{
	while (len && (text[len - 1] == ' ' || !text[len - 1]))
		len--;
	return len;
}

/* A vendor id alone is common to all units of the vendor, so it identifies none. */
static void wss_take_t10(const u8 *from, size_t len, struct wss_lun_id *id)
{
	len = wss_text_len(from, len);
	if (len <= WSS_VENDOR_LEN)
		return;
	if (!memcmp(from, WSS_VENDOR, WSS_VENDOR_LEN))
		wss_take_our_name(from + WSS_VENDOR_LEN, len - WSS_VENDOR_LEN, id);
	if (id->wwid[0])
		return;
	strscpy(id->wwid, "t10.", sizeof(id->wwid));
	wss_append_id(id, from, len);
}

/* NAA has priority over EUI-64, and both over T10 vendor identification. */
static void wss_take_designator(const u8 *d, u8 len, struct wss_lun_id *id)
{
	bool binary = len >= 8 && len <= 16 && memchr_inv(d + 4, 0, len);

	if ((d[1] & 0x30) != 0)
		return; /* of the port or the device, not of the logical unit */
	switch (d[1] & 0x0f) {
	case 1:
		wss_take_t10(d + 4, len, id);
		return;
	case 2:
		if (binary && strncmp(id->wwid, "naa.", 4))
			snprintf(id->wwid, sizeof(id->wwid), "eui.%*phN", len, d + 4);
		return;
	case 3:
		if (binary)
			snprintf(id->wwid, sizeof(id->wwid), "naa.%*phN", len, d + 4);
		return;
	}
}

/*
 * Identifies a unit without a designator by its serial number, which is unique per vendor and
 * product. Return: 0, even if the unit has no serial number; or -errno.
 */
static int wss_take_serial(struct wss_session *sess, const u8 lun[8], struct wss_lun_id *id,
			   struct wss_error *err)
{
	u8 cdb[6] = { 0x12, [4] = WSS_INQUIRY_BYTES };
	const u8 *data = sess->admin.buffer;
	u8 serial[WSS_SERIAL_MAX];
	int len = wss_inquiry_vpd(sess, lun, 0x80, err);
	int ret;

	if (len == -EREMOTEIO)
		return 0;
	if (len < 0)
		return len;
	len = wss_text_len(data + 4, min_t(size_t, len - 4, sizeof(serial)));
	if (!len)
		return 0;
	memcpy(serial, data + 4, len);
	ret = wss_admin_command(sess, lun, cdb, sizeof(cdb), WSS_INQUIRY_BYTES, err);
	if (ret < 0)
		return ret;
	if (ret < WSS_INQUIRY_BYTES)
		return wss_fail(err, -EPROTO, "INQUIRY: short answer");
	strscpy(id->wwid, "serial.", sizeof(id->wwid));
	wss_append_id(id, data + 8, WSS_VENDOR_LEN + WSS_PRODUCT_LEN);
	wss_append_id(id, serial, len);
	return 0;
}

static int wss_identify_locked(struct wss_session *sess, const u8 lun[8], struct wss_lun_id *id,
			       struct wss_error *err)
{
	const u8 *data = sess->admin.buffer;
	int len = wss_inquiry_vpd(sess, lun, 0x83, err);
	int at;

	if (len < 0 && len != -EREMOTEIO)
		return len;
	memset(id, 0, sizeof(*id));
	memcpy(id->lun, lun, sizeof(id->lun));
	for (at = 4; at + 4 <= len && at + 4 + data[at + 3] <= len; at += 4 + data[at + 3])
		wss_take_designator(data + at, data[at + 3], id);
	id->named = id->name[0];
	if (!id->named)
		snprintf(id->name, sizeof(id->name), "lun:%u", wss_lun_number(lun));
	return id->wwid[0] ? 0 : wss_take_serial(sess, lun, id, err);
}

/**
 * wss_same_unit - compare two identities
 * @a: one
 * @b: the other, of the same session
 *
 * Without identifiers the LUNs are compared.
 *
 * Return: true if they denote one logical unit.
 */
bool wss_same_unit(const struct wss_lun_id *a, const struct wss_lun_id *b)
{
	if (a->wwid[0] || b->wwid[0])
		return !strcmp(a->wwid, b->wwid);
	return !memcmp(a->lun, b->lun, sizeof(a->lun));
}

/**
 * wss_identify - read the identity of a logical unit
 * @sess: the session
 * @lun: the logical unit
 * @id: filled
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded.
 * Return: 0 or -errno.
 */
int wss_identify(struct wss_session *sess, const u8 lun[8], struct wss_lun_id *id,
		 struct wss_error *err)
{
	int ret;

	mutex_lock(&sess->admin_mutex);
	ret = wss_identify_locked(sess, lun, id, err);
	mutex_unlock(&sess->admin_mutex);
	return ret;
}

/*
 * Reads all LUNs into an array of 8-byte entries, which the caller frees. Return: their number, or
 * -errno.
 */
static int wss_report_luns(struct wss_session *sess, u8 **luns, struct wss_error *err)
{
	u8 cdb[12] = { 0xa0 };
	const u8 *data = sess->admin.buffer;
	u32 bytes;
	int ret;

	put_unaligned_be32(WSS_ADMIN_BYTES, &cdb[6]);
	ret = wss_admin_command(sess, wss_lun0, cdb, sizeof(cdb), WSS_ADMIN_BYTES, err);
	if (ret < 0)
		return ret;
	if (ret < 8)
		return wss_fail(err, -EPROTO, "REPORT LUNS: short answer");
	bytes = min_t(u32, get_unaligned_be32(data), ret - 8) & ~7U;
	/*
	 * Recovery may wait for the mutex that the caller holds: do not write back to the driver's
	 * own disks.
	 */
	*luns = kmemdup(data + 8, max(bytes, 8U), GFP_NOIO);
	if (!*luns)
		return wss_fail(err, -ENOMEM, "no memory for the list of volumes");
	return bytes / 8;
}

/* Matches a unit against a user's choice: a name, an identifier or a number. */
static bool wss_spec_matches(const struct wss_lun_id *id, const char *spec)
{
	u32 number;

	if (!strcmp(id->name, spec) || !strcasecmp(id->wwid, spec))
		return true;
	return !strncmp(spec, "lun:", 4) && !kstrtou32(spec + 4, 0, &number) &&
	       number == wss_lun_number(id->lun);
}

static void wss_add_name(char *names, size_t size, const char *name, int shown)
{
	size_t used = strlen(names);

	if (shown == WSS_NAMES_SHOWN)
		snprintf(names + used, size - used, ", ...");
	else if (shown < WSS_NAMES_SHOWN)
		snprintf(names + used, size - used, "%s%s", shown ? ", " : "", name);
}

/**
 * struct wss_search - a search over the target's logical units
 * @spec: the user's choice, or NULL
 * @unit: without @spec, the unit to find
 * @gives_way: the search ends when the target reports changed units, because requests of other
 *	volumes then wait
 * @namesake: another unit has the name of @unit
 * @unknown: number of units that could not be identified
 * @why: the reason for the last of them
 * @names: names of the first WSS_NAMES_SHOWN units that do not match, for messages
 * @shown: number of identified units that do not match
 */
struct wss_search {
	const char *spec;
	const struct wss_lun_id *unit;
	bool gives_way;
	bool namesake;
	unsigned int unknown;
	struct wss_error why;
	char names[160];
	int shown;
};

static bool wss_search_fits(struct wss_search *search, const struct wss_lun_id *id)
{
	if (search->spec)
		return wss_spec_matches(id, search->spec);
	if (wss_same_unit(id, search->unit))
		return true;
	if (id->named && search->unit->named && !strcmp(id->name, search->unit->name))
		search->namesake = true;
	return false;
}

/*
 * Between two units the admin_mutex is free for other commands and for aborts, because a unit that
 * does not answer takes a long time. Return: 0, -ENXIO if no unit matches, -EAGAIN if the search
 * gave way, or another -errno.
 */
static int wss_search_units(struct wss_session *sess, struct wss_search *search,
			    struct wss_lun_id *id, struct wss_error *err)
{
	int doubts = atomic_read(&sess->doubts);
	u8 *luns = NULL;
	int ret = -ENXIO;
	int count;
	int i;

	mutex_lock(&sess->admin_mutex);
	count = wss_report_luns(sess, &luns, err);
	mutex_unlock(&sess->admin_mutex);

	if (count < 0)
		return count;
	for (i = 0; i < count && ret == -ENXIO; i++) {
		int error = wss_identify(sess, luns + 8 * i, id, &search->why);

		if (search->gives_way && atomic_read(&sess->doubts) != doubts)
			ret = wss_fail(err, -EAGAIN, "the target's units changed during the search");
		else if (!error && wss_search_fits(search, id))
			ret = 0;
		else if (!error)
			wss_add_name(search->names, sizeof(search->names), id->name, search->shown++);
		else if (READ_ONCE(sess->broken))
			ret = wss_fail(err, -ENOTCONN, "%s", search->why.text);
		else if (error != -ENODEV)
			/* One unit that cannot be identified must not hide the others. */
			search->unknown++;
	}
	kfree(luns);
	return ret;
}

/**
 * wss_find_volume - find the logical unit of a user's choice
 * @sess: the session
 * @spec: volume name, `lun:N`, or a wwid
 * @id: filled
 * @err: the reason for a failure, with the names that exist
 *
 * Context: sleeps, bounded.
 * Return: 0, -ENXIO, or another -errno.
 */
int wss_find_volume(struct wss_session *sess, const char *spec, struct wss_lun_id *id,
		    struct wss_error *err)
{
	struct wss_search search = { .spec = spec };
	int ret;

	ret = wss_search_units(sess, &search, id, err);
	if (ret != -ENXIO)
		return ret;
	if (search.shown)
		return wss_fail(err, ret, "unknown volume '%s'; the target has: %s", spec, search.names);
	if (search.unknown)
		return wss_fail(err, ret, "unknown volume '%s'; the target's volumes cannot be identified: %s",
				spec, search.why.text);
	return wss_fail(err, ret, "unknown volume '%s'; the target reports no volume for this initiator", spec);
}

/**
 * wss_find_unit - find the current LUN of a logical unit
 * @sess: the session
 * @unit: the unit; it has an identifier
 * @gives_way: the search ends when the target reports changed units
 * @id: filled
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded.
 * Return: 0; -ENXIO: the target has no such unit; -ESTALE: the same, and another unit has its name;
 * -EAGAIN: it was not found, but not every unit could be identified, or the search gave way; or
 * another -errno.
 */
int wss_find_unit(struct wss_session *sess, const struct wss_lun_id *unit, bool gives_way, struct wss_lun_id *id,
		  struct wss_error *err)
{
	struct wss_search search = { .unit = unit, .gives_way = gives_way };
	int ret;

	ret = wss_search_units(sess, &search, id, err);
	if (ret != -ENXIO)
		return ret;
	if (search.unknown)
		return wss_fail(err, -EAGAIN, "volume '%s' was not found, and not every volume could be identified: %s",
				unit->name, search.why.text);
	return wss_fail(err, search.namesake ? -ESTALE : -ENXIO, "the target has no volume '%s'", unit->name);
}

static int wss_read_capacity(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
			     struct wss_error *err)
{
	u8 cdb[16] = { 0x9e, 0x10, [13] = 32 };
	const u8 *data = sess->admin.buffer;
	int ret = wss_admin_command(sess, lun, cdb, sizeof(cdb), 32, err);
	u64 last;

	if (ret < 0)
		return ret;
	if (ret < 32)
		return wss_fail(err, -EPROTO, "READ CAPACITY(16): short answer");
	last = get_unaligned_be64(data);
	limits->block_bytes = get_unaligned_be32(data + 8);
	if (limits->block_bytes < SECTOR_SIZE || limits->block_bytes > PAGE_SIZE ||
	    !is_power_of_2(limits->block_bytes))
		return wss_fail(err, -EINVAL, "block size of %u bytes is not 512 to %lu",
				limits->block_bytes, PAGE_SIZE);
	if (last >= (U64_MAX >> 12) / limits->block_bytes)
		return wss_fail(err, -EINVAL, "invalid size of %llu blocks", last);
	limits->blocks = last + 1;
	limits->physical_bytes = limits->block_bytes << min_t(u8, data[13] & 0xf, 7);
	limits->unmap = data[14] & 0x80; /* LBPME */
	limits->write_same_unmap = data[14] & 0x40; /* LBPRZ: confirmed by page B2 */
	return 0;
}

static void wss_take_block_limits(const u8 *data, int len, struct wss_limits *limits)
{
	if (len < 16)
		return;
	limits->max_blocks = get_unaligned_be32(data + 8);
	limits->opt_blocks = get_unaligned_be32(data + 12);
	if (len < 44)
		return;
	limits->max_unmap_blocks = get_unaligned_be32(data + 20);
	limits->max_unmap_ranges = get_unaligned_be32(data + 24);
	limits->unmap_granularity = get_unaligned_be32(data + 28);
	if (data[32] & 0x80)
		limits->unmap_alignment = get_unaligned_be32(data + 32) & ~BIT(31);
	limits->max_same_blocks = get_unaligned_be64(data + 36);
}

static void wss_take_provisioning(const u8 *data, int len, struct wss_limits *limits)
{
	bool reads_zero = limits->write_same_unmap;

	limits->unmap = limits->unmap && len > 5 && (data[5] & 0x80);
	limits->write_same_unmap = reads_zero && len > 5 && (data[5] & 0x40);
}

/* Reads only the pages that page 00 lists. */
static int wss_read_vpd_limits(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
			       struct wss_error *err)
{
	const u8 *data = sess->admin.buffer;
	bool b0, b1, b2;
	int len = wss_inquiry_vpd(sess, lun, 0x00, err);

	if (len < 0)
		return len;
	b0 = memchr(data + 4, 0xb0, len - 4);
	b1 = memchr(data + 4, 0xb1, len - 4);
	b2 = memchr(data + 4, 0xb2, len - 4);
	if (b0) {
		len = wss_inquiry_vpd(sess, lun, 0xb0, err);
		if (len < 0)
			return len;
		wss_take_block_limits(data, len, limits);
	}
	limits->rotational = false;
	if (b1) {
		len = wss_inquiry_vpd(sess, lun, 0xb1, err);
		if (len < 0)
			return len;
		/* 0: not reported, 1: does not rotate. */
		limits->rotational = len >= 6 && get_unaligned_be16(data + 4) > 1;
	}
	if (!b2) {
		limits->unmap = false;
		limits->write_same_unmap = false;
		return 0;
	}
	len = wss_inquiry_vpd(sess, lun, 0xb2, err);
	if (len < 0)
		return len;
	wss_take_provisioning(data, len, limits);
	return 0;
}

static int wss_read_modes(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
			  struct wss_error *err)
{
	u8 cdb[10] = { 0x5a, 0x08, 0x08 }; /* MODE SENSE(10), no block descriptors, caching page */
	const u8 *data = sess->admin.buffer;
	int at;
	int ret;

	put_unaligned_be16(256, &cdb[7]);
	ret = wss_admin_command(sess, lun, cdb, sizeof(cdb), 256, err);
	if (ret == -EREMOTEIO) {
		/* Without the page a volatile cache cannot be ruled out, so flush. */
		limits->write_cache = true;
		return 0;
	}
	if (ret < 0)
		return ret;
	if (ret < 8)
		return wss_fail(err, -EPROTO, "MODE SENSE: short answer");
	limits->read_only = data[3] & 0x80;
	limits->fua = data[3] & 0x10;
	at = 8 + get_unaligned_be16(data + 6);
	limits->write_cache = at + 3 > ret || (data[at] & 0x3f) != 0x08 || (data[at + 2] & 0x04);
	return 0;
}

/**
 * wss_read_limits - read the properties of a logical unit that its disk needs
 * @sess: the session
 * @lun: the logical unit
 * @limits: filled
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded.
 * Return: 0 or -errno.
 */
int wss_read_limits(struct wss_session *sess, const u8 lun[8], struct wss_limits *limits,
		    struct wss_error *err)
{
	int ret;

	memset(limits, 0, sizeof(*limits));
	mutex_lock(&sess->admin_mutex);
	ret = wss_read_capacity(sess, lun, limits, err);
	if (!ret)
		ret = wss_read_vpd_limits(sess, lun, limits, err);
	if (!ret)
		ret = wss_read_modes(sess, lun, limits, err);
	mutex_unlock(&sess->admin_mutex);
	limits->write_same = true;
	/* A WSS target supports WRITE SAME without a data buffer; stock targets may not. */
	limits->ndob = sess->chans[0].caps != 0;
	return ret;
}
