// SPDX-License-Identifier: Apache-2.0
// Storage whose resize may outlast the wait of its caller, such as an image in a Ceph cluster.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/io/backend.h"

namespace wss::volume {

// Storage that does not answer a resize in time, but still performs it.
struct Slow {
    std::atomic<bool> silent{false}, refuses{false};
    std::atomic<int> backends{0};
    std::atomic<uint64_t> others_size{0};  // the size that others have given it; 0: none
    io::Backend::SizeChanged changed;
};
class SlowBackend final : public io::Backend {
  public:
    SlowBackend(Slow& slow, std::unique_ptr<io::Backend> inner) : slow_(slow), inner_(std::move(inner)) {
        ++slow_.backends;
    }
    ~SlowBackend() override { --slow_.backends; }
    io::Limits limits() const noexcept override {
        io::Limits limits = inner_->limits();
        if (slow_.others_size != 0) limits.size = slow_.others_size;
        limits.size = std::min(limits.size, at_most_.load());
        return limits;
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return inner_->open_queue(reactor);
    }
    Status resize(uint64_t bytes) override {
        if (bytes == limits().size && at_most_ == UINT64_MAX) return Status::ok();
        if (slow_.refuses) return Status(Code::kIo, "storage refuses");
        const bool repeated = at_most_ != UINT64_MAX;
        at_most_ = slow_.silent ? std::min(bytes, inner_->limits().size) : UINT64_MAX;
        asked_ = bytes;
        if (slow_.silent) return Status(repeated ? Code::kBusy : Code::kTimedOut, "storage does not answer");
        return resize_now();
    }
    std::optional<Status> late_resize() override {
        if (slow_.silent) return Status(Code::kBusy, "storage does not answer");
        at_most_ = UINT64_MAX;
        return resize_now();
    }
    void watch_size(SizeChanged changed) override {
        slow_.changed = {};
        if (!changed) return;
        slow_.changed = [&slow = slow_, changed = std::move(changed)](uint64_t before, uint64_t after) {
            slow.others_size = after;
            return changed(before, after);
        };
    }
    std::string describe() const override { return "slow"; }

  private:
    Status resize_now() {
        slow_.others_size = 0;
        return inner_->resize(asked_);
    }
    Slow& slow_;
    const std::unique_ptr<io::Backend> inner_;
    std::atomic<uint64_t> at_most_{UINT64_MAX};  // lower while a resize is in progress
    std::atomic<uint64_t> asked_{0};             // the size that the last resize requested
};

}  // namespace wss::volume
