// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA-256, comparison in constant time, unpredictable bytes: the only door to libcrypto.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace wss {

using Digest = std::array<std::byte, 32>;

// Of `parts`, one behind the other. The key may be of any length.
Digest hmac_sha256(std::string_view key, std::span<const std::span<const std::byte>> parts);

// Takes the same time whether the first or the last byte differs, or none: how long a wrong guess took tells
// nothing about how good it was.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

// From the operating system; ends the process when that has none, which Linux says cannot be.
void fill_unpredictable(std::span<std::byte> bytes);

// Bytes that are overwritten when they are no longer needed, and that no formatter prints.
class Secret {
  public:
    Secret() = default;
    explicit Secret(std::string_view bytes) : bytes_(bytes) {}
    ~Secret() { wipe(); }
    Secret(const Secret&) = default;
    Secret(Secret&& other) : bytes_(other.bytes_) { other.wipe(); }
    Secret& operator=(const Secret& other) {
        if (this != &other) wipe(), bytes_ = other.bytes_;
        return *this;
    }
    Secret& operator=(Secret&& other) {
        if (this != &other) *this = other, other.wipe();
        return *this;
    }

    // For whoever computes with it; never for a text.
    std::string_view bytes() const { return bytes_; }
    bool empty() const { return bytes_.empty(); }

  private:
    void wipe();
    std::string bytes_;
};

}  // namespace wss
