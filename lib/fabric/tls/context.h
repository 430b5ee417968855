// SPDX-License-Identifier: Apache-2.0
// Context: credentials loaded into libssl, and the rules for all sessions of a fabric: TLS 1.3 only, no
// tickets, no early data, no renegotiation, cipher suites with SHA-256 (which pre-shared keys need).
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

// Totals of this process since its start.
struct Counters {
    std::atomic<uint64_t> handshakes{0};
    std::atomic<uint64_t> handshakes_failed{0};
    std::atomic<uint64_t> kernel_sends{0};
    std::atomic<uint64_t> truncated{0};

    template <typename Visit>  // visit(name, help, value)
    void for_each(Visit&& visit) const {
        visit("handshakes", "TLS handshakes that succeeded", handshakes.load());
        visit("handshakes_failed", "TLS handshakes that failed", handshakes_failed.load());
        visit("kernel_sends", "of the TLS handshakes that succeeded: the kernel encrypts what is sent",
              kernel_sends.load());
        visit("truncated", "TLS connections that ended without close_notify", truncated.load());
    }
};
Counters& counters() noexcept;

class Context {
  public:
    // Reads the files. The error names the file that cannot be used.
    static Result<std::shared_ptr<const Context>> create(Credentials credentials);
    // Makes every context of this process read its files again. This affects later handshakes, not existing
    // connections. A context that fails keeps its old state. Returns the number of contexts with files, or
    // the first failure.
    static Result<size_t> reload_all();
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // OK if the credentials suffice for that end.
    Status can_connect() const;
    Status can_listen() const;
    const Credentials& credentials() const { return credentials_; }
    // Credentials::kernel_sends_max, or 0 if the kernel cannot encrypt.
    uint64_t kernel_sends_max() const { return kernel_sends_max_; }
    // Connecting: identity of the pre-shared key that we offer; "" if none.
    const std::string& offered_identity() const { return offered_identity_; }
    enum class End : uint8_t { kConnecting, kListening };
    // Creates the SSL object of one connection, or returns nullptr if memory runs out. The caller must free
    // it before it releases the context.
    ssl_st* begin(End end) const;

  private:
    struct FreeContext {
        void operator()(ssl_ctx_st* context) const;
    };
    using Loaded = std::unique_ptr<ssl_ctx_st, FreeContext>;

    explicit Context(Credentials credentials);
    void try_kernel();
    Status load() const;
    Result<Loaded> set_up(End end) const;
    Status set_up_client(ssl_ctx_st* context) const;
    Status set_up_server(ssl_ctx_st* context) const;
    Status use_certificate(ssl_ctx_st* context) const;

    const Credentials credentials_;
    const std::string offered_identity_;
    uint64_t kernel_sends_max_ = 0;
    mutable std::mutex m_;
    mutable Loaded client_, server_;  // guarded by m_
};

// Returns the reason for the latest failure of libssl, for people. Clears the error queue of this thread.
std::string last_error();

}  // namespace wss::fabric::tls
