// SPDX-License-Identifier: Apache-2.0
// Counters and states of the cache, copied for the caller of Cache::info().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cache/index.h"
#include "lib/cache/policy.h"

namespace wss::cache {

struct CacheCounters {
    uint64_t reads = 0, read_hits = 0, read_bytes = 0;
    uint64_t fast_path_hits = 0;  // part of read_hits: on the fast path of hit.cc
    uint64_t out_of_band_reads = 0, out_of_band_read_bytes = 0;
    uint64_t out_of_band_writes = 0, out_of_band_write_bytes = 0;
    uint64_t through_target_bytes = 0;  // data of commands that passed through buffers of the target
    uint64_t storage_read_bytes = 0, storage_write_bytes = 0;
    uint64_t read_ahead_bytes = 0;  // read from storage for read-ahead
    uint64_t writes = 0, write_bytes = 0;
    uint64_t read_ns = 0, write_ns = 0;  // sum of the times from the start of each command to its end
    uint64_t fills = 0, fill_bytes = 0;
    uint64_t destaged_lines = 0, destaged_bytes = 0, destage_errors = 0;
    uint64_t flushes = 0, done_again = 0, no_room = 0, busy = 0;
    uint64_t lost_refusals = 0, salvaged_lines = 0;
    uint64_t direct_reads = 0, direct_writes = 0;  // transfers between real storage on another node and the
                                                   // client
    // Bytes of fills (read-ahead included) and of destaging: those that went directly between an engine and
    // real storage on another node, and those that went through the target.
    uint64_t upkeep_direct_bytes = 0, upkeep_through_target_bytes = 0;
};

struct EngineInfo {
    uint32_t index = 0;
    uint64_t identity = 0;
    std::string peer;
    std::vector<std::string> addresses;
    uint32_t slots = 0, used_slots = 0, clients = 0;
    uint64_t dirty_lines = 0;
    uint64_t bytes_to_clients = 0;
    bool reached = false;  // connected to a storage process
    std::string state;
};
struct CachedVolumeInfo {
    std::string name;
    PolicySettings settings;
    uint64_t dirty_lines = 0;
    uint64_t single_lines = 0;   // those of dirty_lines that have one copy and should have two
    uint64_t lost_bytes = 0;     // acknowledged, but in no engine that is present; see losses.h
    uint64_t waiting = 0;        // commands that wait for engines to return with lost data
    Nanoseconds lost_for{};      // time since the first loss
    Nanoseconds oldest_dirty{};  // age of the oldest dirty line; recovered lines count from the recovery
    bool frozen = false;
    std::string last_error;
    CacheCounters counters;
};
// A volume that is not open and may have dirty lines.
struct AbsentVolumeInfo {
    uint64_t wwid = 0;
    std::string name;
    uint64_t dirty_lines = 0;
    uint64_t single_lines = 0;  // those of dirty_lines that have one copy and should have two
    bool lost = false;          // some of its data is lost
};
struct CacheInfo {
    uint32_t line_bytes = 0;
    bool recovering = false;
    std::string trouble;            // why the membership cannot be saved; writes wait
    std::vector<uint64_t> awaited;  // identities of missing engines that recovery waits for
    uint32_t away = 0;              // engines that may return with lost data
    Nanoseconds lost_grace{};       // how long commands wait for these engines
    // Number of checks of returned engines' headers against lost lines: one per header, and more for a header
    // that must wait.
    uint64_t salvage_checks = 0;
    uint64_t waiting_checks = 0;  // checks whether the wait of a command has ended
    IndexCounters index;
    uint64_t capacity_lines = 0;
    std::vector<EngineInfo> engines;
    std::vector<CachedVolumeInfo> volumes;
    std::vector<AbsentVolumeInfo> absent;
};

}  // namespace wss::cache
