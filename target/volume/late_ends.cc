// SPDX-License-Identifier: Apache-2.0
#include "target/volume/late_ends.h"

#include <system_error>

namespace wss::volume {

Status LateEnds::begin(Task task) {
    std::lock_guard lock(m_);
    if (stopped_) return Status(Code::kClosed, "the target is stopping");
    if (start_) return start_(std::move(task));
    all_.remove_if([](const One& one) { return one.over->load(); });
    auto over = std::make_shared<std::atomic<bool>>(false);
    try {
        all_.push_back({over, std::jthread([task = std::move(task), over](const std::stop_token& stop) {
                            task(stop);
                            over->store(true);
                        })});
    } catch (const std::system_error& error) {
        return Status::from_errno(error.code().value(), "no thread");
    }
    return Status::ok();
}

void LateEnds::stop() {
    std::list<One> all;
    {
        std::lock_guard lock(m_);
        stopped_ = true;
        all.swap(all_);
    }
    for (One& one : all) one.thread.request_stop();
}  // the destructor of `all` joins the threads

}  // namespace wss::volume
