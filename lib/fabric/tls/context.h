// SPDX-License-Identifier: Apache-2.0
// Context: credentials as libssl takes them, and the rules that all sessions of a fabric have in common:
// TLS 1.3 and nothing older, no tickets, no early data, no renegotiation, cipher suites of SHA-256 (which
// pre-shared keys need).
//
// Thread-safety: shared by the threads of a fabric.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lib/base/status.h"
#include "lib/fabric/tls/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace wss::fabric::tls {

// Of this process, ever.
struct Counters {
    std::atomic<uint64_t> handshakes{0};
    std::atomic<uint64_t> handshakes_failed{0};
    std::atomic<uint64_t> truncated{0};

    template <typename Visit>  // visit(name, help, value)
    void for_each(Visit&& visit) const {
        visit("handshakes", "TLS handshakes that succeeded", handshakes.load());
        visit("handshakes_failed", "TLS handshakes that failed", handshakes_failed.load());
        visit("truncated", "TLS connections that ended without close_notify", truncated.load());
    }
};
Counters& counters() noexcept;

class Context {
  public:
    // Reads the files. Fails with the name of the one that cannot be used.
    static Result<std::shared_ptr<const Context>> create(Credentials credentials);
    // Has every context of this process read its files again, for the handshakes to come; connections that
    // exist are not affected. A context that fails keeps what it has. Returns how many have files.
    static Result<size_t> reload_all();
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // Whether the credentials are enough for that end.
    Status can_connect() const;
    Status can_listen() const;
    const Credentials& credentials() const { return credentials_; }
    // Connecting: that of the key that we offer; "": none.
    const std::string& offered_identity() const { return offered_identity_; }
    enum class End : uint8_t { kConnecting, kListening };
    // For one connection; nullptr: no memory. The caller frees it, before the context.
    ssl_st* begin(End end) const;

  private:
    struct FreeContext {
        void operator()(ssl_ctx_st* context) const;
    };
    using Loaded = std::unique_ptr<ssl_ctx_st, FreeContext>;

    explicit Context(Credentials credentials);
    Status load() const;
    Result<Loaded> set_up(End end) const;
    Status set_up_client(ssl_ctx_st* context) const;
    Status set_up_server(ssl_ctx_st* context) const;
    Status use_certificate(ssl_ctx_st* context) const;

    const Credentials credentials_;
    const std::string offered_identity_;
    mutable std::mutex m_;
    mutable Loaded client_, server_;  // guarded by m_
};

// Why the last call of libssl failed, for people. Empties the queue of errors of this thread.
std::string last_error();

}  // namespace wss::fabric::tls
