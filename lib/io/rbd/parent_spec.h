// SPDX-License-Identifier: Apache-2.0
// What an image was cloned from, as its header says (parent_get and parent_overlap_get of Ceph's class rbd).
//
// Decoded without librados, so that every answer can be tested without a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace wss::io {

// A snapshot of an image.
struct ParentSpec {
    int64_t pool = -1;
    std::string pool_namespace, image;  // its id
    uint64_t snapshot = 0;
    bool operator==(const ParentSpec&) const = default;
};

// Nothing: a later version of the encoding.
std::optional<ParentSpec> parse_parent(std::span<const char> answer);

// Whether something is read from the parent still. Nothing: as above.
std::optional<bool> parse_overlap(std::span<const char> answer);

}  // namespace wss::io
