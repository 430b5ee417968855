// SPDX-License-Identifier: Apache-2.0
// CommandPool: the command objects of one reactor, and how volumes and initiators share them.
//
// A volume may hold as many as it leaves free, not counting three sixteenths of all, so that a volume whose
// storage hangs cannot use up those of others. A volume that holds none may take any. An initiator that holds
// none of the volume may take one beyond the volume's limit while more than an eighth is free.
//
// Thread-safety: belongs to its reactor. Allocates nothing after it was created.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "target/cache/cache_command.h"

namespace wss::cache {

class CommandPool {
  public:
    // `home`: as CacheCommand::home.
    CommandPool(uint32_t commands, uint32_t lines_per_command, const CommandPaths& paths, CommandHome* home);

    // `of_volume`: the commands of this pool that the volume holds. `by`: of these, the requesting
    // initiator's; empty for commands of the cache itself. nullptr: no command object is free for this volume
    // or initiator now.
    CacheCommand* take(CachedVolume& volume, const CommandShareRef& of_volume,
                       const CommandShareRef& by) noexcept;
    // Takes a command back, and its buffer.
    void give(CacheCommand& command) noexcept;

    size_t size() const noexcept { return commands_.size(); }
    template <typename Visit>
    void for_each(Visit&& visit) {
        for (auto& command : commands_) visit(*command);
    }

  private:
    std::vector<std::unique_ptr<CacheCommand>> commands_;
    List<CacheCommand> free_;
    uint32_t free_count_ = 0;
};

}  // namespace wss::cache
