// SPDX-License-Identifier: Apache-2.0
// CacheOptions: what the target's configuration sets of the cache. A value.
#pragma once

#include <functional>
#include <memory>

#include "lib/base/clock.h"
#include "lib/cache/destage.h"
#include "lib/cache/policy.h"
#include "lib/cache/readahead.h"
#include "lib/cache/types.h"
#include "target/auth/auth.h"
#include "target/cache/limits.h"

namespace wss::se {

struct CacheOptions {
    uint32_t line_bytes = cache::kLineBytesDefault;
    cache::PolicySettings default_policy{};  // of volumes that nobody set one for
    uint64_t lines_max = lines_max_here();   // of all engines, which bounds the index
    uint32_t works = 1024;                   // commands under way
    // Lines being brought home at a time, of all volumes, without those that storage does not answer for.
    uint32_t destages = 16;
    Nanoseconds silence_max = from_ms(1200);  // an engine that says nothing for so long is lost
    cache::DestageOptions destage{};
    cache::ReadAheadOptions read_ahead{};
    // After a restart: how long to wait for the last engine, when all but one are back.
    Nanoseconds recovery_grace = from_s(2);
    // How long commands wait for engines that are away with what they ask for, since the first of that was
    // lost.
    Nanoseconds lost_grace = from_s(15);
    // Who may join: engines that prove to have one of these secrets. Without it whoever comes.
    std::shared_ptr<const auth::SecretBook> engine_secrets;
    // Where tokens come from; the reactor's Random if empty, which an eavesdropper could predict.
    std::function<uint64_t()> secrets;
};

}  // namespace wss::se
