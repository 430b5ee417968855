// SPDX-License-Identifier: Apache-2.0
#include "target/block/auth_failures.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"

namespace wss::block {

Nanoseconds AuthFailures::suspended(const std::string& source, const std::string& name,
                                    Nanoseconds now) const {
    std::lock_guard lock(m_);
    auto found = sources_.find(source);
    if (found == sources_.end()) return {};
    auto remembered = found->second.names.find(name);
    const Entry& entry = remembered == found->second.names.end() ? found->second.others : remembered->second;
    return entry.until <= now ? Nanoseconds{} : entry.until - now;
}

static Nanoseconds suspension_after(uint32_t failures) {
    if (failures <= kAuthFailuresFree) return {};
    const uint32_t doublings = std::min<uint32_t>(failures - kAuthFailuresFree - 1, 16);
    return std::min(kSuspensionMax, Nanoseconds{kSuspensionFirst.count << doublings});
}

AuthFailures::Outcome AuthFailures::failed(const std::string& source, const std::string& name,
                                           Nanoseconds now) {
    std::lock_guard lock(m_);
    auto found = sources_.find(source);
    if (found == sources_.end()) {
        make_room(now);
        found = sources_.try_emplace(source).first;
    }
    Entry& entry = entry_for(found->second, name, now);
    if (now - entry.last >= kFailureMemory) entry.failures = 0;
    ++entry.failures;
    entry.last = now;
    const Nanoseconds suspension = suspension_after(entry.failures);
    entry.until = now + suspension;
    found->second.last = now;
    found->second.until = std::max(found->second.until, entry.until);
    return {entry.failures, suspension};
}

AuthFailures::Entry& AuthFailures::entry_for(Source& source, const std::string& name, Nanoseconds now) {
    auto found = source.names.find(name);
    if (found != source.names.end()) return found->second;
    if (source.names.size() >= kFailedNames)
        std::erase_if(source.names,
                      [&](const auto& each) { return now - each.second.last >= kFailureMemory; });
    if (source.names.size() >= kFailedNames) return source.others;
    return source.names[name];
}

void AuthFailures::make_room(Nanoseconds now) {
    if (sources_.size() < kFailedSources) return;
    std::erase_if(sources_, [&](const auto& each) { return now - each.second.last >= kFailureMemory; });
    if (sources_.size() < kFailedSources) return;
    auto age = [now](const Source& source) { return std::pair(source.until > now, source.last); };
    sources_.erase(std::min_element(sources_.begin(), sources_.end(), [&](const auto& a, const auto& b) {
        return age(a.second) < age(b.second);
    }));
}

void AuthFailures::proven(const std::string& source, const std::string& name) {
    std::lock_guard lock(m_);
    auto found = sources_.find(source);
    if (found == sources_.end()) return;
    found->second.names.erase(name);
    if (found->second.names.empty() && found->second.others.failures == 0) sources_.erase(found);
}

size_t AuthFailures::remembered() const {
    std::lock_guard lock(m_);
    size_t names = 0;
    for (const auto& [address, source] : sources_) names += source.names.size();
    return names;
}

void audit_failure(const std::string& source, const std::string& peer, const std::string& name,
                   const std::string& what) {
    static log::SourceLimiter limiter(10);
    if (limiter.allow(source))
        log::warning("audit: authentication failed: peer={} initiator='{}' {}", peer, name, what);
}

}  // namespace wss::block
