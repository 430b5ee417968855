// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/lock_info.h"

namespace wss::io {

namespace {

constexpr uint8_t kVersion = 1;

// Little-endian; what goes beyond the end reads as zero and makes it fail.
class Reader {
  public:
    explicit Reader(std::span<const char> bytes) : left_(bytes) {}
    bool failed() const { return failed_; }

    uint64_t number(size_t bytes) {
        uint64_t value = 0;
        const std::span<const char> from = take(bytes);
        for (size_t i = from.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(from[i - 1]);
        return value;
    }
    // A structure with a header; what a later version added at its end is skipped.
    std::span<const char> structure() {
        number(1);
        if (number(1) > kVersion) failed_ = true;
        return take(static_cast<size_t>(number(4)));
    }

  private:
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

void put(std::string& out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

}  // namespace

std::string lock_info_request(std::string_view lock) {
    std::string request;
    put(request, kVersion, 1);
    put(request, kVersion, 1);
    put(request, sizeof(uint32_t) + lock.size(), 4);
    put(request, lock.size(), 4);
    return request.append(lock);
}

// A map of {who: {name, cookie}, {until when, address, description}}, then the kind of the lock and its tag.
LockHolder lock_holder(std::span<const char> answer, uint64_t client) noexcept {
    Reader all(answer);
    Reader reply(all.structure());
    const uint64_t count = reply.number(4);
    if (all.failed() || reply.failed()) return LockHolder::kUnreadable;
    if (count == 0) return LockHolder::kNobody;
    Reader who(reply.structure());
    who.number(1);  // a client; others lock no images
    const uint64_t number = who.number(8);
    if (reply.failed() || who.failed()) return LockHolder::kUnreadable;
    return count == 1 && number == client ? LockHolder::kOurs : LockHolder::kOther;
}

}  // namespace wss::io
