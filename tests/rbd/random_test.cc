// SPDX-License-Identifier: Apache-2.0
// Random requests on two queues, and a cluster that holds, refuses and forgets at random, checked with
// block_model.h. A failure names its seed. A seed repeats the random choices, but not the scheduling of the
// threads of the fake and of the client.
//
// WSS_RBD_SEED=n sets the first seed, WSS_RBD_SEEDS=m the number of seeds.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tests/rbd/block_model.h"
#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

constexpr uint64_t kBlock = 4096, kBlocks = 256;
constexpr uint64_t kObjectBytes = 64 << 10, kStripeUnit = 16 << 10;
constexpr uint64_t kTail = 512 << 10;  // bytes at the end that resizes remove and add; no requests go there
constexpr size_t kSlots = 48;
constexpr int kSteps = 3000, kWaysMax = 12;

uint64_t number_in(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class RandomRun : public RbdTest, public testing::WithParamInterface<uint64_t> {
  protected:
    RandomRun()
        : RbdTest({.size = kBlocks * kBlock + kTail,
                   .object = kObjectBytes,
                   .stripe_unit = GetParam() % 2 == 0 ? kObjectBytes : kStripeUnit}) {}

    struct Slot : io::Request {
        RandomRun* run = nullptr;
        bool busy = false;
        uint64_t first = 0, count = 0;
        uint32_t number = 0;
        bool in_doubt = false;  // submitted after a refusal was reported
        uint64_t rebuilt = 0;
        std::vector<std::byte> memory;
    };

    void begin();
    void step();
    void submit();
    void disturb();
    void change_storage();
    void finish();
    void over(Slot& slot);
    void check_read(const Slot& slot);
    void check_image();
    bool is_idle() const {
        return std::none_of(std::begin(slots_), std::end(slots_), [](const Slot& slot) { return slot.busy; });
    }
    bool chance(uint32_t one_in) { return random_.chance(one_in); }

    Random random_{GetParam()};
    BlockModel model_{kBlocks};
    Slot slots_[kSlots];
    std::unique_ptr<Way> ways_[2];
    uint32_t last_number_ = 0;
    // The error with which Ceph refuses changes in this run: missing permission, or no space.
    const int refusal_ = chance(2) ? EPERM : ENOSPC;
    bool refused_ = false;  // EPERM was reported since the last rebuild of the map
    uint64_t rebuilt_ = 0;  // number of rebuilds
    int ways_made_ = 0;
    uint64_t succeeded_ = 0, failed_ = 0;
};

void RandomRun::begin() {
    ceph_.shuffle(GetParam());
    open();
    for (auto& way : ways_) way = make_way();
    for (Slot& slot : slots_) {
        slot.run = this;
        slot.memory.resize(kBlocks * kBlock);
        slot.data = slot.memory.data();
        slot.done = [](io::Request& request) noexcept {
            auto& over = static_cast<Slot&>(request);
            over.run->over(over);
        };
    }
}

void RandomRun::submit() {
    const auto slot = std::find_if(std::begin(slots_), std::end(slots_), [](auto& one) { return !one.busy; });
    if (slot == std::end(slots_)) return;
    slot->first = random_.below(kBlocks);
    slot->count = std::min(1 + (chance(6) ? random_.below(100) : random_.below(6)), kBlocks - slot->first);
    if (!model_.is_free(slot->first, slot->count)) return;
    model_.use(slot->first, slot->count, true);
    constexpr io::Op kOps[] = {io::Op::kRead,  io::Op::kRead,    io::Op::kRead,       io::Op::kWrite,
                               io::Op::kWrite, io::Op::kDiscard, io::Op::kWriteZeroes};
    slot->op = kOps[random_.below(std::size(kOps))];
    slot->number = slot->op == io::Op::kWrite ? ++last_number_ : 0;
    slot->offset = slot->first * kBlock;
    slot->length = slot->count * kBlock;
    for (uint64_t at = 0; at < slot->length; at += sizeof(uint32_t))
        std::memcpy(slot->data + at, &slot->number, sizeof(uint32_t));
    slot->busy = true;
    slot->in_doubt = refused_;
    slot->rebuilt = rebuilt_;
    reactor_.refresh();
    ways_[random_.below(2)]->queue().submit(*slot);
}

void RandomRun::check_read(const Slot& slot) {
    for (uint64_t i = 0; i < slot.count && (i + 1) * kBlock <= slot.done_bytes; ++i) {
        const std::byte* block = slot.data + i * kBlock;
        uint32_t number = 0;
        std::memcpy(&number, block, sizeof number);
        EXPECT_EQ(std::memcmp(block, block + sizeof number, kBlock - sizeof number), 0)
            << "block " << slot.first + i << " is torn";
        const std::string may = model_.text(slot.first + i);
        EXPECT_TRUE(model_.shows(slot.first + i, number))
            << "block " << slot.first + i << " reads as " << number << " but may be only" << may;
    }
}

void RandomRun::over(Slot& slot) {
    slot.busy = false;
    model_.use(slot.first, slot.count, false);
    (slot.error == 0 ? succeeded_ : failed_) += 1;
    if (slot.op == io::Op::kRead) return check_read(slot);
    for (uint64_t i = 0; i < slot.count; ++i)
        if ((i + 1) * kBlock <= slot.done_bytes)
            model_.acknowledged(slot.first + i, slot.number);
        else
            model_.failed(slot.first + i, slot.number);
    // A refusal that preceded a rebuild of the map may be reported after it.
    if (slot.error == EIO && refusal_ == EPERM && slot.rebuilt == rebuilt_) refused_ = true;
    if (slot.error != 0 || !slot.in_doubt || slot.rebuilt != rebuilt_) return;
    EXPECT_TRUE(ceph_.is_map_invalid()) << "acknowledged after a refusal although the header is not marked";
}

// Starts or ends holds, refusals, lost flags and limits at random.
void RandomRun::disturb() {
    switch (random_.below(8)) {
        case 0:
            return ceph_.hold(random_.below(kBlocks) * kBlock, (1 + random_.below(3)) * kObjectBytes);
        case 1:
            return ceph_.hold(Kind::kMark);
        case 2:
            return ceph_.release();
        case 3:
            return ceph_.refuse(Kind::kWrite, chance(2) ? refusal_ : 0);
        case 4:
            return ceph_.refuse(Kind::kMark, refusal_ == EPERM && chance(2) ? EPERM : 0);
        case 5:
            ceph_.forget_flags();
            return ceph_.notify();
        case 6:
            return ceph_.set("rbd_qos_iops_limit", chance(2) ? "2000" : "0");
        default:
            // Not together with EPERM: a call that librbd does not accept also ends with EIO.
            return ceph_.refuse(Kind::kTake, refusal_ != EPERM && chance(2) ? ENOMEM : 0);
    }
}

void RandomRun::change_storage() {
    switch (random_.below(3)) {
        case 0:
            ceph_.release();  // resize() waits for operations on the header
            (void)backend_->resize(kBlocks * kBlock + (chance(2) ? kTail : kTail / 2));
            return;
        case 1:
            return ceph_.resize(kBlocks * kBlock + (chance(2) ? kTail : kTail / 2));
        default:
            ceph_.rebuild_map();
            refused_ = false;
            ++rebuilt_;
    }
}

void RandomRun::step() {
    for (uint64_t i = random_.below(4); i > 0; --i) submit();
    if (chance(20)) disturb();
    if (chance(200)) change_storage();
    if (chance(8)) {
        const std::vector<FakeCeph::HeldCall> held = ceph_.held();
        if (!held.empty()) ceph_.release(held[random_.below(held.size())]);
    }
    if (chance(2)) {
        pass(from_ms(static_cast<int64_t>(random_.below(200))));
    } else if (chance(100)) {
        pause(from_s(5));
    }
    reactor_.step();
    // Replaces a queue, which may have late calls. Its calls live as long as its client.
    std::unique_ptr<Way>& way = ways_[random_.below(2)];
    if (!chance(20) || way->queue().in_flight() > 0 || ways_made_ == kWaysMax) return;
    way = make_way();
    ++ways_made_;
}

void RandomRun::check_image() {
    const std::string bytes = ceph_.read(0, kBlocks * kBlock);
    for (uint64_t i = 0; i < kBlocks; ++i) {
        uint32_t number = 0;
        std::memcpy(&number, bytes.data() + i * kBlock, sizeof number);
        EXPECT_TRUE(model_.may_be(i, number))
            << "block " << i << " is " << number << " but may be only" << model_.text(i);
    }
}

// A run ends with all calls answered, or with a next owner that arrives while calls of this client are late.
void RandomRun::finish() {
    for (const Kind kind : {Kind::kWrite, Kind::kMark, Kind::kTake}) ceph_.refuse(kind, 0);
    ceph_.release();
    const bool abandons = chance(2);
    if (abandons) {
        ceph_.hold(0, kBlocks * kBlock / 2);
        for (int i = 0; i < 20; ++i) submit();
    }
    for (int i = 0; i < 100 && !is_idle(); ++i) pass(from_ms(500));
    ASSERT_TRUE(is_idle()) << "a request did not complete";
    for (auto& way : ways_) way.reset();
    close();
    if (!abandons) {
        ASSERT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; }));
        return check_image();
    }
    auto next = open_other("steal=true");
    ASSERT_TRUE(next) << next.status().to_string();
    check_image();
    const std::string before = ceph_.read(0, kBlocks * kBlock);
    ceph_.release();
    ASSERT_TRUE(ceph_.wait_until_quiet());
    EXPECT_EQ(ceph_.read(0, kBlocks * kBlock), before) << "a late change reached the next owner";
}

TEST_P(RandomRun, allows_only_the_promised_contents) {
    SCOPED_TRACE("WSS_RBD_SEED=" + std::to_string(GetParam()));
    begin();
    for (int i = 0; i < kSteps && !HasFailure(); ++i) step();
    const bool lost = backend_->lost();
    finish();
    EXPECT_FALSE(lost) << "this run must not lose the image";
    EXPECT_GT(succeeded_, 100u);
    EXPECT_GT(failed_, 10u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRun,
                         testing::Range(number_in("WSS_RBD_SEED", 1),
                                        number_in("WSS_RBD_SEED", 1) + number_in("WSS_RBD_SEEDS", 6)));

}  // namespace
}  // namespace wss::test
