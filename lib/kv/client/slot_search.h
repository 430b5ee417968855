// SPDX-License-Identifier: Apache-2.0
// SlotSearch: finds the slot of a key in the address cache, or by reading the partition's index.
//
// Its functions return the obstacle to a one-sided read. If there is none (Fallback::kNone), read what
// `KeyRead::wanted` names.
//
// Thread-safety: none; belongs to its session.
#pragma once

#include "lib/kv/client/read_set.h"

namespace wss::kv {

class ClientSession;

class SlotSearch {
  public:
    explicit SlotSearch(ClientSession& session) : session_(session) {}

    Fallback begin(ReadSet::KeyRead& key) noexcept;
    // `bytes` is the bucket that was wanted.
    Fallback take_bucket(ReadSet::KeyRead& key, const std::byte* bytes) noexcept;
    // The slot belongs to another key or is free. The index may have the key's current slot.
    Fallback begin_again(ReadSet::KeyRead& key) noexcept;
    // Caches the address. Call it when the record has proven that the slot is the key's.
    void remember(const ReadSet::KeyRead& key) noexcept;

  private:
    Fallback look_up(ReadSet::KeyRead& key, IndexLookup::Next next) noexcept;
    Fallback take_address(ReadSet::KeyRead& key) noexcept;

    ClientSession& session_;
};

}  // namespace wss::kv
