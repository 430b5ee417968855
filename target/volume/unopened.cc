// SPDX-License-Identifier: Apache-2.0
#include "target/volume/unopened.h"

#include <algorithm>

namespace wss::volume {

void Unopened::add(StoredVolume stored, const std::string& why) {
    if (find(stored.options.name) == nullptr) all_.push_back({std::move(stored), why});
}

void Unopened::explain(const std::string& name, const std::string& why) {
    for (One& one : all_)
        if (one.stored.options.name == name) one.why = why;
}

bool Unopened::erase(const std::string& name) {
    return std::erase_if(all_, [&](const One& one) { return one.stored.options.name == name; }) > 0;
}

const Unopened::One* Unopened::find(const std::string& name) const {
    auto found = std::find_if(all_.begin(), all_.end(),
                              [&](const One& one) { return one.stored.options.name == name; });
    return found == all_.end() ? nullptr : &*found;
}

}  // namespace wss::volume
