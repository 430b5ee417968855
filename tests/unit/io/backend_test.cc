// SPDX-License-Identifier: Apache-2.0
// The rules of every backend (lib/io/backend.h R1-R4), tested on all backends.
#include "lib/io/backend.h"

#include <sys/vfs.h>

#include <algorithm>
#include <cstring>

#include "tests/support/looks.h"
#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

constexpr uint64_t kSize = 8 << 20;

struct Variant {
    const char* name;
    const char* prefix;  // start of the specification; a path is appended unless it is ram
    const char* folder;  // the folder of the file
};

class EachBackend : public testing::TestWithParam<Variant> {
  protected:
    EachBackend() : folder_(GetParam().folder) {}
    std::string specification() const {
        std::string prefix = GetParam().prefix;
        return prefix.ends_with("ram:") ? prefix + "8M" : prefix + folder_.file("disk");
    }
    // An image in a Ceph cluster that tests/native has started. The tests use it one after the other.
    static const char* image() { return std::getenv("WSS_TEST_IMAGE"); }
    bool is_image() const { return GetParam().prefix == std::string_view("rbd:"); }
    void SetUp() override {
        if (is_image() && image() == nullptr) GTEST_SKIP() << "make check-ceph runs it";
    }
    std::unique_ptr<Rig> open() {
        if (!is_image()) return Rig::open(specification(), {.size = kSize, .create = true});
        auto rig = Rig::open(image());
        Status resized = rig->backend->resize(kSize);
        EXPECT_TRUE(resized) << resized.to_string();
        return rig;
    }
    TemporaryFolder folder_;
};

TEST_P(EachBackend, reads_back_written_data_at_any_alignment_of_the_buffer) {
    auto rig = open();
    for (size_t misalignment : {0, 1, 36, 512, 4095}) {
        Buffer out(96 << 10, misalignment), in(96 << 10, misalignment);
        out.fill(misalignment);
        EXPECT_EQ(rig->run(Op::kWrite, 8192, out.size(), out.data()), 0);
        EXPECT_EQ(rig->run(Op::kRead, 8192, in.size(), in.data()), 0);
        EXPECT_EQ(std::memcmp(out.data(), in.data(), out.size()), 0) << "misaligned by " << misalignment;
    }
}

TEST_P(EachBackend, transfers_large_data_of_unaligned_buffers_completely) {
    auto rig = open();
    Buffer out(3 << 20, 7), in(3 << 20, 9);
    out.fill(1);
    TestRequest write(Op::kWrite, 1 << 20, out.size(), out.data());
    EXPECT_EQ(rig->run(write), 0);
    EXPECT_EQ(write.done_bytes, out.size());
    EXPECT_EQ(rig->run(Op::kRead, 1 << 20, in.size(), in.data()), 0);
    EXPECT_EQ(std::memcmp(out.data(), in.data(), out.size()), 0);
}

TEST_P(EachBackend, calls_done_once_and_never_from_submit) {
    auto rig = open();
    Buffer buffer(4096);
    TestRequest good(Op::kRead, 0, 4096, buffer.data()), bad(Op::kRead, kSize, 4096, buffer.data()),
        empty(Op::kRead, 0, 0);
    for (TestRequest* request : {&good, &bad, &empty}) {
        rig->queue->submit(*request);
        EXPECT_EQ(request->calls, 0);
    }
    EXPECT_EQ(rig->queue->in_flight(), 3u);
    rig->drain();
    for (TestRequest* request : {&good, &bad, &empty}) EXPECT_EQ(request->calls, 1);
    EXPECT_EQ(good.error, 0);
    EXPECT_EQ(empty.error, 0);
    EXPECT_EQ(bad.error, EIO);
}

TEST_P(EachBackend, completes_more_requests_than_the_queue_depth) {
    auto rig = open();
    constexpr size_t kRequests = 600;
    Buffer buffer(kRequests * 512);
    buffer.fill(2);
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (size_t i = 0; i < kRequests; ++i) {
        uint64_t offset = i * 4096;
        requests.push_back(std::make_unique<TestRequest>(Op::kWrite, offset, 512, buffer.data() + i * 512));
        rig->queue->submit(*requests.back());
    }
    EXPECT_EQ(rig->queue->in_flight(), kRequests);
    rig->drain();
    for (auto& request : requests) {
        EXPECT_EQ(request->error, 0);
        EXPECT_EQ(request->calls, 1);
    }
    Buffer check(512);
    EXPECT_EQ(rig->run(Op::kRead, (kRequests - 1) * 4096, 512, check.data()), 0);
    EXPECT_EQ(std::memcmp(check.data(), buffer.data() + (kRequests - 1) * 512, 512), 0);
}

