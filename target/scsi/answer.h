// SPDX-License-Identifier: Apache-2.0
// Answer: writes the data-in of a command, truncated to the allocation length and the buffer (invariant SC2).
//
// Handlers write the whole answer. Bytes that do not fit are counted and dropped, so length fields hold the
// length of the whole answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "lib/wire/endian.h"

namespace wss::scsi {

class Answer {
  public:
    explicit Answer(wire::MutableBytes out) : out_(out) {}

    // Must be called before the first byte is written.
    void limit(uint32_t allocation_length) {
        out_ = out_.first(std::min(out_.size(), size_t{allocation_length}));
    }

    void u8(uint8_t value) {
        if (total_ < out_.size()) wire::put8(&out_[total_], value);
        total_++;
    }
    void u16(uint16_t value) {
        u8(uint8_t(value >> 8));
        u8(uint8_t(value));
    }
    void u32(uint32_t value) {
        u16(uint16_t(value >> 16));
        u16(uint16_t(value));
    }
    void u64(uint64_t value) {
        u32(uint32_t(value >> 32));
        u32(uint32_t(value));
    }
    void zeroes(size_t count) {
        for (size_t i = 0; i < count; i++) u8(0);
    }
    void bytes(wire::Bytes data) {
        for (std::byte b : data) u8(std::to_integer<uint8_t>(b));
    }
    // Writes `text`, truncated or padded with blanks to `width`.
    void ascii(std::string_view text, size_t width) {
        for (size_t i = 0; i < width; i++) u8(i < text.size() ? uint8_t(text[i]) : uint8_t(' '));
    }

    // Overwrites bytes already written, for a length that is known only at the end.
    void patch8(size_t at, uint8_t value) {
        if (at < std::min(out_.size(), total_)) wire::put8(&out_[at], value);
    }
    void patch16(size_t at, uint16_t value) {
        patch8(at, uint8_t(value >> 8));
        patch8(at + 1, uint8_t(value));
    }
    void patch32(size_t at, uint32_t value) {
        patch16(at, uint16_t(value >> 16));
        patch16(at + 2, uint16_t(value));
    }

    size_t total() const { return total_; }  // bytes of the whole answer
    uint32_t written() const { return uint32_t(std::min(out_.size(), total_)); }

  private:
    wire::MutableBytes out_;
    size_t total_ = 0;
};

}  // namespace wss::scsi
