// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/claim.h"

#include <map>
#include <mutex>

namespace wss::io::rbd {

namespace {

struct Claimed {
    const Claim* by;
    std::string name;
};
struct Table {
    std::mutex m;
    std::map<std::string, Claimed> images;  // guarded by m
};
// The table is never destroyed, because abandoned clients outlive main().
Table& table() {
    static Table* const all = new Table;
    return *all;
}

}  // namespace

Status Claim::take(const std::string& image, const std::string& name) {
    std::lock_guard lock(table().m);
    const auto [there, added] = table().images.try_emplace(image, Claimed{this, name});
    if (added) return Status::ok();
    return failure(Code::kRefused,
                   "this program has the image open already, as {}: one image is one volume (wssctl volume "
                   "list); a volume that was removed or lost releases the image within seconds",
                   there->second.name);
}

void Claim::release() noexcept {
    std::lock_guard lock(table().m);
    std::erase_if(table().images, [this](const auto& one) { return one.second.by == this; });
}

}  // namespace wss::io::rbd
