// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/outbox.h"

namespace wss::fabric::stream {

// Replaces data that may no longer be read. This memory is never written.
static const std::byte kZeros[kReadChunkMax]{};

void Outbox::begin_frame(const Frame& frame, uint32_t number_after) noexcept {
    WSS_ASSERT(has_room(), "callers check for room before they add");
    std::byte* header = headers_[frames_used_].data();
    encode(frame, header);
    vecs_[vecs_used_++] = iovec{.iov_base = header, .iov_len = kFrameBytes};
    bytes_added_ += kFrameBytes + payload_bytes(frame);
    ends_[frames_used_++] = FrameEnd{.bytes = bytes_added_, .number_after = number_after};
}

void Outbox::add(const Frame& frame, uint32_t number_after, std::span<const Segment> payload) noexcept {
    begin_frame(frame, number_after);
    std::span<iovec> room(&vecs_[vecs_used_], kSegmentsMax);
    vecs_used_ += gather(payload, 0, payload_bytes(frame), room);
}

void Outbox::add_region(const Frame& frame, uint32_t number_after, RemoteAddress where, std::byte* data,
                        uint32_t number, uint64_t revocations) noexcept {
    begin_frame(frame, number_after);
    revocations_seen_ = revocations;
    parts_[parts_used_++] = RegionPart{.where = where,
                                       .length = frame.length,
                                       .number = number,
                                       .vec = static_cast<uint32_t>(vecs_used_),
                                       .frame = static_cast<uint32_t>(frames_used_ - 1)};
    vecs_[vecs_used_++] = iovec{.iov_base = data, .iov_len = frame.length};
}

void Outbox::advance(size_t bytes) noexcept {
    bytes_sent_ += bytes;
    while (bytes > 0) {
        iovec& vec = vecs_[first_];
        if (bytes < vec.iov_len) {
            vec.iov_base = static_cast<std::byte*>(vec.iov_base) + bytes;
            vec.iov_len -= bytes;
            break;
        }
        bytes -= vec.iov_len;
        ++first_;
    }
    while (frames_sent_ < frames_used_ && ends_[frames_sent_].bytes <= bytes_sent_)
        sent_number_ = ends_[frames_sent_++].number_after;
    if (empty()) reset();
}

void Outbox::reset() noexcept {
    frames_used_ = frames_sent_ = vecs_used_ = first_ = parts_used_ = 0;
    bytes_added_ = bytes_sent_ = 0;
}

std::optional<uint32_t> Outbox::drop_revoked(const RegionTable& table) noexcept {
    if (table.revocations() == revocations_seen_) return std::nullopt;
    revocations_seen_ = table.revocations();
    for (size_t i = 0; i < parts_used_; ++i) {
        const RegionPart part = parts_[i];
        if (part.vec < first_) continue;
        if (table.remote(part.where, part.length, Access::kRemoteRead) != nullptr) continue;
        parts_used_ = i;
        truncate(part);
        return part.number;
    }
    return std::nullopt;
}

void Outbox::truncate(const RegionPart& part) noexcept {
    uint32_t header = part.vec - 1;
    bool begun = first_ > header || vecs_[header].iov_len < kFrameBytes;
    if (begun) vecs_[part.vec].iov_base = const_cast<std::byte*>(kZeros);  // the constant is only read
    vecs_used_ = begun ? part.vec + 1 : header;
    frames_used_ = begun ? part.frame + 1 : part.frame;
    bytes_added_ = frames_used_ > 0 ? ends_[frames_used_ - 1].bytes : 0;
    if (empty()) reset();
}

}  // namespace wss::fabric::stream
