// SPDX-License-Identifier: GPL-2.0
/*
 * Authentication: each channel proves that it knows the secret of `initiator=`, and the target
 * proves the same, between the login and the first command (Documentation/protocol.md, 5.5).
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

static int wss_auth_proof(struct crypto_shash *hash, const struct wss_auth *auth,
			  const char *label_text, u8 proof[WSS_AUTH_PROOF_BYTES])
{
	u8 label[WSS_AUTH_LABEL_BYTES] = {};
	SHASH_DESC_ON_STACK(desc, hash);
	int ret;

	memcpy(label, label_text, strlen(label_text));
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
					  sizeof(auth->challenge));
	if (!ret)
		ret = crypto_shash_final(desc, proof);
	shash_desc_zero(desc);
	return ret;
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
		auth->proven = auth->result.status == WSS_AUTH_GRANTED &&
			       !crypto_memneq(auth->expected, auth->result.proof,
					      sizeof(auth->expected));
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
	/* No task polls a polled channel yet. */
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

static int wss_auth_verify(const struct wss_chan *chan, struct wss_error *err)
{
	const struct wss_srp_auth_result *result = &chan->auth.result;

	if (result->status != WSS_AUTH_GRANTED)
		return wss_fail(err, -EACCES, "login rejected by the target: %*pE",
				(int)strnlen(result->text, sizeof(result->text)), result->text);
	if (!chan->auth.proven)
		return wss_fail(err, -EACCES,
				"the target could not prove that it knows the secret of '%s': it is another target, or messages are modified in transit",
				chan->sess->opts.initiator);
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
	if (ret)
		return ret;
	ret = wss_auth_proof(hash, auth, WSS_AUTH_LABEL_INITIATOR, message.proof);
	/* Computed in advance, because the poller compares it. */
	ret = ret ?: wss_auth_proof(hash, auth, WSS_AUTH_LABEL_TARGET, auth->expected);
	if (ret)
		return wss_fail(err, ret, "the proofs cannot be computed");
	ret = wss_auth_exchange(chan, WSS_MESSAGE_AUTH_PROOF, &message, sizeof(message),
				WSS_SRP_AUTH_RESULT, err);
	return ret ?: wss_auth_verify(chan, err);
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
