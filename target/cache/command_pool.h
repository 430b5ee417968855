// SPDX-License-Identifier: Apache-2.0
// CommandPool: the command objects of one reactor, and how volumes and initiators share them.
//
// A volume may hold as many commands as it leaves free. Three sixteenths of all commands do not count as
// free. So a volume whose storage hangs cannot use up the commands of others. A volume that holds none may
// take any free one. An initiator that holds none of the volume may take one beyond the volume's limit while
// more than an eighth is free.
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
    // `home`: see CacheCommand::home.
    CommandPool(uint32_t commands, uint32_t lines_per_command, const CommandPaths& paths, CommandHome* home);

    // `of_volume`: the share of the volume in this pool. `by`: the share of the requesting initiator in
    // `of_volume`; empty for commands of the cache itself. Returns nullptr if no command object is free for
    // this volume or initiator now.
    CacheCommand* take(CachedVolume& volume, const CommandShareRef& of_volume,
                       const CommandShareRef& by) noexcept;
    // Takes back a command with its buffer.
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
