// SPDX-License-Identifier: Apache-2.0
// DiskShare: how many reads of a partition may wait for the disk, and how many bytes they may hold meanwhile.
// What waits holds all that it has so far, and is admitted with what it will hold.
//
// Thread-safety: none. Ownership: a Hold gives back what it holds; it dies before its share.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

namespace wss::kv {

class DiskShare {
  public:
    static constexpr size_t kRequestsMax = 1024;
    static constexpr size_t kBytesMax = size_t{256} << 20;

    class Hold {
      public:
        Hold() = default;
        Hold(Hold&& other) noexcept
            : share_(std::exchange(other.share_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
        Hold& operator=(Hold&& other) noexcept {
            std::swap(share_, other.share_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~Hold() {
            if (share_ == nullptr) return;
            --share_->requests_;
            share_->bytes_ -= bytes_;
        }

      private:
        friend class DiskShare;
        Hold(DiskShare* share, size_t bytes) : share_(share), bytes_(bytes) {}
        DiskShare* share_ = nullptr;
        size_t bytes_ = 0;
    };

    std::optional<Hold> admit(size_t bytes) {
        if (requests_ >= kRequestsMax || bytes > kBytesMax - bytes_) return std::nullopt;
        ++requests_;
        bytes_ += bytes;
        return Hold(this, bytes);
    }

  private:
    size_t requests_ = 0, bytes_ = 0;
};

}  // namespace wss::kv
