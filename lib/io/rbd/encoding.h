// SPDX-License-Identifier: Apache-2.0
// Requests to the object classes of an OSD, and their replies, in Ceph's encoding: little-endian, structures
// with a header of two versions and their length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wss::io {

// Reading beyond the end returns zeroes and sets failed().
class Decoder {
  public:
    explicit Decoder(std::span<const char> bytes) : left_(bytes) {}
    bool failed() const { return failed_; }

    uint64_t number(size_t bytes) {
        uint64_t value = 0;
        const std::span<const char> from = take(bytes);
        for (size_t i = from.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(from[i - 1]);
        return value;
    }
    std::string text() {
        const std::span<const char> from = take(static_cast<size_t>(number(4)));
        return {from.data(), from.size()};
    }
    // Returns the fields of a structure. The caller ignores fields that a later version added at the end. A
    // structure that this version cannot decode sets failed().
    std::span<const char> structure() {
        number(1);
        if (number(1) > kVersion) failed_ = true;
        return take(static_cast<size_t>(number(4)));
    }

  private:
    static constexpr uint8_t kVersion = 1;

    std::span<const char> take(size_t bytes) {
        if (bytes > left_.size()) failed_ = true;
        if (failed_) return {};
        const std::span<const char> taken = left_.first(bytes);
        left_ = left_.subspan(bytes);
        return taken;
    }
    std::span<const char> left_;
    bool failed_ = false;
};

class Encoder {
  public:
    Encoder& number(uint64_t value, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> 8 * i & 0xff));
        return *this;
    }
    Encoder& text(std::string_view value) {
        number(value.size(), 4);
        bytes_.append(value);
        return *this;
    }
    Encoder& structure(const Encoder& fields) { return number(1, 1).number(1, 1).text(fields.bytes_); }
    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

}  // namespace wss::io
