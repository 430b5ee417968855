// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA-256, comparison in constant time, unpredictable bytes, wiped secrets.
//
// Thread-safety: all functions may be called from any thread. A Secret is a value.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace wss {

using Digest = std::array<std::byte, 32>;

// Digest of the concatenation of `parts`. The key may have any length.
Digest hmac_sha256(std::string_view key, std::span<const std::span<const std::byte>> parts);

// For inputs of the same length, the time does not depend on whether or where they differ. So it does not
// show how close a guess was. Inputs of different lengths are never equal.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

// Random bytes from the operating system. Ends the process on failure, which does not occur on Linux.
void fill_unpredictable(std::span<std::byte> bytes);

// Bytes that are wiped when they are no longer needed, and that no formatter prints.
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

    // Use this only for computations, never for text.
    std::string_view bytes() const { return bytes_; }
    bool empty() const { return bytes_.empty(); }

  private:
    void wipe();
    std::string bytes_;
};

// Wipes `bytes` after copying them.
Secret take_secret(std::span<std::byte> bytes);

}  // namespace wss
