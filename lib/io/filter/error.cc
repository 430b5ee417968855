// SPDX-License-Identifier: Apache-2.0
// error: fails requests by count or by range.
#include <algorithm>

#include "lib/io/filter/wrapper.h"
#include "lib/io/request.h"

namespace wss::io {

namespace {

class ErrorBackend final : public Wrapper {
  public:
    using Wrapper::Wrapper;
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
};

class ErrorQueue final : public WrapperQueue {
  public:
    ErrorQueue(ErrorBackend& backend, std::unique_ptr<Queue> inner)
        : WrapperQueue(std::move(inner)), backend_(backend) {}

    void submit(Request& request) noexcept override {
        const FilterRule& rule = backend_.rule();
        if (!backend_.strikes(request)) return inner_->submit(request);
        uint64_t good = rule.to == 0 || rule.from <= request.offset ? 0 : rule.from - request.offset;
        ++failing_;
        if (good == 0 || request.op == Op::kFlush) return struck_.push_back(request);
        // The part before the bad range is executed, as a disk would do.
        auto* cut = new Cut{{}, this, &request};
        cut->part.op = request.op;
        cut->part.fua = request.fua;
        cut->part.offset = request.offset;
        cut->part.length = good - good % inner_block();
        cut->part.data = request.data;
        cut->part.context = cut;
        cut->part.done = [](Request& part) noexcept {
            std::unique_ptr<Cut> mine(static_cast<Cut*>(part.context));
            --mine->queue->failing_;
            finish(*mine->whole, mine->queue->backend_.rule().error, part.done_bytes);
        };
        inner_->submit(cut->part);
    }

    size_t poll() noexcept override {
        size_t events = 0;
        // Ends only the requests that are in the list now, because done() may submit more.
        List<Request> now;
        now.splice_back(struck_);
        for (; Request* request = now.pop_front(); ++events) {
            --failing_;
            finish(*request, backend_.rule().error, 0);
        }
        return events + inner_->poll();
    }

    bool arm() noexcept override { return struck_.empty() && inner_->arm(); }
    size_t in_flight() const noexcept override {
        return failing_ + inner_->in_flight();  // a cut request counts twice: still 0 only when all are done
    }

  private:
    struct Cut {
        Request part;
        ErrorQueue* queue;
        Request* whole;
    };
    uint32_t inner_block() const { return backend_.limits().logical_block; }

    ErrorBackend& backend_;
    List<Request> struck_;
    size_t failing_ = 0;
};

Result<std::unique_ptr<Queue>> ErrorBackend::open_queue(reactor::Reactor& reactor) {
    auto queue = inner_->open_queue(reactor);
    if (!queue) return queue.status();
    return std::unique_ptr<Queue>(std::make_unique<ErrorQueue>(*this, std::move(*queue)));
}

}  // namespace

std::unique_ptr<Backend> make_error_filter(const FilterRule& rule, std::unique_ptr<Backend> inner) {
    return std::make_unique<ErrorBackend>("error", rule, std::move(inner));
}

}  // namespace wss::io
