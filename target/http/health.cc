// SPDX-License-Identifier: Apache-2.0
#include "target/http/health.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace wss::http {

struct Health::Part {
    std::string name;
    Ask ask;
    std::mutex m;
    std::condition_variable answered;
    bool is_open = false;  // a request is open
    Nanoseconds asked{};   // when the open request was sent
    std::string reason = "has not answered yet";

    void answer(std::string why) {
        std::lock_guard lock(m);
        is_open = false;
        reason = std::move(why);
        answered.notify_all();
    }
};

void Health::add(std::string name, Ask ask) {
    auto part = std::make_shared<Part>();
    part->name = std::move(name);
    part->ask = std::move(ask);
    parts_.push_back(std::move(part));
}

void Health::ask_all(Nanoseconds patience) const {
    for (const auto& part : parts_) {
        {
            std::lock_guard lock(part->m);
            if (part->is_open) continue;
            part->is_open = true;
            part->asked = SystemClock().now();
        }
        part->ask([part](std::string reason) { part->answer(std::move(reason)); });
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience.count);
    for (const auto& part : parts_) {
        std::unique_lock lock(part->m);
        part->answered.wait_until(lock, end, [&part] { return !part->is_open; });
    }
}

Status Health::alive(Nanoseconds limit, Nanoseconds patience) const {
    ask_all(patience);
    std::string stuck;
    const Nanoseconds now = SystemClock().now();
    for (const auto& part : parts_) {
        std::lock_guard lock(part->m);
        if (!part->is_open || now - part->asked < limit) continue;
        stuck += fmt::format("{}{} has not answered for {} s", stuck.empty() ? "" : ", ", part->name,
                             (now - part->asked).count / 1'000'000'000);
    }
    return stuck.empty() ? Status::ok() : Status(Code::kTimedOut, std::move(stuck));
}

Status Health::ready(Nanoseconds limit) const {
    WSS_TRY(alive(limit));
    for (const auto& part : parts_) {
        std::lock_guard lock(part->m);
        if (!part->reason.empty()) return failure(Code::kUnavailable, "{}: {}", part->name, part->reason);
    }
    return Status::ok();
}

}  // namespace wss::http
