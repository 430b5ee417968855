// SPDX-License-Identifier: Apache-2.0
// What a version records about its transaction: nothing (RAMP-Small), the fingerprints of all its keys
// (RAMP-Fast), or a Bloom filter of them (RAMP-Hybrid). The first byte is the kind. The server stores the
// bytes without parsing them.
#pragma once

#include <span>
#include <vector>

#include "lib/kv/types.h"
#include "lib/wire/endian.h"

namespace wss::kv {

enum class MetadataKind : uint8_t { kNone = 0, kKeys = 1, kBloom = 2 };

void encode_keys(std::span<const uint64_t> fingerprints, std::vector<std::byte>& out);
void encode_bloom(std::span<const uint64_t> fingerprints, std::vector<std::byte>& out);
std::vector<std::byte> encode_participants(std::span<const uint16_t> partitions);

// Metadata as received from a peer; the bytes are untrusted. Malformed metadata counts as kNone.
class Metadata {
  public:
    explicit Metadata(wire::Bytes bytes);
    MetadataKind kind() const { return kind_; }
    size_t keys() const { return kind_ == MetadataKind::kKeys ? bytes_.size() / 8 : 0; }
    uint64_t key(size_t index) const { return wire::get64(bytes_.data() + index * 8); }
    // Whether the transaction wrote this key. A Bloom filter has false positives.
    bool may_contain(uint64_t fingerprint) const noexcept;

  private:
    MetadataKind kind_ = MetadataKind::kNone;
    wire::Bytes bytes_;  // the bytes after the kind byte
};

}  // namespace wss::kv
