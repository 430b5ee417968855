// SPDX-License-Identifier: Apache-2.0
// Lost connections: requests are repeated or fail, in bounded time, and no data is lost or torn.
#include <unistd.h>

#include <cstdlib>

#include "tests/unit/initiator/bench.h"

namespace wss::initiator::testing {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

Options quick() {
    Options options;
    options.reconnect_timeout = from_ms(300);
    options.reconnect_delay = from_ms(1);
    options.reconnect_delay_max = from_ms(20);
    options.request_timeout = from_s(5);
    return options;
}

struct AfterALoss : ::testing::Test {
    explicit AfterALoss(Options options = quick()) : both(options) {}
    void SetUp() override {
        both.world.add_volume("disk", "ram:16M", 16 * kMiB);
        ASSERT_TRUE(bench.start());
        disk = bench.open("disk");
        ASSERT_NE(disk, nullptr);
    }
    void prepare(Io& io, Operation operation, uint64_t offset, std::span<byte> data) {
        io.operation = operation;
        io.volume = disk;
        io.offset = offset;
        io.vector = {{data.data(), data.size()}};
        io.buffers = io.vector;
        io.length = data.size();
    }
    TargetAndBench both;
    Bench& bench = both.bench;
    Volume* disk = nullptr;
};

// A request never times out, however long a login takes on a slow machine.
struct PatientSession : AfterALoss {
    PatientSession() : AfterALoss(patient()) {}
    static Options patient() {
        Options options = quick();
        options.reconnect_timeout = from_s(600);
        return options;
    }
};

TEST_F(PatientSession, repeats_requests_in_flight_after_the_next_login) {
    // Cuts after n turns, to cover every step of a transfer.
    for (int turns = 0; turns < 40; ++turns) {
        auto data = pattern(3 * kMiB, static_cast<uint64_t>(turns));
        auto small = pattern(4096, static_cast<uint64_t>(turns) + 1000);
        Io large_write, small_write;
        prepare(large_write, Operation::kWrite, 0, data);
        prepare(small_write, Operation::kWrite, 8 * kMiB, small);
        ASSERT_TRUE(bench.session().submit(large_write));
        ASSERT_TRUE(bench.session().submit(small_write));
        for (int i = 0; i < turns; ++i) {
            bench.reactor().step();
            both.world.step();
        }
        bench.network().cut();
        ASSERT_TRUE(bench.until([&] { return large_write.over && small_write.over; })) << turns;
        ASSERT_EQ(large_write.outcome, Outcome::kOk) << describe(large_write);
        ASSERT_EQ(small_write.outcome, Outcome::kOk) << describe(small_write);
        ASSERT_TRUE(bench.until([&] { return bench.session().state() == Session::State::kLive; }));
        ASSERT_EQ(bench.read(*disk, 0, data.size()), data) << turns;
        ASSERT_EQ(bench.read(*disk, 8 * kMiB, small.size()), small) << turns;
    }
    EXPECT_GT(bench.lost, 30u);
}

TEST_F(AfterALoss, requests_fail_while_the_target_is_away_and_succeed_when_it_returns) {
    auto data = pattern(4096, 1);
    Io waiting;
    prepare(waiting, Operation::kWrite, 0, data);
    bench.network().unreachable = true;
    bench.network().cut();
    ASSERT_TRUE(bench.session().submit(waiting));
    ASSERT_TRUE(bench.until([&] { return waiting.over; }));
    EXPECT_EQ(waiting.outcome, Outcome::kConnectionLost);
    // From now on requests are refused at once.
    Io refused;
    prepare(refused, Operation::kWrite, 0, data);
    EXPECT_FALSE(bench.session().submit(refused));
    EXPECT_EQ(refused.outcome, Outcome::kConnectionLost);
    bool opened = false;
    bench.session().open_volume("disk", [&](Result<Volume*> result) { opened = !result.is_ok(); });
    ASSERT_TRUE(bench.until([&] { return opened; })) << "opening fails too";

    bench.network().unreachable = false;
    ASSERT_TRUE(bench.until([&] { return bench.ready == 2; }));
    EXPECT_EQ(bench.write(*disk, 0, data), Outcome::kOk);
}

TEST_F(AfterALoss, attempts_to_reconnect_slow_down) {
    bench.network().unreachable = true;
    bench.network().cut();
    const uint32_t before = bench.network().connects;
    const Nanoseconds start = bench.reactor().clock().now();
    ASSERT_TRUE(bench.until([&] { return bench.network().connects - before >= 15; }));
    // The delays between 15 attempts are 1, 2, 4, 8, 16 and nine times 20 ms. Jitter shortens each by up to a
    // half.
    EXPECT_GE(bench.reactor().clock().now() - start, from_ms((31 + 9 * 20) / 2));
    bench.network().unreachable = false;
    EXPECT_TRUE(bench.until([&] { return bench.ready == 2; }));
}

TEST_F(AfterALoss, a_compare_and_write_on_the_wire_is_not_repeated) {
    auto zeroes = std::vector<byte>(512), data = pattern(512, 1);
    Io io;
    io.operation = Operation::kCompareAndWrite;
    io.volume = disk;
    io.length = 512;
    io.vector = {{zeroes.data(), 512}, {data.data(), 512}};
    io.buffers = io.vector;
    ASSERT_TRUE(bench.session().submit(io));
    bench.reactor().step();  // sends the request
    bench.network().cut();
    ASSERT_TRUE(bench.until([&] { return io.over; }));
    EXPECT_EQ(io.outcome, Outcome::kConnectionLost);
}

TEST_F(AfterALoss, a_new_volume_of_the_same_name_is_not_mistaken_for_the_old_one) {
    auto data = pattern(512, 1);
    // The service continues; the volume is deleted and created again during the outage.
    bench.network().unreachable = true;
    bench.network().cut();
    ASSERT_TRUE(bench.until([&] { return bench.session().state() == Session::State::kWaiting; }));
    Io waiting;
    prepare(waiting, Operation::kWrite, 0, data);
    ASSERT_TRUE(bench.session().submit(waiting));
    bool removed = false;
    both.world.volumes().remove_async("disk", [&](Status) { removed = true; });
    ASSERT_TRUE(bench.until([&] { return removed; }));
    both.world.add_volume("other", "ram:1M", kMiB);
    bench.network().unreachable = false;
    ASSERT_TRUE(bench.until([&] { return bench.ready == 2; }));
    EXPECT_EQ(bench.write(*disk, 0, data), Outcome::kVolumeGone);
    ASSERT_TRUE(waiting.over);
    EXPECT_EQ(waiting.outcome, Outcome::kVolumeGone) << "the request waited for the old volume";
}

TEST_F(AfterALoss, closing_fails_requests_in_flight) {
    std::vector<std::unique_ptr<Io>> ios;
    auto data = pattern(2 * kMiB, 1);
    for (uint64_t i = 0; i < 40; ++i) {
        ios.push_back(std::make_unique<Io>());
        prepare(*ios.back(), Operation::kWrite, 0, data);
        ASSERT_TRUE(bench.session().submit(*ios.back()));
    }
    bench.reactor().step();
    bench.session().close();
    ASSERT_TRUE(bench.until([&] { return bench.closed; }));
    for (auto& io : ios) {
        EXPECT_TRUE(io->over);
        EXPECT_EQ(io->outcome, Outcome::kClosed);
    }
}

struct SeveralChannels : AfterALoss {
    SeveralChannels() : AfterALoss(channels()) {}
    static Options channels() {
        Options options = quick();
        options.channels = 4;
        return options;
    }
};

TEST_F(SeveralChannels, carry_one_session_and_fail_together) {
    EXPECT_EQ(bench.network().connects, 4u);
    std::vector<std::unique_ptr<Io>> ios;
    std::vector<std::vector<byte>> data;
    for (uint64_t i = 0; i < 16; ++i) {
        data.push_back(pattern(kMiB, i));
        ios.push_back(std::make_unique<Io>());
        prepare(*ios.back(), Operation::kWrite, i * kMiB, data.back());
    }
    for (auto& io : ios) ASSERT_TRUE(bench.session().submit(*io));
    for (int i = 0; i < 3; ++i) bench.reactor().step();
    bench.network().cut();
    for (auto& io : ios) {
        ASSERT_TRUE(bench.until([&] { return io->over; }));
        EXPECT_EQ(io->outcome, Outcome::kOk) << describe(*io);
    }
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(bench.read(*disk, i * kMiB, kMiB), data[i]) << i;
}

// A target is restarted, within the same boot of its machine or after a power cycle.
class AfterAReboot : public ::testing::Test {
  protected:
    void SetUp() override {
        char path[] = "/tmp/wss-reboot-XXXXXX";
        int fd = mkstemp(path);
        ASSERT_GE(fd, 0);
        ::close(fd);
        path_ = path;
        start_world(1, 0);
        bench_ = std::make_unique<Bench>(world_->address(), quick());
        bench_->others = [this] {
            if (world_) world_->step();
        };
        ASSERT_TRUE(bench_->start());
        disk_ = bench_->open("disk");
        ASSERT_NE(disk_, nullptr);
        ASSERT_TRUE(disk_->info().write_cache);
    }
    ~AfterAReboot() override { ::unlink(path_.c_str()); }
    void start_world(uint32_t boot_id, uint16_t port) {
        block::testing::WorldOptions options{.service = {.epoch_base = ++epoch_ << 20, .boot_id = boot_id},
                                             .port = port};
        world_ = std::make_unique<block::testing::World>(std::move(options));
        world_->add_volume("disk", "aio:" + path_, kMiB);
    }
    bool restart(uint32_t boot_id) {
        const uint16_t port = world_->address().port;
        const uint32_t ready = bench_->ready;
        bench_->network().cut();
        world_.reset();
        start_world(boot_id, port);
        return bench_->until([&] { return bench_->ready > ready; });
    }
    Outcome write(bool fua = false) { return bench_->write(*disk_, 0, pattern(4096, 1), fua); }
    Outcome flush() { return bench_->simple(*disk_, Operation::kFlush); }

