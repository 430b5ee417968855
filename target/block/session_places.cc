// SPDX-License-Identifier: Apache-2.0
#include "target/block/session_places.h"

namespace wss::block {

static Refusal full(std::string text) {
    return {WSS_SRP_REJ_INSUFFICIENT_RESOURCES, std::move(text)};
}

std::optional<Refusal> SessionPlaces::refuse_session(const std::string& name, const std::string& source) {
    if (use_.sessions >= kSessionsMax) {
        ++use_.refused_sessions;
        return full(fmt::format("this target serves at most {} sessions", kSessionsMax));
    }
    if (names_.of(name) >= per_name_) {
        ++use_.refused_name_sessions;
        return full(
            fmt::format("initiator {} has {} sessions, which is the limit: end one first", name, per_name_));
    }
    return refuse_move(source);
}

std::optional<Refusal> SessionPlaces::refuse_move(const std::string& source) {
    if (session_sources_.of(source) < per_source_) return std::nullopt;
    ++use_.refused_source_sessions;
    return full(
        fmt::format("source {} has {} sessions, which is the limit: end one first", source, per_source_));
}

std::optional<Refusal> SessionPlaces::refuse_channel(const std::string& source) {
    const bool all = use_.channels >= kChannelsMax;
    if (!all && channel_sources_.of(source) < kChannelsPerSource) return std::nullopt;
    ++use_.refused_channels;
    return full(
        all ? fmt::format("this target serves at most {} channels", kChannelsMax)
            : fmt::format("this target serves at most {} channels of one source", kChannelsPerSource));
}

void SessionPlaces::add_session(const std::string& name, const std::string& source) {
    ++use_.sessions;
    names_.add(name);
    session_sources_.add(source);
}

void SessionPlaces::remove_session(const std::string& name, const std::string& source) {
    --use_.sessions;
    names_.remove(name);
    session_sources_.remove(source);
}

void SessionPlaces::add_channel(const std::string& source) {
    ++use_.channels;
    channel_sources_.add(source);
}

void SessionPlaces::remove_channel(const std::string& source) {
    --use_.channels;
    channel_sources_.remove(source);
}

}  // namespace wss::block
