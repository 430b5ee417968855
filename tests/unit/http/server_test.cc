// SPDX-License-Identifier: Apache-2.0
// The control socket and the port answer every request, however malformed, admit only permitted clients, and
// allow only permitted changes.
#include "target/http/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "target/volume/volume_set.h"
#include "tests/support/no_descriptors.h"
#include "tests/unit/http/client.h"
#include "tests/unit/io/harness.h"

namespace wss::http {
namespace {

using control::Methods;
using nlohmann::json;
using test::Client;
using test::Reply;

class HttpServer : public testing::Test {
  protected:
    HttpServer() {
        control::add_basic_methods(methods_, {.name = "test", .role = "", .version = "1.0"});
        control::add_volume_methods(methods_, volumes_);
        exporter_.add([] {
            return std::vector<metrics::Sample>{
                {"wss_test_total", "of the test", metrics::Sample::Kind::kCounter, {{"volume", "a"}}, 7}};
        });
        health_.add("the reactor",
                    [this](const Health::Answer& answer) { reactor_.post([answer] { answer(""); }); });
        auto started = Server::start_at_socket(path(), site_);
        EXPECT_TRUE(started) << started.status().to_string();
        server_ = std::move(*started);
        auto port = Server::start_at_port("0", site_);
        EXPECT_TRUE(port) << port.status().to_string();
        port_ = std::move(*port);
        turner_ = std::thread([this] { reactor_.run(); });
    }
    ~HttpServer() override {
        server_.reset();
        port_.reset();
        EXPECT_TRUE(volumes_.close_all());
        reactor_.stop();
        turner_.join();
    }
    void open() { site_.open(methods_, exporter_, health_); }
    std::string path() const { return folder_.file("run/target.sock"); }
    uint16_t port() const {
        const std::string& address = port_->address();
        return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    volume::VolumeSet volumes_{{&reactor_}, {}};
    Methods methods_;
    metrics::Exporter exporter_;
    Health health_;
    Site site_;
    std::unique_ptr<Server> server_, port_;
    std::thread turner_;
};

// A server whose site is open from the start.
class HttpSite : public HttpServer {
  protected:
    HttpSite() { open(); }
};

constexpr const char* kPing = "/api/v1/ping";

TEST_F(HttpSite, creates_changes_lists_and_deletes_volumes) {
    Client client(path());
    auto post = [&client](const std::string& verb, const json& params) {
        return client.post("/api/v1/volume/" + verb, params.dump());
    };
    const Reply created = post("create", {{"name", "a"}, {"backend", "ram:1M"}});
    EXPECT_EQ(created.status, 200);
    EXPECT_EQ(created.json()["size"], 1 << 20);
    EXPECT_EQ(post("resize", {{"name", "a"}, {"size", "2M"}}).json()["size"], 2 << 20);
    EXPECT_EQ(post("set", {{"name", "a"}, {"read_only", true}}).json()["read_only"], true);
    const json list = client.get("/api/v1/volume/list").json();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["name"], "a");
    EXPECT_EQ(list[0]["wwid"].get<std::string>().substr(0, 5), "naa.3");
    EXPECT_EQ(client.get("/api/v1/stats").json()["volumes"]["a"]["reads"], 0);
    EXPECT_EQ(Client(port()).get("/api/v1/volume/list").json(), list) << "the port shows the same";
    EXPECT_EQ(post("delete", {{"name", "a"}}).status, 200);
    EXPECT_TRUE(client.get("/api/v1/volume/list").json().empty());
    const Reply gone = post("delete", {{"name", "a"}});
    EXPECT_EQ(gone.status, 404);
    EXPECT_EQ(gone.json()["error"]["code"], "not found");
}

TEST_F(HttpSite, answers_wrong_parameters_with_an_error_and_continues_the_conversation) {
    Client client(path());
    auto message = [&](const std::string& verb, const std::string& body) {
        const Reply reply = client.post("/api/v1/volume/" + verb, body);
        EXPECT_EQ(reply.status, 400) << body.substr(0, 99);
        return reply.message();
    };
    EXPECT_EQ(message("create", "hello"), "the body is not a JSON object");
    EXPECT_EQ(message("create", "[1]"), "the body is not a JSON object");
    EXPECT_EQ(message("create", ""), "name is missing");
    EXPECT_EQ(message("create", R"({"name": "x"})"), "backend is missing");
    EXPECT_EQ(message("create", R"({"name": 1, "backend": "ram:1M"})"), "name must be a string");
    EXPECT_EQ(message("create", R"({"name": "x", "backend": "ram:1M", "sise": 1})"),
              "unknown parameter 'sise', did you mean 'size'?");
    EXPECT_EQ(message("resize", R"({"name": "x", "size": -5})"),
              "size must be a number of bytes or a string like \"64M\"");
    EXPECT_TRUE(
        client.get("/api/v1/volume/list?sort=name").message().starts_with("unknown parameter 'sort'"));
    EXPECT_EQ(client.get(kPing).json()["version"], "1.0");
}

TEST_F(HttpSite, refuses_wrong_paths_and_verbs_with_a_suggestion) {
    Client client(path());
    EXPECT_EQ(client.get("/api/v1/volume/lst").message(),
              "unknown method 'volume.lst', did you mean 'volume.list'?");
    EXPECT_EQ(client.get("/api/v1/volume.list").status, 404) << "each method has one address";
    EXPECT_EQ(client.get("/nothing").status, 404);
    EXPECT_EQ(client.get("/api/v1/../../etc/passwd").status, 404);
    const Reply reads = client.get("/api/v1/volume/create");
    EXPECT_EQ(reads.status, 405);
    EXPECT_NE(reads.head.find("Allow: POST"), std::string::npos);
    EXPECT_EQ(client.post(kPing, "{}").status, 405);
    EXPECT_EQ(Client(path()).post("/metrics", "{}").status, 405);
    Client other(path());
    other.send_text("DELETE /api/v1/volume/list HTTP/1.1\r\n\r\n");
    EXPECT_EQ(other.receive().status, 405);
}

TEST_F(HttpSite, permits_no_changes_through_the_port) {
    Client client(port());
    const Reply refused = client.post("/api/v1/volume/create", R"({"name": "x", "backend": "ram:1M"})");
    EXPECT_EQ(refused.status, 403);
    EXPECT_NE(refused.message().find("control socket"), std::string::npos);
    EXPECT_EQ(Client(port()).get("/api/v1/volume/list").json(), json::array());
}

TEST_F(HttpSite, lets_a_page_of_another_site_change_and_read_nothing_through_a_browser) {
    const std::string origin = "Origin: https://evil.example\r\n",
                      body = R"({"name": "x", "backend": "ram:1M"})";
    auto ask = [&](const std::string& line, const std::string& more, const std::string& content = "") {
        Client client(port());
        client.send_text(line + " HTTP/1.1\r\nHost: localhost\r\n" + origin + more + "\r\n" + content);
        return client.receive();
    };
    const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
    // Requests that forms and scripts may send without a preflight, and the preflights of other requests.
    for (const char* type :
         {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
        EXPECT_EQ(
            ask("POST /api/v1/volume/create", "Content-Type: " + std::string(type) + "\r\n" + length, body)
                .status,
            403);
    const Reply preflight =
        ask("OPTIONS /api/v1/volume/create",
            "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n");
    EXPECT_EQ(preflight.status, 405);
    const Reply read = ask("GET /api/v1/volume/list", "");
    EXPECT_EQ(read.json(), json::array()) << "no volume was created";
    for (const Reply& reply : {preflight, read})
        EXPECT_EQ(reply.head.find("Access-Control-Allow"), std::string::npos) << reply.head;
    EXPECT_NE(read.head.find("X-Content-Type-Options: nosniff"), std::string::npos);
    EXPECT_NE(read.head.find("Cross-Origin-Resource-Policy: same-origin"), std::string::npos);
}

TEST_F(HttpSite, is_reachable_at_a_bare_port_number_only_from_this_machine) {
    EXPECT_TRUE(port_->address().starts_with("127.0.0.1:")) << port_->address();
}

TEST_F(HttpSite, at_a_local_port_refuses_requests_for_another_host) {
    Client client(port());
    for (const char* host : {"localhost", "localhost:9555", "127.0.0.1:9555", "[::1]:9555",
                             "[::ffff:127.0.0.1]", "[::ffff:7f00:1]:9555"})
        EXPECT_EQ(client.get(kPing, host).status, 200) << host;
    for (const char* host : {"evil.example",
                             "127.evil.example",
                             "localhost.evil.example",
                             "[::1",
                             "[::1].evil.example",
                             "0.0.0.0:9555",
                             "[::ffff:10.0.0.1]",
                             "[::1%25lo]",
                             "[]",
                             "127.0.0.1:80 evil.example",
                             "127.0.0.1:80:evil.example",
                             "127.0.0.1:abc",
                             "127.0.0.1:-1",
                             "127.0.0.1:",
                             "localhost:65536",
                             "localhost:99999999",
                             "localhost evil.example",
                             "[::1]:",
                             "[::1]:abc",
                             "[::1]9555"})
        EXPECT_EQ(Client(port()).get(kPing, host).status, 403) << host;
    for (const char* blank : {"", " ", "\t "})
        EXPECT_EQ(Client(port()).get(kPing, blank).status, 400) << "'" << blank << "'";
    Client unnamed(port());
    unnamed.send_text("GET " + std::string(kPing) + " HTTP/1.1\r\n\r\n");
    EXPECT_EQ(unnamed.receive().status, 403) << "HTTP/1.1 requires the header";
    EXPECT_EQ(Client(path()).get(kPing, "wss").status, 200) << "no browser reaches the control socket";
    Client old(port());
    old.send_text("GET /livez HTTP/1.0\r\n\r\n");
    EXPECT_EQ(old.receive().status, 200) << "a request without a host is not from a browser";
}

TEST_F(HttpSite, at_a_port_of_a_mapped_local_address_refuses_requests_for_another_host) {
    auto mapped = Server::start_at_port("[::ffff:127.0.0.1]:0", site_);
    ASSERT_TRUE(mapped) << mapped.status().to_string();
    port_ = std::move(*mapped);
    EXPECT_EQ(Client(port()).get(kPing, port_->address()).status, 200);
    EXPECT_EQ(Client(port()).get(kPing, "evil.example").status, 403);
}

TEST_F(HttpSite, lets_a_browser_load_and_run_only_what_the_program_serves) {
    for (const char* path : {"/", "/page/page.js", kPing, "/metrics", "/nothing"}) {
        const std::string head = Client(port()).get(path).head;
        EXPECT_NE(
            head.find("Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                      "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'\r\n"),
            std::string::npos)
            << head;
        EXPECT_NE(head.find("Referrer-Policy: no-referrer"), std::string::npos) << head;
        EXPECT_NE(head.find("X-Content-Type-Options: nosniff"), std::string::npos) << head;
        EXPECT_NE(head.find("Cache-Control: no-store"), std::string::npos) << head;
    }
}

TEST_F(HttpSite, makes_a_connection_that_loaded_a_file_of_the_page_yield_its_place_to_others) {
    Client client(port());
    const Reply page = client.get("/");
    EXPECT_EQ(page.status, 200);
    EXPECT_NE(page.head.find("Content-Type: text/html; charset=utf-8"), std::string::npos) << page.head;
    EXPECT_NE(page.head.find("Connection: close"), std::string::npos) << page.head;
    EXPECT_EQ(client.get(kPing).status, 0);
    EXPECT_EQ(Client(port()).get("/page/nothing.js").status, 404);
}

TEST_F(HttpSite, returns_in_ping_how_long_the_program_has_been_running) {
    Client client(port());
    const Nanoseconds begin = clock_.now();
    const auto first = client.get(kPing).json()["uptime_ms"].get<int64_t>();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto second = client.get(kPing).json()["uptime_ms"].get<int64_t>();
    EXPECT_GE(second, first + 20);
    EXPECT_LE(second - first, (clock_.now() - begin).count / 1'000'000 + 1);
}

TEST_F(HttpServer, of_a_starting_program_answers_only_requests_for_its_health_and_its_page) {
    Client client(port());
    EXPECT_EQ(client.get("/livez").status, 200);
    const Reply ready = client.get("/readyz");
    EXPECT_EQ(ready.status, 503);
    EXPECT_EQ(ready.body, "starting\n");
    EXPECT_EQ(client.get(kPing).status, 503);
    EXPECT_EQ(client.get("/metrics").status, 503);
    EXPECT_EQ(Client(port()).get("/").status, 200) << "it shows that the program is starting";
    open();
    EXPECT_EQ(client.get("/readyz").status, 200);
    EXPECT_EQ(client.get("/readyz").body, "ok\n");
    const Reply metrics = client.get("/metrics");
    EXPECT_NE(metrics.body.find("# TYPE wss_test_total counter\nwss_test_total{volume=\"a\"} 7"),
              std::string::npos)
        << metrics.body;
}

TEST_F(HttpServer, reports_components_that_do_not_serve_yet_by_name) {
    health_.add("the cache", [](const Health::Answer& answer) { answer("it waits for engines"); });
    open();
    const Reply ready = Client(port()).get("/readyz");
    EXPECT_EQ(ready.status, 503);
    EXPECT_EQ(ready.body, "the cache: it waits for engines\n");
    EXPECT_EQ(Client(port()).get("/livez").status, 200);
}

TEST_F(HttpServer, answers_requests_for_health_while_a_reactor_stalls_and_all_other_places_wait_for_it) {
    open();
    std::promise<void> leave;
    auto left = leave.get_future().share();
    reactor_.post([left] { left.wait(); });
    methods_.add("wait", "for the test", [left](const json&) -> Result<json> {
        left.wait();
        return json::object();
    });
    std::vector<std::unique_ptr<Client>> waiting;
    for (size_t i = 0; i < kPortClientsMax; ++i) {
        waiting.push_back(std::make_unique<Client>(port()));
        waiting.back()->send_text("GET /api/v1/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (Client(port()).get(kPing).status != 503) ASSERT_LT(clock_.now(), deadline);
    const Nanoseconds asked = clock_.now();
    EXPECT_EQ(Client(port()).get("/livez").status, 200) << "it has stalled for less than the limit";
    EXPECT_LT(clock_.now() - asked, from_s(5));
    while (Client(port()).get("/livez").status != 503) ASSERT_LT(clock_.now(), deadline);
    EXPECT_NE(Client(port()).get("/livez").body.find("the reactor has not answered for "), std::string::npos);
    leave.set_value();
    for (auto& client : waiting) EXPECT_EQ(client->receive().status, 200);
    EXPECT_EQ(Client(port()).get("/livez").status, 200);
}

TEST_F(HttpSite, answers_several_requests_in_one_packet_and_one_request_in_several_in_order) {
    Client client(path());
    const std::string ping = "GET /api/v1/ping HTTP/1.1\r\n\r\n",
                      list = "GET /api/v1/volume/list HTTP/1.1\r\n";
    client.send_text(ping + ping + list);
    EXPECT_EQ(client.receive().json()["version"], "1.0");
    EXPECT_EQ(client.receive().json()["version"], "1.0");
    client.send_text("\r\n");
    EXPECT_EQ(client.receive().json(), json::array());
}

TEST_F(HttpSite, does_not_parse_a_body_that_nothing_reads_as_a_request) {
    Client client(path());
    const std::string hidden = "GET /api/v1/ping HTTP/1.1\r\n\r\n";
    client.send_text("GET /api/v1/volume/list HTTP/1.1\r\nContent-Length: " + std::to_string(hidden.size()) +
                     "\r\n\r\n" + hidden);
    EXPECT_EQ(client.receive().json(), json::array());
    EXPECT_EQ(client.receive().status, 0) << "the conversation has ended";
}

TEST_F(HttpSite, refuses_deep_nesting_whatever_the_strings_of_the_body_contain) {
    Client client(path());
    const size_t levels = 300000;
    const std::string nested = std::string(levels, '[') + std::string(levels, ']');
    for (const std::string& text :
         {std::string(levels, ']'), std::string(levels, '}'), std::string("\\\"]")}) {
        const Reply reply =
            client.post("/api/v1/volume/delete", "{\"x\":\"" + text + "\",\"name\":" + nested + "}");
        EXPECT_EQ(reply.message(), "parameters may nest at most 32 levels deep");
    }
    EXPECT_EQ(client.post("/api/v1/volume/delete", std::string(200000, '[')).message(),
              "parameters may nest at most 32 levels deep");
    EXPECT_EQ(client.post("/api/v1/volume/delete", "{\"name\":\"" + std::string(1000, '[') + "\"}").status,
              404)
        << "brackets in strings do not nest";
}

TEST_F(HttpSite, refuses_requests_that_are_too_long_and_closes_their_clients) {
    Client client(path());
    client.send_text("POST /api/v1/volume/delete HTTP/1.1\r\nContent-Length: " +
                     std::to_string(kBodyMax + 1) + "\r\n\r\n" + std::string(kBodyMax + 1, 'x'));
    const Reply large = client.receive();
    EXPECT_EQ(large.status, 413);
    EXPECT_EQ(large.message(), "a body may have at most 1048576 bytes");
    // The response may be lost if the server closes the connection with unread bytes, but the client detects
    // the close.
    auto closes = [](Client& sender, const std::string& first, const std::string& piece) {
        bool open = sender.send_text(first);
        for (size_t sent = 0; open && sent < 3 * kBodyMax; sent += piece.size())
            open = sender.send_text(piece);
        const Reply reply = sender.receive();
        return reply.status != 200 && (reply.status == 0 || sender.receive().status == 0);
    };
    const std::string piece(64 << 10, 'x');
    Client line(path()), header(path()), many(port()), chunks(path());
    EXPECT_TRUE(closes(line, "GET /", piece));
    EXPECT_TRUE(closes(header, "GET / HTTP/1.1\r\nX: ", piece));
    EXPECT_TRUE(closes(many, "GET / HTTP/1.1\r\n", "X: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\n"));
    EXPECT_TRUE(closes(chunks, "POST /api/v1/volume/delete HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                       "10000\r\n" + piece + "\r\n"));
    EXPECT_EQ(Client(path()).get(kPing).status, 200) << "others are served";
}

TEST_F(HttpSite, ends_the_conversation_at_input_that_is_not_http) {
    for (const char* text :
         {"hello\r\n\r\n", "{\"id\": 1, \"method\": \"ping\"}\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n",
          "\r\n\r\n", "GET / HTTP/1.1\r\nno header\r\n\r\n"}) {
        Client client(path());
        ASSERT_TRUE(client.send_text(text));
        const Reply reply = client.receive();
        EXPECT_TRUE(reply.status == 0 || reply.status >= 400) << text;
        if (reply.status != 404) {
            EXPECT_EQ(client.receive().status, 0) << text;
        }
    }
}

static double cpu_seconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

TEST_F(HttpSite, sleeps_while_the_process_has_no_free_descriptors_and_serves_again_afterwards) {
    double used = 0;
    std::unique_ptr<Client> waiting;
    {
        waiting = std::make_unique<Client>(path());
        ASSERT_TRUE(waiting->connected());
        ASSERT_EQ(waiting->get(kPing).status, 200);
        int spare = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const wss::test::NoDescriptors none;
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
    EXPECT_EQ(Client(path()).get(kPing).status, 200);
}

static size_t entries(const char* folder) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_F(HttpSite, keeps_neither_thread_nor_descriptor_for_a_client_that_has_ended) {
    const size_t threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    {
        Client control(path()), reader(port());
        ASSERT_EQ(control.get(kPing).status, 200);
        ASSERT_EQ(reader.get(kPing).status, 200);
        ASSERT_EQ(entries("/proc/self/task"), threads + 2);
        ASSERT_EQ(entries("/proc/self/fd"), descriptors + 4);
    }
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (entries("/proc/self/task") != threads || entries("/proc/self/fd") != descriptors)
        ASSERT_LT(clock_.now(), deadline);
}

TEST_F(HttpSite, refuses_a_client_above_the_limit_until_a_place_becomes_free_again) {
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < kControlClientsMax; ++i) {
        clients.push_back(std::make_unique<Client>(path()));
        ASSERT_EQ(clients.back()->get(kPing).status, 200);
    }
    Client extra(path());
    const Reply refused = extra.receive();
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.message().find("the maximum"), std::string::npos);
    clients.clear();
    Nanoseconds deadline = clock_.now() + io::test::kPatience;
    bool served = false;
    while (!served && clock_.now() < deadline) served = Client(path()).get(kPing).status == 200;
    EXPECT_TRUE(served);
}

TEST_F(HttpSite, waits_for_a_change_only_for_a_limited_time_when_it_stops) {
    std::promise<void> entered, leave;
    methods_.add_change("wait", "for the test", [&](const json&) -> Result<json> {
        entered.set_value();
        leave.get_future().wait();
        return json::object();
    });
    Client client(path());
    client.send_text("POST /api/v1/wait HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    entered.get_future().wait();
    Server* leaked = server_.get();
    EXPECT_EQ(Server::stop(std::move(server_), from_ms(20)).code(), Code::kTimedOut);
    leave.set_value();
    EXPECT_TRUE(Server::stop(std::unique_ptr<Server>(leaked), from_s(20)));
    EXPECT_FALSE(std::filesystem::exists(path()));
    EXPECT_TRUE(Server::stop(nullptr, from_s(1)));
}

TEST_F(HttpSite, reports_an_error_if_its_port_is_in_use) {
    const Status taken = Server::start_at_port(port_->address(), site_).status();
    EXPECT_EQ(taken.code(), Code::kBusy);
    EXPECT_NE(taken.to_string().find("--http " + port_->address()), std::string::npos) << taken.to_string();
    EXPECT_NE(taken.to_string().find("another program listens there"), std::string::npos)
        << taken.to_string();
    for (const char* wrong :
         {"", "localhost", "localhost:", "localhost:port", "1.2.3.4.5:80", ":80", "99999"})
        EXPECT_FALSE(Server::start_at_port(wrong, site_)) << wrong;
    // Remaining connections of an earlier server do not prevent a start.
    Client client(port());
    EXPECT_EQ(client.get(kPing).status, 200);
    const std::string address = port_->address();
    port_.reset();
    auto again = Server::start_at_port(address, site_);
    ASSERT_TRUE(again) << again.status().to_string();
    port_ = std::move(*again);
    EXPECT_EQ(Client(port()).get(kPing).status, 200);
}

TEST_F(HttpSite, takes_over_the_socket_of_a_dead_target_but_not_that_of_a_live_one) {
    const Status used = Server::start_at_socket(path(), site_).status();
    EXPECT_EQ(used.code(), Code::kBusy);
    EXPECT_EQ(
        used.to_string(),
        fmt::format("control socket {} is in use: unit_tests, process {}, listens there; stop that program, "
                    "or give another --control",
                    path(), getpid()));
    std::string stale = folder_.file("stale.sock");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, stale.c_str());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);
    auto taken = Server::start_at_socket(stale, site_);
    EXPECT_TRUE(taken) << taken.status().to_string();
    std::string precious = folder_.file("precious");
    std::ofstream(precious) << "data";
    EXPECT_EQ(Server::start_at_socket(precious, site_).status().code(), Code::kExists);
    EXPECT_TRUE(std::filesystem::exists(precious));
    EXPECT_FALSE(Server::start_at_socket(folder_.file(std::string(200, 'x')), site_));
}

TEST_F(HttpSite, refuses_another_user_even_if_the_file_permits_access) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
    struct stat info {};
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(chmod(path().c_str(), 0666), 0);
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(65534) != 0) _exit(2);
        Client client(path());
        const Reply refused = client.receive();
        _exit(refused.status == 403 && refused.message().find("only root") != std::string::npos ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(HttpSite, ends_open_conversations_when_it_stops) {
    Client idle(path()), half(port());
    ASSERT_EQ(idle.get(kPing).status, 200);
    half.send_text("GET /api");
    server_.reset();
    port_.reset();
    EXPECT_EQ(idle.receive().status, 0);
    EXPECT_EQ(half.receive().status, 0);
    EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace wss::http
