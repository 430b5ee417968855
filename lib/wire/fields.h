// SPDX-License-Identifier: Apache-2.0
// The common parts of the codecs of the cache (cache_codec.h) and of the key-value store (kv.cc). Each
// message has one function fields(io, message) for both directions: `io` is a writer and the message
// constant, or `io` is a reader that sets the fields.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "lib/wire/endian.h"

namespace wss::wire::detail {

template <typename Message, typename Kind>
concept Is = std::same_as<std::remove_const_t<Message>, Kind>;

// Once the bytes have run out, every value reads as zero. finish() returns whether the fields used all bytes.
class FieldReader {
  public:
    explicit FieldReader(Bytes bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
    void u16(uint16_t& value) {
        const std::byte* at = take(2);
        value = at != nullptr ? get16(at) : uint16_t{0};
    }
    void u32(uint32_t& value) {
        const std::byte* at = take(4);
        value = at != nullptr ? get32(at) : 0;
    }
    void u64(uint64_t& value) {
        const std::byte* at = take(8);
        value = at != nullptr ? get64(at) : 0;
    }
    void require(bool holds) { good_ = good_ && holds; }
    bool good() const { return good_; }
    // True if all fields were valid and used all bytes.
    bool finish() const { return good_ && at_ == end_; }

  protected:
    size_t left() const { return static_cast<size_t>(end_ - at_); }
    const std::byte* end() const { return end_; }
    // Returns nullptr, in this call and all later ones, if fewer than `count` bytes are left.
    const std::byte* take(size_t count) {
        if (left() >= count) [[likely]]
            return std::exchange(at_, at_ + count);
        at_ = end_;
        good_ = false;
        return nullptr;
    }

  private:
    const std::byte* at_;
    const std::byte* const end_;
    bool good_ = true;
};

}  // namespace wss::wire::detail
