// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/questions.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/io/rbd/plugin/boot_time.h"

namespace wss::io::rbd {

namespace {

constexpr int64_t kPatienceMax = 1024;

}  // namespace

bool Questions::ask(const To& to, const char* method, std::span<const char> input, Over over) {
    auto asked = std::make_shared<Question>();
    asked->all = this;
    asked->pool = to.pool;
    asked->begun = boot_time();
    asked->over = std::move(over);
    if (rados_aio_create_completion2(asked.get(), answered, &asked->completion) < 0) return false;
    {
        std::lock_guard lock(m_);
        under_way_.push_back(asked);
    }
    const int result = rados_aio_exec(to.pool, to.header, asked->completion, "rbd", method, input.data(),
                                      input.size(), asked->answer.data(), asked->answer.size());
    if (result >= 0) return true;
    remove(*asked, false);
    return false;
}

std::shared_ptr<Questions::Question> Questions::remove(const Question& one, bool answered) {
    std::lock_guard lock(m_);
    if (answered) patience_ = 1;
    const auto at =
        std::find_if(under_way_.begin(), under_way_.end(), [&](auto& it) { return it.get() == &one; });
    std::shared_ptr<Question> removed = std::move(*at);
    under_way_.erase(at);
    none_.notify_all();
    return removed;
}

void Questions::answered(rados_completion_t completion, void* context) {
    auto& asked = *static_cast<Question*>(context);
    const int result = rados_aio_get_return_value(completion);
    asked.over(result, std::span(asked.answer).first(static_cast<size_t>(std::max(result, 0))));
    // Must be last: from here on end() may return, and the caller may destroy this object.
    (void)asked.all->remove(asked, result != -ECANCELED);
}

// Cancels without holding m_, because librados may call back at once.
void Questions::cancel_late(Nanoseconds now, Nanoseconds limit) {
    std::vector<std::shared_ptr<Question>> late;
    {
        std::lock_guard lock(m_);
        std::copy_if(under_way_.begin(), under_way_.end(), std::back_inserter(late),
                     [&](auto& one) { return now - one->begun >= Nanoseconds{limit.count * patience_}; });
        if (!late.empty()) patience_ = std::min(2 * patience_, kPatienceMax);
    }
    for (const auto& one : late) rados_aio_cancel(one->pool, one->completion);
}

void Questions::end() {
    for (;;) {
        {
            std::unique_lock lock(m_);
            if (none_.wait_for(lock, std::chrono::seconds(1), [this] { return under_way_.empty(); })) return;
        }
        cancel_late(boot_time(), Nanoseconds{});
    }
}

}  // namespace wss::io::rbd
