// SPDX-License-Identifier: GPL-2.0
/*
 * Conversion of block requests to SCSI commands, and of SCSI status and sense to block statuses.
 * No function here does I/O or keeps state.
 */
#include <linux/mm.h>

#include "compat.h"
#include "wss.h"

enum { WSS_SYNCHRONIZE_CACHE_16 = 0x91, WSS_WRITE_SAME_16 = 0x93, WSS_UNMAP = 0x42 };

static u64 wss_lba(const struct wss_volume *vol, sector_t sector)
{
	return sector >> (vol->block_shift - SECTOR_SHIFT);
}

static void wss_build_flush(struct wss_srp_cmd *cmd)
{
	cmd->cdb[0] = WSS_SYNCHRONIZE_CACHE_16; /* LBA 0, count 0: everything */
}

static void wss_put_range(const struct wss_volume *vol, u8 *range, sector_t sector, u32 bytes)
{
	put_unaligned_be64(wss_lba(vol, sector), range);
	put_unaligned_be32(bytes >> vol->block_shift, range + 8);
	put_unaligned_be32(0, range + 12);
}

/*
 * Returns the length of the parameter list, which follows the command in its IU, or 0 if the request
 * has too many ranges.
 *
 * The ranges are those of the bios. The queue's present limit does not show how the request was
 * merged: the request may have waited while the limit changed. If the target no longer accepts this
 * number of ranges, it rejects the command.
 */
static u32 wss_build_unmap(struct wss_volume *vol, struct request *rq, struct wss_slot *slot)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	u8 *list = slot->cmd.data + WSS_SRP_IMM_DATA_OFFSET;
	u8 *range = NULL;
	sector_t begin = 0;
	sector_t end = 0;
	u32 count = 0;
	struct bio *bio;

	__rq_for_each_bio(bio, rq) {
		/* Where a target accepts only one range, the request may have any number of bios. */
		if (!count || bio->bi_iter.bi_sector != end) {
			if (WARN_ON_ONCE(count == WSS_MAX_UNMAP_RANGES))
				return 0;
			begin = bio->bi_iter.bi_sector;
			range = list + 8 + 16 * count++;
		}
		end = bio_end_sector(bio);
		wss_put_range(vol, range, begin, (end - begin) << SECTOR_SHIFT);
	}
	put_unaligned_be16(count * 16 + 6, list);
	put_unaligned_be16(count * 16, list + 2);
	put_unaligned_be32(0, list + 4);
	cmd->cdb[0] = WSS_UNMAP;
	put_unaligned_be16(count * 16 + 8, &cmd->cdb[7]);
	return count * 16 + 8;
}

static void wss_build_write_same(struct wss_volume *vol, struct request *rq, struct wss_slot *slot)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;
	bool unmap = vol->limits.write_same_unmap && !(rq->cmd_flags & REQ_NOUNMAP);
	bool ndob = READ_ONCE(vol->limits.ndob); /* may change with a login */

	cmd->cdb[0] = WSS_WRITE_SAME_16;
	cmd->cdb[1] = (unmap ? 0x08 : 0) | (ndob ? 0x01 : 0);
	put_unaligned_be64(wss_lba(vol, blk_rq_pos(rq)), &cmd->cdb[2]);
	put_unaligned_be32(blk_rq_bytes(rq) >> vol->block_shift, &cmd->cdb[10]);
	if (ndob)
		return;
	/* The data is one block of zeroes. */
	sg_set_page(slot->sgl, ZERO_PAGE(0), vol->limits.block_bytes, 0);
	sg_mark_end(slot->sgl);
	slot->nents = 1;
}

/**
 * wss_build_command - build the CDB of a request other than a read or a write
 * @vol: its volume
 * @rq: the request
 * @slot: the CDB goes into its IU; slot->nents and slot->sgl get the data, if there is any
 * @inline_bytes: length of a parameter list after the command, or 0
 * Return: BLK_STS_OK, or an error if there is no such command.
 */
