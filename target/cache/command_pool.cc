// SPDX-License-Identifier: Apache-2.0
#include "target/cache/command_pool.h"

namespace wss::cache {

// Parts of all command objects that are reserved, as in block/arena.cc. Only a volume that holds no command
// gets one of the last free eighth. Only such a volume, or an initiator that holds none, gets one of the
// sixteenth before it.
constexpr uint32_t kVolumeReserve = 8, kNexusReserve = 16;

CommandPool::CommandPool(uint32_t commands, uint32_t lines_per_command, const CommandPaths& paths,
                         CommandHome* home)
    : free_count_(commands) {
    for (uint32_t i = 0; i < commands; ++i) {
        auto command = std::make_unique<CacheCommand>();
        command->path = paths;
        command->home = home;
        command->on_entered = paths.entered;
        command->lines = std::make_unique<LinePart[]>(lines_per_command);
        free_.push_back(*command);
        commands_.push_back(std::move(command));
    }
}

CacheCommand* CommandPool::take(CachedVolume& volume, const CommandShareRef& of_volume,
                                const CommandShareRef& by) noexcept {
    const uint32_t held = of_volume->commands;
    const size_t for_volumes = commands_.size() / kVolumeReserve;
    const size_t used = held + for_volumes + commands_.size() / kNexusReserve;
    const bool first = by && by->commands == 0;
    if (held > 0 && (first ? for_volumes : used) >= free_count_) return nullptr;
    // Each command that the volume takes makes its share larger and the free part smaller.
    const size_t room = free_count_ > used ? (free_count_ - used) / 2 : 0;
    if (by && !leaves_enough(by->commands, room)) return nullptr;
    CacheCommand* command = free_.pop_front();
    if (command == nullptr) return nullptr;
    --free_count_;
    command->volume = &volume;
    command->of_volume = of_volume;
    ++of_volume->commands;
    command->share = by;
    if (by) ++by->commands;
    command->line_count = command->entered = command->outstanding = 0;
    command->phase = CacheCommand::Phase::kNone;
    command->is_abandoned = command->is_again = command->is_ahead = command->is_delegated =
        command->is_coalesced = command->by_storage = command->transfer_failed = command->storing =
            command->rests = false;
    command->hold = true;
    command->attempts = 0;
    command->failed_engine = WSS_CACHE_ENGINES_MAX;
    command->buffer = nullptr;
    command->regions = nullptr;
    command->buffer_home = nullptr;
    command->buffer_bytes = 0;
    command->client = nullptr;
    command->cancelled = nullptr;
    command->remote = {};
    command->outcome = {};
    return command;
}

void CommandPool::give(CacheCommand& command) noexcept {
    if (command.buffer_home != nullptr) command.buffer_home->give_back(command.buffer, command.buffer_bytes);
    command.buffer_home = nullptr;
    if (command.share) --command.share->commands;
    command.share = {};
    --command.of_volume->commands;
    command.of_volume = {};
    command.fences.clear();
    command.state = CacheCommand::State::kIdle;
    free_.push_back(command);
    ++free_count_;
}

}  // namespace wss::cache
