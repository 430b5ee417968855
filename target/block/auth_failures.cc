// SPDX-License-Identifier: Apache-2.0
#include "target/block/auth_failures.h"

#include <algorithm>

namespace wss::block {

Nanoseconds AuthFailures::suspended(const std::string& source, const std::string& name,
                                    Nanoseconds now) const {
    std::lock_guard lock(m_);
    auto found = entries_.find({source, name});
    if (found == entries_.end() || found->second.until <= now) return {};
    return found->second.until - now;
}

static Nanoseconds suspension_after(uint32_t failures) {
    if (failures <= kAuthFailuresFree) return {};
    const uint32_t doublings = std::min<uint32_t>(failures - kAuthFailuresFree - 1, 16);
    return std::min(kSuspensionMax, Nanoseconds{kSuspensionFirst.count << doublings});
}

AuthFailures::Outcome AuthFailures::failed(const std::string& source, const std::string& name,
                                           Nanoseconds now) {
    std::lock_guard lock(m_);
    auto found = entries_.find({source, name});
    if (found == entries_.end()) {
        make_room(now);
        found = entries_.emplace(Pair{source, name}, Entry{}).first;
    }
    Entry& entry = found->second;
    if (now - entry.last >= kFailureMemory) entry.failures = 0;
    ++entry.failures;
    entry.last = now;
    const Nanoseconds suspension = suspension_after(entry.failures);
    entry.until = now + suspension;
    return {entry.failures, suspension};
}

void AuthFailures::make_room(Nanoseconds now) {
    if (entries_.size() < kFailuresRemembered) return;
    std::erase_if(entries_, [&](const auto& each) { return now - each.second.last >= kFailureMemory; });
    if (entries_.size() < kFailuresRemembered) return;
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return a.second.last < b.second.last;
    }));
}

void AuthFailures::proven(const std::string& source, const std::string& name) {
    std::lock_guard lock(m_);
    entries_.erase({source, name});
}

size_t AuthFailures::remembered() const {
    std::lock_guard lock(m_);
    return entries_.size();
}

}  // namespace wss::block
