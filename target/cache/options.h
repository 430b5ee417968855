// SPDX-License-Identifier: Apache-2.0
// CacheOptions: the settings of the cache in the target's configuration.
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

namespace wss::cache {

struct CacheOptions {
    uint32_t line_bytes = kLineBytesDefault;
    PolicySettings default_policy{};        // for volumes without a policy of their own
    uint64_t lines_max = lines_max_here();  // lines of all engines together; bounds the index
    uint32_t reactors = 1;                  // number of reactors whose channels use the cache (gateway.h)
    uint32_t commands = 1024;               // number of active commands of each reactor
    // Number of lines that are destaged at the same time, of all volumes. Lines for which storage does not
    // answer are not counted.
    uint32_t destages = 16;
    Nanoseconds silence_max = from_ms(1200);  // an engine that is silent for longer is lost
    DestageOptions destage{};
    ReadAheadOptions read_ahead{};
    // How long a restart waits for the last engine, when all but one are back.
    Nanoseconds recovery_grace = from_s(2);
    // How long commands wait for lost data, from the time of the first loss.
    Nanoseconds lost_grace = from_s(15);
    // Secrets of engines. An engine must prove that it has one of them to join. If nullptr, every engine may
    // join.
    std::shared_ptr<const auth::SecretBook> engine_secrets;
    // Generates tokens. If empty, the reactor's Random generates them, which an eavesdropper could predict.
    std::function<uint64_t()> secrets;
};

}  // namespace wss::cache
