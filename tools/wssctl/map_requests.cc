// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/map_requests.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

namespace wss::wssctl {

// Maximum number of targets that are handled in parallel.
constexpr size_t kThreadsMax = 64;

// State of the threads. It lives as long as the last thread, which may wait for the driver after the owner is
// gone.
struct MapRequests::Shared {
    Context context;
    std::vector<MapRequest> requests;
    std::vector<std::vector<size_t>> targets;  // for each target, the indexes of its requests

    mutable std::mutex mutex;  // guards the members below
    std::vector<std::optional<Status>> answers;
    size_t next_target = 0;
    bool closed = false;

    bool is_closed() const {
        const std::lock_guard lock(mutex);
        return closed;
    }
    // Takes the next target. Returns nullptr if none is left, or if the owner has closed.
    const std::vector<size_t>* take() {
        const std::lock_guard lock(mutex);
        return closed || next_target == targets.size() ? nullptr : &targets[next_target++];
    }
    void set_answer(size_t index, Status status) {
        const std::lock_guard lock(mutex);
        answers[index] = std::move(status);
    }
};

// Replaces an error that belongs to another thread's request, because the driver keeps only the text of the
// last error.
static Status own_error(const Mapping& mapping, Status status) {
    constexpr std::string_view kOf = "cannot map volume '";
    const std::string& text = status.text();
    const bool names_a_volume = text.starts_with(kOf);
    if (!names_a_volume || text.compare(kOf.size(), mapping.volume.size() + 1, mapping.volume + "'") == 0)
        return status;
    return failure(Code::kRefused, "the driver cannot map it; the kernel log has the reason (dmesg)");
}

static Status make(const Context& context, const MapRequest& request) {
    if (!request.dead_disk.empty()) {
        Status removed = write_control(context, "unmap", request.dead_disk);
        if (!removed)
            return failure(
                removed.code(),
                "{} has failed and cannot be replaced ({}): unmount it, then run wssctl maps up again",
                request.dead_disk, removed.text());
    }
    Status status = request_map(context, request.mapping);
    return status ? status : own_error(request.mapping, std::move(status));
}

MapRequests::MapRequests(const Context& context, std::vector<MapRequest> requests)
    : shared_(std::make_shared<Shared>()) {
    shared_->context = context;
    shared_->requests = std::move(requests);
    shared_->answers.resize(shared_->requests.size());
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < shared_->requests.size(); i++) {
        const std::string target = canonical_target(shared_->requests[i].mapping.target);
        const auto [place, is_new] = places.emplace(target, shared_->targets.size());
        if (is_new) shared_->targets.emplace_back();
        shared_->targets[place->second].push_back(i);
    }
    for (size_t i = 0; i < std::min(shared_->targets.size(), kThreadsMax); i++)
        std::thread([shared = shared_] {
            while (const std::vector<size_t>* indexes = shared->take())
                for (size_t index : *indexes)
                    if (!shared->is_closed())
                        shared->set_answer(index, make(shared->context, shared->requests[index]));
        }).detach();
}

MapRequests::~MapRequests() {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
}

std::optional<Status> MapRequests::answer(size_t index) const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->answers[index];
}

}  // namespace wss::wssctl
