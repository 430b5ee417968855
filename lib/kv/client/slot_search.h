// SPDX-License-Identifier: Apache-2.0
// SlotSearch: where the slot of a key is: in the address cache, or by reading the partition's index.
//
// Its functions return what stands in the way of a one-sided read. Fallback::kNone: read what `Slot::wanted`
// says.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include "lib/kv/client/read_set.h"

namespace wss::kv {

class Session;

class SlotSearch {
  public:
    explicit SlotSearch(Session& session) : session_(session) {}

    Fallback begin(ReadSet::Slot& slot) noexcept;
    // Of the bucket that was wanted.
    Fallback take_bucket(ReadSet::Slot& slot, const std::byte* bytes) noexcept;
    // The slot is another key's, or free: the index may know where the key is now.
    Fallback begin_again(ReadSet::Slot& slot) noexcept;
    // What was found is the key's: its record said so.
    void remember(const ReadSet::Slot& slot) noexcept;

  private:
    Fallback look_up(ReadSet::Slot& slot, IndexLookup::Next next) noexcept;
    Fallback take_address(ReadSet::Slot& slot) noexcept;

    Session& session_;
};

}  // namespace wss::kv
