// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tls/context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "lib/base/log.h"
#include "lib/fabric/tls/kernel.h"
#include "lib/fabric/tls/session.h"

namespace wss::fabric::tls {

constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
constexpr long kCertificatesMax = 32 * 1024;    // bytes of the certificate chain of a peer
constexpr size_t kReadBufferBytes = 64 * 1024;  // per session: several records with one system call
// TLS_AES_128_GCM_SHA256. It defines the hash for the pre-shared key.
constexpr uint8_t kPskCipherSuite[] = {0x13, 0x01};

Counters& counters() noexcept {
    static Counters all;
    return all;
}

std::string last_error() {
    const unsigned long error = ERR_peek_last_error();
    const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
    ERR_clear_error();
    return reason == nullptr ? "unknown reason" : reason;
}

// --- pre-shared keys ---

static SSL_SESSION* psk_session(SSL* ssl, const Secret& key) {
    SSL_SESSION* session = SSL_SESSION_new();
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kPskCipherSuite);
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.bytes().data());
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, bytes, key.bytes().size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return nullptr;
}

static const Context& context_of(SSL* ssl) {
    return *static_cast<const Context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

static int offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length,
                     SSL_SESSION** session) {
    const Context& context = context_of(ssl);
    const NamedSecret& own = *context.credentials().identity;
    *session = psk_session(ssl, derive_psk(own.name, own.secret));
    const std::string& identity = context.offered_identity();  // libssl copies it after this function returns
    *id = reinterpret_cast<const unsigned char*>(identity.data());
    *id_length = identity.size();
    return *session != nullptr;
}

static int find_psk(SSL* ssl, const unsigned char* id, size_t id_length, SSL_SESSION** session) {
    const std::string_view identity(reinterpret_cast<const char*>(id), id_length);
    const std::string_view name = identity.substr(0, identity.find('#'));
    *session = nullptr;
    if (!check_initiator_name(name)) return 1;  // no such identity can exist: continue without a key
    static_cast<Session*>(SSL_get_app_data(ssl))->set_claimed_name(name);
    *session = psk_session(ssl, context_of(ssl).credentials().known->key_of(identity));
    return *session != nullptr;
}

// --- the contexts ---

// Without a callback libssl would prompt at the terminal and block.
static int have_no_passphrase(char*, int, int, void*) {
    return -1;
}

static bool restrict(SSL_CTX* context) {
    SSL_CTX_set_default_passwd_cb(context, have_no_passphrase);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_clear_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_ALLOW_NO_DHE_KEX);
    // SSL_read() returns after each message that is not user data, so that the session can check it.
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, kReadBufferBytes);
    SSL_CTX_set_max_cert_list(context, kCertificatesMax);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1 &&
           SSL_CTX_set_ciphersuites(context, kCipherSuites) == 1 &&
           SSL_CTX_set1_groups_list(context, kGroups) == 1;
}

// `load` returns 1 if it succeeds. libssl would wait forever for a pipe to which no process writes.
static Status use_file(std::string_view option, const std::string& path, SSL_CTX* context,
                       int (*load)(SSL_CTX* context, const char* path)) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
        return failure(Code::kInvalid, "{} {}: not a regular file", option, path);
    if (load(context, path.c_str()) == 1) return Status::ok();
    return failure(Code::kInvalid, "{} {}: cannot be used: {}", option, path, last_error());
}

static int use_key(SSL_CTX* context, const char* path) {
    const int used = SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
    return used == 1 ? SSL_CTX_check_private_key(context) : used;
}

// All contexts of this process, for reload_all().
static std::mutex contexts_mutex;
static std::vector<const Context*> contexts;  // guarded by contexts_mutex

static std::string identity_of(const std::optional<NamedSecret>& own) {
    return own ? psk_identity(own->name, own->secret) : "";
}

Context::Context(Credentials credentials)
    : credentials_(std::move(credentials)), offered_identity_(identity_of(credentials_.identity)) {}

Result<std::shared_ptr<const Context>> Context::create(Credentials credentials) {
    WSS_TRY(credentials.files.check());
    std::shared_ptr<Context> context(new Context(std::move(credentials)));
    WSS_TRY(context->load());
    if (context->credentials_.kernel_sends_max > 0) context->try_kernel();
    std::lock_guard lock(contexts_mutex);
    contexts.push_back(context.get());
    return std::shared_ptr<const Context>(std::move(context));
}

void Context::try_kernel() {
    if (Status status = kernel::check(); !status)
        return log::warning("kernel TLS is not available, so libssl encrypts: {}", status.text());
    kernel_sends_max_ = credentials_.kernel_sends_max;
    log::info("kernel TLS is available: the kernel encrypts what is sent, libssl decrypts");
}

