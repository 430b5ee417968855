// SPDX-License-Identifier: Apache-2.0
// Messages of an attacker: valid, damaged and random ones, all from a seed.
#pragma once

#include <array>
#include <span>

#include "lib/base/clock.h"
#include "lib/wire/srp.h"

namespace wss::hostile {

// Length of the longest message, which is longer than any target accepts.
constexpr size_t kMessageMax = WSS_SRP_MAX_IT_IU_LEN + 512;

using Message = std::array<std::byte, kMessageMax>;

// Memory of the attacker that the target may access. Messages may describe it wrongly.
struct Memory {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;
};

class MessageSource {
  public:
    MessageSource(Random& random, Memory memory) : random_(random), memory_(memory) {}

    // Writes the private data of a connect request and returns its length.
    size_t login(std::span<std::byte> out);
    // Writes any message and returns its length.
    size_t next(Message& out);

  private:
    size_t command(Message& out);
    size_t immediate(Message& out);
    size_t task_management(Message& out);
    size_t small(Message& out);
    size_t table_elsewhere(Message& out);
    void fill_cdb(std::span<std::byte, 16> cdb);
    wire::RemoteBuffer buffer(uint32_t length);
    uint64_t lun();
    void damage(std::span<std::byte> message);

    Random& random_;
    const Memory memory_;
    uint64_t tag_ = 0;
};

}  // namespace wss::hostile
