// SPDX-License-Identifier: GPL-2.0
/*
 * Authentication, on each channel between the login and the first command
 * (Documentation/protocol.md, 5.5). The target proves that it knows the secret of `initiator=` and
 * that it has the expected name. Then the driver proves that it knows the secret as well.
 *
 * The secret is a key of type `logon`, named `wss:NAME`, which user space can add but not read. The
 * driver looks it up in the keyrings of the process that maps the volume. It keeps a reference to
 * the key in the session, but no copy of the secret. Revoking the key prevents reconnections.
 *
 * The exchange runs in the context that starts the channel. The softirq of the completion queue
 * receives the target's messages. On a polled channel the exchange itself polls for them.
 */
#include <crypto/algapi.h>
#include <crypto/hash.h>
#include <keys/user-type.h>
#include <linux/ctype.h>
#include <linux/key.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "log.h"
#include "wss.h"

/* Time-out for each of the target's two messages. */
#define WSS_AUTH_TIMEOUT_MS 5000
#define WSS_AUTH_POLL_MS 1

#ifdef CONFIG_KEYS

/**
 * wss_auth_find_key - find the key of opts->initiator in the keyrings of the caller
 * @opts: gets a reference in opts->key, which wss_auth_put_key() releases; none without initiator=
 * @err: the reason for a failure, and how to add the key
 * Return: 0 or -errno.
 */
int wss_auth_find_key(struct wss_options *opts, struct wss_error *err)
{
	char name[sizeof("wss:") + WSS_AUTH_NAME_BYTES];
	struct key *key;

	opts->key = NULL;
	if (!opts->initiator[0])
		return 0;
	snprintf(name, sizeof(name), "wss:%s", opts->initiator);
	key = request_key(&key_type_logon, name, NULL);
	if (IS_ERR(key))
		return wss_fail(err, -ENOKEY,
				"no secret for initiator '%s': there is no logon key '%s'; use wssctl map --secret-file",
				opts->initiator, name);
	opts->key = key;
	return 0;
}

/**
 * wss_auth_get_key - take a further reference to the key
 * @opts: a copy of options that own a reference
 */
void wss_auth_get_key(struct wss_options *opts)
{
	if (opts->key)
		key_get(opts->key);
}

/**
 * wss_auth_put_key - mirror of wss_auth_find_key() and wss_auth_get_key()
 * @opts: has no key afterwards
 */
void wss_auth_put_key(struct wss_options *opts)
{
	if (opts->key)
		key_put(opts->key);
	opts->key = NULL;
}

/* Allocates a keyed hash for wss_auth_proof(). */
static struct crypto_shash *wss_auth_hash(struct wss_session *sess, struct wss_error *err)
{
	const struct user_key_payload *payload;
	struct key *key = sess->opts.key;
	struct crypto_shash *hash = crypto_alloc_shash("hmac(sha256)", 0, 0);
	int ret = -EKEYREVOKED;

	if (IS_ERR(hash)) {
		wss_fail(err, PTR_ERR(hash), "this kernel has no HMAC-SHA-256");
		return hash;
	}
	down_read(&key->sem);
	payload = key_validate(key) ? NULL : user_key_payload_locked(key);
	if (payload && payload->datalen < WSS_AUTH_SECRET_MIN)
		ret = wss_fail(err, -EINVAL, "the secret of '%s' is shorter than %u bytes",
			       sess->opts.initiator, WSS_AUTH_SECRET_MIN);
	else if (payload)
		ret = crypto_shash_setkey(hash, payload->data, payload->datalen);
	else
		wss_fail(err, ret, "the key with the secret of '%s' was revoked, or has expired",
			 sess->opts.initiator);
	up_read(&key->sem);
	if (!ret)
		return hash;
	crypto_free_shash(hash);
	return ERR_PTR(ret);
}

#else /* CONFIG_KEYS */

int wss_auth_find_key(struct wss_options *opts, struct wss_error *err)
{
	if (!opts->initiator[0])
		return 0;
	return wss_fail(err, -EOPNOTSUPP, "this kernel has no keyrings, so it can keep no secret");
}

void wss_auth_get_key(struct wss_options *opts)
{
}

void wss_auth_put_key(struct wss_options *opts)
{
}

static struct crypto_shash *wss_auth_hash(struct wss_session *sess, struct wss_error *err)
{
	return ERR_PTR(wss_fail(err, -EOPNOTSUPP, "this kernel has no keyrings"));
}

#endif /* CONFIG_KEYS */

