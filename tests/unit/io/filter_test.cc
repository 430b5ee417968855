// SPDX-License-Identifier: Apache-2.0
// The filters fail exactly the requests that their options select.
#include "lib/io/filter/filter.h"

#include <cstring>

#include "lib/io/ram/ram.h"
#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

TEST(Filter, fails_every_nth_request_of_the_kind_with_the_given_errno) {
    auto rig = Rig::open("error:every=3,errno=ENOSPC,op=write:ram:1M");
    Buffer buffer(4096);
    std::vector<int> errors;
    for (int i = 0; i < 6; ++i) {
        errors.push_back(rig->run(Op::kWrite, 0, 4096, buffer.data()));
        EXPECT_EQ(rig->run(Op::kRead, 0, 4096, buffer.data()), 0);
    }
    EXPECT_EQ(errors, (std::vector<int>{0, 0, ENOSPC, 0, 0, ENOSPC}));
}

TEST(Filter, fails_requests_at_the_first_byte_of_a_bad_range_and_completes_the_part_before_it) {
    auto rig = Rig::open("error:from=64K,to=68K:ram:1M");
    Buffer buffer(128 << 10);
    buffer.fill(1);
    TestRequest across(Op::kWrite, 32 << 10, 64 << 10, buffer.data());
    EXPECT_EQ(rig->run(across), EIO);
    EXPECT_EQ(across.done_bytes, uint64_t{32 << 10});
    EXPECT_EQ(across.calls, 1);
    Buffer in(32 << 10);
    EXPECT_EQ(rig->run(Op::kRead, 32 << 10, 32 << 10, in.data()), 0);
    EXPECT_EQ(std::memcmp(in.data(), buffer.data(), in.size()), 0);
    TestRequest inside(Op::kRead, 64 << 10, 4096, in.data());
    EXPECT_EQ(rig->run(inside), EIO);
    EXPECT_EQ(inside.done_bytes, 0u);
    EXPECT_EQ(rig->run(Op::kRead, 68 << 10, 4096, in.data()), 0);
}

TEST(Filter, with_an_invalid_rule_or_without_storage_or_on_too_many_others_is_refused) {
    for (const char* rule : {"every", "every=x", "colour=red", "errno=EFOO", "op=sing", "from=2M,to=1M"}) {
        auto parsed = parse_filter_rule(rule);
        EXPECT_FALSE(parsed) << rule;
    }
    EXPECT_FALSE(open_backend("error:every=3", {}));
    EXPECT_FALSE(
        open_backend("error:every=1:error:every=1:error:every=1:error:every=1:error:every=1:ram:1M", {}));
}

class ManualClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return time; }
    Nanoseconds time{0};
};

TEST(Filter, completes_a_delayed_request_after_its_delay_and_not_before) {
    ManualClock clock;
    reactor::Reactor reactor(clock);
    auto backend = open_backend("delay:us=500,op=read:ram:1M", {});
    ASSERT_TRUE(backend);
    auto queue = (*backend)->open_queue(reactor);
    ASSERT_TRUE(queue);
    reactor.add(**queue);
    Buffer buffer(4096);
    TestRequest read(Op::kRead, 0, 4096, buffer.data()), write(Op::kWrite, 0, 4096, buffer.data());
    (*queue)->submit(read);
    (*queue)->submit(write);
    reactor.step();
    EXPECT_TRUE(write.finished);
    clock.time = from_us(499);
    reactor.step();
    reactor.step();
    EXPECT_FALSE(read.finished);
    EXPECT_EQ((*queue)->in_flight(), 1u);
    clock.time = from_us(500);
    reactor.step();
    reactor.step();
    EXPECT_TRUE(read.finished);
    reactor.remove(**queue);
}

TEST(Filter, delays_only_the_first_requests_of_a_range) {
    ManualClock clock;
    reactor::Reactor reactor(clock);
    auto backend = open_backend("delay:us=500,op=write,first=1,from=64K,to=128K:ram:1M", {});
    ASSERT_TRUE(backend);
    auto queue = (*backend)->open_queue(reactor);
    ASSERT_TRUE(queue);
    reactor.add(**queue);
    Buffer buffer(4096);
    TestRequest outside(Op::kWrite, 0, 4096, buffer.data());
    TestRequest first(Op::kWrite, 64 << 10, 4096, buffer.data());
    TestRequest second(Op::kWrite, 64 << 10, 4096, buffer.data());
    for (TestRequest* request : {&outside, &first, &second}) (*queue)->submit(*request);
    reactor.step();
    EXPECT_TRUE(outside.finished);
    EXPECT_TRUE(second.finished);
    EXPECT_FALSE(first.finished);
    clock.time = from_us(500);
    reactor.step();
    reactor.step();
    EXPECT_TRUE(first.finished);
    reactor.remove(**queue);
}

TEST(Ram, exposes_its_memory_whose_address_stays_the_same_when_it_grows) {
    auto rig = Rig::open("ram:1M");
    std::span<std::byte> memory = rig->backend->memory();
    ASSERT_EQ(memory.size(), size_t{1 << 20});
    memory[4096] = std::byte{42};
    Buffer in(512);
    ASSERT_EQ(rig->run(Op::kRead, 4096, 512, in.data()), 0);
    EXPECT_EQ(in.data()[0], std::byte{42});
    ASSERT_TRUE(rig->backend->resize(64 << 20));
    EXPECT_EQ(rig->backend->memory().data(), memory.data());
    EXPECT_EQ(rig->backend->memory().size(), size_t{64 << 20});
    EXPECT_EQ(memory[4096], std::byte{42});
    EXPECT_TRUE(Rig::open("error:every=1000:ram:1M")->backend->memory().empty())
        << "a filter must see all I/O";
}

}  // namespace
}  // namespace wss::io::test
