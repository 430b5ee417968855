// SPDX-License-Identifier: Apache-2.0
// Who may do what with a volume: a list of `INITIATOR=rw|ro|none`.
//
// An empty list lets everyone write who may log in. In any other, who is not named has what `*` has, and
// without that nothing: such an initiator does not even see the volume. An initiator's name is the one that
// it has proven; where nobody authenticates it is its port id ("0x" and 32 digits), which is a claim.
//
// Thread-safety: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss::volume {

enum class Permission : uint8_t { kNone, kRead, kWrite };
std::string_view to_string(Permission permission);

class AccessList {
  public:
    AccessList() = default;
    static Result<AccessList> parse(const std::vector<std::string>& words);

    bool open_to_all() const { return entries_.empty(); }
    Permission of(std::string_view initiator) const noexcept;

  private:
    // Each entry is looked at for the first command of an initiator: more would be a directory's work.
    static constexpr size_t kEntriesMax = 256;
    struct Entry {
        std::string initiator;
        Permission permission = Permission::kNone;
    };
    std::vector<Entry> entries_;
};

}  // namespace wss::volume
