// SPDX-License-Identifier: Apache-2.0
// CommandShare: the cache commands of one reactor that one initiator holds on a volume, or that all
// initiators hold on it. Of the volume's share, an initiator may hold up to kNexusPart times as many commands
// as it leaves to others (CommandPool::take()).
//
// Thread-safety: belongs to the reactor of the commands. Lifetime: until its initiator or volume has released
// it and no command counts towards it. A command may end after both are gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace wss::cache {

// An initiator may hold this many times as much of a volume's share as it leaves to others. This applies to
// buffers and to commands.
constexpr size_t kNexusPart = 7;

// Whether an initiator that holds `held` commands of a volume leaves enough of the `room` that the volume has
// left.
constexpr bool leaves_enough(uint64_t held, uint64_t room) {
    return held == 0 || (room > 1 && held + 1 <= kNexusPart * (room - 1));
}

class CommandShare {
  public:
    uint32_t commands = 0;

  private:
    friend class CommandShareRef;
    uint64_t users_ = 0;
};

class CommandShareRef {
  public:
    CommandShareRef() = default;
    static CommandShareRef make() { return CommandShareRef(new CommandShare); }
    CommandShareRef(const CommandShareRef& other) : CommandShareRef(other.share_) {}
    CommandShareRef& operator=(CommandShareRef other) noexcept {
        std::swap(share_, other.share_);
        return *this;
    }
    ~CommandShareRef() {
        if (share_ != nullptr && --share_->users_ == 0) delete share_;
    }
    explicit operator bool() const noexcept { return share_ != nullptr; }
    CommandShare* operator->() const noexcept { return share_; }

  private:
    explicit CommandShareRef(CommandShare* share) : share_(share) {
        if (share_ != nullptr) ++share_->users_;
    }
    CommandShare* share_ = nullptr;
};

}  // namespace wss::cache
