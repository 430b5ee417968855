// SPDX-License-Identifier: Apache-2.0
// The control socket answers every line, however wrong, and lets in only whom it should.
#include "target/control/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"

namespace wss::control {
namespace {

using nlohmann::json;

// One conversation. Every wait is bounded by the socket's own time-out.
class Client {
  public:
    explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        timeval patience{30, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path.c_str());
        connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~Client() { close(fd_); }
    bool connected() const { return connected_; }
    bool send_text(const std::string& text) {
        return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
    }
    // The next line, empty when the server closed.
    std::string receive_line() {
        for (;;) {
            if (size_t end = buffered_.find('\n'); end != std::string::npos) {
                std::string line = buffered_.substr(0, end);
                buffered_.erase(0, end + 1);
                return line;
            }
            char chunk[4096];
            ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
            if (got <= 0) return {};
            buffered_.append(chunk, static_cast<size_t>(got));
        }
    }
    json ask(const std::string& method, const json& params = json::object()) {
        send_text(json{{"id", 1}, {"method", method}, {"params", params}}.dump() + "\n");
        return json::parse(receive_line(), nullptr, false);
    }

  private:
    int fd_;
    bool connected_ = false;
    std::string buffered_;
};

class ControlServer : public testing::Test {
  protected:
    ControlServer() {
        add_basic_methods(methods_, "test", "1.0");
        add_volume_methods(methods_, volumes_);
        auto started = Server::start(path(), methods_);
        EXPECT_TRUE(started) << started.status().to_string();
        server_ = std::move(*started);
        turner_ = std::thread([this] { reactor_.run(); });
    }
    ~ControlServer() override {
        server_.reset();
        EXPECT_TRUE(volumes_.close_all());
        reactor_.stop();
        turner_.join();
    }
    std::string path() const { return folder_.file("run/target.sock"); }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    volume::VolumeSet volumes_{{&reactor_}, {}};
    Methods methods_;
    std::unique_ptr<Server> server_;
    std::thread turner_;
};

TEST_F(ControlServer, volumes_are_created_changed_listed_and_deleted) {
    Client client(path());
    json created = client.ask("volume.create", {{"name", "a"}, {"backend", "ram:1M"}})["result"];
    EXPECT_EQ(created["size"], 1 << 20);
    EXPECT_EQ(created["lun"], 0);
    EXPECT_EQ(client.ask("volume.resize", {{"name", "a"}, {"size", "2M"}})["result"]["size"], 2 << 20);
    EXPECT_EQ(client.ask("volume.set", {{"name", "a"}, {"read_only", true}})["result"]["read_only"], true);
    json list = client.ask("volume.list")["result"];
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["name"], "a");
    EXPECT_EQ(list[0]["wwid"].get<std::string>().substr(0, 5), "naa.3");
    EXPECT_EQ(client.ask("stats")["result"]["volumes"]["a"]["reads"], 0);
    EXPECT_TRUE(client.ask("volume.delete", {{"name", "a"}}).contains("result"));
    EXPECT_TRUE(client.ask("volume.list")["result"].empty());
    EXPECT_EQ(client.ask("volume.delete", {{"name", "a"}})["error"]["code"], "not found");
}

TEST_F(ControlServer, wrong_requests_get_an_error_and_the_conversation_goes_on) {
    Client client(path());
    auto message = [&](const std::string& line) {
        EXPECT_TRUE(client.send_text(line + "\n"));
        json answer = json::parse(client.receive_line(), nullptr, false);
        EXPECT_TRUE(answer.contains("error")) << line << " -> " << answer.dump();
        return answer["error"].value("message", "");
    };
    EXPECT_EQ(message("hello"), "not a JSON object");
    EXPECT_EQ(message("[1]"), "not a JSON object");
    EXPECT_EQ(message(""), "not a JSON object");
    const std::string too_deep = "a request may nest at most 32 levels deep";
    EXPECT_EQ(message(std::string(200000, '[')), too_deep);
    EXPECT_EQ(message("{\"id\": " + std::string(1000, '[') + std::string(1000, ']') + "}"), too_deep);
    EXPECT_EQ(message("{\"id\": 3}"), "\"method\" is missing or no text");
    EXPECT_EQ(message(R"({"method": "volume.lst"})"),
              "unknown method 'volume.lst', did you mean 'volume.list'?");
    EXPECT_EQ(message(R"({"method": "volume.create", "params": {"name": "x"}})"), "backend is missing");
    EXPECT_EQ(message(R"({"method": "volume.create", "params": {"name": 1, "backend": "ram:1M"}})"),
              "name must be a text");
    EXPECT_EQ(
        message(R"({"method": "volume.create", "params": {"name": "x", "backend": "ram:1M", "sise": 1}})"),
        "unknown parameter 'sise', did you mean 'size'?");
    EXPECT_EQ(message(R"({"method": "volume.list", "params": [1]})"), "the parameters must be an object");
    EXPECT_EQ(message(R"({"method": "volume.resize", "params": {"name": "x", "size": -5}})"),
              "size must be a number of bytes or a text like \"64M\"");
    EXPECT_EQ(client.ask("ping")["result"]["version"], "1.0");
}

TEST_F(ControlServer, several_requests_in_one_packet_and_one_request_in_several_are_answered_in_order) {
    Client client(path());
    client.send_text("{\"id\":1,\"method\":\"ping\"}\n{\"id\":2,\"method\":\"ping\"}\n{\"id\":3,");
    EXPECT_EQ(json::parse(client.receive_line())["id"], 1);
    EXPECT_EQ(json::parse(client.receive_line())["id"], 2);
    client.send_text("\"method\":\"ping\"}\n");
    EXPECT_EQ(json::parse(client.receive_line())["id"], 3);
}

TEST_F(ControlServer, nesting_is_refused_whatever_the_texts_of_the_request_hold) {
    Client client(path());
    const size_t levels = 300000;
    const std::string nested = std::string(levels, '[') + std::string(levels, ']');
    for (const std::string& text :
         {std::string(levels, ']'), std::string(levels, '}'), std::string("\\\"]")}) {
        ASSERT_TRUE(client.send_text("{\"x\":\"" + text + "\",\"id\":" + nested + "}\n"));
        json answer = json::parse(client.receive_line(), nullptr, false);
        EXPECT_EQ(answer["error"]["message"], "a request may nest at most 32 levels deep");
    }
    ASSERT_TRUE(client.send_text("{\"method\":\"ping\",\"id\":\"" + std::string(1000, '[') + "\"}\n"));
    EXPECT_TRUE(json::parse(client.receive_line(), nullptr, false).contains("result"))
        << "brackets in texts are no nesting";
}

TEST_F(ControlServer, a_line_above_the_limit_is_refused_even_when_it_ends) {
    Client client(path());
    ASSERT_TRUE(client.send_text("{\"id\":\"" + std::string(kLineMax, 'x') + "\",\"method\":\"ping\"}\n"));
    EXPECT_NE(client.receive_line().find("at most 1048576 bytes"), std::string::npos);
}

// No descriptor can be opened while it lives.
class NoDescriptors {
  public:
    NoDescriptors() {
        getrlimit(RLIMIT_NOFILE, &before_);
        int lowest_free = dup(0);
        close(lowest_free);
        rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

static double cpu_seconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

TEST_F(ControlServer, the_acceptor_sleeps_while_the_process_has_no_descriptors_and_serves_again_after) {
    double used = 0;
    std::unique_ptr<Client> waiting;
    {
        waiting = std::make_unique<Client>(path());
        ASSERT_TRUE(waiting->connected());
        ASSERT_TRUE(waiting->ask("ping").contains("result"));
        int spare = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        NoDescriptors none;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path().c_str());
        ASSERT_EQ(connect(spare, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        const double before = cpu_seconds();
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        used = cpu_seconds() - before;
        close(spare);
    }
    EXPECT_LT(used, 0.2) << "seconds of processor time in half a second";
    EXPECT_TRUE(Client(path()).ask("ping").contains("result"));
}

TEST_F(ControlServer, an_endless_line_is_refused_and_its_client_closed) {
    Client client(path());
    std::string piece(64 << 10, 'x');
    bool open = true;
    for (size_t sent = 0; open && sent < 2 * kLineMax; sent += piece.size()) open = client.send_text(piece);
    std::string line = client.receive_line();
    // The answer may be lost when the server closes with our bytes unread; the closing may not.
    if (!line.empty()) {
        EXPECT_NE(line.find("at most"), std::string::npos);
    }
    EXPECT_EQ(client.receive_line(), "");
    EXPECT_TRUE(Client(path()).ask("ping").contains("result")) << "others are served";
}

TEST_F(ControlServer, one_client_too_many_is_told_so_and_a_place_becomes_free_again) {
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < kClientsMax; ++i) {
        clients.push_back(std::make_unique<Client>(path()));
        ASSERT_TRUE(clients.back()->ask("ping").contains("result"));
    }
    Client extra(path());
    EXPECT_NE(extra.receive_line().find("the limit"), std::string::npos);
    clients.clear();
    Nanoseconds deadline = clock_.now() + io::test::kPatience;
    bool served = false;
    while (!served && clock_.now() < deadline) served = Client(path()).ask("ping").contains("result");
    EXPECT_TRUE(served);
}

TEST_F(ControlServer, a_stop_waits_for_a_command_only_so_long) {
    std::promise<void> entered, leave;
    methods_.add("wait", "for the test", [&](const json&) -> Result<json> {
        entered.set_value();
        leave.get_future().wait();
        return json::object();
    });
    Client client(path());
    client.send_text("{\"id\": 1, \"method\": \"wait\"}\n");
    entered.get_future().wait();
    Server* leaked = server_.get();
    EXPECT_EQ(Server::stop(std::move(server_), from_ms(20)).code(), Code::kTimedOut);
    leave.set_value();
    EXPECT_TRUE(Server::stop(std::unique_ptr<Server>(leaked), from_s(20)));
    EXPECT_FALSE(std::filesystem::exists(path()));
    EXPECT_TRUE(Server::stop(nullptr, from_s(1)));
}

TEST_F(ControlServer, the_socket_of_a_living_target_is_not_taken_over_but_that_of_a_dead_one_is) {
    EXPECT_EQ(Server::start(path(), methods_).status().code(), Code::kBusy);
    std::string stale = folder_.file("stale.sock");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, stale.c_str());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);
    auto taken = Server::start(stale, methods_);
    EXPECT_TRUE(taken) << taken.status().to_string();
    std::string precious = folder_.file("precious");
    std::ofstream(precious) << "data";
    EXPECT_EQ(Server::start(precious, methods_).status().code(), Code::kExists);
    EXPECT_TRUE(std::filesystem::exists(precious));
    EXPECT_FALSE(Server::start(folder_.file(std::string(200, 'x')), methods_));
}

TEST_F(ControlServer, another_user_is_refused_even_where_the_file_lets_him_in) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    struct stat info {};
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(chmod(path().c_str(), 0666), 0);
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(65534) != 0) _exit(2);
        Client client(path());
        _exit(client.connected() && client.receive_line().find("only root") != std::string::npos ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(ControlServer, stopping_ends_open_conversations) {
    Client idle(path());
    ASSERT_TRUE(idle.ask("ping").contains("result"));
    server_.reset();
    EXPECT_EQ(idle.receive_line(), "");
    EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace wss::control
