// SPDX-License-Identifier: Apache-2.0
// Many random requests in flight, against a model in memory: reads return the last written data, whatever
// path the data took, even when connections are cut.
#include <map>

#include "tests/unit/initiator/bench.h"

namespace wss::initiator::testing {
namespace {

constexpr uint64_t kSize = 8 * 1024 * 1024;
constexpr uint32_t kBlock = 512;

struct Setting {
    const char* name;
    uint32_t channels;
    uint32_t queue_depth;
    uint32_t immediate_max;
    uint32_t pin_at_least;
    bool cuts;
};

class RandomOperations : public ::testing::TestWithParam<Setting> {
  protected:
    static Options options() {
        Options options;
        options.channels = GetParam().channels;
        options.queue_depth = GetParam().queue_depth;
        options.immediate_max = GetParam().immediate_max;
        options.pin_at_least = GetParam().pin_at_least;
        options.reconnect_delay = from_ms(1);
        return options;
    }

    struct Slot : Io {
        bool checked = true;  // false: no other request may use its range
    };

    // Requests in flight do not overlap: their order would be undefined.
    bool overlaps(uint64_t offset, uint64_t length) const {
        for (const auto& slot : slots_)
            if (!slot->checked && offset < slot->offset + slot->length && slot->offset < offset + length)
                return true;
        return false;
    }

    void start(Slot& slot) {
        uint64_t blocks = random_.chance(4) ? random_.below(4096) + 1 : random_.below(64) + 1;
        uint64_t offset = random_.below(kSize / kBlock - blocks + 1) * kBlock;
        if (overlaps(offset, blocks * kBlock)) return;
        slot.over = slot.checked = false;
        slot.volume = disk_;
        slot.offset = offset;
        slot.length = blocks * kBlock;
        constexpr Operation kKinds[] = {Operation::kRead, Operation::kRead, Operation::kWrite,
                                        Operation::kWrite, Operation::kWriteZeroes};
        slot.operation = kKinds[random_.below(std::size(kKinds))];
        slot.fua = random_.chance(4);
        slot.data.resize(slot.length);
        if (slot.operation == Operation::kWrite) {
            block::testing::fill(slot.data.data(), slot.length, random_.next());
            std::copy(slot.data.begin(), slot.data.end(), model_.begin() + static_cast<ptrdiff_t>(offset));
        }
        if (slot.operation == Operation::kWriteZeroes)
            std::fill_n(model_.begin() + static_cast<ptrdiff_t>(offset), slot.length, byte{});
        scatter(slot);
        ASSERT_TRUE(bench_->session().submit(slot)) << describe(slot);
        ++started_;
    }

    // Splits the buffer into up to 20 segments, which may be more than a command can describe.
    void scatter(Slot& slot) {
        slot.vector.clear();
        uint64_t at = 0, segments = random_.below(20) + 1;
        while (at < slot.length) {
            uint64_t segment = segments-- <= 1 ? slot.length - at : random_.below(slot.length - at) + 1;
            slot.vector.push_back({slot.data.data() + at, segment});
            at += segment;
        }
        slot.buffers = slot.vector;
    }

    void check(Slot& slot) {
        slot.checked = true;
        ASSERT_EQ(slot.outcome, Outcome::kOk) << describe(slot);
        if (slot.operation != Operation::kRead) return;
        bool same = std::equal(slot.data.begin(), slot.data.end(),
                               model_.begin() + static_cast<ptrdiff_t>(slot.offset));
        ASSERT_TRUE(same) << describe(slot);
    }

    Random random_{20261121};
    std::unique_ptr<TargetAndBench> both_;
    Bench* bench_ = nullptr;
    Volume* disk_ = nullptr;
    std::vector<byte> model_ = std::vector<byte>(kSize);
    std::vector<std::unique_ptr<Slot>> slots_;
    uint64_t started_ = 0;
};

TEST_P(RandomOperations, read_the_last_written_data) {
    both_ = std::make_unique<TargetAndBench>(options(), 1);
    bench_ = &both_->bench;
    both_->world.add_volume("disk", "ram:8M", kSize);
    ASSERT_TRUE(bench_->start());
    disk_ = bench_->open("disk");
    ASSERT_NE(disk_, nullptr);
    for (int i = 0; i < 64; ++i) {
        slots_.push_back(std::make_unique<Slot>());
        slots_.back()->over = true;
    }
    const uint64_t total = 2500;
    auto idle = [&] {
        return std::all_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->over; });
    };
    uint64_t cut_at = 200;
    while (started_ < total) {
        Slot& slot = *slots_[random_.below(slots_.size())];
        if (!slot.checked) {
            ASSERT_TRUE(bench_->until([&] { return slot.over; }));
            check(slot);
            if (HasFatalFailure()) return;
        }
        start(slot);
        if (!GetParam().cuts || started_ < cut_at || bench_->session().state() != Session::State::kLive)
            continue;
        cut_at = started_ + 200;
        bench_->network().cut();
    }
    ASSERT_TRUE(bench_->until(idle));
    for (auto& slot : slots_)
        if (!slot->checked) check(*slot);
    for (uint64_t at = 0; at < kSize; at += kSize / 4) {
        auto data = bench_->read(*disk_, at, kSize / 4);
        ASSERT_TRUE(std::equal(data.begin(), data.end(), model_.begin() + static_cast<ptrdiff_t>(at))) << at;
    }
    if (GetParam().cuts) {
        EXPECT_GT(bench_->lost, 5u);
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, RandomOperations,
                         ::testing::Values(Setting{"defaults", 1, 128, 16384, 0, false},
                                           Setting{"one_command", 1, 1, 16384, 0, false},
                                           Setting{"no_immediate", 1, 128, 0, 0, false},
                                           Setting{"pinned", 1, 128, 4096, 1, false},
                                           Setting{"channels", 3, 16, 16384, 65536, false},
                                           Setting{"cuts", 1, 128, 16384, 0, true},
                                           Setting{"cuts_pinned_channels", 2, 32, 16384, 1, true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace wss::initiator::testing
