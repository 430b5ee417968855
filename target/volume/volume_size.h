// SPDX-License-Identifier: Apache-2.0
// VolumeSize: the size of an open volume, and whether that is a part of its storage or all of it. Each method
// that changes it is one step of a resize, a start or a reopening.
//
// Thread-safety: any thread may read. The thread that makes the volume changes it until the volume is live,
// and after that only the thread that has the volume's turn (VolumeSet::Turn).
#pragma once

#include <atomic>
#include <cstdint>

namespace wss::volume {

class VolumeSize {
  public:
    VolumeSize(uint64_t bytes, uint32_t block) : block_(block), bytes_(bytes) {}

    uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }
    // The size that the operator gave a volume on a part of its storage; 0: it covers all of it.
    uint64_t part() const noexcept { return part_.load(std::memory_order_relaxed); }
    bool is_part() const noexcept { return part() != 0; }
    // The size of the volume when its storage has `storage` bytes, in whole blocks. A volume on a part of its
    // storage never exceeds the size that the operator gave it, even if it covers all that is left of the
    // storage.
    uint64_t fit(uint64_t storage) const noexcept {
        const uint64_t most = part(), whole = whole_blocks(storage);
        return most == 0 || whole < most ? whole : most;
    }
    // True if the volume covers all of a storage of `storage` bytes.
    bool is_all_of(uint64_t storage) const noexcept { return bytes() == whole_blocks(storage); }
    bool is_less_than(uint64_t storage) const noexcept { return bytes() < whole_blocks(storage); }

    // The volume is made on storage of `storage` bytes. `part`: as recorded; 0: derived from the sizes. It
    // keeps its size even if its storage has become large enough for more of its part.
    void make(uint64_t part, uint64_t storage) {
        part_ = part;
        if (is_part() ? fit(storage) > bytes() : !is_all_of(storage)) part_ = bytes();
    }
    // It covers all of its storage, whose size is not known yet.
    void take_all() { takes_all_ = true; }

    // The operator's shrink to `to` begins. `cuts`: it shrinks the storage, which has `storage` bytes. From
    // now on the volume is a part of its storage. Only a shrink to all that others have left makes no part.
    void begin_shrink(uint64_t to, uint64_t storage, bool cuts) {
        part_ = is_part() || cuts || fit(storage) > to ? to : 0;
    }
    // begin_shrink() had no effect. `former`: part() before it.
    void undo_shrink(uint64_t former) { part_ = former; }
    // From now on no command uses what is beyond `to`.
    void shrink(uint64_t to) { bytes_.store(to, std::memory_order_release); }
    // The operator's shrink is complete. `stays_part`: the volume was a part before, and its storage was not
    // shrunk, so it is one even if others left only this much of it. Otherwise it covers all of its storage,
    // unless that is larger. Others have shrunk storage that is smaller, and the volume follows soon.
    void end_shrink(bool stays_part, uint64_t storage) {
        part_ = stays_part || is_less_than(storage) ? bytes() : 0;
    }

    // True if the volume covers all of a storage of `storage` bytes when it grows to `to`. `follows`: it
    // follows its storage, which makes no part whole. The operator's repetition of its size does not either.
    bool covers_at(uint64_t to, uint64_t storage, bool follows) const {
        const bool stays_part = is_part() && (follows || to <= bytes());
        return to >= whole_blocks(storage) && !stays_part;
    }
    // `covers_all`: see covers_at(). A volume that follows its storage stays what it is.
    void grow(uint64_t to, bool follows, bool covers_all) {
        bytes_.store(to, std::memory_order_release);
        if (!follows) part_ = covers_all ? 0 : to;
    }

    // The size of its storage has become known: a volume that does not take all of it is a part of it.
    void learn(uint64_t storage) {
        if (!takes_all_ && fit(storage) > bytes()) part_ = bytes();
    }
    // Its storage had a size that proves that the volume covers all of it.
    void cover_all() { part_ = 0; }

  private:
    uint64_t whole_blocks(uint64_t storage) const noexcept { return storage / block_ * block_; }

    const uint32_t block_;
    std::atomic<uint64_t> bytes_;    // a multiple of the block
    std::atomic<uint64_t> part_{0};  // see part()
    bool takes_all_ = false;
};

}  // namespace wss::volume
