// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/metadata.h"

#include <algorithm>

#include "lib/kv/placement.h"

namespace wss::kv {

namespace {

constexpr uint32_t kHashes = 4;
// Ten bits per key: false positives below 2 %. Each costs a round trip and nothing else.
constexpr size_t kBitsPerKey = 10;
constexpr size_t kBitsMin = 128;

// All hashes derive from the two halves of the fingerprint.
size_t bloom_bit(uint64_t fingerprint, uint32_t hash, size_t bits) {
    uint64_t step = (fingerprint >> 32) | 1;
    return (fingerprint + hash * step) * 0x9e3779b97f4a7c15u % bits;
}

}  // namespace

void encode_keys(std::span<const uint64_t> fingerprints, std::vector<std::byte>& out) {
    out.resize(1 + fingerprints.size() * 8);
    wire::put8(out.data(), static_cast<uint8_t>(MetadataKind::kKeys));
    for (size_t i = 0; i < fingerprints.size(); ++i) wire::put64(out.data() + 1 + i * 8, fingerprints[i]);
}

void encode_bloom(std::span<const uint64_t> fingerprints, std::vector<std::byte>& out) {
    size_t bits = (std::max(kBitsMin, fingerprints.size() * kBitsPerKey) + 7) / 8 * 8;
    out.assign(1 + bits / 8, std::byte{0});
    wire::put8(out.data(), static_cast<uint8_t>(MetadataKind::kBloom));
    for (uint64_t fingerprint : fingerprints)
        for (uint32_t hash = 0; hash < kHashes; ++hash) {
            size_t bit = bloom_bit(fingerprint, hash, bits);
            out[1 + bit / 8] |= std::byte{1} << (bit % 8);
        }
}

std::vector<std::byte> encode_participants(std::span<const uint16_t> partitions) {
    std::vector<std::byte> out(partitions.size() * 2);
    for (size_t i = 0; i < partitions.size(); ++i) wire::put16(out.data() + i * 2, partitions[i]);
    return out;
}

Metadata::Metadata(wire::Bytes bytes) {
    if (bytes.empty()) return;
    uint8_t kind = wire::get8(bytes.data());
    bytes_ = bytes.subspan(1);
    if (kind == static_cast<uint8_t>(MetadataKind::kKeys) && bytes_.size() % 8 == 0)
        kind_ = MetadataKind::kKeys;
    if (kind == static_cast<uint8_t>(MetadataKind::kBloom) && !bytes_.empty()) kind_ = MetadataKind::kBloom;
}

bool Metadata::may_contain(uint64_t fingerprint) const noexcept {
    if (kind_ == MetadataKind::kKeys) {
        for (size_t i = 0; i < keys(); ++i)
            if (key(i) == fingerprint) return true;
        return false;
    }
    if (kind_ != MetadataKind::kBloom) return false;
    for (uint32_t hash = 0; hash < kHashes; ++hash) {
        size_t bit = bloom_bit(fingerprint, hash, bytes_.size() * 8);
        if ((bytes_[bit / 8] & std::byte{1} << (bit % 8)) == std::byte{0}) return false;
    }
    return true;
}

std::vector<std::string> split_map(std::string_view map) {
    std::vector<std::string> partitions;
    while (!map.empty()) {
        size_t comma = map.find(',');
        std::string_view one = map.substr(0, comma);
        if (!one.empty()) partitions.emplace_back(one);
        map = comma == std::string_view::npos ? std::string_view() : map.substr(comma + 1);
    }
    return partitions;
}

std::string join_map(const std::vector<std::string>& partitions) {
    std::string map;
    for (const std::string& partition : partitions) map += (map.empty() ? "" : ",") + partition;
    return map;
}

}  // namespace wss::kv
