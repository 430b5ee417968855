// SPDX-License-Identifier: Apache-2.0
// SessionLink: a session of the product's initiator (lib/initiator) in a LoadThread. It connects, opens a
// volume, and has a request with a registered buffer for each access that may be in flight.
//
//   start() → opened() → submit() → completed(), in any number → close() → over()
//
// over() is called once, even after an error. All calls are on the thread's reactor.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/initiator/session.h"
#include "lib/reactor/reactor.h"
#include "tools/wssbench/accesses.h"

namespace wss::wssbench {

// A fabric, and its poller on a reactor.
class Network {
  public:
    Network() = default;
    ~Network();
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    // Opens the fabric of an address, unless one is open. `reactor` must outlive this object.
    Status open(reactor::Reactor& reactor, const fabric::Address& address);

    fabric::Fabric& fabric() { return *fabric_; }
    fabric::Poller& poller() { return *poller_; }
    reactor::Reactor& reactor() { return *reactor_; }

  private:
    reactor::Reactor* reactor_ = nullptr;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
};

struct LinkOptions {
    // The caller's buffers: registered in advance; ordinary, and copied by the initiator; or ordinary, and
    // registered at first use (the pin-down cache).
    enum class Memory : uint8_t { kRegistered, kCopied, kPinned };
    uint32_t slots = 1;    // accesses in flight
    uint32_t bytes = 512;  // length of the longest access
    std::string volume = "bench";
    Memory memory = Memory::kRegistered;
};

class SessionLink : public initiator::SessionHandler {
  public:
    explicit SessionLink(LinkOptions options) : options_(std::move(options)), slots_(options_.slots) {}

    // `network` and `random` must outlive this object.
    Status prepare(const fabric::Address& address, Network& network, Random& random);
    void start() { session_->start(); }
    // Accesses in flight end without completed().
    void close() noexcept;

  protected:
    struct Slot : initiator::Request {
        SessionLink* link = nullptr;
        uint32_t index = 0;
        iovec segment{};
        Nanoseconds begun{};  // for use by the derived class
    };

    void submit(Slot& slot, const Access& access) noexcept;
    std::vector<Slot>& slots() { return slots_; }
    bool closing() const { return closing_; }

    virtual void opened() = 0;
    virtual void completed(Slot& slot) noexcept = 0;
    // The first error. The caller closes all its links.
    virtual void failed(const Status& why) = 0;
    virtual void over() = 0;

  private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };

    void on_ready(initiator::Session&) noexcept override;
    void on_lost(initiator::Session&, const Status& why) noexcept override {
        if (!closing_) failed(why);
    }
    void on_failed(initiator::Session&, const Status& why) noexcept override { ended(why); }
    void on_closed(initiator::Session&) noexcept override { ended(Status::ok()); }
    void ended(const Status& why);
    void ended(Slot& slot) noexcept;
    Status place_buffers(fabric::Fabric& fabric);

    const LinkOptions options_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<Slot> slots_;
    std::unique_ptr<initiator::Session> session_;
    initiator::Volume* volume_ = nullptr;
    bool closing_ = false;
};

}  // namespace wss::wssbench
