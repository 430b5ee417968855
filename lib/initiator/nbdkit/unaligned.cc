// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/nbdkit/unaligned.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace wss::initiator {

namespace {

uint64_t down(uint64_t value, uint32_t block) {
    return value / block * block;
}
uint64_t up(uint64_t value, uint32_t block) {
    return down(value + block - 1, block);
}

}  // namespace

int ByteVolume::read(char* buffer, uint32_t length, uint64_t offset) {
    if (aligned(length, offset)) return wss_read(volume_, buffer, length, offset);
    uint64_t begin = down(offset, info_.block_size);
    std::vector<char> blocks(up(offset + length, info_.block_size) - begin);
    int result = wss_read(volume_, blocks.data(), blocks.size(), begin);
    if (result == 0) std::memcpy(buffer, blocks.data() + (offset - begin), length);
    return result;
}

int ByteVolume::write(const char* buffer, uint32_t length, uint64_t offset, bool fua) {
    if (aligned(length, offset)) {
        std::shared_lock lock(gate_);
        return wss_write(volume_, buffer, length, offset, fua ? WSS_FUA : 0);
    }
    std::unique_lock lock(gate_);
    return change(buffer, length, offset, fua);
}

int ByteVolume::change(const char* buffer, uint32_t length, uint64_t offset, bool fua) {
    uint64_t begin = down(offset, info_.block_size);
    std::vector<char> blocks(up(offset + length, info_.block_size) - begin);
    if (int result = wss_read(volume_, blocks.data(), blocks.size(), begin); result != 0) return result;
    if (buffer != nullptr)
        std::memcpy(blocks.data() + (offset - begin), buffer, length);
    else
        std::memset(blocks.data() + (offset - begin), 0, length);
    return wss_write(volume_, blocks.data(), blocks.size(), begin, fua ? WSS_FUA : 0);
}

int ByteVolume::zero(uint32_t length, uint64_t offset, bool may_unmap, bool fua) {
    uint32_t flags = (may_unmap ? 0 : WSS_NO_UNMAP) | (fua ? WSS_FUA : 0);
    if (aligned(length, offset)) {
        std::shared_lock lock(gate_);
        return wss_write_zeroes(volume_, length, offset, flags);
    }
    std::unique_lock lock(gate_);
    uint64_t first = up(offset, info_.block_size), last = down(offset + length, info_.block_size);
    if (first >= last) return change(nullptr, length, offset, fua);
    int result = wss_write_zeroes(volume_, last - first, first, flags);
    if (result == 0 && first > offset)
        result = change(nullptr, static_cast<uint32_t>(first - offset), offset, fua);
    if (result == 0 && offset + length > last)
        result = change(nullptr, static_cast<uint32_t>(offset + length - last), last, fua);
    return result;
}

// Discards only whole blocks inside the range: the rest may keep its content.
int ByteVolume::discard(uint32_t length, uint64_t offset, bool fua) {
    uint64_t first = up(offset, info_.block_size), last = down(offset + length, info_.block_size);
    int result = first < last ? wss_discard(volume_, last - first, first) : 0;
    return result == 0 && fua ? wss_flush(volume_) : result;
}

}  // namespace wss::initiator
