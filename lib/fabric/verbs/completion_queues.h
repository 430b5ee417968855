// SPDX-License-Identifier: Apache-2.0
// CompletionQueues: the completion queues of one poller on one device, as many as its connections need.
//
// Devices limit the entries of one completion queue (soft RoCE: 32767, which is 127 connections of the
// default depth). A connection therefore reserves its share in a queue with room, or in a new one. The first
// queue lives as long as this object. Of the others, at most one without connections is kept. All notify
// through one completion channel.
//
// Thread-safety: none, except that mark_failed() may be called from any thread. An object belongs to one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/fabric/verbs/device.h"
#include "lib/fabric/verbs/handles.h"

namespace wss::fabric::verbs {

class CompletionQueues {
    struct Queue;

  public:
    // The entries of a queue that a connection holds. The destructor returns them. Queue pairs that use cq()
    // must be destroyed first.
    class Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : owner_(std::exchange(other.owner_, nullptr)), queue_(other.queue_), entries_(other.entries_) {}
        Share& operator=(Share&& other) noexcept {
            std::swap(owner_, other.owner_);
            std::swap(queue_, other.queue_);
            std::swap(entries_, other.entries_);
            return *this;
        }
        ~Share();
        ibv_cq* cq() const noexcept;
        // True if the queue lost completions. Its connections must be closed.
        bool has_failed() const noexcept;

      private:
        friend class CompletionQueues;
        Share(CompletionQueues& owner, Queue& queue, uint32_t entries)
            : owner_(&owner), queue_(&queue), entries_(entries) {}
        CompletionQueues* owner_ = nullptr;
        Queue* queue_ = nullptr;
        uint32_t entries_ = 0;
    };

    explicit CompletionQueues(Device& device);
    ~CompletionQueues();
    CompletionQueues(const CompletionQueues&) = delete;
    CompletionQueues& operator=(const CompletionQueues&) = delete;

    // The device reported that the queue overran. Call before the event is acknowledged: the destruction of
    // the queue waits for that.
    static void mark_failed(ibv_cq& queue) noexcept;

    Status set_up();
    // Descriptor of the channel that wakes a sleeping thread.
    int fd() const noexcept { return channel_->fd; }
    Result<Share> reserve(uint32_t entries);

    size_t count() const noexcept { return queues_.size(); }
    // True if no connection holds a share.
    bool is_unused() const noexcept;
    // Takes completions of one queue: the same as in the previous call if `same`, else the next one.
    size_t poll(std::span<ibv_wc> batch, bool same) noexcept;
    // Requests a notification from every queue. Completions that arrived just before cause no notification.
    // They are returned, and the thread must then not sleep.
    size_t arm(std::span<ibv_wc> batch) noexcept;
    // Reads the pending notifications from the channel.
    void take_events() noexcept;
    // Destroys unused queues, except the first queue and one other. Must not be called while completions are
    // being handled.
    void trim() noexcept;

  private:
    Status add(uint32_t entries);
    void give_back(Queue& queue, uint32_t entries) noexcept;

    Device& device_;
    CompletionChannel channel_;
    std::vector<std::unique_ptr<Queue>> queues_;
    size_t current_ = 0;  // the queue that poll() used last
    bool trims_ = false;  // some queues may be unused
};

}  // namespace wss::fabric::verbs
