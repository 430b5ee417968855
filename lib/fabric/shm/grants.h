// SPDX-License-Identifier: Apache-2.0
// Grants: regions of the peer that one connection can access, and the mappings of those that it accesses
// directly.
//
// Thread-safety: none. It belongs to its connection.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/mapping.h"
#include "lib/fabric/stream/queues.h"

namespace wss::fabric::shm {

enum class GrantKind : uint8_t {
    kNone = 1,  // access through frames
    kMapped,    // mapped; this message carries the memfd
};

// Sent by the owner of region `rkey` over the socket. The fields are in host byte order, because both ends
// are on one host.
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
    // `validity`: the peer's validity page.
    void attach(Mapping validity) noexcept { validity_ = std::move(validity); }
    void detach() noexcept;

    bool knows(uint32_t rkey) const { return grants_.contains(rkey); }
    bool is_mapped(uint32_t rkey) noexcept;
    // Returns false if the message is invalid.
    bool take(const GrantMessage& message, Descriptor memory);

    // Returns true if the data was moved. Otherwise the caller must send frames, and the owner executes or
    // refuses the request. REQUIRES is_mapped(rkey).
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
    Grant* last_ = nullptr;  // grant of last_rkey_: users access one region after another
    Mapping validity_;
};

}  // namespace wss::fabric::shm
