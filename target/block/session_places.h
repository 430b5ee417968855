// SPDX-License-Identifier: Apache-2.0
// SessionPlaces: counts sessions and channels, in total, per initiator name and per source, and checks the
// limits for one more.
//
// By default a name or a source gets at most a quarter of the places, so one initiator, or one host under
// many names, cannot lock others out. The name is the proven one. Without authentication it is the port id.
//
// Thread-safety: belongs to the session table's reactor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/fabric/sources.h"
#include "target/block/limits.h"
#include "target/block/login.h"

namespace wss::block {

// Places in use, and the number of refused logins by the limit that they reached.
struct SessionUse {
    uint64_t sessions = 0, channels = 0;
    uint64_t refused_sessions = 0;         // kSessionsMax
    uint64_t refused_name_sessions = 0;    // LoginLimits::sessions_per_name
    uint64_t refused_source_sessions = 0;  // LoginLimits::sessions_per_source
    uint64_t refused_channels = 0;         // kChannelsMax, kChannelsPerSource
};

class SessionPlaces {
  public:
    explicit SessionPlaces(const LoginLimits& limits)
        : per_name_(limits.sessions_per_name), per_source_(limits.sessions_per_source) {}

    // Returns nullopt if there is room. Counts refusals.
    std::optional<Refusal> refuse_session(const std::string& name, const std::string& source);
    // The same for a session that replaces one of the same name but of another source.
    std::optional<Refusal> refuse_move(const std::string& source);
    std::optional<Refusal> refuse_channel(const std::string& source);

    void add_session(const std::string& name, const std::string& source);
    void remove_session(const std::string& name, const std::string& source);
    void add_channel(const std::string& source);
    void remove_channel(const std::string& source);
    const SessionUse& use() const noexcept { return use_; }

  private:
    const uint32_t per_name_, per_source_;
    fabric::SourceCounts names_, session_sources_, channel_sources_;
    SessionUse use_;
};

}  // namespace wss::block