TEST_P(EachBackend, refuses_requests_that_are_misaligned_or_beyond_its_end_and_keeps_its_size) {
    auto rig = open();
    Buffer buffer(8192);
    EXPECT_EQ(rig->run(Op::kRead, kSize, 512, buffer.data()), EIO);
    EXPECT_EQ(rig->run(Op::kRead, kSize - 512, 1024, buffer.data()), EIO);
    EXPECT_EQ(rig->run(Op::kWrite, kSize - 512, 1024, buffer.data()), EFBIG);
    EXPECT_EQ(rig->run(Op::kWrite, UINT64_MAX - 511, 1024, buffer.data()), EFBIG)
        << "offset + length overflows";
    EXPECT_EQ(rig->run(Op::kDiscard, kSize, 512), EFBIG);
    EXPECT_EQ(rig->run(Op::kRead, 100, 512, buffer.data()), EINVAL);
    EXPECT_EQ(rig->run(Op::kRead, 0, 100, buffer.data()), EINVAL);
    EXPECT_EQ(rig->backend->limits().size, kSize);
}

TEST_P(EachBackend, returns_zeroes_for_discarded_and_zeroed_ranges_and_keeps_their_neighbours) {
    auto rig = open();
    Buffer out(64 << 10), in(64 << 10);
    out.fill(3);
    ASSERT_EQ(rig->run(Op::kWrite, 0, out.size(), out.data()), 0);
    ASSERT_TRUE(rig->backend->limits().discard);
    EXPECT_EQ(rig->run(Op::kDiscard, 8192, 8192), 0);
    EXPECT_EQ(rig->run(Op::kWriteZeroes, 32768 + 512, 1024), 0);
    std::fill_n(out.data() + 8192, 8192, std::byte{0});
    std::fill_n(out.data() + 32768 + 512, 1024, std::byte{0});
    ASSERT_EQ(rig->run(Op::kRead, 0, in.size(), in.data()), 0);
    EXPECT_EQ(std::memcmp(out.data(), in.data(), in.size()), 0);
}

TEST_P(EachBackend, completes_flushes_and_fua_writes) {
    auto rig = open();
    Buffer out(4096);
    out.fill(4);
    TestRequest write(Op::kWrite, 0, 4096, out.data());
    write.fua = true;
    EXPECT_EQ(rig->run(write), 0);
    EXPECT_EQ(rig->run(Op::kFlush, 0, 0), 0);
    TestRequest zeroes(Op::kWriteZeroes, 0, 4096);
    zeroes.fua = true;
    EXPECT_EQ(rig->run(zeroes), 0);
}

