// SPDX-License-Identifier: Apache-2.0
// The end of a connection touches only the replies that are owed to it. Each owed reply is on a page of its
// own, and touched pages are counted.
#include "lib/kv/service/peer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "lib/fabric/open.h"

namespace wss::kv {
namespace {

// Pages that are protected by close() and count how many of them are touched after that.
class CountedPages {
  public:
    static constexpr size_t kPages = 8192;
    static CountedPages& instance() {
        static CountedPages pages;
        return pages;
    }
    void* take() { return memory_ + page_bytes_ * used_++; }
    void close() {
        touched_ = 0;
        ASSERT_EQ(mprotect(memory_, page_bytes_ * used_, PROT_NONE), 0);
    }
    void open() { ASSERT_EQ(mprotect(memory_, page_bytes_ * kPages, PROT_READ | PROT_WRITE), 0); }
    size_t touched() const { return static_cast<size_t>(touched_); }

  private:
    CountedPages() : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        void* memory =
            mmap(nullptr, page_bytes_ * kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory_ = static_cast<std::byte*>(memory);
        struct sigaction action {};
        action.sa_sigaction = &CountedPages::on_fault;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &former_);
    }
    static void on_fault(int, siginfo_t* info, void*) {
        CountedPages& pages = instance();
        auto* at = static_cast<std::byte*>(info->si_addr);
        if (at < pages.memory_ || at >= pages.memory_ + pages.page_bytes_ * kPages) {
            sigaction(SIGSEGV, &pages.former_, nullptr);  // another fault: it recurs and is reported
            return;
        }
        pages.touched_ = pages.touched_ + 1;
        const size_t page = static_cast<size_t>(at - pages.memory_) / pages.page_bytes_;
        mprotect(pages.memory_ + page * pages.page_bytes_, pages.page_bytes_, PROT_READ | PROT_WRITE);
    }

    const size_t page_bytes_;
    std::byte* memory_ = nullptr;
    size_t used_ = 0;
    volatile sig_atomic_t touched_ = 0;
    struct sigaction former_ {};
};

struct CountedReply : Owed {
    size_t at = 0;
    static void* operator new(size_t) { return CountedPages::instance().take(); }
    static void operator delete(void*) {}
};

struct EndOfAConnection : testing::Test, PeerHandler {
    static constexpr size_t kOthers = 1000;
    SystemClock clock;
    reactor::Reactor reactor{clock};
    std::unique_ptr<fabric::Fabric> fabric =
        std::move(*fabric::open(*fabric::Address::parse("shm:///tmp/wss-kv-peer-test", 0)));
    std::unique_ptr<Lane> lane = std::move(*Lane::create(reactor, *fabric));
    Peer others{*lane, 0, *this};
    std::unique_ptr<Peer> peer = std::make_unique<Peer>(*lane, 0, *this);
    OwedPool<CountedReply> pool;
    std::array<CountedReply*, 2> mine{};

    void message_arrived(Peer&, wire::Bytes) noexcept override {}
    void peer_gone(Peer&) noexcept override {}
    void SetUp() override {
        for (size_t i = 0; i < kOthers; ++i) {
            if (i == kOthers / 2) owe_mine(0);
            pool.take().owe(others, {});
        }
        owe_mine(1);
        CountedPages::instance().close();
    }
    void TearDown() override {
        CountedPages::instance().open();
        pool.clear([](CountedReply&) {});
    }
    void owe_mine(size_t which) {
        mine[which] = &pool.take();
        mine[which]->owe(*peer, {});
    }
};

TEST_F(EndOfAConnection, touches_only_its_own_replies) {
    peer.reset();
    EXPECT_EQ(CountedPages::instance().touched(), 2u);
    EXPECT_EQ(mine[0]->peer(), nullptr);
    EXPECT_EQ(mine[1]->peer(), nullptr);
}

TEST_F(EndOfAConnection, needs_no_search_for_replies_that_are_returned_later) {
    peer.reset();
    pool.give(*mine[0]);  // the pool moves its last reply, mine[1], to the place of mine[0]
    EXPECT_EQ(CountedPages::instance().touched(), 2u);
    pool.give(*mine[1]);
    EXPECT_LE(CountedPages::instance().touched(), 3u);
}

TEST_F(EndOfAConnection, that_walked_all_replies_would_be_detected) {
    pool.clear([](CountedReply&) {});
    EXPECT_EQ(CountedPages::instance().touched(), kOthers + 2);
}

}  // namespace
}  // namespace wss::kv
