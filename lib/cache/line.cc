// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/line.h"

#include <array>

namespace wss::cache {

namespace {

constexpr uint8_t bit(LineState state) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(state));
}

// Row: the state. Bits: the states that may follow it.
constexpr std::array<uint8_t, 7> kNext = {
    // absent: takes slots for a fill or a write, or is restored after a restart
    bit(LineState::kFilling),
    // filling: the first data arrived or its move failed, or all holders were lost
    bit(LineState::kClean) | bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kEvicting) |
        bit(LineState::kWiping),
    // clean: an evicted clean line needs no erasure (header.h, H3)
    bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kEvicting) | bit(LineState::kWiping),
    // dirty: becomes clean without destaging by Index::invalidate(), or if the only copy is lost while a
    // second one is being made
    bit(LineState::kDestaging) | bit(LineState::kClean) | bit(LineState::kAbsent) | bit(LineState::kWiping) |
        bit(LineState::kEvicting),
    // destaging: succeeds, or leaves sub-blocks that are still (or again) dirty, or the last holder is lost
    bit(LineState::kClean) | bit(LineState::kDirty) | bit(LineState::kAbsent) | bit(LineState::kWiping),
    // evicting, wiping: the erasure is confirmed, or the holders are lost
    bit(LineState::kAbsent) | bit(LineState::kWiping),
    bit(LineState::kAbsent),
};

}  // namespace

std::string_view to_string(LineState state) {
    switch (state) {
        case LineState::kAbsent:
            return "absent";
        case LineState::kFilling:
            return "filling";
        case LineState::kClean:
            return "clean";
        case LineState::kDirty:
            return "dirty";
        case LineState::kDestaging:
            return "destaging";
        case LineState::kEvicting:
            return "evicting";
        case LineState::kWiping:
            return "wiping";
    }
    return "?";
}

bool may_follow(LineState from, LineState to) {
    return (kNext[static_cast<size_t>(from)] & bit(to)) != 0;
}

// --- operations ---

bool Line::admit(LineOp& op) {
    const bool exclusive = op.access == Access::kExclusive;
    const bool quiet = op_count_ == 0 || (!exclusive && exclusive_count_ == 0);
    op.rests_ = op.resumes_ = op.beside_ = false;
    op.granted_ = quiet || ops_.find_if([&op](LineOp& other) { return op.conflicts_with(other); }) == nullptr;
    ops_.push_back(op);
    ++op_count_;
    exclusive_count_ = static_cast<uint16_t>(exclusive_count_ + exclusive);
    waiting_count_ = static_cast<uint16_t>(waiting_count_ + !op.granted_);
    return op.granted_;
}

bool Line::admit_beside(LineOp& op) {
    const auto in_the_way = [](LineOp& other) {
        const bool at_work = other.granted_ && other.access == Access::kExclusive && !other.rests_;
        return at_work || other.beside_;
    };
    if (clearing_ || ops_.find_if(in_the_way) != nullptr) return false;
    op.access = Access::kShared;
    op.rests_ = op.resumes_ = false;
    op.beside_ = op.granted_ = true;
    ops_.push_front(op);
    ++op_count_;
    return true;
}

bool Line::readmit(LineOp& op) {
    op.rests_ = false;
    if (ops_.find_if([](LineOp& other) { return other.beside_; }) == nullptr) return true;
    op.resumes_ = true;
    op.granted_ = false;
    ++waiting_count_;
    return false;
}

// Grants each waiting operation that conflicts with no earlier one.
void Line::grant(Granted& granted) {
    ops_.for_each([this, &granted](LineOp& op) {
        if (op.granted_) return;
        LineOp* blocker =
            ops_.find_if([&op](LineOp& other) { return &other == &op || op.conflicts_with(other); });
        if (blocker != &op) return;
        op.granted_ = true;
        op.resumes_ = false;
        --waiting_count_;
        granted.push_back(op);
    });
}

void Line::dismiss(LineOp& op, Granted& granted) {
    static_cast<ListNode<>&>(op).unlink();
    static_cast<ListNode<GrantOrder>&>(op).unlink();  // granted, but its owner leaves before it continues
    if (!op.granted_) --waiting_count_;
    if (op.access == Access::kExclusive) --exclusive_count_;
    op.granted_ = false;
    --op_count_;
    if (waiting_count_ != 0) grant(granted);
}

}  // namespace wss::cache
