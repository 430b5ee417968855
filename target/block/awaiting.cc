// SPDX-License-Identifier: Apache-2.0
#include "target/block/awaiting.h"

#include <vector>

#include "target/block/channel.h"
#include "target/block/unit.h"

namespace wss::block {

// Maximum number of commands in one query, which the cache's reactor answers within one turn.
constexpr size_t kAskedMax = 64;

// A flush waits for all lost data of the volume, and so does a command that freezes it.
static cache::Gateway::Asked range_of(const Request& request) {
    const bool is_write = request.action.kind == scsi::Action::Kind::kWrite;
    const bool moves = is_write || request.action.kind == scsi::Action::Kind::kRead;
    return {.offset = request.action.lba * request.unit_block(),
            .length = moves ? cached_length(request) : 0,
            .is_write = is_write};
}

void Awaiting::wait(Request& request) noexcept {
    if (is_home()) {
        if (gateway_->awaits(*volume_, range_of(request))) return awaiting_.push_back(request);
        return request.channel->wait_over(request);
    }
    use_->waiting.fetch_add(1, std::memory_order_relaxed);
    looking_.push_back(request);
    ask();
}

void Awaiting::forget(Request& request) noexcept {
    auto& node = static_cast<ListNode<>&>(request);
    if (!node.linked()) return;
    node.unlink();
    if (!is_home()) use_->waiting.fetch_sub(1, std::memory_order_relaxed);
}

void Awaiting::look_due() noexcept {
    looking_.splice_back(awaiting_);
    if (!is_home()) ask();
}

bool Awaiting::look(size_t& left) noexcept {
    for (; left > 0 && !looking_.empty(); --left) wait(*looking_.pop_front());
    return !looking_.empty();
}

uint64_t Awaiting::count() noexcept {
    uint64_t count = 0;
    for (List<Request>* list : {&awaiting_, &looking_, &asked_})
        list->for_each([&count](Request&) { ++count; });
    return count;
}

void Awaiting::ask() noexcept {
    if (is_asking_ || looking_.empty()) return;
    is_asking_ = true;
    std::vector<Request*> order;
    std::vector<cache::Gateway::Asked> asked;
    while (order.size() < kAskedMax && !looking_.empty()) {
        Request& request = *looking_.pop_front();
        order.push_back(&request);
        asked.push_back(range_of(request));
        asked_.push_back(request);
    }
    gateway_->look(use_, std::move(asked), [this, order = std::move(order)](const std::vector<bool>& waits) {
        answered(order, waits);
    });
}

// `asked_` contains only waits that have not ended. If a request waits again, it is in another list.
void Awaiting::answered(const std::vector<Request*>& order, const std::vector<bool>& waits) noexcept {
    List<Request> over;
    for (size_t i = 0; i < order.size(); ++i) {
        Request* const found = asked_.find_if([&](const Request& one) { return &one == order[i]; });
        if (found == nullptr) continue;
        static_cast<ListNode<>*>(found)->unlink();
        (waits[i] ? awaiting_ : over).push_back(*found);
    }
    is_asking_ = false;
    while (Request* request = over.front()) {
        forget(*request);
        request->channel->wait_over(*request);
    }
    ask();
}

}  // namespace wss::block
