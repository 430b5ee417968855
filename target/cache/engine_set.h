// SPDX-License-Identifier: Apache-2.0
// EngineSet: the links to the engines that were admitted, by number, and those that are over but have
// transfers to report.
//
// It owns these links and calls nobody but them. What they report goes to their EngineLinkOwner.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <ranges>
#include <span>

#include "target/cache/engine_link.h"
#include "target/cache/turn.h"

namespace wss::se {

class EngineSet {
  public:
    static constexpr size_t kMax = cache::kEnginesMax;

    explicit EngineSet(Turn& turn) : turn_(turn) {}

    // ---- Engines that were admitted
    auto all() const noexcept {
        return std::span(links_.data(), end_) |
               std::views::filter([](const auto& one) { return one != nullptr; }) |
               std::views::transform([](const auto& one) -> EngineLink& { return *one; });
    }
    // nullptr: none.
    EngineLink* link(cache::EngineIndex index) noexcept {
        return index.exists() ? links_[index.value].get() : nullptr;
    }
    EngineLink* find(uint64_t identity) noexcept;
    // An engine that is real storage, if it is still the one and takes operations.
    EngineLink* storage(cache::EngineIndex index, uint32_t incarnation) noexcept;
    // The lowest that is free, or none.
    cache::EngineIndex free_index() const noexcept;
    EngineLink& enlist(std::unique_ptr<EngineLink> engine, cache::EngineIndex index) noexcept;
    std::unique_ptr<EngineLink> take(cache::EngineIndex index) noexcept;

    // ---- Links that are over
    void retire(std::unique_ptr<EngineLink> engine) { retired_.push_back(std::move(engine)); }
    bool retires(uint64_t identity) const noexcept;

    // No link is left.
    bool empty() const noexcept { return end_ == 0 && retired_.empty(); }
    size_t turn() noexcept {
        size_t sent = 0;
        for (size_t i = 0; i < end_; ++i)
            if (links_[i] != nullptr) sent += links_[i]->turn();
        return sent;
    }
    // Frees those that have reported everything.
    size_t turn_retired() noexcept { return retired_.empty() ? 0 : free_retired(); }
    void tick(Nanoseconds now, Nanoseconds silence_max) noexcept;

    // ---- Hits that engines report late (SE7)
    void late_begun() noexcept { ++late_; }
    void late_over() noexcept { --late_; }
    uint32_t late() const noexcept { return late_; }
    // What engines have done and not reported is wanted now.
    void hurry() noexcept;

    // The end: nothing is reported any more.
    void clear() noexcept;

  private:
    size_t free_retired() noexcept;

    Turn& turn_;
    uint32_t late_ = 0;
    std::array<std::unique_ptr<EngineLink>, kMax> links_;
    // Behind it there is none: engines have the lowest free numbers, and there are few.
    size_t end_ = 0;
    std::list<std::unique_ptr<EngineLink>> retired_;
};

}  // namespace wss::se
