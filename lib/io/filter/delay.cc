// SPDX-License-Identifier: Apache-2.0
// delay: holds requests for a time before it submits them.
#include "lib/io/filter/wrapper.h"

namespace wss::io {

namespace {

class DelayQueue final : public WrapperQueue {
  public:
    DelayQueue(Wrapper& backend, reactor::Reactor& reactor, std::unique_ptr<Queue> inner)
        : WrapperQueue(std::move(inner)),
          backend_(backend),
          reactor_(reactor),
          timer_(&DelayQueue::due, this) {}
    ~DelayQueue() override {
        WSS_ASSERT(held_count_ == 0, "a queue is destroyed only when its requests are done");
        reactor_.cancel(timer_);
    }

    void submit(Request& request) noexcept override {
        if (!backend_.strikes(request)) return inner_->submit(request);
        Nanoseconds until = reactor_.clock().now() + from_us(static_cast<int64_t>(backend_.rule().delay_us));
        new (request.scratch) Nanoseconds(until);
        held_.push_back(request);
        ++held_count_;
        if (!timer_.is_set()) reactor_.set(timer_, until);
    }
    size_t poll() noexcept override { return inner_->poll(); }
    size_t in_flight() const noexcept override { return held_count_ + inner_->in_flight(); }

  private:
    static Nanoseconds until_of(Request& request) {
        return *std::launder(reinterpret_cast<Nanoseconds*>(request.scratch));
    }
    // All requests have the same delay, so they become due in the order of their arrival.
    static void due(void* context) noexcept {
        auto* self = static_cast<DelayQueue*>(context);
        Nanoseconds now = self->reactor_.clock().now();
        while (!self->held_.empty() && until_of(*self->held_.front()) <= now) {
            Request& request = *self->held_.pop_front();
            --self->held_count_;
            self->inner_->submit(request);
        }
        if (!self->held_.empty()) self->reactor_.set(self->timer_, until_of(*self->held_.front()));
    }

    Wrapper& backend_;
    reactor::Reactor& reactor_;
    reactor::Timer timer_;
    List<Request> held_;
    size_t held_count_ = 0;
};

class DelayBackend final : public Wrapper {
  public:
    using Wrapper::Wrapper;
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override {
        auto queue = inner_->open_queue(reactor);
        if (!queue) return queue.status();
        return std::unique_ptr<Queue>(std::make_unique<DelayQueue>(*this, reactor, std::move(*queue)));
    }
};

}  // namespace

std::unique_ptr<Backend> make_delay_filter(const FilterRule& rule, std::unique_ptr<Backend> inner) {
    return std::make_unique<DelayBackend>("delay", rule, std::move(inner));
}

}  // namespace wss::io
