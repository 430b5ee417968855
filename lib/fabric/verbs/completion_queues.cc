// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/completion_queues.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace wss::fabric::verbs {

// Enough for most pollers. One queue is better than two, because each is polled.
constexpr uint32_t kFirstEntries = 8192;
// The limit of soft RoCE. Such a queue takes two megabytes of a device's pinned memory.
constexpr uint32_t kFurtherEntries = 32767;
// Acknowledging notifications takes a lock, so they are acknowledged in batches of this size.
constexpr uint32_t kAckBatch = 64;

struct CompletionQueues::Queue {
    Cq cq;
    uint32_t reserved = 0;  // entries that connections hold
    uint32_t unacked = 0;   // notifications read but not acknowledged; destroying the queue waits for them
    std::atomic<bool> failed{false};
    bool armed = false;  // a notification is requested, or is in the channel and not yet read

    ~Queue() {
        if (unacked > 0) ibv_ack_cq_events(cq.get(), unacked);
    }
    bool has_room(uint32_t entries) const noexcept {
        const auto size = static_cast<uint32_t>(cq->cqe);
        return !failed.load(std::memory_order_relaxed) && entries <= size && reserved <= size - entries;
    }
};

CompletionQueues::Share::~Share() {
    if (owner_ != nullptr) owner_->give_back(*queue_, entries_);
}

ibv_cq* CompletionQueues::Share::cq() const noexcept {
    return queue_->cq.get();
}

bool CompletionQueues::Share::has_failed() const noexcept {
    return owner_ != nullptr && queue_->failed.load(std::memory_order_relaxed);
}

void CompletionQueues::mark_failed(ibv_cq& queue) noexcept {
    static_cast<Queue*>(queue.cq_context)->failed.store(true, std::memory_order_relaxed);
}

CompletionQueues::CompletionQueues(Device& device) : device_(device) {}

CompletionQueues::~CompletionQueues() = default;

Status CompletionQueues::set_up() {
    channel_.reset(ibv_create_comp_channel(device_.context().get()));
    if (channel_ == nullptr)
        return Status::from_errno(errno,
                                  fmt::format("{}: cannot create a completion channel", device_.name()));
    return add(kFirstEntries);
}

Status CompletionQueues::add(uint32_t entries) {
    auto queue = std::make_unique<Queue>();
    const uint32_t size = std::min(entries, device_.limits().completions_max);
    queue->cq.reset(
        ibv_create_cq(device_.context().get(), static_cast<int>(size), queue.get(), channel_.get(), 0));
    if (queue->cq == nullptr)
        return Status::from_errno(
            errno, fmt::format("{}: cannot create a completion queue of {} entries", device_.name(), size));
    queues_.push_back(std::move(queue));
    return Status::ok();
}

Result<CompletionQueues::Share> CompletionQueues::reserve(uint32_t entries) {
    auto found = std::find_if(queues_.begin(), queues_.end(),
                              [&](const auto& queue) { return queue->has_room(entries); });
    if (found == queues_.end()) {
        if (entries > device_.limits().completions_max)
            return failure(Code::kInvalid,
                           "{}: a connection with {} completions was requested; a queue has at most {}",
                           device_.name(), entries, device_.limits().completions_max);
        WSS_TRY(add(std::max(entries, kFurtherEntries)));
        found = queues_.end() - 1;
    }
    (*found)->reserved += entries;
    return Share(*this, **found, entries);
}

void CompletionQueues::give_back(Queue& queue, uint32_t entries) noexcept {
    queue.reserved -= entries;
    trims_ = trims_ || queue.reserved == 0;
}

void CompletionQueues::trim() noexcept {
    if (!std::exchange(trims_, false)) return;
    // One unused queue is kept. Otherwise a connection that comes and goes would create a new queue each
    // time.
    size_t unused = 0;
    auto goes = [&](const auto& queue) { return queue->reserved == 0 && ++unused > 1; };
    queues_.erase(std::remove_if(queues_.begin() + 1, queues_.end(), goes), queues_.end());
}

size_t CompletionQueues::poll(std::span<ibv_wc> batch, bool same) noexcept {
    if (!same) ++current_;
    if (current_ >= queues_.size()) current_ = 0;
    const int count = ibv_poll_cq(queues_[current_]->cq.get(), static_cast<int>(batch.size()), batch.data());
    if (count < 0) mark_failed(*queues_[current_]->cq);
    return count > 0 ? static_cast<size_t>(count) : 0;
}

bool CompletionQueues::is_unused() const noexcept {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const auto& queue) { return queue->reserved == 0; });
}

size_t CompletionQueues::arm(std::span<ibv_wc> batch) noexcept {
    for (auto& queue : queues_) {
        if (std::exchange(queue->armed, true)) continue;
        // This fails only if the device is gone. Then there are no completions, and other sources still wake
        // the thread.
        if (ibv_req_notify_cq(queue->cq.get(), 0) != 0) continue;
        const int count = ibv_poll_cq(queue->cq.get(), static_cast<int>(batch.size()), batch.data());
        if (count > 0) return static_cast<size_t>(count);
    }
    return 0;
}

void CompletionQueues::take_events() noexcept {
    ibv_cq* cq;
    void* context;
    while (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
        auto& queue = *static_cast<Queue*>(context);
        queue.armed = false;
        if (++queue.unacked < kAckBatch) continue;
        ibv_ack_cq_events(cq, queue.unacked);
        queue.unacked = 0;
    }
}

}  // namespace wss::fabric::verbs
