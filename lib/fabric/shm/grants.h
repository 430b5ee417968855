// SPDX-License-Identifier: Apache-2.0
// Grants: what one connection knows of the peer's regions: which of them it maps, and so moves data to and
// from itself.
//
// Thread-safety: none; belongs to its connection.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/mapping.h"
#include "lib/fabric/stream/queues.h"

namespace wss::fabric::shm {

enum class GrantKind : uint8_t {
    kNone = 1,  // send frames
    kMapped,    // the memfd comes with this message
};

// From the owner of region `rkey`, over the socket. Both ends are on one host: no byte order to agree on.
struct GrantMessage {
    uint32_t rkey = 0;
    GrantKind kind = GrantKind::kNone;
    Access access = Access::kLocal;
    uint16_t zero = 0;
    Validity validity;
    uint64_t address = 0;
    uint64_t length = 0;
};
static_assert(sizeof(GrantMessage) == 32, "no padding whose bytes would leak");

class Grants {
  public:
    // `validity`: the peer's page.
    void attach(Mapping validity) noexcept { validity_ = std::move(validity); }
    void detach() noexcept;

    bool knows(uint32_t rkey) const { return grants_.contains(rkey); }
    bool is_mapped(uint32_t rkey) noexcept;
    // False: the message cannot be true.
    bool take(const GrantMessage& message, Descriptor memory);

    // True when the data is in place. False: let the owner do it, or refuse it. REQUIRES is_mapped(rkey).
    bool move(const stream::SendEntry& entry, std::span<const Segment> segments) noexcept;

  private:
    struct Grant {
        GrantKind kind = GrantKind::kNone;
        Access access = Access::kLocal;
        Validity validity;
        uint64_t address = 0;
        uint64_t length = 0;
        Mapping mapping;
    };
    bool is_valid(const Grant& grant) const noexcept;
    Grant* find(uint32_t rkey) noexcept;

    std::unordered_map<uint32_t, Grant> grants_;
    uint32_t last_rkey_ = 0;
    Grant* last_ = nullptr;  // of last_rkey_: one region after the other is what users do
    Mapping validity_;
};

}  // namespace wss::fabric::shm
