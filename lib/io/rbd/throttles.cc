// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/throttles.h"

#include <algorithm>
#include <charconv>

#include "lib/io/rbd/ceph_conf.h"

namespace wss::io::rbd {

namespace {

constexpr uint64_t kHoldSecondsMax = 24 * 3600;

void note(uint64_t& lowest, uint64_t limit) {
    if (limit != 0 && (lowest == 0 || limit < lowest)) lowest = limit;
}

}  // namespace

void Throttles::read(const Settings& settings, Nanoseconds now) {
    std::string text;
    uint64_t requests = 0, bytes = 0;
    for (const auto& [name, value] : settings) {
        if (!is_throttle(name, value)) continue;
        text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
        uint64_t limit = 1;  // used if the value is not a number
        std::from_chars(value.data(), value.data() + value.size(), limit);
        note(name.find("iops") != std::string::npos ? requests : bytes, limit);
    }
    if (text == this->text()) return;
    changed_at_.store(now.count);
    requests_.store(requests);
    bytes_.store(bytes);
    any_.store(!text.empty());
    std::lock_guard lock(m_);
    text_ = std::move(text);
}

std::string Throttles::text() const {
    std::lock_guard lock(m_);
    return text_;
}

Nanoseconds Throttles::let_go(Nanoseconds begun, const Load& load) const noexcept {
    const uint64_t requests = requests_.load(), bytes = bytes_.load();
    uint64_t seconds = 0;
    if (requests != 0) seconds += load.requests / requests + 1;
    if (bytes != 0) seconds += load.bytes / bytes + 1;
    return std::max(begun, Nanoseconds{changed_at_.load()}) +
           from_s(static_cast<int64_t>(std::min(seconds, kHoldSecondsMax)));
}

}  // namespace wss::io::rbd