    std::string path_;
    uint64_t epoch_ = 0;
    std::unique_ptr<block::testing::World> world_;
    std::unique_ptr<Bench> bench_;
    Volume* disk_ = nullptr;
};

TEST_F(AfterAReboot, the_first_flush_fails_with_the_reason_if_unflushed_writes_were_lost) {
    ASSERT_EQ(write(), Outcome::kOk);
    ASSERT_TRUE(restart(1));
    EXPECT_EQ(flush(), Outcome::kOk) << "a restart of the process loses no cache";
    ASSERT_TRUE(restart(2));
    EXPECT_EQ(flush(), Outcome::kOk) << "everything was flushed";
    ASSERT_EQ(write(), Outcome::kOk);
    ASSERT_TRUE(restart(3));
    EXPECT_EQ(flush(), Outcome::kWritesLost);
    EXPECT_EQ(flush(), Outcome::kOk) << "reported once";
    ASSERT_EQ(write(true), Outcome::kOk);
    ASSERT_TRUE(restart(4));
    EXPECT_EQ(flush(), Outcome::kOk) << "FUA was stable";
}

class WithFua : public AfterAReboot {
  protected:
    void SetUp() override {
        AfterAReboot::SetUp();
        io_.volume = disk_;
        io_.length = 4096;
        io_.fua = true;
    }
    volume::Totals totals() { return world_->volumes().list().front().totals; }