blk_status_t wss_build_command(struct wss_volume *vol, struct request *rq, struct wss_slot *slot,
			       u32 *inline_bytes)
{
	struct wss_srp_cmd *cmd = slot->cmd.data;

	memset(cmd->cdb, 0, sizeof(cmd->cdb));
	*inline_bytes = 0;
	switch (req_op(rq)) {
	case REQ_OP_FLUSH:
		wss_build_flush(cmd);
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		*inline_bytes = wss_build_unmap(vol, rq, slot);
		return *inline_bytes ? BLK_STS_OK : BLK_STS_IOERR;
	case REQ_OP_WRITE_ZEROES:
		wss_build_write_same(vol, rq, slot);
		return BLK_STS_OK;
	default:
		return BLK_STS_NOTSUPP;
	}
}

/**
 * wss_parse_sense - parse sense data
 * @data: fixed (70h) or descriptor (72h) format, from the target
 * @len: its length
 * @sense: key, asc and ascq are set; 0 where absent
 *
 * Deferred sense (71h, 73h) concerns an earlier command. The command with whose status it was
 * returned was not executed, whatever the key is (SPC-4, 4.5.7). The result is ABORTED COMMAND,
 * after which the command is sent again.
 *
 * Return: true if the target reports that an earlier command, which had ended with GOOD, has failed.
 */
bool wss_parse_sense(const u8 *data, u32 len, struct wss_sense *sense)
{
	u8 code = len ? data[0] & 0x7f : 0;
	u8 deferred = 0;

	if (code == 0x71 || code == 0x73) {
		sense->key = WSS_KEY_ABORTED;
		if (len > 2)
			deferred = data[code == 0x71 ? 2 : 1] & 0xf;
	} else if (code == 0x72) {
		sense->key = len > 1 ? data[1] & 0xf : 0;
		sense->asc = len > 2 ? data[2] : 0;
		sense->ascq = len > 3 ? data[3] : 0;
	} else if (code == 0x70) {
		sense->key = len > 2 ? data[2] & 0xf : 0;
		sense->asc = len > 12 ? data[12] : 0;
		sense->ascq = len > 13 ? data[13] : 0;
	}
	return deferred > WSS_KEY_RECOVERED;
}

/* Matches any value, in the table below. */
#define WSS_ANY 0xff

/*
 * Disposition of each sense; the first matching row applies. The statuses are those of the SCSI
 * mid-layer for the same sense, so that file systems and multipath treat these disks as they treat
 * sd.
 */
static const struct wss_sense_rule {
	u8 key;
	u8 asc;
	u8 ascq;
	blk_status_t status;
	enum wss_disposition disposition;
	enum wss_news news;
} wss_sense_rules[] = {
	{ WSS_KEY_RECOVERED, WSS_ANY, WSS_ANY, BLK_STS_OK, WSS_END },
	/* 04: the unit is not ready yet, a state that usually passes. 3A: no medium. */
	{ WSS_KEY_NOT_READY, 0x04, WSS_ANY, BLK_STS_IOERR, WSS_RETRY_LATER },
	{ WSS_KEY_NOT_READY, 0x3a, WSS_ANY, BLK_STS_OFFLINE, WSS_END },
	/*
	 * Unreadable data is ENODATA. A failed write or flush (0C) is EIO, as callers of fsync()
	 * expect.
	 */
	{ WSS_KEY_MEDIUM, 0x11, WSS_ANY, BLK_STS_MEDIUM, WSS_END },
	{ WSS_KEY_MEDIUM, 0x13, WSS_ANY, BLK_STS_MEDIUM, WSS_END },
	{ WSS_KEY_MEDIUM, 0x14, WSS_ANY, BLK_STS_MEDIUM, WSS_END },
	{ WSS_KEY_MEDIUM, WSS_ANY, WSS_ANY, BLK_STS_IOERR, WSS_END },
	{ WSS_KEY_HARDWARE, WSS_ANY, WSS_ANY, BLK_STS_TARGET, WSS_END },
	/* LBA OUT OF RANGE: the volume shrank. LOGICAL UNIT NOT SUPPORTED: it was deleted. */
	{ WSS_KEY_ILLEGAL, 0x21, 0x00, BLK_STS_IOERR, WSS_END, WSS_NEWS_CHANGE },
	{ WSS_KEY_ILLEGAL, 0x25, 0x00, BLK_STS_OFFLINE, WSS_END, WSS_NEWS_CHANGE },
	{ WSS_KEY_ILLEGAL, 0x10, WSS_ANY, BLK_STS_PROTECTION, WSS_END },
	{ WSS_KEY_ILLEGAL, WSS_ANY, WSS_ANY, BLK_STS_TARGET, WSS_END },
	/*
	 * 2A: parameters changed. 3F: units, or their identity, changed; a request that is sent
	 * again must not reach another unit that has the LUN now. Others (29: reset) report no
	 * change.
	 */
	{ WSS_KEY_ATTENTION, 0x2a, WSS_ANY, BLK_STS_IOERR, WSS_RETRY_NOW, WSS_NEWS_CHANGE },
	{ WSS_KEY_ATTENTION, 0x3f, WSS_ANY, BLK_STS_IOERR, WSS_RETRY_NOW, WSS_NEWS_UNITS },
	{ WSS_KEY_ATTENTION, WSS_ANY, WSS_ANY, BLK_STS_IOERR, WSS_RETRY_NOW },
	/* SPACE ALLOCATION FAILED; otherwise the volume became read-only. */
	{ WSS_KEY_PROTECT, 0x27, 0x07, BLK_STS_NOSPC, WSS_END },
	{ WSS_KEY_PROTECT, WSS_ANY, WSS_ANY, BLK_STS_TARGET, WSS_END, WSS_NEWS_CHANGE },
	{ WSS_KEY_ABORTED, 0x10, WSS_ANY, BLK_STS_PROTECTION, WSS_END },
	{ WSS_KEY_ABORTED, WSS_ANY, WSS_ANY, BLK_STS_IOERR, WSS_RETRY_NOW },
	{ WSS_KEY_OVERFLOW, WSS_ANY, WSS_ANY, BLK_STS_TARGET, WSS_END },
	{ WSS_KEY_MISCOMPARE, WSS_ANY, WSS_ANY, BLK_STS_TARGET, WSS_END },
	{ WSS_ANY, WSS_ANY, WSS_ANY, BLK_STS_IOERR, WSS_END },
};

