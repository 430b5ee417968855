// SPDX-License-Identifier: Apache-2.0
// Each message of the cache is described once, by a function that passes its fields in order to one of these
// classes. The classes have the same methods. For cache.cc only.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "lib/wire/fields.h"
#include "lib/wire/text.h"

namespace wss::wire::detail {

// Counts the bytes that a writer would write.
class Size {
  public:
    size_t bytes() const { return bytes_; }
    void u32(uint32_t) { bytes_ += 4; }
    void u64(uint64_t) { bytes_ += 8; }
    void raw(Bytes data) { bytes_ += data.size(); }
    void zeroes(size_t count) { bytes_ += count; }
    void text(std::string_view text, size_t limit) { bytes_ += (std::min(text.size(), limit) + 7) / 8 * 8; }
    void bit32(uint32_t, bool) { bytes_ += 4; }
    void bit(uint8_t, bool) {}
    template <typename Enum>
    void low_bits(uint8_t, Enum) {}
    bool has(uint8_t, bool there) const { return there; }

  private:
    size_t bytes_ = 0;
};

// Writes into memory that is zero and large enough.
class Writer {
  public:
    explicit Writer(std::byte* at) : at_(at) {}
    uint8_t flags() const { return flags_; }
    void u32(uint32_t value) { put32(take(4), value); }
    void u64(uint64_t value) { put64(take(8), value); }
    void raw(Bytes data) { std::ranges::copy(data, take(data.size())); }
    void zeroes(size_t count) { take(count); }
    // Padded with zeroes to a multiple of eight bytes.
    void text(std::string_view text, size_t limit) {
        text = text.substr(0, limit);
        std::memcpy(take((text.size() + 7) / 8 * 8), text.data(), text.size());
    }
    void bit32(uint32_t mask, bool value) { u32(value ? mask : 0); }
    void bit(uint8_t mask, bool value) { flags_ = static_cast<uint8_t>(flags_ | (value ? mask : 0)); }
    template <typename Enum>
    void low_bits(uint8_t, Enum value) {
        flags_ = static_cast<uint8_t>(flags_ | static_cast<uint8_t>(value));
    }
    // The fields that follow are present only with this flag.
    bool has(uint8_t mask, bool there) {
        bit(mask, there);
        return there;
    }

  private:
    std::byte* take(size_t count) { return std::exchange(at_, at_ + count); }
    std::byte* at_;
    uint8_t flags_ = 0;
};

class Reader : public FieldReader {
  public:
    Reader(Bytes body, uint8_t flags) : FieldReader(body), flags_(flags) {}
    void raw(MutableBytes out) {
        if (const std::byte* at = take(out.size()); at != nullptr)
            std::memcpy(out.data(), at, out.size());
        else
            std::ranges::fill(out, std::byte{});
    }
    void zeroes(size_t count) { take(count); }
    // The rest of the bytes, as printable text.
    void text(std::string& out, size_t limit) {
        std::array<char, 256> text;
        require(left() <= limit);
        const std::byte* at = take(left());
        const std::string_view raw{reinterpret_cast<const char*>(at), at != nullptr ? size_t(end() - at) : 0};
        out.assign(text.data(), copy_printable(raw, {text.data(), std::min(limit, text.size())}));
    }
    void bit32(uint32_t mask, bool& value) {
        uint32_t word = 0;
        u32(word);
        value = (word & mask) != 0;
    }
    void bit(uint8_t mask, bool& value) { value = (flags_ & mask) != 0; }
    template <typename Enum>
    void low_bits(uint8_t mask, Enum& value) {
        value = static_cast<Enum>(flags_ & mask);
    }
    bool has(uint8_t mask, bool) const { return (flags_ & mask) != 0; }

  private:
    const uint8_t flags_;
};

}  // namespace wss::wire::detail
