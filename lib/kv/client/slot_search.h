// SPDX-License-Identifier: Apache-2.0
// SlotSearch: finds the slot of a key in the address cache, or by reading the partition's index.
//
// Its functions return the obstacle to a one-sided read. Fallback::kNone: none; read what `Slot::wanted`
// names.
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
    // `bytes`: the bucket that was wanted.
    Fallback take_bucket(ReadSet::Slot& slot, const std::byte* bytes) noexcept;
    // The slot belongs to another key or is free. The index may have the key's present slot.
    Fallback begin_again(ReadSet::Slot& slot) noexcept;
    // Caches the address. Call it when the record has proven that the slot is the key's.
    void remember(const ReadSet::Slot& slot) noexcept;

  private:
    Fallback look_up(ReadSet::Slot& slot, IndexLookup::Next next) noexcept;
    Fallback take_address(ReadSet::Slot& slot) noexcept;

    Session& session_;
};

}  // namespace wss::kv
