// SPDX-License-Identifier: Apache-2.0
// A Backend that wraps another one and has a different Queue.
#pragma once

#include <atomic>

#include "lib/io/filter/filter.h"

namespace wss::io {

class Wrapper : public Backend {
  public:
    Wrapper(const char* name, const FilterRule& rule, std::unique_ptr<Backend> inner)
        : name_(name), rule_(rule), inner_(std::move(inner)) {}
    Limits limits() const noexcept override { return inner_->limits(); }
    Status resize(uint64_t bytes) override { return inner_->resize(bytes); }
    std::optional<Status> late_resize() override { return inner_->late_resize(); }
    Status may_resize() override { return inner_->may_resize(); }
    void watch_size(SizeChanged changed) override { inner_->watch_size(std::move(changed)); }
    bool hides_growth() const noexcept override { return inner_->hides_growth(); }
    std::string trouble() const override { return inner_->trouble(); }
    bool lost() const noexcept override { return inner_->lost(); }
    bool give_up() noexcept override { return inner_->give_up(); }
    bool suspended() const noexcept override { return inner_->suspended(); }
    std::string ownership() const override { return inner_->ownership(); }
    bool is_shared() const override { return inner_->is_shared(); }
    Succession succession() const noexcept override { return inner_->succession(); }
    Status may_steal() const override { return inner_->may_steal(); }
    void end_waits() noexcept override { inner_->end_waits(); }
    void begin_close() noexcept override { inner_->begin_close(); }
    std::string describe() const override { return fmt::format("{}:{}", name_, inner_->describe()); }
    const FilterRule& rule() const { return rule_; }
    // True if the rule selects this request. Counts the requests of all queues.
    bool strikes(const Request& request) {
        if (!rule_.concerns(request)) return false;
        uint64_t number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
        if (number <= rule_.after) return false;
        if (rule_.first > 0 && number > rule_.after + rule_.first) return false;
        return rule_.every == 0 || (number - rule_.after) % rule_.every == 0;
    }

  protected:
    const char* const name_;
    const FilterRule rule_;
    const std::unique_ptr<Backend> inner_;

  private:
    std::atomic<uint64_t> count_{0};
};

// A Queue that wakes its reactor when the inner queue would.
class WrapperQueue : public Queue {
  public:
    explicit WrapperQueue(std::unique_ptr<Queue> inner) : inner_(std::move(inner)) {}
    bool arm() noexcept override { return inner_->arm(); }
    int fd() const noexcept override { return inner_->fd(); }
    size_t in_flight() const noexcept override { return inner_->in_flight(); }

  protected:
    const std::unique_ptr<Queue> inner_;
};

}  // namespace wss::io
