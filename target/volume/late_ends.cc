// SPDX-License-Identifier: Apache-2.0
#include "target/volume/late_ends.h"

#include <system_error>

#include "lib/base/log.h"

namespace wss::volume {

Status LateEnds::begin(Task task) {
    {
        std::lock_guard lock(m_);
        if (stopped_) return Status(Code::kClosed, "the target is stopping");
        waiting_.push_back(std::make_shared<Task>(std::move(task)));
    }
    if (Status started = start_waiting(); !started) {
        log::warning("a command continues as soon as a thread for it can be created: {}",
                     started.to_string());
        repeater_.begin();
    }
    return Status::ok();
}

Status LateEnds::start_waiting() {
    std::lock_guard lock(m_);
    all_.remove_if([](const One& one) { return one.over->load(); });
    while (!waiting_.empty()) {
        WSS_TRY(start(waiting_.front()));
        waiting_.pop_front();
    }
    return Status::ok();
}

Status LateEnds::start(const std::shared_ptr<Task>& task) {
    // What a task holds is released as soon as it ends.
    auto run = [task](const std::stop_token& stop) { std::exchange(*task, {})(stop); };
    if (start_) return start_(run);
    auto over = std::make_shared<std::atomic<bool>>(false);
    try {
        all_.push_back({over, std::jthread([run, over](const std::stop_token& stop) {
                            run(stop);
                            over->store(true);
                        })});
    } catch (const std::system_error& error) {
        return Status::from_errno(error.code().value(), "TasksMax, ulimit -u");
    }
    return Status::ok();
}

void LateEnds::stop() {
    std::list<One> all;
    std::deque<std::shared_ptr<Task>> waiting;
    {
        std::lock_guard lock(m_);
        stopped_ = true;
        all.swap(all_);
        waiting.swap(waiting_);
    }
    repeater_.end();
    for (One& one : all) one.thread.request_stop();
}  // the destructor of `all` joins the threads

}  // namespace wss::volume
