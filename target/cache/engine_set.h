// SPDX-License-Identifier: Apache-2.0
// EngineSet: the links to admitted engines, by number, and the closed links that still have transfers to
// report.
//
// It owns these links and calls only them. Their reports go to their EngineLinkOwner.
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

namespace wss::cache {

class EngineSet {
  public:
    static constexpr size_t kMax = kEnginesMax;

    explicit EngineSet(Turn& turn) : turn_(turn) {}

    // ---- Admitted engines
    auto all() const noexcept {
        return std::span(links_.data(), end_) |
               std::views::filter([](const auto& one) { return one != nullptr; }) |
               std::views::transform([](const auto& one) -> EngineLink& { return *one; });
    }
    // Returns nullptr if there is none.
    EngineLink* link(EngineIndex index) noexcept {
        return index.exists() ? links_[index.value].get() : nullptr;
    }
    EngineLink* find(uint64_t identity) noexcept;
    // The engine with this number, if it is a storage process of this incarnation and accepts operations.
    EngineLink* storage(EngineIndex index, uint32_t incarnation) noexcept;
    // The lowest free number, or none.
    EngineIndex free_index() const noexcept;
    EngineLink& enlist(std::unique_ptr<EngineLink> engine, EngineIndex index) noexcept;
    std::unique_ptr<EngineLink> take(EngineIndex index) noexcept;

    // ---- Closed links
    void retire(std::unique_ptr<EngineLink> engine) { retired_.push_back(std::move(engine)); }
    bool retires(uint64_t identity) const noexcept;

    // True if no link is left.
    bool empty() const noexcept { return end_ == 0 && retired_.empty(); }
    size_t turn() noexcept {
        size_t sent = 0;
        for (size_t i = 0; i < end_; ++i)
            if (links_[i] != nullptr) sent += links_[i]->turn();
        return sent;
    }
    // Ends the transfers of retired links, and frees those that have reported everything.
    size_t turn_retired() noexcept { return retired_.empty() ? 0 : free_retired(); }
    void tick(Nanoseconds now, Nanoseconds silence_max) noexcept;

    // ---- Hits that engines report late (SE7)
    void late_begun() noexcept { ++late_; }
    void late_over() noexcept { --late_; }
    uint32_t late() const noexcept { return late_; }
    // Flushes completions of all engines.
    void flush_completions() noexcept;

    // Called at the end of the cache. After this, nothing is reported.
    void clear() noexcept;

  private:
    size_t free_retired() noexcept;

    Turn& turn_;
    uint32_t late_ = 0;
    std::array<std::unique_ptr<EngineLink>, kMax> links_;
    // All links are below end_: engines get the lowest free numbers, and there are few.
    size_t end_ = 0;
    std::list<std::unique_ptr<EngineLink>> retired_;
};

}  // namespace wss::cache
