// SPDX-License-Identifier: Apache-2.0
// Payload: location of a command's data while the command is on the wire.
//
//   kImmediate  in the command itself: small writes, no registration, no extra round trip
//   kRegions    in registered memory of the user: the target accesses it, nothing is copied
//               (over shm: in allocated memory of the user)
//   kBounce     in the bounce arena: DataMemory copies the data before a write or after a read
//
// DataMemory chooses, in this order; see plan().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/initiator/cursor.h"
#include "lib/initiator/memory.h"
#include "lib/initiator/options.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

using Direction = wire::CommandRequest::Direction;

struct Payload {
    enum class Kind : uint8_t { kNone, kImmediate, kRegions, kBounce };

    Kind kind = Kind::kNone;
    Direction direction = Direction::kNone;
    uint8_t count = 0;    // entries held
    uint32_t length = 0;  // bytes of data
    Bounce bounce;
    Cursor where;            // the user's buffers, from the first byte of this command's data
    bool transient = false;  // this data exists only until plan() returns and the command is built
    std::array<RegionTable::Entry*, kDescriptorsMax> entries;
};

// Memory descriptors of a command, for a target that is connected through `device`.
struct Descriptors {
    size_t device = 0;
    std::array<wire::RemoteBuffer, kDescriptorsMax> list;
    uint32_t count = 0;
};

// Thread-safety: belongs to the session's thread.
class DataMemory {
  public:
    static Result<std::unique_ptr<DataMemory>> create(fabric::Fabric& fabric, const Options& options);

    // Finds a location for payload.length bytes at payload.where and stores it in `descriptors`. For writes
    // this copies the data there, except for kImmediate: the caller copies it into the command, which has
    // room for `immediate_room` bytes. Returns false when there is no room now; commands that end free some.
    bool plan(Payload& payload, uint32_t immediate_room, Descriptors& descriptors) noexcept;
    // After the response: copies the first `bytes` that were read to the user's buffers, if necessary.
    void deliver(Payload& payload, uint32_t bytes) noexcept;
    // Call when the command has ended or was never sent.
    void release(Payload& payload) noexcept;

    BouncePool& bounce() { return *bounce_; }
    RegionTable& regions() { return regions_; }

  private:
    DataMemory(fabric::Fabric& fabric, const Options& options, std::unique_ptr<BouncePool> bounce)
        : pin_at_least_(copies_registered(fabric) ? 0 : options.pin_at_least),
          bounce_(std::move(bounce)),
          regions_(fabric, {options.pins_max, options.pin_bytes_max}) {}
    bool use_regions(Payload& payload, Descriptors& descriptors) noexcept;
    bool add_run(Payload& payload, Descriptors& descriptors, std::span<std::byte> run) noexcept;

    const uint32_t pin_at_least_;
    std::unique_ptr<BouncePool> bounce_;
    RegionTable regions_;
};

}  // namespace wss::initiator
