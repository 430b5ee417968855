// SPDX-License-Identifier: Apache-2.0
// Access to the driver through sysfs (Documentation/ABI/testing/sysfs-class-wss).
#pragma once

#include <string_view>

#include "tools/wssctl/context.h"

namespace wss::wssctl {

struct Disk {
    std::string device;  // "wss0"
    std::string volume, wwid, session, target, state, lun;
    uint64_t size = 0;  // bytes
    bool read_only = false;
};

// Fails with kUnavailable, and advice, if the module is not loaded.
Status check_loaded(const Context& context);
// The disks, sorted by number.
std::vector<Disk> list_disks(const Context& context);
// A map with retry=on that has not yet succeeded. The driver keeps trying.
struct Pending {
    std::string name;  // "pending0"
    std::string target, volume, tries, error;
};
// The driver shows at most one page of pending maps. Sets `*cut` to true if there may be more.
std::vector<Pending> list_pending(const Context& context, bool* cut = nullptr);
// A message for users when the list is cut.
constexpr std::string_view kMorePending = "more maps may be pending than the driver shows (one page)";
// Counters of each session, {"session0": {"target": "...", "state": "...", "counters": {...}}}.
Json session_statistics(const Context& context);
// Fails with kInvalid if `word` may not be part of a line for the driver. The driver splits a line at blanks
// and commas, and ends it at a zero byte, so such characters in a word would add or hide words.
Status check_word(const std::string& word);
// Writes `line` to class/wss/`file`. If the driver refuses, returns the driver's error text.
Status write_control(const Context& context, const std::string& file, const std::string& line);

}  // namespace wss::wssctl