Context::~Context() {
    std::lock_guard lock(contexts_mutex);
    std::erase(contexts, this);
}

Result<size_t> Context::reload_all() {
    std::lock_guard lock(contexts_mutex);
    size_t loaded = 0;
    Status first_failure;
    for (const Context* context : contexts) {
        if (context->credentials_.files.empty()) continue;
        ++loaded;
        if (Status status = context->load(); !status && first_failure) first_failure = std::move(status);
    }
    if (!first_failure) return first_failure;
    return loaded;
}

void Context::FreeContext::operator()(SSL_CTX* context) const {
    SSL_CTX_free(context);
}

Status Context::load() const {
    Result<Loaded> client = set_up(End::kConnecting);
    if (!client) return client.status();
    Result<Loaded> server = set_up(End::kListening);
    if (!server) return server.status();
    std::lock_guard lock(m_);
    client_.swap(*client);  // existing sessions keep the old one
    server_.swap(*server);
    return Status::ok();
}

SSL* Context::begin(End end) const {
    std::lock_guard lock(m_);
    return SSL_new(end == End::kConnecting ? client_.get() : server_.get());
}

Result<Context::Loaded> Context::set_up(End end) const {
    Loaded made(SSL_CTX_new(end == End::kConnecting ? TLS_client_method() : TLS_server_method()));
    if (made == nullptr || !restrict(made.get()))
        return failure(Code::kUnsupported, "libssl does not support the required settings of TLS 1.3: {}",
                       last_error());
    SSL_CTX_set_app_data(made.get(), const_cast<Context*>(this));
    WSS_TRY(end == End::kConnecting ? set_up_client(made.get()) : set_up_server(made.get()));
    return made;
}

// This only warns, because the clocks of the peers decide, not the clock of this machine.
static void warn_if_expired(SSL_CTX* context, const std::string& path) {
    const X509* own = SSL_CTX_get0_certificate(context);
    const char* fault = X509_cmp_current_time(X509_get0_notAfter(own)) < 0    ? "has expired"
                        : X509_cmp_current_time(X509_get0_notBefore(own)) > 0 ? "is not valid yet"
                                                                              : nullptr;
    if (fault != nullptr)
        log::warning("--tls-cert {} {}: peers refuse it; replace it and reload, or correct the clock here",
                     path, fault);
}

Status Context::use_certificate(SSL_CTX* context) const {
    const Files& files = credentials_.files;
    if (files.certificate.empty()) return Status::ok();
    WSS_TRY(use_file("--tls-cert", files.certificate, context, SSL_CTX_use_certificate_chain_file));
    return use_file("--tls-key", files.key, context, use_key);
}

Status Context::set_up_client(SSL_CTX* context) const {
    // Without authorities no certificate is valid.
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    const std::string& authorities = credentials_.files.authorities;
    if (!authorities.empty()) WSS_TRY(use_file("--tls-ca", authorities, context, SSL_CTX_load_verify_file));
    if (credentials_.identity) SSL_CTX_set_psk_use_session_callback(context, offer_psk);
    WSS_TRY(use_certificate(context));
    if (!credentials_.files.certificate.empty()) warn_if_expired(context, credentials_.files.certificate);
    return Status::ok();
}

Status Context::set_up_server(SSL_CTX* context) const {
    const std::string& authorities = credentials_.files.client_authorities;
    if (credentials_.known != nullptr) SSL_CTX_set_psk_find_session_callback(context, find_psk);
    if (!authorities.empty()) {
        WSS_TRY(use_file("--tls-client-ca", authorities, context, SSL_CTX_load_verify_file));
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
        // Without a session id context, libssl accepts no pre-shared key while it verifies certificates.
        static constexpr unsigned char kSessions[] = {'w', 's', 's'};
        SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions);
    } else if (credentials_.known != nullptr) {
        return Status::ok();  // without a certificate only a known key is accepted
    }
    return use_certificate(context);
}

Status Context::can_connect() const {
    if (credentials_.identity || !credentials_.files.authorities.empty()) return Status::ok();
    return failure(
        Code::kInvalid,
        "cannot verify the other end of tls://: give a secret (its pre-shared key), or --tls-ca FILE");
}

Status Context::can_listen() const {
    if (credentials_.known != nullptr || !credentials_.files.certificate.empty()) return Status::ok();
    return failure(
        Code::kInvalid,
        "no credentials for clients of tls://: give secrets (pre-shared keys), or --tls-cert and --tls-key");
}

}  // namespace wss::fabric::tls
