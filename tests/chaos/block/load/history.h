// SPDX-License-Identifier: Apache-2.0
// History: the last operations of a client, and concurrent operator actions, in a file that outlives the
// process.
//
// It serves only to explain content that the ledger does not allow. Thread-safety: any thread may call any
// function.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tests/chaos/block/load/ledger.h"

namespace wss::chaos {

struct Event {
    uint32_t volume = 0;
    char kind[12] = {};
    Range range;
    uint64_t id = 0;  // id of the change or flush
    int64_t began_us = 0, ended_us = 0;
    int32_t result = 0;
};

class History {
  public:
    static constexpr uint64_t kEvents = 1 << 16;

    // Opens or creates the file. Returns nullopt on failure.
    static std::optional<History> open(const std::string& path);
    History(History&& other) noexcept;
    History& operator=(History&&) = delete;
    ~History();

    // Records the beginning of an event and returns the event's number.
    uint64_t begin(uint32_t volume, const char* kind, const Range& range, uint64_t id);
    void end(uint64_t number, int result);
    void note(uint32_t volume, const char* kind, const Range& range) {
        end(begin(volume, kind, range, 0), 0);
    }
    // Returns the last `count` events of a sector, one per line, the oldest first.
    std::string about(uint32_t volume, uint64_t sector, size_t count) const;

  private:
    struct File;
    explicit History(File* file) : file_(file) {}

    File* file_;
};

}  // namespace wss::chaos
