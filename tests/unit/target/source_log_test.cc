// SPDX-License-Identifier: Apache-2.0
// The log lines that one peer causes do not displace those of another.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "lib/base/file.h"
#include "lib/fabric/stream/frame.h"
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

namespace stream = fabric::stream;

class SourceLog : public ::testing::Test {
  protected:
    // Logs in from this address, sends an invalid frame, and is disconnected.
    void breaks_the_protocol(uint32_t source) {
        Descriptor peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_in from = at(source, 0), to = at(INADDR_LOOPBACK, world_.address().port);
        ASSERT_EQ(bind(peer.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
        ASSERT_EQ(::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        std::array<byte, 56> login;
        ASSERT_EQ(wire::encode_login_request(World::login(1, 0), login), login.size());
        stream::Hello hello{.kind = stream::HelloKind::kConnect, .read_depth = 2};
        hello.set_data(login);
        std::array<byte, stream::kHelloBytes + stream::kFrameBytes> bytes;
        bytes.fill(byte{0xee});
        stream::encode(hello, std::span(bytes).first<stream::kHelloBytes>());
        ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
        ASSERT_TRUE(world_.until([&] { return world_.service().sessions().count() == 1; }));
        ASSERT_TRUE(world_.until([&] { return world_.service().sessions().count() == 0; }));
    }
    // Returns whether the log has a line on a lost connection of `host`, with any port.
    static bool has_loss_of(const std::string& log, const std::string& host) {
        std::istringstream lines(log);
        for (std::string line; std::getline(lines, line);)
            if (line.find(host + ":") != std::string::npos &&
                line.find(": connection lost") != std::string::npos)
                return true;
        return false;
    }
    static sockaddr_in at(uint32_t host, uint16_t port) {
        return {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(host)}, .sin_zero = {}};
    }
    World world_;
};

TEST_F(SourceLog, names_a_lost_connection_while_another_host_loses_many) {
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 15; ++i) breaks_the_protocol(INADDR_LOOPBACK);
    breaks_the_protocol(INADDR_LOOPBACK + 1);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has_loss_of(log, "127.0.0.2")) << log;
}

}  // namespace
}  // namespace wss::block::testing
