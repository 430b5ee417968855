// SPDX-License-Identifier: Apache-2.0
#include "tests/rbd/rig.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

namespace wss::test {

namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // exceeded only on an error
constexpr Nanoseconds kTurn = from_ms(100);

std::string specification(const std::string& options) {
    std::string text = "rbd/disk?" + options;
    for (const std::string limit : {"osd_timeout=2", "mon_timeout=2", "close_timeout=1", "open_timeout=30"})
        if (text.find(limit.substr(0, limit.find('='))) == std::string::npos)
            text += (text.back() == '?' ? "" : "&") + limit;
    return text;
}

}  // namespace

bool wait_for(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
}

Io::Io(io::Op what, uint64_t from, uint64_t length_wanted, char fill) {
    op = what;
    offset = from;
    length = length_wanted;
    if (what == io::Op::kRead || what == io::Op::kWrite) bytes.assign(length, static_cast<std::byte>(fill));
    data = bytes.data();
    done = [](io::Request& request) noexcept { static_cast<Io&>(request).is_done = true; };
}

Way::Way(io::Backend& backend, reactor::Reactor& reactor) : reactor_(reactor) {
    auto opened = backend.open_queue(reactor);
    EXPECT_TRUE(opened) << opened.status().to_string();
    queue_ = std::move(*opened);
    reactor_.add(*queue_);
}

Way::~Way() {
    reactor_.remove(*queue_);
}

Io& Way::submit(io::Op op, uint64_t offset, uint64_t length, char fill) {
    Io& request = *requests_.emplace_back(std::make_unique<Io>(op, offset, length, fill));
    reactor_.refresh();
    queue_->submit(request);
    return request;
}

uint64_t Way::done() const {
    return static_cast<uint64_t>(
        std::count_if(requests_.begin(), requests_.end(), [](const auto& one) { return one->is_done; }));
}

RbdTest::RbdTest(const FakeCeph::Layout& layout) : ceph_(layout) {}

RbdTest::~RbdTest() {
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind)
        ceph_.refuse(static_cast<Kind>(kind), 0);
    ceph_.release();
    if (way_ != nullptr) {
        EXPECT_TRUE(turn_until([this] { return way_->queue().in_flight() == 0; })) << "a request hangs";
        close();
    }
    backend_.reset();
    EXPECT_TRUE(wait_for([] { return io::rbd::Client::alive() == 0; })) << "a client did not end";
    EXPECT_TRUE(ceph_.wait_until_quiet());
}

void RbdTest::open(const std::string& options) {
    auto opened = io::rbd::RbdBackend::open(
        specification(options),
        {.read_only = read_only_, .block = block_, .owner = "test", .keeps_taken = keeps_taken_});
    if (!opened) throw std::runtime_error(opened.status().to_string());
    backend_ = std::move(*opened);
    client_ = ceph_.lock_owner();
    way_ = std::make_unique<Way>(*backend_, reactor_);
}

Result<std::unique_ptr<io::Backend>> RbdTest::open_other(const std::string& options) {
    return io::rbd::RbdBackend::open(specification(options),
                                     {.owner = "other", .given_up = given_up_, .keeps_taken = keeps_taken_});
}

Result<std::unique_ptr<io::Backend>> RbdTest::open_and_grow(const std::string& options) {
    return io::rbd::RbdBackend::open(specification(options),
                                     {.size = ceph_.size() + kObject, .block = block_, .owner = "other"});
}

Result<std::unique_ptr<io::Backend>> RbdTest::open_larger(bool keeps) {
    return io::rbd::RbdBackend::open(
        specification({}),
        {.size = ceph_.size() + kObject, .grow = false, .owner = "other", .keeps_taken = keeps});
}

Status RbdTest::check(const std::string& options) {
    return io::rbd::RbdBackend::check(specification(options), {.owner = "test", .keeps_taken = keeps_taken_});
}

void RbdTest::pass(Nanoseconds time) {
    for (Nanoseconds left = time; left > Nanoseconds{}; left = left - kTurn) {
        settle();
        clock_.pass(std::min(left, kTurn));
        reactor_.step();
    }
    settle();
}

bool RbdTest::turn_until(const std::function<bool()>& condition) {
    return wait_for([&] {
        reactor_.step();
        return condition();
    });
}

bool RbdTest::wait_with_late_answers(Nanoseconds age, const std::function<bool()>& condition) {
    std::map<uint64_t, Nanoseconds> begun;  // by the ids of held calls
    SystemClock clock;
    return wait_for([&] {
        for (const FakeCeph::HeldCall& one : ceph_.held())
            if (clock.now() - begun.try_emplace(one.id, clock.now()).first->second >= age) ceph_.release(one);
        return condition();
    });
}

// Reads the held calls once per check, because they change at any time.
FakeCeph::HeldCall RbdTest::wait_for_held(uint64_t other_than) {
    FakeCeph::HeldCall found;
    EXPECT_TRUE(wait_for([&] {
        const std::vector<FakeCeph::HeldCall> held = ceph_.held();
        if (held.size() != 1 || held[0].id == other_than) return false;
        found = held[0];
        return true;
    }));
    return found;
}

void RbdTest::settle() {
    do {
        EXPECT_TRUE(ceph_.wait_until_quiet());
    } while (reactor_.step() > 0);
}

}  // namespace wss::test
