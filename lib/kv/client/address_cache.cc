// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/address_cache.h"

#include <algorithm>
#include <bit>

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not support fences. It does not need to: every access here is atomic.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace wss::kv {

constexpr auto kRelaxed = std::memory_order_relaxed;

AddressCache::AddressCache(uint32_t entries) {
    if (entries == 0) return;
    uint32_t buckets = std::bit_ceil(std::max(entries / kWays, 1u));
    mask_ = buckets - 1;
    buckets_ = std::make_unique<Bucket[]>(buckets);
}

bool AddressCache::take(Bucket& bucket, uint32_t& sequence) noexcept {
    sequence = bucket.sequence.load(kRelaxed);
    if (sequence & 1) return false;
    // Acquire: the stores of the last writer come first. The fence below orders the odd sequence before the
    // stores of this writer. It pairs with the fence in find().
    if (!bucket.sequence.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire, kRelaxed))
        return false;
    std::atomic_thread_fence(std::memory_order_release);
    return true;
}

bool AddressCache::find(uint64_t fingerprint, uint64_t epoch, store::SlotAddress& found) const noexcept {
    if (buckets_ == nullptr) return false;
    const Bucket& bucket = bucket_of(fingerprint);
    for (int attempt = 0; attempt < 4; ++attempt) {
        uint32_t before = bucket.sequence.load(std::memory_order_acquire);
        if (before & 1) continue;
        bool hit = false;
        for (const Entry& entry : bucket.entries) {
            if (entry.fingerprint.load(kRelaxed) != fingerprint || entry.epoch.load(kRelaxed) != epoch)
                continue;
            uint64_t packed = entry.size_and_incarnation.load(kRelaxed);
            found.offset = entry.offset.load(kRelaxed);
            found.bytes = static_cast<uint32_t>(packed >> 32);
            found.incarnation = static_cast<uint32_t>(packed);
            hit = found.bytes != 0;
            break;
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        if (bucket.sequence.load(kRelaxed) == before) return hit;
    }
    return false;
}

void AddressCache::put(uint64_t fingerprint, uint64_t epoch, const store::SlotAddress& address) noexcept {
    if (buckets_ == nullptr) return;
    store::SlotAddress known;
    if (find(fingerprint, epoch, known) && known == address) return;
    Bucket& bucket = bucket_of(fingerprint);
    uint32_t sequence;
    if (!take(bucket, sequence)) return;
    Entry* place = nullptr;
    for (Entry& entry : bucket.entries)
        if (entry.fingerprint.load(kRelaxed) == fingerprint) place = &entry;
    for (Entry& entry : bucket.entries)
        if (place == nullptr && entry.size_and_incarnation.load(kRelaxed) == 0) place = &entry;
    if (place == nullptr) place = &bucket.entries[bucket.next.fetch_add(1, kRelaxed) % kWays];
    place->fingerprint.store(fingerprint, kRelaxed);
    place->epoch.store(epoch, kRelaxed);
    place->offset.store(address.offset, kRelaxed);
    place->size_and_incarnation.store(uint64_t{address.bytes} << 32 | address.incarnation, kRelaxed);
    bucket.sequence.store(sequence + 2, std::memory_order_release);
}

void AddressCache::forget(uint64_t fingerprint) noexcept {
    if (buckets_ == nullptr) return;
    Bucket& bucket = bucket_of(fingerprint);
    uint32_t sequence;
    if (!take(bucket, sequence)) return;
    for (Entry& entry : bucket.entries)
        if (entry.fingerprint.load(kRelaxed) == fingerprint) entry.size_and_incarnation.store(0, kRelaxed);
    bucket.sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace wss::kv