TEST_P(EachBackend, returns_zeroes_where_it_was_truncated_and_has_grown_again) {
    auto rig = open();
    Buffer out(4096), in(4096);
    out.fill(5);
    ASSERT_EQ(rig->run(Op::kWrite, kSize - 4096, 4096, out.data()), 0);
    ASSERT_TRUE(rig->backend->resize(kSize / 2));
    EXPECT_EQ(rig->run(Op::kRead, kSize - 4096, 4096, in.data()), EIO);
    Status grown = rig->backend->resize(kSize + 4096);
    ASSERT_TRUE(grown) << grown.to_string();
    ASSERT_EQ(rig->run(Op::kRead, kSize - 4096, 4096, in.data()), 0);
    EXPECT_TRUE(std::all_of(in.data(), in.data() + 4096, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(rig->run(Op::kWrite, kSize, 4096, out.data()), 0);
}

// Random requests against a model in memory. The requests of one round run concurrently and do not overlap
// (R4).
TEST_P(EachBackend, behaves_like_its_model_under_random_requests) {
    uint64_t seed = Random::entropy();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    auto rig = open();
    std::vector<std::byte> model(kSize);
    Buffer zero(kSize);
    zero.fill(std::byte{0});
    ASSERT_EQ(rig->run(Op::kWrite, 0, kSize, zero.data()), 0);
    constexpr size_t kLanes = 16, kLane = kSize / kLanes;
    for (int round = 0; round < 40; ++round) {
        std::vector<std::unique_ptr<TestRequest>> requests;
        std::vector<std::unique_ptr<Buffer>> buffers;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            uint64_t start = lane * kLane + 512 * random.below(kLane / 512);
            uint64_t length =
                512 * (1 + random.below(std::min<uint64_t>(200, (lane + 1) * kLane - start) / 512 + 1));
            length = std::min(length, (lane + 1) * kLane - start);
            constexpr Op kOps[] = {Op::kRead, Op::kWrite, Op::kWrite, Op::kDiscard, Op::kWriteZeroes};
            Op op = kOps[random.below(5)];
            buffers.push_back(std::make_unique<Buffer>(length, random.chance(2) ? 0 : random.below(4096)));
            buffers.back()->fill(random.next());
            requests.push_back(std::make_unique<TestRequest>(op, start, length, buffers.back()->data()));
            requests.back()->fua = op == Op::kWrite && random.chance(8);
            rig->queue->submit(*requests.back());
        }
        rig->drain();
        for (auto& request : requests) {
            ASSERT_EQ(request->error, 0);
            ASSERT_EQ(request->done_bytes, request->length);
            std::byte* place = model.data() + request->offset;
            if (request->op == Op::kRead)
                ASSERT_EQ(std::memcmp(place, request->data, request->length), 0) << "at " << request->offset;
            else if (request->op == Op::kWrite)
                std::memcpy(place, request->data, request->length);
            else
                std::memset(place, 0, request->length);
        }
    }
    ASSERT_EQ(rig->run(Op::kRead, 0, kSize, zero.data()), 0);
    EXPECT_EQ(std::memcmp(model.data(), zero.data(), kSize), 0);
}

struct StopReactor : TestRequest {
    reactor::Reactor* reactor = nullptr;
};

TEST_P(EachBackend, wakes_a_sleeping_reactor_when_it_completes_a_request) {
    auto rig = open();
    reactor::Reactor& reactor = rig->reactor;
    reactor::Timer bound([](void* context) noexcept { static_cast<reactor::Reactor*>(context)->stop(); },
                         &reactor);
    for (Op op : {Op::kWrite, Op::kFlush, Op::kDiscard}) {
        Buffer buffer(4096);
        StopReactor request;
        request.op = op;
        request.length = op == Op::kFlush ? 0 : 4096;
        request.data = buffer.data();
        request.reactor = &reactor;
        request.done = [](Request& done) noexcept {
            static_cast<StopReactor&>(done).finished = true;
            static_cast<StopReactor&>(done).reactor->stop();
        };
        reactor.set(bound, rig->clock.now() + kPatience);
        rig->queue->submit(request);
        reactor.run();
        reactor.cancel(bound);
        EXPECT_TRUE(request.finished);
        EXPECT_EQ(request.error, 0);
    }
}

TEST_P(EachBackend, lets_its_reactor_sleep_when_it_is_idle_again) {
    auto rig = open();
    Buffer buffer(4096);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(rig->run(Op::kWrite, 0, 4096, buffer.data()), 0);
    ASSERT_EQ(rig->run(Op::kDiscard, 0, 4096), 0);
    reactor::Timer stop([](void* context) noexcept { static_cast<reactor::Reactor*>(context)->stop(); },
                        &rig->reactor);
    rig->reactor.set(stop, rig->clock.now() + from_ms(200));
    wss::test::Looks looks;
    rig->reactor.add(looks);
    rig->reactor.run();
    rig->reactor.remove(looks);
    EXPECT_LT(looks.count, wss::test::kLooksWhenIdle) << "in 200 ms without work";
}

TEST(OpenBackend, reports_that_no_thread_can_be_started) {
    const TemporaryFolder folder;
    pthread_attr_t usual, huge;
    ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
    ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than the address space
    ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
    for (const std::string kind : {"aio:", "uring:", "pool:", "spawn:", "delay:us=1:aio:", ""}) {
        const auto opened = open_backend(kind + folder.file("disk"), {.size = 1 << 20, .create = true});
        ASSERT_FALSE(opened) << kind;
        EXPECT_NE(opened.status().to_string().find("thread"), std::string::npos) << opened.status().text();
    }
    EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
    EXPECT_TRUE(open_backend("aio:" + folder.file("disk"), {}));
}

INSTANTIATE_TEST_SUITE_P(
    All, EachBackend,
    testing::Values(Variant{"ram", "ram:", "/tmp"}, Variant{"aio_direct", "aio:", "/tmp"},
                    Variant{"aio_tmpfs", "aio:", "/dev/shm"}, Variant{"uring_direct", "uring:", "/tmp"},
                    Variant{"uring_tmpfs", "uring:", "/dev/shm"}, Variant{"pool_direct", "pool:4:", "/tmp"},
                    Variant{"pool_tmpfs", "pool:", "/dev/shm"}, Variant{"spawn_direct", "spawn:", "/tmp"},
                    Variant{"rbd", "rbd:", "/tmp"},
                    Variant{"error_filter", "error:after=1000000000:aio:", "/tmp"},
                    Variant{"delay_filter", "delay:us=50:aio:", "/tmp"}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace wss::io::test
