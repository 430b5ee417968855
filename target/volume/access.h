// SPDX-License-Identifier: Apache-2.0
// AccessList: the permissions of initiators on a volume, a list of `INITIATOR=rw|ro|none`.
//
// An empty list grants write access to every initiator that may log in. In any other list an initiator that
// is not named has the permission of `*`. Without a `*` entry it has none and does not even see the volume.
// The name of an initiator is the one that it has proven. Without authentication it is the port id ("0x" and
// 32 digits), which is only a claim.
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
    // The first command of an initiator searches the list linearly, so the list is kept short.
    static constexpr size_t kEntriesMax = 256;
    struct Entry {
        std::string initiator;
        Permission permission = Permission::kNone;
    };
    std::vector<Entry> entries_;
};

}  // namespace wss::volume