    Io io_;
};

TEST_F(WithFua, changes_whose_command_has_no_fua_bit_are_flushed) {
    for (const Operation operation : {Operation::kWriteZeroes, Operation::kDiscard}) {
        const uint64_t flushes = totals().flushes;
        io_.operation = operation;
        ASSERT_EQ(bench_->run(io_), Outcome::kOk);
        EXPECT_EQ(totals().flushes, flushes + 1) << to_string(operation);
    }
}

TEST_F(WithFua, a_change_is_repeated_when_the_target_is_lost_before_the_flush) {
    io_.operation = Operation::kWriteZeroes;
    io_.over = false;
    ASSERT_TRUE(bench_->session().submit(io_));
    ASSERT_TRUE(bench_->until([&] { return totals().others == 1; }));
    ASSERT_TRUE(restart(2));
    ASSERT_TRUE(bench_->until([&] { return io_.over; }));
    EXPECT_EQ(io_.outcome, Outcome::kOk);
    EXPECT_EQ(totals().others, 1u) << "of the new target";
    EXPECT_EQ(totals().flushes, 1u);
}

// Nobody listens there: the first connect fails with a reason.
TEST(ConnectError, names_the_address_of_a_refused_connection) {
    Bench bench({.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 1}, quick());
    EXPECT_FALSE(bench.start());
    EXPECT_NE(bench.why.to_string().find("127.0.0.1:1"), std::string::npos) << bench.why.to_string();
    EXPECT_EQ(bench.session().state(), Session::State::kClosed);
}

}  // namespace
}  // namespace wss::initiator::testing
