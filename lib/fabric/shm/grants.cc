// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/grants.h"

#include <atomic>
#include <cstring>

namespace wss::fabric::shm {

using stream::SendEntry;

// When a connection has this number of grants, it forgets all of them and requests them again.
constexpr size_t kGrantsMax = 4096;

Grants::Grant* Grants::find(uint32_t rkey) noexcept {
    if (last_ != nullptr && last_rkey_ == rkey) return last_;
    auto found = grants_.find(rkey);
    if (found == grants_.end()) return nullptr;
    last_rkey_ = rkey;
    return last_ = &found->second;  // node-based map: valid until erased
}

bool Grants::is_mapped(uint32_t rkey) noexcept {
    const Grant* grant = find(rkey);
    return grant != nullptr && grant->kind == GrantKind::kMapped;
}

void Grants::detach() noexcept {
    grants_.clear();
    last_ = nullptr;
    validity_.reset();
}

bool Grants::take(const GrantMessage& message, Descriptor memory) {
    last_ = nullptr;
    if (grants_.size() >= kGrantsMax) grants_.clear();
    Grant grant{.kind = message.kind,
                .access = message.access,
                .validity = message.validity,
                .address = message.address,
                .length = message.length,
                .mapping = {}};
    if (message.kind != GrantKind::kNone) {
        bool possible = message.kind == GrantKind::kMapped && message.validity.slot < kSlots &&
                        message.validity.generation != 0 && message.length > 0 &&
                        message.address + message.length > message.address &&
                        message.access != Access::kLocal && message.access <= Access::kRemoteReadWrite;
        if (!possible) return false;
    }
    if (message.kind == GrantKind::kMapped) {
        bool writable = stream::allows(message.access, Access::kRemoteWrite);
        Result<Mapping> mapping = map_shared(memory.get(), message.length, writable);
        if (mapping)
            grant.mapping = std::move(*mapping);
        else
            grant.kind = GrantKind::kNone;  // the address space may be exhausted: frames still work
    }
    grants_.insert_or_assign(message.rkey, std::move(grant));
    return true;
}

bool Grants::is_valid(const Grant& grant) const noexcept {
    auto* words = reinterpret_cast<std::atomic<uint32_t>*>(validity_.data());
    return words[grant.validity.slot].load(std::memory_order_acquire) == grant.validity.generation;
}

static void copy(const SendEntry& entry, std::span<const Segment> segments, std::byte* remote) {
    for (const Segment& segment : segments) {
        if (segment.length == 0) continue;
        if (entry.op == Op::kRead)
            std::memcpy(segment.address, remote, segment.length);
        else
            std::memcpy(remote, segment.address, segment.length);
        remote += segment.length;
    }
}

bool Grants::move(const SendEntry& entry, std::span<const Segment> segments) noexcept {
    Grant& grant = *find(entry.remote.rkey);
    Access need = entry.op == Op::kRead ? Access::kRemoteRead : Access::kRemoteWrite;
    if (!stream::allows(grant.access, need)) return false;
    uint64_t offset = entry.remote.address - grant.address;
    if (entry.remote.address < grant.address || entry.length > grant.length ||
        offset > grant.length - entry.length)
        return false;
    if (!is_valid(grant)) {
        last_ = nullptr;
        grants_.erase(entry.remote.rkey);
        return false;
    }
    copy(entry, segments, grant.mapping.data() + offset);
    return true;
}

}  // namespace wss::fabric::shm
