// SPDX-License-Identifier: Apache-2.0
// The file of a listening socket: it replaces the file of a dead owner, but never that of a live one.
#include "lib/base/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "tests/unit/io/harness.h"

namespace wss {
namespace {

class UnixSocket : public testing::Test {
  protected:
    std::string path() const { return folder_.file("socket"); }
    std::string lock_path() const { return path() + ".lock"; }
    void leave_stale() const {
        Descriptor dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        auto address = unix_address(path());
        ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&*address), sizeof *address), 0);
    }
    bool connects() const {
        Descriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        auto address = unix_address(path());
        return connect(client.get(), reinterpret_cast<sockaddr*>(&*address), sizeof *address) == 0;
    }
    bool exists() const { return access(path().c_str(), F_OK) == 0; }

    io::test::TemporaryFolder folder_;
};

TEST_F(UnixSocket, has_exactly_one_listener_if_several_processes_find_a_stale_file) {
    constexpr int kStarters = 6;
    for (int round = 0; round < 100; ++round) {
        ASSERT_NO_FATAL_FAILURE(leave_stale());
        std::barrier together(kStarters);
        std::vector<UnixListener> listeners(kStarters);
        std::atomic<int> busy{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kStarters; ++i)
            threads.emplace_back([&, i] {
                together.arrive_and_wait();
                auto opened = UnixListener::open(path(), SOCK_STREAM, 16);
                if (opened)
                    listeners[i] = std::move(*opened);
                else
                    busy += opened.status().code() == Code::kBusy;
            });
        for (std::thread& each : threads) each.join();
        EXPECT_EQ(busy, kStarters - 1);
        ASSERT_TRUE(connects()) << "round " << round;
        listeners.clear();
        ASSERT_FALSE(exists());
    }
}

TEST_F(UnixSocket, of_a_successor_is_not_removed_by_a_former_owner_that_ends) {
    auto first = UnixListener::open(path(), SOCK_STREAM, 16);
    ASSERT_TRUE(first);
    unlink(path().c_str());  // as an operator might do
    auto second = UnixListener::open(path(), SOCK_STREAM, 16);
    ASSERT_TRUE(second);
    first->reset();
    EXPECT_TRUE(connects());
    second->reset();
    EXPECT_FALSE(exists());
}

TEST_F(UnixSocket, replaces_no_file_that_is_not_a_socket_and_no_socket_of_another_type) {
    close(::open(path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(UnixListener::open(path(), SOCK_STREAM, 16).status().code(), Code::kExists);
    unlink(path().c_str());
    auto packets = UnixListener::open(path(), SOCK_SEQPACKET, 16);
    ASSERT_TRUE(packets);
    EXPECT_EQ(UnixListener::open(path(), SOCK_STREAM, 16).status().code(), Code::kBusy);
    EXPECT_TRUE(exists());
}

// Any user who may open the folder for reading may also lock it.
TEST_F(UnixSocket, is_not_delayed_by_a_lock_on_the_folder) {
    Descriptor folder(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(flock(folder.get(), LOCK_EX), 0);
    SystemClock clock;
    const Nanoseconds begin = clock.now();
    EXPECT_TRUE(UnixListener::open(path(), SOCK_STREAM, 16));
    EXPECT_LT(clock.now() - begin, from_s(1));
}

TEST_F(UnixSocket, has_a_lock_file_that_remains_and_that_only_its_owner_can_access) {
    struct stat before {
    }, after{};
    ASSERT_TRUE(UnixListener::open(path(), SOCK_STREAM, 16));
    ASSERT_EQ(lstat(lock_path().c_str(), &before), 0);
    EXPECT_EQ(before.st_mode & 07777, 0600u);
    ASSERT_TRUE(UnixListener::open(path(), SOCK_STREAM, 16));
    ASSERT_EQ(lstat(lock_path().c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(UnixSocket, is_delayed_for_a_bounded_time_by_a_starting_process_that_holds_the_lock) {
    Descriptor lock(::open(lock_path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
    EXPECT_EQ(UnixListener::open(path(), SOCK_STREAM, 16).status().code(), Code::kBusy);
    lock.reset();
    EXPECT_TRUE(UnixListener::open(path(), SOCK_STREAM, 16));
}

TEST_F(UnixSocket, with_a_lock_file_placed_by_another_user_is_refused) {
    const std::string victim = folder_.file("victim");
    ASSERT_EQ(symlink(victim.c_str(), lock_path().c_str()), 0);
    EXPECT_FALSE(UnixListener::open(path(), SOCK_STREAM, 16));
    EXPECT_NE(access(victim.c_str(), F_OK), 0) << "a link is not followed";
    unlink(lock_path().c_str());
    ASSERT_EQ(mkfifo(lock_path().c_str(), 0600), 0);
    EXPECT_EQ(UnixListener::open(path(), SOCK_STREAM, 16).status().code(), Code::kExists);
    unlink(lock_path().c_str());
    if (geteuid() != 0) GTEST_SKIP() << "only root can create a file of another owner";
    close(::open(lock_path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666));
    ASSERT_EQ(chown(lock_path().c_str(), 65534, 65534), 0);
    EXPECT_EQ(UnixListener::open(path(), SOCK_STREAM, 16).status().code(), Code::kPermission);
    EXPECT_FALSE(exists());
}

TEST_F(UnixSocket, with_a_lock_file_that_others_can_lock_is_refused_with_a_hint) {
    auto expect_hint = [&](const char* what) {
        const Status refused = UnixListener::open(path(), SOCK_STREAM, 16).status();
        EXPECT_EQ(refused.code(), Code::kPermission) << what;
        EXPECT_NE(refused.to_string().find("remove it"), std::string::npos) << refused.to_string();
        EXPECT_FALSE(exists());
    };
    const std::string other = folder_.file("other");
    close(::open(other.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(link(other.c_str(), lock_path().c_str()), 0);
    expect_hint("it has another name");
    unlink(other.c_str());
    for (mode_t mode : {0604u, 0660u, 0610u}) {
        ASSERT_EQ(chmod(lock_path().c_str(), mode), 0);
        expect_hint("its mode");
    }
    ASSERT_EQ(chmod(lock_path().c_str(), 0600), 0);
    EXPECT_TRUE(UnixListener::open(path(), SOCK_STREAM, 16));
}

TEST_F(UnixSocket, with_a_lock_file_that_cannot_be_opened_is_refused_with_a_hint) {
    ASSERT_EQ(symlink("nowhere", lock_path().c_str()), 0);
    const Status refused = UnixListener::open(path(), SOCK_STREAM, 16).status();
    EXPECT_NE(refused.to_string().find("remove it"), std::string::npos) << refused.to_string();
}

}  // namespace
}  // namespace wss
