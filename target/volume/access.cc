// SPDX-License-Identifier: Apache-2.0
#include "target/volume/access.h"

#include <algorithm>

#include "lib/base/secrets.h"

namespace wss::volume {

static constexpr std::string_view kNames[] = {"none", "ro", "rw"};

std::string_view to_string(Permission permission) {
    return kNames[static_cast<size_t>(permission)];
}

Result<AccessList> AccessList::parse(const std::vector<std::string>& words) {
    AccessList list;
    if (words.size() > kEntriesMax)
        return failure(Code::kInvalid, "an access list has at most {} entries", kEntriesMax);
    for (const std::string& word : words) {
        const size_t equals = word.rfind('=');
        const std::string name = word.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        auto found = std::find(std::begin(kNames), std::end(kNames), value);
        if (found == std::end(kNames))
            return failure(Code::kInvalid, "'{}' is not of the form INITIATOR=rw, =ro or =none", word);
        if (name != "*")
            if (Status checked = check_initiator_name(name); !checked) return checked;
        for (const Entry& entry : list.entries_)
            if (entry.initiator == name)
                return failure(Code::kInvalid, "initiator {} is in the list twice", name);
        list.entries_.push_back({name, static_cast<Permission>(found - std::begin(kNames))});
    }
    return list;
}

Permission AccessList::of(std::string_view initiator) const noexcept {
    if (open_to_all()) return Permission::kWrite;
    Permission others = Permission::kNone;
    for (const Entry& entry : entries_) {
        if (entry.initiator == initiator) return entry.permission;
        if (entry.initiator == "*") others = entry.permission;
    }
    return others;
}

}  // namespace wss::volume
