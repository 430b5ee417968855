// SPDX-License-Identifier: Apache-2.0
// Decodes the parent of a cloned image from the replies of its header (methods parent_get and
// parent_overlap_get of Ceph's object class rbd).
//
// Works without librados, so that every reply can be tested without a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace wss::io {

// Identifies a snapshot of an image.
struct ParentSpec {
    int64_t pool = -1;
    std::string pool_namespace, image;  // `image`: the id
    uint64_t snapshot = 0;
    bool operator==(const ParentSpec&) const = default;
};

// Returns nullopt if the reply is too short or has the encoding of a later version.
std::optional<ParentSpec> parse_parent(std::span<const char> answer);

// True if a part of the image is still read from the parent. Returns nullopt if the reply is too short.
std::optional<bool> parse_overlap(std::span<const char> answer);

}  // namespace wss::io