static void wss_auth_put_label(u8 label[WSS_AUTH_LABEL_BYTES], const char *text)
{
	memset(label, 0, WSS_AUTH_LABEL_BYTES);
	memcpy(label, text, strlen(text));
}

/*
 * Replaces the secret in @hash with the key that is derived from it for the target that sent the
 * challenge.
 */
static int wss_auth_derive_key(struct crypto_shash *hash, const struct wss_auth *auth)
{
	struct {
		u8 label[WSS_AUTH_LABEL_BYTES];
		char name[WSS_AUTH_NAME_BYTES];
	} data;
	u8 key[WSS_AUTH_PROOF_BYTES];
	int ret;

	wss_auth_put_label(data.label, WSS_AUTH_LABEL_KEY);
	memcpy(data.name, auth->challenge.name, sizeof(data.name));
	ret = crypto_shash_tfm_digest(hash, (const u8 *)&data, sizeof(data), key);
	if (!ret)
		ret = crypto_shash_setkey(hash, key, sizeof(key));
	memzero_explicit(key, sizeof(key));
	return ret;
}

static int wss_auth_proof(struct crypto_shash *hash, const struct wss_auth *auth,
			  const char *label_text, u8 proof[WSS_AUTH_PROOF_BYTES])
{
	u8 label[WSS_AUTH_LABEL_BYTES];
	SHASH_DESC_ON_STACK(desc, hash);
	int ret;

	wss_auth_put_label(label, label_text);
	desc->tfm = hash;
	ret = crypto_shash_init(desc);
	if (!ret)
		ret = crypto_shash_update(desc, label, sizeof(label));
	if (!ret)
		ret = crypto_shash_update(desc, (const u8 *)&auth->login_req,
					  sizeof(auth->login_req));
	if (!ret)
		ret = crypto_shash_update(desc, (const u8 *)&auth->login_rsp,
					  sizeof(auth->login_rsp));
	if (!ret)
		ret = crypto_shash_update(desc, (const u8 *)&auth->start, sizeof(auth->start));
	if (!ret)
		ret = crypto_shash_update(desc, (const u8 *)&auth->challenge,
					  WSS_AUTH_CHALLENGE_COVERED);
	if (!ret)
		ret = crypto_shash_update(desc, (const u8 *)&auth->binding, sizeof(auth->binding));
	if (!ret)
		ret = crypto_shash_final(desc, proof);
	shash_desc_zero(desc);
	return ret;
}

