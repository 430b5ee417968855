// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/one_sided_reads.h"

namespace wss::kv {

bool OneSidedReads::begin(Link& link, Job& job, const Read& read, uint32_t& cookie) noexcept {
    MessageChannel* channel = link.channel();
    if (channel == nullptr || read.length > ReadBuffers::kChunk) return false;
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(readings_.size()));
        readings_.emplace_back();
    }
    cookie = free_.back();
    if (!channel->read(buffers_.segment(read.chunk, read.length), read.from, cookie)) return false;
    free_.pop_back();
    readings_[cookie] = {&job, read.index, read.chunk};
    return true;
}

const std::byte* OneSidedReads::now(Link& link, fabric::RemoteAddress from, uint32_t length) noexcept {
    MessageChannel* channel = link.channel();
    if (channel == nullptr || length > ReadBuffers::kChunk) return nullptr;
    // One chunk for all of these reads: it stays in the L1 cache.
    if (!channel->read_now(buffers_.segment(ReadBuffers::kScratch, length), from)) return nullptr;
    return buffers_.data(ReadBuffers::kScratch);
}

OneSidedReads::Ended OneSidedReads::end(uint64_t cookie) noexcept {
    WSS_ASSERT(cookie < readings_.size() && readings_[cookie].chunk != ReadBuffers::kNone,
               "a read completes once");
    const Reading reading = std::exchange(readings_[cookie], {});
    free_.push_back(static_cast<uint32_t>(cookie));
    if (reading.job == nullptr) buffers_.give_back(reading.chunk);
    return {reading.job, reading.index};
}

}  // namespace wss::kv
