// SPDX-License-Identifier: Apache-2.0
// Properties of the shm fabric alone: rings shared with an untrusted peer, seals, socket files, READs of
// allocated memory that need no action of the peer, and page faults of the peer that do not block this
// process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/grants.h"
#include "lib/fabric/shm/ring.h"
#include "lib/fabric/shm/shm.h"
#include "lib/fabric/shm/socket.h"

namespace wss::fabric::shm {
namespace {

// Both ends of the rings of one connection, as two mappings of the same memfd.
struct RingPair {
    RingPair() {
        SharedMemory memory = std::move(*make_shared("test", sizeof(Area), false));
        Mapping other = std::move(*map_shared(memory.fd.get(), sizeof(Area), true));
        area = reinterpret_cast<Area*>(memory.mapping.data());
        ends[0].attach(std::move(memory.mapping), 0);
        ends[1].attach(std::move(other), 1);
    }
    Area* area;
    Rings ends[2];
};

ssize_t put(Rings& rings, std::span<const std::byte> bytes) {
    iovec vec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    return rings.write({&vec, 1});
}
ssize_t take(Rings& rings, std::span<std::byte> bytes) {
    iovec vec{.iov_base = bytes.data(), .iov_len = bytes.size()};
    return rings.read({&vec, 1});
}

TEST(ShmRing, accepts_no_bytes_when_it_is_full_and_returns_none_when_it_is_empty) {
    RingPair pair;
    std::vector<std::byte> bytes(kRingBytes + 10);
    EXPECT_EQ(take(pair.ends[1], bytes), -EAGAIN);
    EXPECT_EQ(put(pair.ends[0], bytes), static_cast<ssize_t>(kRingBytes));
    EXPECT_EQ(put(pair.ends[0], bytes), -EAGAIN);
    EXPECT_FALSE(pair.ends[0].has_space());
    EXPECT_EQ(take(pair.ends[1], std::span(bytes).first(5)), 5);
    EXPECT_TRUE(pair.ends[0].has_space());
    EXPECT_EQ(put(pair.ends[0], bytes), 5);
}

TEST(ShmRing, detects_impossible_positions) {
    RingPair pair;
    std::array<std::byte, 16> bytes{};
    pair.area->directions[0].head.value.store(kRingBytes + 1);
    EXPECT_EQ(take(pair.ends[1], bytes), -EPROTO);
    pair.area->directions[0].head.value.store(UINT64_MAX);
    EXPECT_EQ(take(pair.ends[1], bytes), -EPROTO);
    pair.area->directions[1].tail.value.store(1);
    EXPECT_EQ(put(pair.ends[1], bytes), -EPROTO) << "more taken than was put";
}

TEST(ShmRing, lets_two_threads_exchange_a_stream_and_miss_no_wake_up) {
    RingPair pair;
    constexpr uint64_t kTotal = 20u << 20;
    std::atomic<int> wakings[2]{};  // replaces the socket of a connection
    auto rest = [&](int side) {
        if (!pair.ends[side].sleep()) return;
        while (wakings[side].load() == 0) std::this_thread::yield();
        wakings[side].store(0);
        pair.ends[side].awake();
    };
    auto wake = [&](int side) {
        if (pair.ends[1 - side].peer_needs_waking()) wakings[side].fetch_add(1);
    };
    std::thread producer([&] {
        Random random(1);
        uint64_t sent = 0;
        std::vector<std::byte> bytes(5000);
        while (sent < kTotal) {
            size_t length = std::min<uint64_t>(1 + random.below(bytes.size()), kTotal - sent);
            for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>((sent + i) * 31 >> 3);
            size_t done = 0;
            while (done < length) {
                ssize_t put_now = put(pair.ends[0], std::span(bytes).subspan(done, length - done));
                wake(1);
                if (put_now > 0)
                    done += static_cast<size_t>(put_now);
                else
                    rest(0);
            }
            sent += length;
        }
    });
    Random random(2);
    uint64_t received = 0;
    uint64_t wrong = 0;
    std::vector<std::byte> bytes(7000);
    while (received < kTotal) {
        ssize_t got = take(pair.ends[1], std::span(bytes).first(1 + random.below(bytes.size())));
        wake(0);
        if (got <= 0) {
            rest(1);
            continue;
        }
        for (ssize_t i = 0; i < got; ++i)
            wrong += bytes[i] != static_cast<std::byte>((received + i) * 31 >> 3);
        received += static_cast<uint64_t>(got);
    }
    producer.join();
    EXPECT_EQ(wrong, 0u);
}

TEST(ShmMemory, that_is_read_only_cannot_be_mapped_for_writing_or_written_by_its_recipient) {
    SharedMemory memory = std::move(*make_shared("test", 4096, true));
    memory.mapping.data()[0] = std::byte{7};
    EXPECT_FALSE(map_shared(memory.fd.get(), 4096, true));
    EXPECT_LT(pwrite(memory.fd.get(), "x", 1, 0), 0);
    Mapping mapping = std::move(*map_shared(memory.fd.get(), 4096, false));
    EXPECT_EQ(mapping.data()[0], std::byte{7});
    EXPECT_NE(mprotect(mapping.data(), 4096, PROT_READ | PROT_WRITE), 0);
    EXPECT_NE(ftruncate(memory.fd.get(), 0), 0) << "a truncation would cause faults";
}

TEST(ShmMemory, of_a_descriptor_that_could_cause_a_fault_is_refused) {
    Descriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
    EXPECT_FALSE(map_shared(unsealed.get(), 8192, false)) << "may be shrunk while mapped";
    SharedMemory small = std::move(*make_shared("test", 4096, false));
    EXPECT_FALSE(map_shared(small.fd.get(), 8192, false)) << "smaller than claimed";
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_FALSE(map_shared(ends[0], 4096, false)) << "not memory";
    close(ends[0]);
    close(ends[1]);
}

TEST(ShmMemory, in_huge_pages_of_a_peer_is_refused) {
    Descriptor huge(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
    if (!huge || ftruncate(huge.get(), 2 << 20) != 0 || fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        GTEST_SKIP() << "this kernel has no huge pages";
    EXPECT_EQ(map_shared(huge.get(), 4096, false).status().code(), Code::kInvalid);
}

TEST(ShmDomain, reuses_a_slot_with_another_generation_and_loses_none) {
    auto domain = std::move(*Domain::create());
    Validity first = domain->take_slot();
    domain->invalidate(first);
    Validity again = domain->take_slot();
    EXPECT_EQ(again.slot, first.slot);
    EXPECT_NE(again.generation, first.generation);
    std::set<uint32_t> slots{again.slot};
    for (Validity each = domain->take_slot(); each.slot != kNoSlot; each = domain->take_slot())
        EXPECT_TRUE(slots.insert(each.slot).second);
    EXPECT_EQ(slots.size(), kSlots);
}

std::string fresh_path(const char* name) {
    return fmt::format("/tmp/wss-shm-test-{}-{}.sock", getpid(), name);
}

TEST(ShmSocket, has_a_file_that_only_its_owner_can_access_and_replaces_a_stale_one) {
    std::string path = fresh_path("stale");
    Result<UnixListener> first = listen_at(path);
    ASSERT_TRUE(first) << first.status().to_string();
    struct stat status {};
    ASSERT_EQ(lstat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_EQ(listen_at(path).status().code(), Code::kBusy) << "a live listener keeps its file";
    first->reset();
    EXPECT_TRUE(listen_at(path)) << "the file of a dead listener is replaced";
    unlink(path.c_str());
}

TEST(ShmSocket, leaves_a_file_that_is_not_a_socket_alone) {
    std::string path = fresh_path("file");
    close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(listen_at(path).status().code(), Code::kExists);
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    unlink(path.c_str());
    EXPECT_EQ(listen_at("/" + std::string(200, 'x')).status().code(), Code::kInvalid);
}

TEST(ShmSocket, refuses_descriptors_beyond_the_limit_and_leaks_none) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    Descriptor here(ends[0]), there(ends[1]);
    int probe = dup(0);
    close(probe);
    std::array<std::byte, 8> bytes{};
    std::array<int, kDescriptorsMax> fds;
    fds.fill(here.get());
    ASSERT_EQ(send(here.get(), bytes, fds), 0);
    {
        Message message = receive(there.get(), std::span(bytes).first(4));
        EXPECT_EQ(message.bytes, -EMSGSIZE) << "longer than requested";
    }
    int after = dup(0);
    close(after);
    EXPECT_EQ(after, probe) << "descriptors were closed";
}

TEST(ShmGrants, of_impossible_regions_are_refused) {
    SharedMemory validity = std::move(*make_shared("test", kValidityBytes, true));
    Grants grants;
    grants.attach(std::move(validity.mapping));
    GrantMessage good{.rkey = 1,
                      .kind = GrantKind::kMapped,
                      .access = Access::kRemoteRead,
                      .validity = {.slot = 1, .generation = 1},
                      .address = 4096,
                      .length = 4096};
    EXPECT_TRUE(grants.take(good, std::move(make_shared("test", 4096, true)->fd)));
    EXPECT_TRUE(grants.is_mapped(1));
    GrantMessage bad = good;
    bad.kind = static_cast<GrantKind>(3);
    EXPECT_FALSE(grants.take(bad, {}));
    bad = good;
    bad.validity.slot = kSlots;
    EXPECT_FALSE(grants.take(bad, {}));
    bad = good;
    bad.address = UINT64_MAX - 100;
    EXPECT_FALSE(grants.take(bad, {}));
    bad = good;
    bad.access = static_cast<Access>(9);
    EXPECT_FALSE(grants.take(bad, {}));
    EXPECT_TRUE(grants.take(good, {}));
    EXPECT_FALSE(grants.is_mapped(1)) << "a region without mapped memory is accessed by frames";
}

// --- two ends in one process

// Waits up to 10 s.
bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 10'000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return holds();
}

// Blocks page faults in `memory` until serve() is called. None of its pages exists yet.
class UnservedFaults {
  public:
    explicit UnservedFaults(std::span<std::byte> memory)
        : memory_(memory), fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))) {
        uffdio_api api{.api = UFFD_API, .features = UFFD_FEATURE_MISSING_SHMEM, .ioctls = 0};
        uffdio_register range{.range = range_of_memory(), .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
        if (fd_ &&
            (ioctl(fd_.get(), UFFDIO_API, &api) != 0 || ioctl(fd_.get(), UFFDIO_REGISTER, &range) != 0))
            fd_.reset();
    }
    explicit operator bool() const { return static_cast<bool>(fd_); }
    bool any() const {
        pollfd poll{.fd = fd_.get(), .events = POLLIN, .revents = 0};
        return ::poll(&poll, 1, 0) == 1;
    }
    void serve() {
        uffdio_zeropage zero{.range = range_of_memory(), .mode = 0, .zeropage = 0};
        EXPECT_EQ(ioctl(fd_.get(), UFFDIO_ZEROPAGE, &zero), 0);
    }

  private:
    uffdio_range range_of_memory() const {
        return {.start = reinterpret_cast<uintptr_t>(memory_.data()), .len = memory_.size()};
    }
    const std::span<std::byte> memory_;
    Descriptor fd_;
};
constexpr const char* kNoUserfaultfd = "no userfaultfd: be root, or set vm.unprivileged_userfaultfd";

struct Heard final : ConnectionHandler {
    void on_established(Connection&, std::span<const std::byte>) noexcept override { established = true; }
    void on_refused(Connection&, const Status&, std::span<const std::byte>) noexcept override {
        closed = true;
    }
    void on_completions(Connection&, std::span<const Completion> batch) noexcept override {
        for (const Completion& completion : batch) {
            ++completions;
            status = completion.status;
        }
    }
    void on_closed(Connection&, const Status&) noexcept override { closed = true; }
    bool established = false, closed = false;
    int completions = 0;
    CompletionStatus status = CompletionStatus::kOther;
};

class ShmPair : public testing::Test, public ListenHandler {
  public:
    void SetUp() override {
        Address address{.scheme = Scheme::kShm, .host = fresh_path("pair"), .port = 0};
        listener = std::move(*server_poller->listen(address, *this));
        client = std::move(*client_poller->connect(address, {}, {}, client_heard));
        for (int i = 0; i < 10'000 && !(client_heard.established && server_heard.established); ++i) poll();
        ASSERT_TRUE(client_heard.established && server_heard.established);
    }
    void TearDown() override {
        client->close();
        for (int i = 0; i < 10'000 && !(client_heard.closed && server_heard.closed); ++i) poll();
        ASSERT_TRUE(client_heard.closed && server_heard.closed);
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        server = std::move(*request->create(*server_poller, {}, server_heard));
        ASSERT_TRUE(server->accept({}));
    }
    void poll() {
        client_poller->poll();
        server_poller->poll();
    }
    // Runs `op` twice. Returns true if both succeed, the second time with only the client running.
    bool completes_without_the_peer(Op op, const Region& region) {
        Segment one{.address = local->bytes().data(), .length = 64, .lkey = local->lkey()};
        WorkRequest request{.op = op,
                            .segments = {&one, 1},
                            .remote = {.address = region.remote_address(), .rkey = region.rkey(0)}};
        if (client->post({&request, 1}) != Code::kOk) return false;
        int before = client_heard.completions;
        for (int i = 0; i < 10'000 && client_heard.completions == before; ++i) poll();
        if (client_heard.status != CompletionStatus::kOk) return false;
        if (client->post({&request, 1}) != Code::kOk) return false;
        client_poller->poll();  // one poll is enough
        return client_heard.completions == before + 2 && client_heard.status == CompletionStatus::kOk;
    }

    std::unique_ptr<Fabric> client_fabric = std::move(*open());
    std::unique_ptr<Fabric> server_fabric = std::move(*open());
    std::unique_ptr<Poller> client_poller = std::move(*client_fabric->create_poller());
    std::unique_ptr<Poller> server_poller = std::move(*server_fabric->create_poller());
    std::unique_ptr<Region> local = std::move(*client_fabric->allocate(4096, Access::kLocal));
    std::unique_ptr<Listener> listener;
    Heard client_heard, server_heard;
    std::unique_ptr<Connection> client, server;
};

TEST_F(ShmPair, reads_and_writes_allocated_memory_without_the_peer) {
    auto region = std::move(*server_fabric->allocate(4096, Access::kRemoteReadWrite));
    EXPECT_TRUE(completes_without_the_peer(Op::kRead, *region));
    EXPECT_TRUE(completes_without_the_peer(Op::kWrite, *region));
}

TEST_F(ShmPair, lets_the_owner_of_registered_memory_execute_reads_and_writes) {
    std::vector<std::byte> memory(4096);
    auto region = std::move(*server_fabric->register_memory(memory, Access::kRemoteReadWrite));
    EXPECT_FALSE(completes_without_the_peer(Op::kRead, *region));
    for (int i = 0; i < 1000; ++i) poll();
    EXPECT_FALSE(completes_without_the_peer(Op::kWrite, *region));
}

TEST_F(ShmPair, lets_a_page_fault_in_registered_memory_stop_only_its_owner) {
    for (Op op : {Op::kWrite, Op::kRead}) {
        void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        Mapping memory({static_cast<std::byte*>(page), 4096});
        UnservedFaults faults(memory.bytes());
        if (!faults) GTEST_SKIP() << kNoUserfaultfd;
        auto region = std::move(*server_fabric->register_memory(memory.bytes(), Access::kRemoteReadWrite));
        Segment one{.address = local->bytes().data(), .length = 64, .lkey = local->lkey()};
        WorkRequest request{.op = op,
                            .segments = {&one, 1},
                            .remote = {.address = region->remote_address(), .rkey = region->rkey(0)}};
        client_heard.completions = 0;
        ASSERT_EQ(client->post({&request, 1}), Code::kOk);
        std::atomic<bool> done{false};
        std::atomic<int> turns{0};
        std::thread owner([&] {
            while (!done) server_poller->poll();
        });
        std::thread initiator([&] {
            for (; !done && client_heard.completions == 0; ++turns) client_poller->poll();
        });
        EXPECT_TRUE(eventually([&] { return faults.any(); }));
        EXPECT_TRUE(eventually([&, before = turns.load()] { return turns > before + 1000; }))
            << "the initiator waits for a page of the owner";
        faults.serve();
        initiator.join();
        done = true;
        owner.join();
        EXPECT_EQ(client_heard.status, CompletionStatus::kOk);
    }
}

TEST_F(ShmPair, lets_a_userfaultfd_on_the_owners_mapping_of_allocated_memory_stop_no_process) {
    auto region = std::move(*server_fabric->allocate(4096, Access::kRemoteReadWrite));
    UnservedFaults faults(region->bytes());
    if (!faults) GTEST_SKIP() << kNoUserfaultfd;
    EXPECT_TRUE(completes_without_the_peer(Op::kWrite, *region));
}

TEST_F(ShmPair, copies_mapped_memory_within_the_call_but_not_ahead_of_posted_requests) {
    auto region = std::move(*server_fabric->allocate(4096, Access::kRemoteReadWrite));
    Segment one{.address = local->bytes().data(), .length = 64, .lkey = local->lkey()};
    RemoteAddress there{.address = region->remote_address(), .rkey = region->rkey(0)};
    EXPECT_FALSE(client->move_now(Op::kRead, one, there)) << "the region has not been requested yet";
    ASSERT_TRUE(completes_without_the_peer(Op::kRead, *region));
    region->bytes()[7] = std::byte{42};
    ASSERT_TRUE(client->move_now(Op::kRead, one, there));
    EXPECT_EQ(local->bytes()[7], std::byte{42});
    local->bytes()[7] = std::byte{43};
    ASSERT_TRUE(client->move_now(Op::kWrite, one, there));
    EXPECT_EQ(region->bytes()[7], std::byte{43});
    RemoteAddress outside{.address = there.address + 4096 - 32, .rkey = there.rkey};
    EXPECT_FALSE(client->move_now(Op::kRead, one, outside));
    WorkRequest posted{.op = Op::kWrite, .segments = {&one, 1}, .remote = there};
    ASSERT_EQ(client->post({&posted, 1}), Code::kOk);
    EXPECT_FALSE(client->move_now(Op::kRead, one, there)) << "it would overtake the WRITE";
    client_poller->poll();
    EXPECT_TRUE(client->move_now(Op::kRead, one, there));
    region.reset();
    EXPECT_FALSE(client->move_now(Op::kRead, one, there)) << "the region is revoked";
}

// A WRITE by frame and a READ of the same bytes by mapping are posted together: the READ returns the written
// bytes (F1).
TEST_F(ShmPair, lets_requests_by_frame_and_by_mapping_take_effect_in_order) {
    auto direct = std::move(*server_fabric->allocate(4096, Access::kRemoteReadWrite));
    auto framed = std::move(*server_fabric->register_memory(direct->bytes(), Access::kRemoteReadWrite));
    for (int round = 1; round < 100; ++round) {
        local->bytes()[0] = static_cast<std::byte>(round);
        Segment from{.address = local->bytes().data(), .length = 1, .lkey = local->lkey()};
        Segment into{.address = local->bytes().data() + 64, .length = 1, .lkey = local->lkey()};
        WorkRequest requests[2]{{.op = Op::kWrite,
                                 .signalled = false,
                                 .segments = {&from, 1},
                                 .remote = {.address = framed->remote_address(), .rkey = framed->rkey(0)}},
                                {.op = Op::kRead,
                                 .segments = {&into, 1},
                                 .remote = {.address = direct->remote_address(), .rkey = direct->rkey(0)}}};
        int before = client_heard.completions;
        ASSERT_EQ(client->post(requests), Code::kOk);
        for (int i = 0; i < 10'000 && client_heard.completions == before; ++i) poll();
        ASSERT_EQ(client_heard.completions, before + 1);
        ASSERT_EQ(local->bytes()[64], static_cast<std::byte>(round));
    }
}

}  // namespace
}  // namespace wss::fabric::shm
