// SPDX-License-Identifier: Apache-2.0
// Selection of the control socket that a tool connects to.
#include "lib/base/paths.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>

#include "lib/base/unix_socket.h"

namespace wss {
namespace {

class ControlSocket : public testing::Test {
  public:
    ControlSocket() {
        char name[] = "/tmp/wss-paths-XXXXXX";
        folder_ = mkdtemp(name);
    }
    ~ControlSocket() override { std::filesystem::remove_all(folder_); }

  protected:
    void run_service(const std::string& name) {
        auto listener = UnixListener::open(folder_ + "/" + name + ".sock", SOCK_STREAM, 1);
        ASSERT_TRUE(listener) << listener.status().to_string();
        services_.push_back(std::move(*listener));
    }
    std::string found(const std::string& given = "") {
        auto path = find_control_socket(given, folder_);
        return path ? *path : path.status().to_string();
    }

    std::string folder_;
    std::vector<UnixListener> services_;
};

TEST_F(ControlSocket, of_the_only_service_is_found) {
    run_service("storage1");
    EXPECT_EQ(found(), folder_ + "/storage1.sock");
}

TEST_F(ControlSocket, of_the_service_target_is_preferred) {
    run_service("cache");
    run_service("target");
    EXPECT_EQ(found(), folder_ + "/target.sock");
}

TEST_F(ControlSocket, of_several_services_is_not_guessed) {
    run_service("b");
    run_service("a");
    EXPECT_EQ(found(), "2 services run on this machine: give --control NAME, one of a, b");
    EXPECT_EQ(found("b"), folder_ + "/b.sock");
}

TEST_F(ControlSocket, is_the_users_own_without_a_service) {
    std::ofstream(folder_ + "/note.sock") << "no socket";
    std::ofstream(folder_ + "/target.sock.lock") << "";
    EXPECT_EQ(found(), default_control_path());
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(found(), default_control_path()) << "no service was ever installed";
}

// Creates the socket of a killed owner, on which no process listens.
static void leave_socket(const std::string& path) {
    auto address = unix_address(path);
    ASSERT_TRUE(address);
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&*address), sizeof *address), 0);
}

TEST_F(ControlSocket, of_a_killed_service_is_ignored) {
    leave_socket(folder_ + "/old.sock");
    leave_socket(folder_ + "/target.sock");
    EXPECT_EQ(found(), default_control_path());
    run_service("storage1");
    EXPECT_EQ(found(), folder_ + "/storage1.sock");
}

TEST_F(ControlSocket, is_the_given_path) {
    run_service("target");
    EXPECT_EQ(found("/tmp/x"), "/tmp/x");
    EXPECT_EQ(found("./x"), "./x");
    EXPECT_EQ(found("x.sock"), "x.sock");
}

}  // namespace
}  // namespace wss
