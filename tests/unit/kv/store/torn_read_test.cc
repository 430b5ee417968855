// SPDX-License-Identifier: Apache-2.0
// A reader on another thread reads the arena while the store changes it, like a peer's one-sided READ. It
// must never accept torn, mixed or foreign bytes as a value, and must make progress. The code has no data
// race by design, so ThreadSanitizer must report none.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

constexpr size_t kKeys = 8;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kRounds = 500;  // enough to detect a race
#else
constexpr uint64_t kRounds = 10'000;
#endif

std::string key_name(size_t i) {
    return "key" + std::to_string(i);
}

// Every byte depends on the key and the transaction, so that a mix is detected.
std::string value_of(size_t key, uint64_t ts, size_t bytes) {
    std::string value = std::to_string(key) + "/" + std::to_string(ts) + "/";
    while (value.size() < bytes) value += static_cast<char>('a' + (key * 7 + ts) % 26);
    return value;
}

struct Reader {
    ArenaView arena;
    const std::byte* memory = nullptr;
    std::array<std::atomic<uint64_t>, kKeys> offsets{};
    std::array<std::atomic<uint64_t>, kKeys> shapes{};  // number of bytes, and incarnation
    std::atomic<bool> stop{false};
    uint64_t good = 0;
    uint64_t refused = 0;
    uint64_t wrong = 0;

    void publish(size_t key, const SlotAddress& address) {
        offsets[key] = address.offset;
        shapes[key] = uint64_t{address.bytes} << 32 | address.incarnation;
    }
    void read(size_t key) {
        const uint64_t shape = shapes[key];
        const SlotAddress address{offsets[key], static_cast<uint32_t>(shape >> 32),
                                  static_cast<uint32_t>(shape)};
        if (address.bytes == 0 || address.offset + address.bytes > arena.bytes) return;
        copy_.resize(address.bytes);
        copy_from_shared(copy_.data(), memory + address.offset, address.bytes / 8 * 8);
        SlotView view;
        const Bytes extent{copy_.data(), address.bytes};
        if (parse_slot(extent, arena, key_name(key), address, view) != SlotStatus::kOk ||
            view.latest() == nullptr) {
            refused++;
            return;
        }
        for (uint32_t i = 0; i < view.entry_count; i++) take(key, extent, address, view.entries[i]);
    }
    void take(size_t key, Bytes extent, const SlotAddress& address, const Entry& entry) {
        if (entry.is_cold()) return;
        Bytes record = record_within(extent, address, entry);
        if (record.empty()) {
            far_.resize((entry.length + 7) / 8 * 8);
            copy_from_shared(far_.data(), memory + entry.offset, far_.size());
            record = Bytes(far_).first(entry.length);
        }
        RecordView version;
        if (check_record(record, arena, key_name(key), entry, version) != SlotStatus::kOk) {
            refused++;
            return;
        }
        const std::string value = text_of(version.value);
        (value == value_of(key, version.timestamp.value, value.size()) ? good : wrong)++;
    }

  private:
    std::vector<std::byte> copy_;
    std::vector<std::byte> far_;
};

void write_and_read(const Options& options, size_t bytes, uint64_t transactions) {
    Bench bench(options, size_t{2} << 20);
    Reader reader;
    reader.arena = bench.store->arena();
    reader.memory = reinterpret_cast<const std::byte*>(bench.memory.data());
    std::thread thread([&reader] {
        for (size_t i = 0; !reader.stop.load(std::memory_order_relaxed); i++) reader.read(i % kKeys);
    });
    Random random(3);
    for (uint64_t ts = 1; ts <= transactions; ts++) {
        std::vector<Put> puts;
        for (size_t key = 0; key < kKeys; key++)
            if (random.chance(2) || key == ts % kKeys)
                puts.push_back({key_name(key), value_of(key, ts, bytes)});
        const Answer answer = bench.prepare(ts, puts);
        ASSERT_EQ(answer, Answer::kOk) << ts;
        if (random.chance(8))
            ASSERT_EQ(bench.store->abort({ts}, {}), Answer::kAborted);
        else
            ASSERT_EQ(bench.store->commit({ts}), Answer::kOk);
        for (size_t key = 0; key < kKeys; key++) reader.publish(key, bench.store->get(key_name(key)).slot);
        bench.pass(from_ms(100));
    }
    // The writer may have used the processor alone until now.
    reader.stop = true;
    thread.join();
    for (size_t key = 0; key < kKeys; key++) reader.read(key);
    EXPECT_EQ(reader.wrong, 0u) << "of " << reader.good << " good and " << reader.refused << " refused";
    EXPECT_GE(reader.good, kKeys);
}

constexpr Options kShort{.window = from_ms(300), .window_floor = from_ms(100)};

TEST(KvTornReads, never_occur_in_small_values_in_their_slot) {
    write_and_read(kShort, 100, kRounds);
}

TEST(KvTornReads, never_occur_in_values_of_kilobytes_in_their_slot) {
    write_and_read(kShort, 1000, kRounds);
}

TEST(KvTornReads, never_occur_in_large_values_outside_the_slot) {
    write_and_read(kShort, 9000, kRounds / 4);
}

TEST(KvTornReads, never_occur_in_values_of_slots_without_cells) {
    Options options = kShort;
    options.inline_cells = 0;
    write_and_read(options, 500, kRounds);
}

}  // namespace
}  // namespace wss::kv::store
