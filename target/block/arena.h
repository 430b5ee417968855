// SPDX-License-Identifier: Apache-2.0
// Arena: the I/O buffers of one lane, and how volumes and initiators share them.
//
// A part is a BufferPool of its own, so that short transfers neither wait behind long ones nor fragment the
// memory that those need:
//   kSmall   I/O buffers of up to kSmallBuffer bytes
//   kLarge   longer ones
//   kAdmin   descriptor tables and long answers of administrative commands
//
// Rules
//  A1  A volume, and an initiator, may hold as much of a part as it leaves free, three sixteenths of the part
//      not counted. One that holds nothing may take any block that fits. So a single holder gets almost half,
//      and several get equal shares and leave as much for the next one: storage that is slow or dead, and an
//      initiator that does not take its data, cannot take the buffers of others.
//  A2  Of what a volume may hold, an initiator (an I_T_L nexus) may hold kNexusPart times what it leaves to
//      others: seven eighths if it is alone, and the next one finds an eighth, however slow the first is. An
//      initiator that holds nothing of the volume may take one block beyond that, of all but an eighth of the
//      part: however many initiators are slow, the next one proceeds.
//  An initiator is a name that was proven, or a source where nobody authenticates, with all its sessions.
//  Commands that must wait do so by FL1 and FL2 (flow.h).
//
// Thread-safety: belongs to its reactor.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "target/block/buffer_pool.h"
#include "target/block/flow.h"
#include "target/block/limits.h"
#include "target/block/request.h"

namespace wss::block {

constexpr Part part_of(size_t bytes) {
    return bytes <= kSmallBuffer ? Part::kSmall : Part::kLarge;
}

// What a volume, an initiator, or an initiator on a volume holds of an arena. Lives as long as somebody
// refers to it or a block counts: a fill of the cache gives its buffer back after the volume is gone.
class Share {
  public:
    size_t held(Part part) const noexcept { return held_[static_cast<size_t>(part)]; }

  private:
    friend class Arena;
    friend class ShareRef;
    Share() = default;
    ~Share() = default;
    void leave() noexcept {
        if (--users_ == 0) delete this;
    }
    uint64_t users_ = 0;  // references and blocks
    std::array<size_t, kParts> held_{};
};

class ShareRef {
  public:
    ShareRef() = default;
    static ShareRef make() { return ShareRef(new Share); }
    ShareRef(const ShareRef& other) : ShareRef(other.share_) {}
    ShareRef& operator=(ShareRef other) noexcept {
        std::swap(share_, other.share_);
        return *this;
    }
    ~ShareRef() {
        if (share_ != nullptr) share_->leave();
    }
    explicit operator bool() const noexcept { return share_ != nullptr; }
    Share& operator*() const noexcept { return *share_; }

  private:
    explicit ShareRef(Share* share) : share_(share) {
        if (share_ != nullptr) ++share_->users_;
    }
    Share* share_ = nullptr;
};

// On whose account a block is taken.
struct Account {
    Share& volume;
    Share& initiator;
    Share& nexus;  // the initiator on the volume
};

class Arena {
  public:
    // `bytes` of I/O buffers in all, at least kArenaMin.
    static Result<std::unique_ptr<Arena>> create(fabric::Fabric& fabric, size_t bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // nullptr: not now (A1), or others wait (FL2).
    std::byte* take(Part part, size_t bytes, const Account& account) noexcept;
    // `bytes` as given to take().
    void give(Part part, std::byte* block, size_t bytes) noexcept;
    void wait(Flow& flow, Request& request) noexcept {
        waiting_[static_cast<size_t>(request.part)].wait(flow, request);
    }
    // Offers what is free to those who wait: `offer(request, block)` for each that gets some.
    // `account(request)` says on whose account. Returns how many got some.
    template <typename AccountOf, typename Offer>
    size_t serve(AccountOf&& account, Offer&& offer) noexcept;

    BufferPool& pool(Part part) noexcept { return *pools_[static_cast<size_t>(part)]; }
    const BufferPool& pool(Part part) const noexcept { return *pools_[static_cast<size_t>(part)]; }
    // Of commands that are no volume's.
    Share& nobody() noexcept { return *nobody_; }

  private:
    struct Owner {
        Share* volume = nullptr;
        Share* initiator = nullptr;
        Share* nexus = nullptr;
    };
    Arena() = default;
    bool may_hold(Part part, size_t bytes, const Share& share) const noexcept;
    bool is_first(Part part, size_t bytes, const Account& account) const noexcept;
    bool leaves_enough(Part part, size_t bytes, const Account& account) const noexcept;
    std::byte* try_take(Part part, size_t bytes, const Account& account) noexcept;
    Owner& owner_of(Part part, const std::byte* block) noexcept;

    ShareRef nobody_ = ShareRef::make();
    std::array<std::unique_ptr<BufferPool>, kParts> pools_;
    std::array<std::vector<Owner>, kParts> owners_;  // by the first page of a block
    std::array<FlowQueue, kParts> waiting_;
};

template <typename AccountOf, typename Offer>
size_t Arena::serve(AccountOf&& account, Offer&& offer) noexcept {
    auto take = [&](Request& request) {
        return try_take(request.part, request.wanted_bytes, account(request));
    };
    size_t served = 0;
    for (FlowQueue& queue : waiting_) served += queue.serve(take, offer);
    return served;
}

}  // namespace wss::block