static void wss_auth_bind_address(const struct sockaddr_storage *addr, u8 bound[16])
{
	if (addr->ss_family == AF_INET6) {
		memcpy(bound, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	} else {
		bound[10] = 0xff;
		bound[11] = 0xff;
		memcpy(bound + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	}
}

/* The port is in the same place for IPv4 and IPv6. */
static __be32 wss_auth_port(const struct sockaddr_storage *addr)
{
	return cpu_to_be32(be16_to_cpu(((const struct sockaddr_in *)addr)->sin_port));
}

/**
 * wss_auth_bind - store the binding of a connection, which the proofs cover
 * @chan: has just been connected
 * @peer_qpn: the queue pair number of the target, from the event
 *
 * Context: the CM's worker.
 */
void wss_auth_bind(struct wss_chan *chan, u32 peer_qpn)
{
	const struct rdma_addr *addr = &chan->cm_id->route.addr;
	struct wss_rdma_binding *binding = &chan->auth.binding;

	memset(binding, 0, sizeof(*binding));
	wss_auth_bind_address(&addr->src_addr, binding->connecting_address);
	wss_auth_bind_address(&addr->dst_addr, binding->accepting_address);
	if (rdma_protocol_iwarp(chan->ibdev, chan->cm_id->port_num)) {
		binding->connecting_number = wss_auth_port(&addr->src_addr);
		binding->accepting_number = wss_auth_port(&addr->dst_addr);
	} else {
		binding->connecting_number = cpu_to_be32(chan->qp->qp_num);
		binding->accepting_number = cpu_to_be32(peer_qpn);
	}
}

/**
 * wss_auth_recv - process AUTH_CHALLENGE or AUTH_RESULT
 * @chan: the channel
 * @data: the message, not checked
 * @bytes: its length, up to WSS_SRP_MAX_TI_IU_LEN
 *
 * Context: the poller.
 */
void wss_auth_recv(struct wss_chan *chan, const void *data, u32 bytes)
{
	struct wss_auth *auth = &chan->auth;
	u8 opcode = *(const u8 *)data;

	if (opcode != READ_ONCE(auth->awaited)) {
		wss_chan_protocol_error(chan, "unexpected authentication message");
		return;
	}
	if (opcode == WSS_SRP_AUTH_CHALLENGE && bytes >= sizeof(auth->challenge)) {
		memcpy(&auth->challenge, data, sizeof(auth->challenge));
	} else if (opcode == WSS_SRP_AUTH_RESULT && bytes >= sizeof(auth->result)) {
		memcpy(&auth->result, data, sizeof(auth->result));
		/* The result is awaited only after the target has proved its identity. */
		auth->proven = auth->result.status == WSS_AUTH_GRANTED;
	} else {
		wss_chan_protocol_error(chan, "short authentication message");
		return;
	}
	/* Pairs with the acquire in wss_auth_wait_is_over(). */
	smp_store_release(&auth->awaited, 0);
	wake_up_all(&chan->sess->wait);
}

static bool wss_auth_wait_is_over(struct wss_chan *chan)
{
	return !smp_load_acquire(&chan->auth.awaited) || READ_ONCE(chan->sess->broken) ||
	       READ_ONCE(chan->sess->state) == WSS_REMOVING;
}

static void wss_auth_poll(struct wss_chan *chan)
{
	spin_lock(&chan->poll_lock);
	wss_chan_poll(chan, WSS_POLL_BUDGET, NULL);
	spin_unlock(&chan->poll_lock);
}

static int wss_auth_wait(struct wss_chan *chan, struct wss_error *err)
{
	unsigned long end = jiffies + msecs_to_jiffies(WSS_AUTH_TIMEOUT_MS);
	/* A polled channel is not polled by any task yet. */
	unsigned long nap = chan->polled ? msecs_to_jiffies(WSS_AUTH_POLL_MS) :
					   msecs_to_jiffies(WSS_AUTH_TIMEOUT_MS);
	const char *broken;
	long left;

	do {
		if (chan->polled)
			wss_auth_poll(chan);
		left = wait_event_interruptible_timeout(chan->sess->wait, wss_auth_wait_is_over(chan),
							max(nap, 1UL));
	} while (!left && time_before(jiffies, end));
	if (left < 0)
		return wss_fail(err, -EINTR, "interrupted");
	if (!smp_load_acquire(&chan->auth.awaited)) /* pairs with wss_auth_recv() */
		return 0;
	broken = READ_ONCE(chan->sess->broken);
	if (left && !broken)
		return wss_fail(err, -ECANCELED, "the session is being removed");
	if (left)
		return wss_fail(err, -ECONNRESET, "the connection broke during authentication: %s", broken);
	return wss_fail(err, -ETIMEDOUT, "the target did not continue the authentication");
}

static int wss_auth_exchange(struct wss_chan *chan, enum wss_message which, const void *message,
			     u32 bytes, u8 awaited, struct wss_error *err)
{
	WRITE_ONCE(chan->auth.awaited, awaited);
	if (wss_send_message(chan, which, message, bytes))
		return wss_fail(err, -EIO, "cannot send an authentication message");
	return wss_auth_wait(chan, err);
}

static void wss_auth_fill_start(struct wss_chan *chan)
{
	struct wss_srp_auth_start *start = &chan->auth.start;

	memset(start, 0, sizeof(*start));
	start->opcode = WSS_SRP_AUTH_START;
	start->version = WSS_AUTH_VERSION;
	get_random_bytes(start->nonce, sizeof(start->nonce));
	strscpy(start->name, chan->sess->opts.initiator, sizeof(start->name));
}

/* Returns true if the name consists of printable characters, followed only by zeroes. */
static bool wss_auth_name_is_valid(const char name[WSS_AUTH_NAME_BYTES])
{
	size_t length = strnlen(name, WSS_AUTH_NAME_BYTES);
	size_t i;

	for (i = 0; i < length; i++) {
		if (!isascii(name[i]) || (!isalnum(name[i]) && !strchr("._-", name[i])))
			return false;
	}
	return length && length < WSS_AUTH_NAME_BYTES &&
	       !memchr_inv(name + length, 0, WSS_AUTH_NAME_BYTES - length);
}

static int wss_auth_check_name(const struct wss_chan *chan, struct wss_error *err)
{
	const struct wss_srp_auth_challenge *challenge = &chan->auth.challenge;
	const char *expected = chan->sess->target_name;

	if (challenge->version != WSS_AUTH_VERSION || !wss_auth_name_is_valid(challenge->name))
		return wss_fail(err, -EPROTO, "the target's challenge is malformed, or not of version %u",
				WSS_AUTH_VERSION);
	if (expected[0] && memcmp(challenge->name, expected, WSS_AUTH_NAME_BYTES))
		return wss_fail(err, -EACCES,
				"the target there is '%s', but '%s' is expected: check target=. If the new target replaces that one, start it with the same --name. Otherwise map again with the new target_name=",
				challenge->name, expected);
	return 0;
}

/* Checks the target's proof. Its key is the one that was derived for the target's name. */
static int wss_auth_verify(const struct wss_chan *chan, struct crypto_shash *hash,
			   struct wss_error *err)
{
	const struct wss_auth *auth = &chan->auth;
	u8 expected[WSS_AUTH_PROOF_BYTES];
	bool proven = false;
	int ret;
	int i;

	ret = wss_auth_proof(hash, auth, WSS_AUTH_LABEL_TARGET, expected);
	if (ret)
		return wss_fail(err, ret, "the proofs cannot be computed");
	for (i = 0; i < WSS_AUTH_SECRETS; i++)
		proven |= !crypto_memneq(expected, auth->challenge.proofs[i], sizeof(expected));
	if (!proven)
		return wss_fail(err, -EACCES,
				"the target '%s' could not prove that it knows the secret of '%s': the secrets differ (compare with its --secrets), it is another target of that name, or a relay forwards the login",
				auth->challenge.name, chan->sess->opts.initiator);
	return 0;
}

static int wss_auth_take_challenge(struct wss_chan *chan, struct crypto_shash *hash,
				   u8 proof[WSS_AUTH_PROOF_BYTES], struct wss_error *err)
{
	int ret = wss_auth_check_name(chan, err);

	if (ret)
		return ret;
	ret = wss_auth_derive_key(hash, &chan->auth);
	if (ret)
		return wss_fail(err, ret, "the key of the proofs cannot be derived");
	ret = wss_auth_verify(chan, hash, err);
	if (ret)
		return ret;
	ret = wss_auth_proof(hash, &chan->auth, WSS_AUTH_LABEL_INITIATOR, proof);
	return ret ? wss_fail(err, ret, "the proofs cannot be computed") : 0;
}

static int wss_auth_take_result(struct wss_chan *chan, struct wss_error *err)
{
	const struct wss_srp_auth_result *result = &chan->auth.result;
	struct wss_session *sess = chan->sess;

	if (result->status != WSS_AUTH_GRANTED)
		return wss_fail(err, -EACCES, "login rejected by the target: %*pE",
				(int)strnlen(result->text, sizeof(result->text)), result->text);
	/* Later logins require the name that the first login has proved. */
	if (!sess->target_name[0])
		memcpy(sess->target_name, chan->auth.challenge.name, sizeof(sess->target_name));
	return 0;
}

static int wss_auth_converse(struct wss_chan *chan, struct crypto_shash *hash,
			     struct wss_error *err)
{
	struct wss_srp_auth_proof message = { .opcode = WSS_SRP_AUTH_PROOF };
	struct wss_auth *auth = &chan->auth;
	int ret;

	wss_auth_fill_start(chan);
	ret = wss_auth_exchange(chan, WSS_MESSAGE_AUTH_START, &auth->start, sizeof(auth->start),
				WSS_SRP_AUTH_CHALLENGE, err);
	if (!ret)
		ret = wss_auth_take_challenge(chan, hash, message.proof, err);
	if (!ret)
		ret = wss_auth_exchange(chan, WSS_MESSAGE_AUTH_PROOF, &message, sizeof(message),
					WSS_SRP_AUTH_RESULT, err);
	return ret ?: wss_auth_take_result(chan, err);
}

/**
 * wss_auth_channel - authenticate both ends of a channel to each other
 * @chan: logged in; nothing was sent on it yet
 * @err: the reason for a failure
 *
 * Context: sleeps, bounded and interruptible.
 * Return: 0, even without a secret; or -errno, and the channel must not be used.
 */
int wss_auth_channel(struct wss_chan *chan, struct wss_error *err)
{
	struct wss_session *sess = chan->sess;
	struct crypto_shash *hash;
	int ret;

	if (!sess->opts.key)
		return 0;
	if (!chan->auth.granted)
		return wss_fail(err, -EACCES,
				"the target does not authenticate, so its identity is unproven; map without a secret if that is intended");
	hash = wss_auth_hash(sess, err);
	if (IS_ERR(hash))
		return PTR_ERR(hash);
	ret = wss_auth_converse(chan, hash, err);
	crypto_free_shash(hash);
	return ret;
}
