// SPDX-License-Identifier: Apache-2.0
// Lines: the index of the lines, and the waiting operations that were granted when another operation left the
// line (lib/cache/line.h).
//
// It owns the index, the walks over its lines and the lines that are being dropped. When an operation that
// waited is granted, it notifies the LineUser that the operation names.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "lib/cache/index.h"
#include "target/cache/turn.h"

namespace wss::cache {

// A user of lines. It is the context of each of its operations.
struct LineUser {
    // A waiting operation was granted; called from Lines::serve().
    void (*on_entered)(LineUser& user) noexcept = nullptr;
};

class Lines {
  public:
    Lines(const LineGeometry& geometry, uint32_t transient_lines, Turn& turn);
    ~Lines();

    Index& index() noexcept { return index_; }
    const LineGeometry& geometry() const noexcept { return index_.geometry(); }

    // Returns true if the operation may continue now. Otherwise `user` is notified later.
    bool enter(Line& line, LineOp& op, LineUser& user) noexcept {
        op.context = &user;
        return index_.enter(line, op);
    }
    void leave(LineOp& op) noexcept { index_.leave(op, granted_); }
    bool any_granted() const noexcept { return !granted_.empty(); }
    void want_turn_if_granted() noexcept {
        if (!granted_.empty()) turn_.want();
    }
    void serve() noexcept {
        while (LineOp* op = granted_.pop_front()) {
            auto& user = *static_cast<LineUser*>(op->context);
            user.on_entered(user);
        }
    }

    // ---- Control plane
    // Visits the lines of a range of the volume, some each turn. `visit` starts an operation on a line, which
    // calls `ended` when it is done, now or later. `done` is called when all visits have ended. That is
    // before walk() returns if the lines are few, nothing holds them and no other walk is active. Lines that
    // are added to the range during the walk may be missed.
    using Ended = std::function<void()>;
    using Visit = std::function<void(Line& line, Ended ended)>;
    void walk(uint32_t number, uint64_t offset, uint64_t length, Visit visit, std::function<void()> done);
    // Drops the range: when `done` is called, no part of it is valid in engines. Requires that no command is
    // active (the volume is frozen) and that nothing in the range is dirty. Waits for other operations that
    // hold one of the lines, such as an erasure.
    void drop(uint32_t number, uint64_t offset, uint64_t length, std::function<void()> done);
    void turn() {
        if (!walks_.empty()) go_on();
    }
    // Called at the end of the cache: ends all walks, whose functions are no longer called.
    void forget_walks() noexcept;

  private:
    struct Walk;
    struct Drop;
    void go_on();
    bool look(Walk& walk);
    bool step(const std::shared_ptr<Walk>& walk);
    void begin_drop(Line& line, Ended ended);
    void entered(Drop& drop) noexcept;

    Index index_;
    Granted granted_;
    Turn& turn_;
    std::list<Drop> drops_;
    std::list<std::shared_ptr<Walk>> walks_;
};

}  // namespace wss::cache
