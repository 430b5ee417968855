// SPDX-License-Identifier: Apache-2.0
// RecordedSizes: what the state file records of a volume's size, to outlast a restart.
#pragma once

#include <cstdint>
#include <string>

namespace wss::volume {

struct RecordedSizes {
    uint64_t resized = 0;  // by the operator, or to follow the storage; 0: never
    // The part of its storage that the operator gave the volume at run time; 0: never, or all of it.
    uint64_t part = 0;
    // The operator's growth to this size has begun, and the storage may have it or not; 0: none.
    uint64_t growing = 0;
    // A shrink to `resized` has begun and may be incomplete. Data beyond that must not reappear.
    bool shrinking = false;
    // That shrink followed the storage, all of which the volume covered. The storage may have any size since.
    bool followed = false;
    // The size of the backend that this shrink, or its repetition, reduces to `resized`; 0: none, because the
    // storage has shrunk before the volume.
    uint64_t cut_from = 0;
    std::string cut_ownership;  // the backend's ownership() then; no shrink after another owner had it

    bool operator==(const RecordedSizes&) const = default;
    void forget_cut() {
        cut_from = 0;
        cut_ownership.clear();
    }
    void end_shrink() {
        shrinking = followed = false;
        growing = 0;
        forget_cut();
    }
};

}  // namespace wss::volume
