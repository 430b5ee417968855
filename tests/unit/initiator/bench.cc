// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/initiator/bench.h"

namespace wss::initiator::testing {

Bench::Bench(const fabric::Address& target, Options options) {
    fabric_ = *std::move(fabric::open(target));
    auto poller = fabric_->create_poller();
    EXPECT_TRUE(poller.is_ok()) << poller.status().to_string();
    poller_ = std::make_unique<CuttablePoller>(*std::move(poller));
    reactor_.add(*poller_);
    options.address = target;
    auto session = Session::create(reactor_, *fabric_, *poller_, random_, options, *this);
    EXPECT_TRUE(session.is_ok()) << session.status().to_string();
    session_ = *std::move(session);
}

Bench::~Bench() {
    session_->close();
    EXPECT_TRUE(until([&] { return session_->state() == Session::State::kClosed; })) << "close() must end";
    EXPECT_EQ(session_->active(), 0u);
    EXPECT_EQ(session_->memory().bounce().in_use(), 0u) << "every bounce buffer is returned";
    session_.reset();
    reactor_.remove(*poller_);
}

bool Bench::until(const std::function<bool()>& done) {
    SystemClock clock;  // clock_ may stand still
    const Nanoseconds limit = clock.now() + from_s(10);
    while (!done()) {
        if (clock.now() > limit) return false;
        reactor_.step();
        others();
    }
    return true;
}

bool Bench::start() {
    session_->start();
    EXPECT_TRUE(until([&] { return ready > 0 || failed; }));
    return ready > 0;
}

Volume* Bench::open(const std::string& name) {
    Volume* opened = nullptr;
    bool over = false;
    session_->open_volume(name, [&](Result<Volume*> result) {
        if (result) opened = *result;
        if (!result) why = result.status();
        over = true;
    });
    EXPECT_TRUE(until([&] { return over; }));
    return opened;
}

Outcome Bench::run(Io& io) {
    io.over = false;
    if (session_->submit(io)) {
        EXPECT_TRUE(until([&] { return io.over; })) << to_string(io.operation);
    }
    return io.outcome;
}

Outcome Bench::write(Volume& volume, uint64_t offset, std::span<const byte> data, bool fua) {
    iovec buffer{const_cast<byte*>(data.data()), data.size()};
    Io io;
    io.operation = Operation::kWrite;
    io.volume = &volume;
    io.offset = offset;
    io.length = data.size();
    io.fua = fua;
    io.buffers = {&buffer, 1};
    return run(io);
}

std::vector<byte> Bench::read(Volume& volume, uint64_t offset, size_t length) {
    std::vector<byte> data(length, byte{0xee});
    iovec buffer{data.data(), data.size()};
    Io io;
    io.operation = Operation::kRead;
    io.volume = &volume;
    io.offset = offset;
    io.length = length;
    io.buffers = {&buffer, 1};
    EXPECT_EQ(run(io), Outcome::kOk) << describe(io);
    return data;
}

Outcome Bench::simple(Volume& volume, Operation operation, uint64_t offset, uint64_t length) {
    Io io;
    io.operation = operation;
    io.volume = &volume;
    io.offset = offset;
    io.length = length;
    return run(io);
}

std::vector<byte> pattern(size_t bytes, uint64_t seed) {
    std::vector<byte> data(bytes);
    block::testing::fill(data.data(), bytes, seed);
    return data;
}

}  // namespace wss::initiator::testing
