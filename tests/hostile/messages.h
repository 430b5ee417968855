// SPDX-License-Identifier: Apache-2.0
// Messages of an attacker: valid, damaged and random ones, all from a seed.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "lib/base/clock.h"
#include "lib/wire/kv.h"
#include "lib/wire/srp.h"

namespace wss::hostile {

// Length of the longest message. It is longer than any that a target of block storage accepts.
constexpr size_t kMessageMax = 16 * 1024 + WSS_SRP_MAX_IT_IU_LEN + 512;

// LUN of the volume whose data the tests verify. No attacker writes to it.
constexpr uint64_t kGoodLun = 5000;

using Message = std::array<std::byte, kMessageMax>;

// Memory of the attacker that the target may access. Messages may describe it incorrectly.
struct Memory {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;
};

// Buffers for messages from the target.
struct Receives {
    uint32_t count = 0, bytes = 0;
};

// One connection's side of a protocol.
class MessageSource {
  public:
    MessageSource(Random& random, Memory memory) : random_(random), memory_(memory) {}
    virtual ~MessageSource() = default;

    // Writes the private data of a connect request and returns its length.
    virtual size_t login(std::span<std::byte> out) = 0;
    // The target has accepted the connection with this private data. Returns false if the data is not a login
    // response.
    virtual bool established(std::span<const std::byte>) { return true; }
    // Writes any message and returns its length.
    virtual size_t next(Message& out) = 0;
    virtual Receives receives() const = 0;
    // Returns false if the protocol forbids further messages at the moment.
    virtual bool has_credit() const { return true; }
    virtual void received(wire::Bytes) {}
    virtual void received_immediate(uint32_t) {}

  protected:
    // Changes bytes. Most of them are among the first `head` bytes, which determine how the rest is parsed.
    void damage(std::span<std::byte> message, size_t head);

    Random& random_;
    const Memory memory_;
};

std::unique_ptr<MessageSource> make_srp_source(Random& random, Memory memory);
std::unique_ptr<MessageSource> make_kv_source(Random& random, Memory memory);

}  // namespace wss::hostile
