// SPDX-License-Identifier: Apache-2.0
// The driver as sysfs shows it (Documentation/ABI/testing/sysfs-class-wss).
#pragma once

#include "tools/wssctl/context.h"

namespace wss::wssctl {

struct Disk {
    std::string device;  // "wss0"
    std::string volume, wwid, session, target, state, lun;
    uint64_t size = 0;  // bytes
    bool read_only = false;
};

// kUnavailable with advice when the module is not loaded.
Status check_loaded(const Context& context);
// In order of their numbers.
std::vector<Disk> list_disks(const Context& context);
// Maps with retry=on whose target is not there yet.
struct Pending {
    std::string name;  // "pending0"
    std::string target, volume, tries, error;
};
// The driver shows one page of them. `*cut` is set to whether there may be more.
std::vector<Pending> list_pending(const Context& context, bool* cut = nullptr);
// Counters of each session, {"session0": {"target": "...", "state": "...", "counters": {...}}}.
Json session_statistics(const Context& context);
// kInvalid unless `word` may stand in such a line: the driver splits it at blanks and commas and ends it at
// a zero byte, and a word may not hide others.
Status check_word(const std::string& word);
// Writes `line` to class/wss/`file`; the driver's own words when it refuses.
Status write_control(const Context& context, const std::string& file, const std::string& line);

}  // namespace wss::wssctl
