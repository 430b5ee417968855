// SPDX-License-Identifier: Apache-2.0
// Arena: the I/O buffers of one lane, and how volumes and initiators share them.
//
// Each part has its own BufferPool, so that short transfers neither wait behind long ones nor fragment the
// memory that long ones need:
//   kSmall   I/O buffers of up to kSmallBuffer bytes
//   kLarge   longer ones
//   kAdmin   descriptor tables and long answers of administrative commands
//
// Rules
//  A1  A volume may hold as much of a part as it leaves free. Three sixteenths of the part do not count as
//      free. The same limit applies to each initiator. A volume or initiator that holds nothing may take any
//      block that fits. So a single volume gets at most 13/32 of the part. Several volumes get equal shares,
//      and leave another share of that size free for the next volume. Slow or dead storage, and an initiator
//      that does not accept its data, cannot use up the buffers of others.
//  A2  An initiator (an I_T_L nexus) may hold kNexusPart times as much of a volume's limit as it leaves to
//      others: seven eighths if it is alone. One eighth is left for the next initiator, however slow the
//      first is. An initiator that holds no block of the volume may take one beyond the volume's limit, as
//      long as an eighth of the part stays free. So the next initiator can proceed, however many others are
//      slow.
//  An initiator is a proven name with all its sessions. Where no authentication is required, it is a source.
//  Commands wait by rules FL1 and FL2 (flow.h).
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

// The bytes of an arena that are held by a volume, by an initiator, or by an initiator on a volume.
// Reference-counted: it lives until the last ShareRef and the last block are gone, because a cache fill may
// return its buffer after the volume was removed.
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

// The shares to which a block is charged.
struct Account {
    Share& volume;
    Share& initiator;
    Share& nexus;  // the initiator on the volume
};

class Arena {
  public:
    // `bytes`: total size of the I/O buffers, at least kArenaMin.
    static Result<std::unique_ptr<Arena>> create(fabric::Fabric& fabric, size_t bytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Returns nullptr if the limits do not allow a block now (A1, A2), or if other commands wait (FL2).
    std::byte* take(Part part, size_t bytes, const Account& account) noexcept;
    // `bytes`: the value that was passed to take().
    void give(Part part, std::byte* block, size_t bytes) noexcept;
    void wait(Flow& flow, Request& request) noexcept {
        waiting_[static_cast<size_t>(request.part)].wait(flow, request);
    }
    // Gives free blocks to waiting requests: calls `offer(request, block)` for each request that gets one.
    // `account(request)` returns the shares to charge. Returns the number of requests served.
    template <typename AccountOf, typename Offer>
    size_t serve(AccountOf&& account, Offer&& offer) noexcept;

    BufferPool& pool(Part part) noexcept { return *pools_[static_cast<size_t>(part)]; }
    const BufferPool& pool(Part part) const noexcept { return *pools_[static_cast<size_t>(part)]; }
    // The share of commands without a volume.
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
