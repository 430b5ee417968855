// SPDX-License-Identifier: Apache-2.0
#include "target/cache/engine_set.h"

#include <algorithm>

namespace wss::cache {

EngineLink* EngineSet::find(uint64_t identity) noexcept {
    for (EngineLink& engine : all())
        if (engine.identity().identity == identity) return &engine;
    return nullptr;
}

EngineLink* EngineSet::storage(EngineIndex index, uint32_t incarnation) noexcept {
    EngineLink* engine = link(index);
    const bool same =
        engine != nullptr && engine->is_storage() && engine->identity().incarnation == incarnation;
    return same && engine->is_ready() ? engine : nullptr;
}

EngineIndex EngineSet::free_index() const noexcept {
    for (uint8_t i = 0; i < kMax; ++i)
        if (links_[i] == nullptr) return {i};
    return {};
}

EngineLink& EngineSet::enlist(std::unique_ptr<EngineLink> engine, EngineIndex index) noexcept {
    links_[index.value] = std::move(engine);
    end_ = std::max<size_t>(end_, index.value + 1u);
    return *links_[index.value];
}

std::unique_ptr<EngineLink> EngineSet::take(EngineIndex index) noexcept {
    std::unique_ptr<EngineLink> taken = std::move(links_[index.value]);
    while (end_ > 0 && links_[end_ - 1] == nullptr) --end_;
    return taken;
}

bool EngineSet::retires(uint64_t identity) const noexcept {
    return std::any_of(retired_.begin(), retired_.end(),
                       [identity](const auto& one) { return one->identity().identity == identity; });
}

size_t EngineSet::free_retired() noexcept {
    size_t done = 0;
    for (auto& engine : retired_) done += engine->turn();
    done += std::erase_if(retired_, [](const auto& engine) { return engine->is_over(); });
    return done;
}

void EngineSet::tick(Nanoseconds now, Nanoseconds silence_max) noexcept {
    for (size_t i = 0; i < end_; ++i)
        if (links_[i] != nullptr) links_[i]->tick(now, silence_max);
}

void EngineSet::clear() noexcept {
    for (auto& engine : links_) engine.reset();
    end_ = 0;
    retired_.clear();
}

void EngineSet::flush_completions() noexcept {
    if (late_ == 0) return;
    for (size_t i = 0; i < end_; ++i)
        if (links_[i] != nullptr) links_[i]->flush_completions();
    turn_.want();
}

}  // namespace wss::cache
