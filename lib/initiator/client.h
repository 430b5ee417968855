// SPDX-License-Identifier: Apache-2.0
// Client: a session with a thread of its own, usable from any thread. The C API uses Client, and the nbdkit
// plug-in uses the C API. wssctl uses Client directly.
//
// A request reaches the reactor through a lock-free stack: many threads push, and the reactor takes all
// entries at once. It returns through `complete`, which the reactor's thread calls. Submitting needs no
// allocation, no lock and, while the reactor is awake, no system call.
//
// Thread-safety: all methods may be called from any thread except the client's own, which may call only
// submit(), from `complete`. Lifetime: all requests must have ended, and all volumes be closed, before the
// client is destroyed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/initiator/session.h"

namespace wss::initiator {

struct ClientRequest : Request {
    // Called on the client's thread; may destroy or resubmit the request.
    void (*complete)(ClientRequest& request) noexcept = nullptr;
    ClientRequest* next = nullptr;  // link in the stack
};

// Many producers, one consumer.
class SubmitStack final : public reactor::Source {
  public:
    static Result<std::unique_ptr<SubmitStack>> create(Session& session);
    void push(ClientRequest& request) noexcept;

    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return wake_.get(); }

  private:
    explicit SubmitStack(Session& session) : session_(session) {}
    Session& session_;
    Descriptor wake_;
    // Dekker's pattern, which needs sequential consistency: a thread checks after its push whether the
    // reactor sleeps, and the reactor checks for entries after it has set `sleeping_`.
    std::atomic<ClientRequest*> head_{nullptr};
    std::atomic<bool> sleeping_{false};
};

// An open volume and its latest known properties.
class ClientVolume {
  public:
    explicit ClientVolume(Volume& volume) : volume_(&volume), info_(volume.info()) {}
    Volume& volume() const { return *volume_; }
    VolumeInfo info() const {
        std::lock_guard lock(m_);
        return info_;
    }
    bool gone() const {
        std::lock_guard lock(m_);
        return gone_;
    }

  private:
    friend class Client;
    Volume* const volume_;
    mutable std::mutex m_;
    VolumeInfo info_;    // guarded by m_
    bool gone_ = false;  // guarded by m_
};

class Client final : private SessionHandler {
  public:
    // Returns when the target's volumes are known, or with the reason for the failure.
    static Result<std::unique_ptr<Client>> connect(const std::string& uri, Options options);
    ~Client() override;

    std::vector<VolumeName> volumes();
    // An empty `name` selects the only volume of the target.
    Result<std::unique_ptr<ClientVolume>> open(const std::string& name);
    void close(std::unique_ptr<ClientVolume> volume);

    // `complete` is called in any case, even for a request that is refused at once.
    void submit(ClientRequest& request) noexcept { stack_->push(request); }
    // Submits the request and waits for its end.
    void run(ClientRequest& request) noexcept;

    // Memory for requests that the target accesses directly, without a copy.
    Result<std::byte*> allocate(size_t bytes);
    Status register_memory(std::span<std::byte> memory);
    // Releases memory of allocate() or register_memory(). Fails with kBusy while a request uses the memory.
    Status release_memory(const std::byte* memory);
    // Drops registrations that requests made (Options::pin_at_least) of memory that is about to be unmapped.
    void invalidate(std::span<const std::byte> memory);

    const Options& options() const { return session_->options(); }

  private:
    explicit Client(fabric::Address address) : address_(std::move(address)), random_(Random::entropy()) {}
    Status prepare(Options options);
    Status wait_until_ready();
    void on_reactor(const std::function<void()>& task);
    Status add_region(Result<std::unique_ptr<fabric::Region>> region, bool copied);
    void on_ready(Session&) noexcept override;
    void on_lost(Session&, const Status& why) noexcept override;
    void on_reconnect_failed(Session&, const Status& why) noexcept override;
    void on_failed(Session&, const Status& why) noexcept override;
    void on_closed(Session&) noexcept override;
    void on_volume_changed(Session&, Volume& volume) noexcept override;

    const fabric::Address address_;
    SystemClock clock_;
    Random random_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<SubmitStack> stack_;
    std::thread thread_;
    std::vector<ClientVolume*> open_;         // owned by the reactor's thread
    std::set<std::string> reconnect_failed_;  // reasons logged since the loss; owned by the reactor's thread

    enum class Phase : uint8_t { kStarting, kReady, kOver };
    std::mutex m_;
    std::condition_variable changed_;
    Phase phase_ = Phase::kStarting;  // guarded by m_
    Status why_;                      // guarded by m_
};

}  // namespace wss::initiator
