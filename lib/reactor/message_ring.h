// SPDX-License-Identifier: Apache-2.0
// MessageRing: passes small messages from one reactor to another, in order.
//
// One reactor sends, and one receives: the ring is one of its sources. Sending takes no lock, allocates
// nothing and makes no system call, unless the receiver sleeps. Each index has one writer, in a cache line of
// its own. The ring never fills up: its user bounds the messages that are in flight and chooses the capacity.
//
// Everything that the sender wrote before send() is visible to the receiver of the message.
//
// Thread-safety: send() on the sender's reactor; the functions of Source on the receiver's.
// Lifetime: it must be destroyed while neither reactor runs. Messages that were not received are dropped.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/assert.h"
#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/reactor/reactor.h"

namespace wss::reactor {

template <typename Message>
class MessageRing final : public Source {
  public:
    using Take = void (*)(void* context, const Message& message) noexcept;

    // `take` is called on the receiver's reactor with each message.
    MessageRing(size_t capacity, Take take, void* context)
        : slots_(std::bit_ceil(capacity)),
          mask_(slots_.size() - 1),
          take_(take),
          context_(context),
          wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          error_(wake_ ? 0 : errno) {}
    // Fails if no file descriptor was available when the ring was created.
    Status ready() const {
        if (error_ == 0) return Status::ok();
        return Status::from_errno(error_, "cannot create the descriptor of a message ring (ulimit -n)");
    }

    // REQUIRES that fewer messages than the capacity are in flight.
    void send(const Message& message) noexcept {
        const size_t at = sent_.load(std::memory_order_relaxed);
        if (at - known_received_ > mask_) known_received_ = received_.load(std::memory_order_acquire);
        WSS_ASSERT(at - known_received_ <= mask_, "a ring never fills up");
        slots_[at & mask_] = message;
        // Sequentially consistent, like the load below and the store and load in arm(): at least one side
        // sees the other's store.
        sent_.store(at + 1, std::memory_order_seq_cst);
        if (sleeps_.load(std::memory_order_seq_cst)) wake();
    }

    size_t poll() noexcept override {
        if (armed_) disarm();
        const size_t end = sent_.load(std::memory_order_acquire);
        size_t count = 0;
        // `take_` may call poll(), which then takes the messages that are left.
        for (size_t at; static_cast<ptrdiff_t>(end - (at = received_.load(std::memory_order_relaxed))) > 0;) {
            const Message message = slots_[at & mask_];
            received_.store(at + 1, std::memory_order_release);
            take_(context_, message);
            ++count;
        }
        return count;
    }
    bool arm() noexcept override {
        armed_ = true;
        sleeps_.store(true, std::memory_order_seq_cst);
        if (sent_.load(std::memory_order_seq_cst) == received_.load(std::memory_order_relaxed)) return true;
        sleeps_.store(false, std::memory_order_relaxed);
        return false;
    }
    int fd() const noexcept override { return wake_.get(); }

  private:
    void wake() noexcept {
        if (!sleeps_.exchange(false)) return;
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);  // fails: already awake
    }
    void disarm() noexcept {
        armed_ = false;
        sleeps_.store(false, std::memory_order_relaxed);
        uint64_t count;
        [[maybe_unused]] ssize_t got = read(wake_.get(), &count, sizeof count);  // fails if nothing was sent
    }

    static constexpr size_t kCacheLine = 64;

    // Immutable, except for the contents of the slots.
    std::vector<Message> slots_;
    const size_t mask_;
    const Take take_;
    void* const context_;
    const Descriptor wake_;
    const int error_;  // errno if `wake_` could not be created
    // Written by the sender.
    alignas(kCacheLine) std::atomic<size_t> sent_{0};
    size_t known_received_ = 0;  // value of `received_` when the ring last looked full
    // Written by the receiver.
    alignas(kCacheLine) std::atomic<size_t> received_{0};
    bool armed_ = false;
    // Written by both, but only when the receiver goes to sleep or wakes up.
    alignas(kCacheLine) std::atomic<bool> sleeps_{false};
};

}  // namespace wss::reactor
