// SPDX-License-Identifier: Apache-2.0
// EngineLink: a channel's connection to one cache engine. The engine writes the data of reads directly to
// this side's memory. Each part carries the command's tag as its immediate value. This side sends nothing.
//
// Life: connecting → up → closing → over, only forward. When the target names the engine again, the channel
// creates a new link.
//
// Thread-safety: belongs to the channel's thread. Lifetime: the channel destroys it after it has ended.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/wire/cache.h"

namespace wss::initiator {

class EngineLink;

class EngineLinkOwner {
  public:
    // `bytes` of a command's data have arrived. Return false when there is no such command: the link closes.
    virtual bool part_arrived(EngineLink& link, uint32_t immediate, uint32_t bytes) noexcept = 0;
    // The engine can no longer access this side's memory. Destroy the link later, not within this call.
    virtual void link_over(EngineLink& link, const Status& why) noexcept = 0;

  protected:
    ~EngineLinkOwner() = default;
};

class EngineLink final : private fabric::ConnectionHandler {
  public:
    static constexpr uint32_t kReceives = 256;  // parts in flight; further ones wait in the fabric

    EngineLink(EngineLinkOwner& owner, uint16_t index) : owner_(owner), index_(index) {}
    ~EngineLink() override;

    // `device` is that of the channel, whose commands contain the rkeys that the engine uses.
    Status connect(fabric::Poller& poller, const wire::CacheEngineNotice& notice, Nanoseconds timeout,
                   size_t device);
    void close() noexcept;
    bool is_up() const noexcept { return state_ == State::kUp; }
    bool is_over() const noexcept { return state_ == State::kIdle || state_ == State::kOver; }
    uint16_t index() const noexcept { return index_; }
    uint64_t bytes() const noexcept { return bytes_; }

  private:
    enum class State : uint8_t { kIdle, kConnecting, kUp, kClosing, kOver };
    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;
    bool post_receives(uint32_t count) noexcept;

    EngineLinkOwner& owner_;
    const uint16_t index_;
    std::unique_ptr<fabric::Connection> connection_;
    State state_ = State::kIdle;
    uint64_t bytes_ = 0;
};

}  // namespace wss::initiator