static bool wss_rule_fits(const struct wss_sense_rule *rule, const struct wss_sense *sense)
{
	return (rule->key == WSS_ANY || rule->key == sense->key) &&
	       (rule->asc == WSS_ANY || rule->asc == sense->asc) &&
	       (rule->ascq == WSS_ANY || rule->ascq == sense->ascq);
}

static enum wss_disposition wss_sense_disposition(const struct wss_sense *sense, enum req_op op,
						  blk_status_t *status, enum wss_news *news)
{
	const struct wss_sense_rule *rule = wss_sense_rules;

	while (!wss_rule_fits(rule, sense)) /* the last row always matches */
		rule++;
	*status = rule->status;
	*news = rule->news;
	/*
	 * If the target does not support the command, the block layer has other ways to discard and to
	 * zero.
	 */
	if (sense->key == WSS_KEY_ILLEGAL && rule->status == BLK_STS_TARGET &&
	    (op == REQ_OP_DISCARD || op == REQ_OP_WRITE_ZEROES))
		*status = BLK_STS_NOTSUPP;
	return rule->disposition;
}

/**
 * wss_decide_disposition - decide the disposition of a command
 * @sense: how the target ended it
 * @op: the operation
 * @status: set to the block status of the request, if it ends or its retries are used up
 * @news: set to what the sense reports about the target's units
 * Return: end the request, or send it again now or later.
 */
enum wss_disposition wss_decide_disposition(const struct wss_sense *sense, enum req_op op,
					    blk_status_t *status, enum wss_news *news)
{
	*status = BLK_STS_IOERR;
	*news = WSS_NEWS_NONE;
	switch (sense->status) {
	case 0:
		*status = BLK_STS_OK;
		return WSS_END;
	case WSS_SAM_BUSY:
	case WSS_SAM_TASK_SET_FULL:
		return WSS_RETRY_LATER;
	case WSS_SAM_TASK_ABORTED:
		return WSS_RETRY_NOW;
	case WSS_SAM_CHECK_CONDITION:
		return wss_sense_disposition(sense, op, status, news);
	case WSS_SAM_RESERVATION_CONFLICT:
		*status = BLK_STS_RESV_CONFLICT;
		return WSS_END;
	default:
		return WSS_END;
	}
}
