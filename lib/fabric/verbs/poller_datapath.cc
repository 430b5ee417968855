// SPDX-License-Identifier: Apache-2.0
// A turn of the poller, and its preparation for sleep. No allocation, no log.
#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/poller.h"
#include "lib/fabric/verbs/tag.h"

namespace wss::fabric::verbs {

// Completions per turn. Other sources of the reactor need their turn, too.
constexpr size_t kTurnBudget = 128;
// Maximum number of busy turns that a connection event waits (a few hundred microseconds).
constexpr uint32_t kTurnsPerCheck = 64;

size_t VerbsPoller::poll() noexcept {
    size_t events = 0;
    if (woken_ || ++turns_ >= kTurnsPerCheck) {
        woken_ = false;
        turns_ = 0;
        events += check_events();
    }
    events += poll_completions();
    if (!finished_.empty()) {
        events += finish_closed();
        drop_removed();
    }
    for (const auto& used : used_) used->completions.trim();
    return events;
}

size_t VerbsPoller::poll_completions() noexcept {
    size_t handled = std::exchange(stashed_, 0);
    dispatch({batch_.data(), handled});
    // The next turn continues after the device at which the budget of this turn ended.
    for (size_t left = used_.size(); left > 0 && handled < kTurnBudget; --left) {
        if (++next_used_ >= used_.size()) next_used_ = 0;
        handled += poll_device(*used_[next_used_], kTurnBudget - handled);
    }
    return handled;
}

size_t VerbsPoller::poll_device(PollerDevice& device, size_t budget) noexcept {
    CompletionQueues& completions = device.completions;
    size_t handled = 0;
    // The next turn continues after the queue at which the budget of this turn ended.
    for (size_t left = completions.count(); left > 0 && handled < budget; --left) {
        size_t count = completions.poll(batch_, false);
        while (count > 0) {
            dispatch({batch_.data(), count});
            handled += count;
            if (count < kBatch || handled >= budget) break;
            count = completions.poll(batch_, true);
        }
    }
    return handled;
}

VerbsConnection* VerbsPoller::find(uint32_t tag) const noexcept {
    uint32_t index = tag_index(tag);
    if (index >= entries_.size() || entries_[index].generation != tag_generation(tag)) return nullptr;
    return entries_[index].connection;
}

void VerbsPoller::dispatch(std::span<const ibv_wc> completions) noexcept {
    while (!completions.empty()) {
        uint32_t tag = tag_of(completions[0].wr_id);
        size_t run = 1;
        while (run < completions.size() && tag_of(completions[run].wr_id) == tag) ++run;
        if (VerbsConnection* connection = find(tag)) connection->on_done(completions.first(run));
        completions = completions.subspan(run);
    }
}

bool VerbsPoller::arm() noexcept {
    if (stashed_ > 0 || !finished_.empty()) return false;
    for (const auto& used : used_) {
        stashed_ = used->completions.arm(batch_);
        if (stashed_ > 0) return false;
    }
    woken_ = true;
    return true;
}

}  // namespace wss::fabric::verbs
