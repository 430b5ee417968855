/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The wire format of SRP (T10 SRP r16a, over RDMA/CM as Linux ib_srp uses it) and of the WSS
 * extensions.
 *
 * The kernel driver (C) and the user-level target and initiator (C++) share this file. Every
 * multi-byte field is big-endian except `tag` and `task_tag`, which are opaque: the target returns or
 * compares the initiator's eight bytes. Structures are packed, and their sizes and offsets are
 * asserted: a change that moves a byte does not compile. Documentation/protocol.md explains the
 * messages and every extension bit.
 */
#ifndef WSS_UAPI_SRP_H
#define WSS_UAPI_SRP_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#else
#include <assert.h>
#include <stddef.h>
#endif

#define WSS_SRP_ASSERT_SIZE(type, bytes, why) \
	static_assert(sizeof(struct type) == (bytes), #type ": " why)
#define WSS_SRP_ASSERT_AT(type, member, at, why) \
	static_assert(offsetof(struct type, member) == (at), #type "." #member ": " why)

/* The default RDMA/CM port of a WSS target. */
#define WSS_SRP_DEFAULT_PORT 5555

enum wss_srp_opcode {
	WSS_SRP_LOGIN_REQ = 0x00,
	WSS_SRP_TSK_MGMT = 0x01,
	WSS_SRP_CMD = 0x02,
	WSS_SRP_I_LOGOUT = 0x03,
	WSS_SRP_CRED_RSP = 0x41,
	WSS_SRP_AER_RSP = 0x42,
	WSS_SRP_T_LOGOUT = 0x80,
	WSS_SRP_CRED_REQ = 0x81,
	WSS_SRP_AER_REQ = 0x82,
	WSS_SRP_LOGIN_RSP = 0xc0,
	WSS_SRP_RSP = 0xc1,
	WSS_SRP_LOGIN_REJ = 0xc2,
	/* WSS extensions, sent only after the capability was granted. */
	WSS_SRP_KEEPALIVE_REQ = 0x70, /* initiator to target, WSS_CAP_KEEPALIVE */
	WSS_SRP_KEEPALIVE_RSP = 0xf0, /* target to initiator */
	WSS_SRP_NOTIFY = 0xf1,	      /* target to initiator, WSS_CAP_NOTIFY */
	WSS_SRP_AUTH_START = 0x71,     /* initiator to target, all four: WSS_CAP_AUTHENTICATE */
	WSS_SRP_AUTH_PROOF = 0x72,     /* initiator to target */
	WSS_SRP_AUTH_CHALLENGE = 0xf2, /* target to initiator */
	WSS_SRP_AUTH_RESULT = 0xf3,    /* target to initiator */
	WSS_SRP_CACHE_ENGINE = 0xf4,  /* target to initiator, WSS_CAP_CACHE: an engine was added or removed */
	WSS_SRP_RETRY = 0xf5,      /* target to initiator, WSS_CAP_CACHE: RETRY, send a command again */
	WSS_SRP_BATCH_RSP = 0xf6,      /* target to initiator, WSS_CAP_BATCHED_COMPLETION */
};

/* Data buffer formats: bits of the login's buf_fmt words, and the nibbles of srp_cmd.buf_fmt. */
enum wss_srp_buf_fmt {
	WSS_SRP_BUF_FORMAT_DIRECT = 1 << 1,
	WSS_SRP_BUF_FORMAT_INDIRECT = 1 << 2,
};

enum wss_srp_desc {
	WSS_SRP_DESC_NONE = 0,
	WSS_SRP_DESC_DIRECT = 1,
	WSS_SRP_DESC_INDIRECT = 2,
	WSS_SRP_DESC_IMM = 3,
};

/* wss_srp_login_req.req_flags */
#define WSS_SRP_MULTICHAN_SINGLE 0
#define WSS_SRP_MULTICHAN_MULTI 1
#define WSS_SRP_IMMED_REQUESTED 0x80

/* wss_srp_login_rsp.rsp_flags */
#define WSS_SRP_LOGIN_RSP_MULTICHAN_NO_CHAN 0x0
#define WSS_SRP_LOGIN_RSP_MULTICHAN_TERMINATED 0x1
#define WSS_SRP_LOGIN_RSP_MULTICHAN_MAINTAINED 0x2
#define WSS_SRP_LOGIN_RSP_IMMED_SUPP 0x80

/*
 * Offset of immediate data in the IU: wss_srp_cmd (48), room for 16 additional CDB bytes,
 * wss_srp_imm_buf (4).
 */
#define WSS_SRP_IMM_DATA_OFFSET 68
/* WSS requests 16 KiB of immediate data after the header. A stock initiator requests 8 KiB. */
#define WSS_SRP_IMM_DATA_MAX 16384
#define WSS_SRP_MAX_IT_IU_LEN (WSS_SRP_IMM_DATA_OFFSET + WSS_SRP_IMM_DATA_MAX)
/* Room for an SRP_RSP with 4 bytes of response data and 216 bytes of sense data. */
#define WSS_SRP_MAX_TI_IU_LEN 256

/*
 * Extensions use bytes that SRP reserves. A stock peer sends zero there and ignores these bytes
 * when it receives them. The magic keeps a peer that sends arbitrary bytes there from enabling
 * features.
 */
#define WSS_EXT_MAGIC 0x5753 /* "WS" */

enum wss_cap {
	/* The target may send a response as SEND with Invalidate of the command's (first) rkey. */
	WSS_CAP_REMOTE_INVALIDATE = 1 << 0,
	/*
	 * The target may send an RDMA WRITE with Immediate in place of an SRP_RSP, for a GOOD
	 * response without residual or response data. For a read it is the last data WRITE,
	 * otherwise a WRITE of length zero. The low 16 bits of the initiator's tags must be unique
	 * within the channel. See WSS_FUSED_*.
	 */
	WSS_CAP_FUSED_COMPLETION = 1 << 1,
	/* The target answers WSS_SRP_KEEPALIVE_REQ. */
	WSS_CAP_KEEPALIVE = 1 << 2,
	/*
	 * The target reports volumes that were resized, created, deleted or switched to or from
	 * read-only, and changed access lists. See WSS_SRP_NOTIFY.
	 */
	WSS_CAP_NOTIFY = 1 << 3,
	/*
	 * Both ends prove that they know the initiator's secret before any other message. An
	 * initiator that has a secret requests this capability. A target that requires
	 * authentication grants it. See WSS_SRP_AUTH_START.
	 */
	WSS_CAP_AUTHENTICATE = 1 << 4,
	/*
	 * The target may send several fused completions without data as one WSS_SRP_BATCH_RSP.
	 * Requires FUSED_COMPLETION.
	 */
	WSS_CAP_BATCHED_COMPLETION = 1 << 5,
	/*
	 * Cache engines may move data of this channel: WSS_SRP_CACHE_ENGINE, WSS_SRP_RETRY.
	 * Requires FUSED_COMPLETION.
	 */
	WSS_CAP_CACHE = 1 << 6,
};

/*
 * Capabilities that can be requested and granted without a precondition: all but
 * WSS_CAP_AUTHENTICATE, which needs a secret, and WSS_CAP_CACHE, which needs cache engines.
 */
#define WSS_CAP_ALL                                                                          \
	(WSS_CAP_REMOTE_INVALIDATE | WSS_CAP_FUSED_COMPLETION | WSS_CAP_KEEPALIVE | WSS_CAP_NOTIFY | \
	 WSS_CAP_BATCHED_COMPLETION)

/*
 * Immediate value of a fused completion, after ntohl() of the verbs' field: low 16 bits of the tag,
 * credits returned, reserved.
 */
#define WSS_FUSED_TAG_SHIFT 16
#define WSS_FUSED_TAG_MASK 0xffffu
#define WSS_FUSED_CREDIT_SHIFT 8
#define WSS_FUSED_CREDIT_MASK 0xffu
#define WSS_FUSED_RESERVED_MASK 0xffu

/* Private data of the RDMA/CM connect request. */
struct wss_srp_login_req {
	__u64 tag;
	__be16 req_buf_fmt;
	__u8 req_flags;
	__u8 opcode;
	__be32 req_it_iu_len;
	__u8 initiator_port_id[16];
	__u8 target_port_id[16];
	__be16 imm_data_offset;
	__be16 ext_magic; /* WSS_EXT_MAGIC; otherwise the next word is ignored */
	__be32 ext_caps;  /* enum wss_cap: requested */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_login_req, 56, "all that RDMA/CM leaves of 92 bytes of private data");
WSS_SRP_ASSERT_AT(wss_srp_login_req, req_it_iu_len, 12, "must match <scsi/srp.h> of Linux");
WSS_SRP_ASSERT_AT(wss_srp_login_req, imm_data_offset, 48, "must match <scsi/srp.h> of Linux");
WSS_SRP_ASSERT_AT(wss_srp_login_req, ext_magic, 50, "first byte that SRP reserves");

/* Private data of the accept. */
struct wss_srp_login_rsp {
	__u8 opcode;
	__u8 reserved1[3];
	__be32 req_lim_delta; /* initial credits */
	__u64 tag;
	__be32 max_it_iu_len;
	__be32 max_ti_iu_len;
	__be16 buf_fmt;
	__u8 rsp_flags;
	__u8 reserved2;
	__be16 ext_magic;
	__u8 reserved3[2];
	__be32 ext_caps;       /* enum wss_cap: granted; a subset of the requested ones */
	__be32 keepalive_ms;   /* the target closes a session that is silent for longer; 0: never */
	__be64 session_epoch;  /* grows with every SINGLE login; a MULTI login gets that of its
	                        * session */
	__be32 boot_id; /* if it changes, acknowledged unflushed writes may be lost; 0: unknown */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_login_rsp, 52, "a stock initiator reads 52 bytes");
WSS_SRP_ASSERT_AT(wss_srp_login_rsp, rsp_flags, 26, "must match <scsi/srp.h> of Linux");
WSS_SRP_ASSERT_AT(wss_srp_login_rsp, ext_magic, 28, "inside the 25 bytes that SRP reserves");

enum wss_srp_rej_reason {
	WSS_SRP_REJ_UNABLE_TO_ESTABLISH = 0x00010000,
	WSS_SRP_REJ_INSUFFICIENT_RESOURCES = 0x00010001,
	WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE = 0x00010002,
	WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL = 0x00010003,
	WSS_SRP_REJ_UNSUPPORTED_DESCRIPTOR_FMT = 0x00010004,
	WSS_SRP_REJ_MULTI_CHANNEL_UNSUPPORTED = 0x00010005,
	WSS_SRP_REJ_CHANNEL_LIMIT_REACHED = 0x00010006,
};

/* RDMA/CM carries 148 bytes with a reject: SRP's 32, then the reason as text (WSS). */
#define WSS_SRP_REJ_TEXT_MAX 116

struct wss_srp_login_rej {
	__u8 opcode;
	__u8 reserved1[3];
	__be32 reason;
	__u64 tag;
	__u64 reserved2;
	__be16 buf_fmt;
	__u8 reserved3[6];
	/*
	 * A WSS target sends UTF-8, zero-padded. A stock target sends shorter private data,
	 * without this text.
	 */
	char text[WSS_SRP_REJ_TEXT_MAX];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_login_rej, 148, "the room RDMA/CM gives a reject");
WSS_SRP_ASSERT_AT(wss_srp_login_rej, text, 32, "directly after SRP's own 32 bytes");

struct wss_srp_direct_buf {
	__be64 va;
	__be32 key;
	__be32 len;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_direct_buf, 16, "srp_direct_buf");

/* Followed by data_*_desc_cnt wss_srp_direct_buf. */
struct wss_srp_indirect_buf {
	struct wss_srp_direct_buf table_desc;
	__be32 len; /* total of all descriptors */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_indirect_buf, 20, "srp_indirect_buf without its list");

struct wss_srp_imm_buf {
	__be32 len;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_imm_buf, 4, "srp_imm_buf");

struct wss_srp_cmd {
	__u8 opcode;
	__u8 sol_not;
	__u8 reserved1[3];
	__u8 buf_fmt; /* enum wss_srp_desc: high nibble data-out, low nibble data-in */
	__u8 data_out_desc_cnt;
	__u8 data_in_desc_cnt;
	__u64 tag;
	__u8 reserved2[4];
	__u8 lun[8]; /* SAM logical unit number */
	__u8 reserved3;
	__u8 task_attr;
	__u8 reserved4;
	__u8 add_cdb_len; /* bits 7:2: additional CDB bytes */
	__u8 cdb[16];
	/* additional CDB bytes, then the data-out and data-in descriptors */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_cmd, 48, "descriptors start at 48 + additional CDB");
WSS_SRP_ASSERT_AT(wss_srp_cmd, lun, 20, "must match <scsi/srp.h> of Linux");
WSS_SRP_ASSERT_AT(wss_srp_cmd, cdb, 32, "must match <scsi/srp.h> of Linux");

enum wss_srp_rsp_flags {
	WSS_SRP_RSP_FLAG_RSPVALID = 1 << 0,
	WSS_SRP_RSP_FLAG_SNSVALID = 1 << 1,
	WSS_SRP_RSP_FLAG_DOOVER = 1 << 2,
	WSS_SRP_RSP_FLAG_DOUNDER = 1 << 3,
	WSS_SRP_RSP_FLAG_DIOVER = 1 << 4,
	WSS_SRP_RSP_FLAG_DIUNDER = 1 << 5,
};

struct wss_srp_rsp {
	__u8 opcode;
	__u8 sol_not;
	__u8 reserved1[2];
	__be32 req_lim_delta;
	__u64 tag;
	__u8 reserved2[2];
	__u8 flags;
	__u8 status; /* SAM status */
	__be32 data_out_res_cnt;
	__be32 data_in_res_cnt;
	__be32 sense_data_len;
	__be32 resp_data_len;
	/* response data, then sense data */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_rsp, 36, "response data starts at 36");
WSS_SRP_ASSERT_AT(wss_srp_rsp, status, 19, "must match <scsi/srp.h> of Linux");

/*
 * Followed by `count` big-endian words: the low 16 bits of the tag of each completed command, as in
 * fused completions.
 */
struct wss_srp_batch_rsp {
	__u8 opcode;
	__u8 count;
	__u8 reserved[2];
	__be32 req_lim_delta; /* credits returned, sum of all commands */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_batch_rsp, 8, "the tags begin at 8");

#define WSS_SRP_BATCH_RSP_MAX \
	((WSS_SRP_MAX_TI_IU_LEN - sizeof(struct wss_srp_batch_rsp)) / sizeof(__be16))

enum wss_srp_tsk_mgmt_func {
	WSS_SRP_TSK_ABORT_TASK = 0x01,
	WSS_SRP_TSK_ABORT_TASK_SET = 0x02,
	WSS_SRP_TSK_CLEAR_TASK_SET = 0x04,
	WSS_SRP_TSK_LUN_RESET = 0x08,
	WSS_SRP_TSK_CLEAR_ACA = 0x40,
};

enum wss_srp_tsk_mgmt_status {
	WSS_SRP_TSK_MGMT_SUCCESS = 0x00,
	WSS_SRP_TSK_MGMT_FIELDS_INVALID = 0x02,
	WSS_SRP_TSK_MGMT_NOT_SUPPORTED = 0x04,
	WSS_SRP_TSK_MGMT_FAILED = 0x05,
};

struct wss_srp_tsk_mgmt {
	__u8 opcode;
	__u8 sol_not;
	__u8 reserved1[6];
	__u64 tag;
	__u8 reserved2[4];
	__u8 lun[8];
	__u8 reserved3[2];
	__u8 tsk_mgmt_func;
	__u8 reserved4;
	__u64 task_tag;
	__u8 reserved5[8];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_tsk_mgmt, 48, "srp_tsk_mgmt");
WSS_SRP_ASSERT_AT(wss_srp_tsk_mgmt, lun, 20, "must match <scsi/srp.h> of Linux");
WSS_SRP_ASSERT_AT(wss_srp_tsk_mgmt, task_tag, 32, "must match <scsi/srp.h> of Linux");

struct wss_srp_cred_req {
	__u8 opcode;
	__u8 sol_not;
	__u8 reserved[2];
	__be32 req_lim_delta;
	__u64 tag;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_cred_req, 16, "srp_cred_req");

/* SRP_CRED_RSP, SRP_AER_RSP, SRP_I_LOGOUT, KEEPALIVE_REQ and KEEPALIVE_RSP: an opcode and a tag. */
struct wss_srp_short {
	__u8 opcode;
	__u8 reserved[7];
	__u64 tag;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_short, 16, "srp_cred_rsp and its likes");

/*
 * Why the target ends the connection. UNKNOWN_MESSAGE is SRP's reason for an invalid information
 * unit type; the reasons after it are those of WSS.
 */
enum wss_srp_logout_reason {
	WSS_SRP_LOGOUT_NO_REASON = 0,
	WSS_SRP_LOGOUT_UNKNOWN_MESSAGE = 2,
	WSS_SRP_LOGOUT_MALFORMED = 0x57530001,
	WSS_SRP_LOGOUT_BEYOND_CREDITS = 0x57530002,
	WSS_SRP_LOGOUT_NOT_AGREED = 0x57530003,
	WSS_SRP_LOGOUT_NOT_AUTHENTICATED = 0x57530004,
	WSS_SRP_LOGOUT_ENDED = 0x57530005, /* by an operator of the target */
	WSS_SRP_LOGOUT_SHUTDOWN = 0x57530006,
};

struct wss_srp_t_logout {
	__u8 opcode;
	__u8 sol_not;
	__u8 reserved[2];
	__be32 reason;
	__u64 tag;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_t_logout, 16, "srp_t_logout");

/* Other events, such as 0 for a changed access list, mean that anything may have changed. */
enum wss_srp_notify_event {
	WSS_SRP_NOTIFY_RESIZED = 1,
	WSS_SRP_NOTIFY_CREATED = 2,
	WSS_SRP_NOTIFY_DELETED = 3,
	WSS_SRP_NOTIFY_READ_ONLY = 4, /* read-only was switched on or off */
};

/*
 * A hint to read the volume's properties again (READ CAPACITY, MODE SENSE, REPORT LUNS). It carries
 * no value that could be stale.
 */
struct wss_srp_notify {
	__u8 opcode;
	__u8 event;
	__u8 reserved[6];
	__u8 lun[8];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_notify, 16, "as large as the other short messages");

/*
 * Authentication of a channel (WSS_CAP_AUTHENTICATE). The initiator sends START, the target
 * CHALLENGE, the initiator PROOF, and the target RESULT. The target proves first, in the CHALLENGE. A
 * proof is an HMAC-SHA-256 over
 *
 *	a label that names the prover (16 bytes), the LOGIN_REQ (56), the LOGIN_RSP (52), the START
 *	(104), the CHALLENGE without its proofs (104), and the binding of the connection: struct
 *	wss_rdma_binding (40), under TLS the exporter (32, not used by the driver), else nothing
 *
 * A proof thus covers ports, granted extensions, session epoch, names, both nonces and the
 * connection. Its key is the HMAC-SHA-256, with the secret as key, of WSS_AUTH_LABEL_KEY (16 bytes)
 * and the target's name as in the CHALLENGE (64 bytes). Every channel authenticates separately.
 */
#define WSS_AUTH_VERSION 2
/*
 * In version 1 the initiator proves first and the target in the RESULT, with the secret itself as
 * key. The proofs cover no binding, except under TLS. A target accepts version 1 only from the
 * names that its operator lists. Initiators do not use it.
 */
#define WSS_AUTH_VERSION_1 1
#define WSS_AUTH_NONCE_BYTES 32
#define WSS_AUTH_PROOF_BYTES 32
/* A name has 1 to 63 characters and is zero-padded: A-Z a-z 0-9 . _ -, not starting with . or -. */
#define WSS_AUTH_NAME_BYTES 64
/* An eavesdropper could brute-force shorter secrets from one exchange. */
#define WSS_AUTH_SECRET_MIN 16
#define WSS_AUTH_SECRET_MAX 256
/*
 * Maximum number of secrets that a name may have at the same time. The target does not know which
 * of them the initiator has.
 */
#define WSS_AUTH_SECRETS 2
/* The HMAC's input begins with one of these labels, zero-padded to 16 bytes. */
#define WSS_AUTH_LABEL_BYTES 16
#define WSS_AUTH_LABEL_KEY "wss2 key"
#define WSS_AUTH_LABEL_INITIATOR "wss2 initiator"
#define WSS_AUTH_LABEL_TARGET "wss2 target"
#define WSS_AUTH_LABEL_INITIATOR_1 "wss1 initiator"
#define WSS_AUTH_LABEL_TARGET_1 "wss1 target"

struct wss_srp_auth_start {
	__u8 opcode;
	__u8 version; /* WSS_AUTH_VERSION */
	__u8 reserved[6];
	__u8 nonce[WSS_AUTH_NONCE_BYTES];
	char name[WSS_AUTH_NAME_BYTES]; /* of the initiator; selects the secrets */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_auth_start, 104, "covered by the proof as a whole");

/* In version 1, the message ends before the proofs. */
struct wss_srp_auth_challenge {
	__u8 opcode;
	__u8 version; /* as in the START; 0 in version 1 */
	__u8 reserved[6];
	__u8 nonce[WSS_AUTH_NONCE_BYTES];
	char name[WSS_AUTH_NAME_BYTES]; /* of the target */
	/*
	 * One for each secret that the initiator's name may have. Those without a secret are made with
	 * random keys, so that a challenge does not show whether the name is known.
	 */
	__u8 proofs[WSS_AUTH_SECRETS][WSS_AUTH_PROOF_BYTES];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_auth_challenge, 168, "fits WSS_SRP_MAX_TI_IU_LEN");
WSS_SRP_ASSERT_AT(wss_srp_auth_challenge, proofs, 104, "the proofs cover what is before them");
#define WSS_AUTH_CHALLENGE_COVERED 104

/*
 * The binding of an RDMA connection. Addresses are those of the connection manager. An IPv4 address
 * is mapped to IPv6 (::ffff:a.b.c.d). The numbers are those of the queue pairs; on iWARP, which does
 * not exchange these, the TCP ports.
 */
struct wss_rdma_binding {
	__u8 connecting_address[16];
	__u8 accepting_address[16];
	__be32 connecting_number;
	__be32 accepting_number;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_rdma_binding, 40, "covered by the proofs");

struct wss_srp_auth_proof {
	__u8 opcode;
	__u8 reserved[7];
	__u8 proof[WSS_AUTH_PROOF_BYTES];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_auth_proof, 40, "header and one digest");

enum wss_auth_status {
	WSS_AUTH_GRANTED = 0,
	WSS_AUTH_REFUSED = 1,
};

struct wss_srp_auth_result {
	__u8 opcode;
	__u8 status; /* enum wss_auth_status */
	__u8 reserved[6];
	__u8 proof[WSS_AUTH_PROOF_BYTES];  /* zero; in version 1 the target's, if granted */
	char text[WSS_SRP_REJ_TEXT_MAX];   /* the reason when refused, as in a LOGIN_REJ */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_auth_result, 156, "fits WSS_SRP_MAX_TI_IU_LEN");

enum wss_srp_cache_event {
	WSS_SRP_CACHE_ENGINE_ADDED = 1, /* connect with handle and token; replaces an older entry with
	                                 * this index */
	WSS_SRP_CACHE_ENGINE_REMOVED = 2,
};

#define WSS_CACHE_TOKEN_BYTES 16
#define WSS_CACHE_URI_MAX 192
#define WSS_CACHE_ENGINES_MAX 64

/* Names a cache engine that may move the data of this channel. */
struct wss_srp_cache_engine {
	__u8 opcode;
	__u8 event; /* enum wss_srp_cache_event */
	__be16 index; /* the target's number of the engine, below WSS_CACHE_ENGINES_MAX */
	__u8 reserved[4];
	__be64 handle;
	__u8 token[WSS_CACHE_TOKEN_BYTES];
	char uri[WSS_CACHE_URI_MAX]; /* zero-padded; has the scheme of the channel's own transport */
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_cache_engine, 224, "fits the receives of an initiator");

/*
 * RETRY: close the connection to the engine, then send the command again if it is still
 * outstanding. Returns the command's credit.
 */
struct wss_srp_retry {
	__u8 opcode;
	__u8 reserved[3];
	__be32 engine; /* index; WSS_CACHE_ENGINES_MAX: all engines */
	__u64 tag;
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_srp_retry, 16, "as large as the other short messages");

#define WSS_CACHE_MAGIC 0x57534345 /* "WSCE" */
#define WSS_CACHE_VERSION 1

enum wss_cache_login_kind {
	WSS_CACHE_LOGIN_JOIN = 1,   /* from an engine to its storage engine */
	WSS_CACHE_LOGIN_CLIENT = 2, /* from an initiator to an engine */
	WSS_CACHE_LOGIN_PROVE = 3,  /* from a storage engine to an engine that joins: authenticate first */
};

/*
 * Private data of the connect request of an initiator to a cache engine. The accept carries none.
 */
struct wss_cache_login {
	__be32 magic;
	__u8 version;
	__u8 kind; /* WSS_CACHE_LOGIN_CLIENT */
	__u8 reserved[2];
	__be64 handle;
	__u8 token[WSS_CACHE_TOKEN_BYTES];
} __attribute__((packed));
WSS_SRP_ASSERT_SIZE(wss_cache_login, 32, "leaves room in RDMA/CM's 56 bytes");

#endif /* WSS_UAPI_SRP_H */
