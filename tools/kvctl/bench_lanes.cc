// SPDX-License-Identifier: Apache-2.0
#include "tools/kvctl/bench_lanes.h"

#include <algorithm>

namespace wss::kvctl {

StoreLanes::StoreLanes(kv::LocalClient& client) : client_(client) {
    for (uint32_t i = 0; i < client.sessions(); ++i) {
        Lane& lane = lanes_.emplace_back();
        lane.lanes = this;
        lane.number = i;
        lane.get.context = lane.put.context = &lane;
        lane.get.done = &StoreLanes::get_done;
        lane.put.done = &StoreLanes::put_done;
    }
    ended_.reserve(lanes_.size());
}

void StoreLanes::get_done(kv::Request& request) noexcept {
    Lane& lane = *static_cast<Lane*>(request.context);
    auto missing = [](const kv::GetAll::Item& item) { return !item.found; };
    bool all = !request.status || std::none_of(lane.get.items.begin(), lane.get.items.end(), missing);
    lane.lanes->ended_.push_back(
        {lane.number, all ? request.status : Status(Code::kNotFound, "a record does not exist")});
}

void StoreLanes::put_done(kv::Request& request) noexcept {
    Lane& lane = *static_cast<Lane*>(request.context);
    lane.lanes->ended_.push_back({lane.number, request.status});
}

void StoreLanes::begin_read(uint32_t number, std::span<const std::string_view> keys) {
    kv::GetAll& get = lanes_[number].get;
    get.items.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) get.items[i].key.assign(keys[i]);
    submit(get, number);
}

void StoreLanes::begin_write(uint32_t number, std::span<const std::string_view> keys,
                             std::span<std::string> values) {
    kv::PutAll& put = lanes_[number].put;
    put.items.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        put.items[i].key.assign(keys[i]);
        put.items[i].value.swap(values[i]);
    }
    submit(put, number);
}

// Sends this lane's request before the next lane's request is built, so that the server works in the
// meantime.
void StoreLanes::submit(kv::Request& request, uint32_t number) {
    const size_t before = ended_.size();
    client_.submit(request, number);
    if (ended_.size() == before) client_.poll();
}

void StoreLanes::wait(std::vector<Ended>& ended) {
    if (!ended_.empty()) client_.maybe_poll();
    while (ended_.empty()) client_.turn();
    ended.swap(ended_);
}

}  // namespace wss::kvctl
