// SPDX-License-Identifier: Apache-2.0
// SessionVersions: for each of many keys the newest version that a session has read, or that a sibling's
// metadata named. Bounded: a full bucket drops the entry with the oldest version, and session order no longer
// holds for that key.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "lib/kv/types.h"

namespace wss::kv {

class SessionVersions {
  public:
    explicit SessionVersions(uint32_t keys) : buckets_(std::bit_ceil(std::max(keys / kWays, 1u))) {}

    Timestamp of(uint64_t fingerprint) const noexcept {
        for (const Entry& entry : bucket_of(fingerprint))
            if (entry.fingerprint == fingerprint) return entry.timestamp;
        return {};
    }
    void raise(uint64_t fingerprint, Timestamp timestamp) noexcept {
        Entry* place = nullptr;
        for (Entry& entry : buckets_[fingerprint & (buckets_.size() - 1)]) {
            if (entry.fingerprint == fingerprint) {
                entry.timestamp = std::max(entry.timestamp, timestamp);
                return;
            }
            if (place == nullptr || entry.timestamp < place->timestamp) place = &entry;
        }
        *place = {fingerprint, timestamp};
    }

  private:
    static constexpr uint32_t kWays = 8;
    struct Entry {
        uint64_t fingerprint = 0;
        Timestamp timestamp;
    };
    using Bucket = std::array<Entry, kWays>;
    const Bucket& bucket_of(uint64_t fingerprint) const noexcept {
        return buckets_[fingerprint & (buckets_.size() - 1)];
    }
    std::vector<Bucket> buckets_;
};

}  // namespace wss::kv
