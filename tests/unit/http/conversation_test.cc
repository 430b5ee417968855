// SPDX-License-Identifier: Apache-2.0
// A conversation ends within its limits, whatever the client sends and however slowly it sends or reads.
#include "target/http/conversation.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "lib/base/file.h"
#include "tests/unit/http/client.h"

namespace wss::http {
namespace {

using nlohmann::json;
using test::Client;
using test::Reply;

constexpr Nanoseconds kShort = from_ms(300);
constexpr Nanoseconds kSoon = from_s(60);  // on a busy machine
constexpr Nanoseconds kLong = from_s(600);

class HttpConversation : public testing::Test {
  protected:
    HttpConversation() {
        control::add_basic_methods(methods_, {.name = "test", .role = "", .version = "1.0"});
        methods_.add("large", "more than sockets hold", [](const json&) -> Result<json> {
            return json{{"text", std::string(8 << 20, 'x')}};
        });
        methods_.add_change("echo", "its parameters",
                            [](const json& params) -> Result<json> { return params; });
        site_.open(methods_, exporter_, health_);
    }
    ~HttpConversation() override {
        if (thread_.joinable()) thread_.join();
    }
    // Starts a conversation under these terms and returns its client.
    Client begin(const Terms& terms) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        theirs_ = Descriptor(ends[1]);
        terms_ = terms;
        begun_ = clock_.now();
        thread_ = std::thread([this] {
            converse(theirs_.get(), stop_.get(), site_, terms_);
            shutdown(theirs_.get(), SHUT_RDWR);
        });
        return Client(ends[0], Client::Connected{});
    }
    // Returns how long the conversation took.
    Nanoseconds end() {
        thread_.join();
        return clock_.now() - begun_;
    }

    SystemClock clock_;
    control::Methods methods_;
    metrics::Exporter exporter_;
    Health health_;
    Site site_;
    Terms terms_;
    Nanoseconds begun_{};
    Descriptor theirs_, stop_{eventfd(0, EFD_CLOEXEC)};
    std::thread thread_;
};

TEST_F(HttpConversation, with_a_silent_client_loses_its_place) {
    const Client client = begin({.idle_max = kShort});
    EXPECT_LT(end(), kSoon);
}

TEST_F(HttpConversation, with_a_client_that_is_silent_after_its_request_loses_its_place) {
    Client client = begin({.idle_max = kShort});
    EXPECT_EQ(client.get("/api/v1/ping").status, 200);
    EXPECT_LT(end(), kSoon);
}

TEST_F(HttpConversation, drops_a_request_that_arrives_byte_by_byte_when_its_time_expires) {
    for (const char* begin_of_request :
         {"GET / HTTP/1.1\r\nX: ", "POST /api/v1/echo HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"}) {
        Client client = begin({.may_change = true, .idle_max = kLong, .request_max = kShort});
        bool open = client.send_text(begin_of_request);
        while (open && clock_.now() - begun_ < kSoon) {
            open = client.send_text("x");
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        EXPECT_LT(end(), kSoon) << begin_of_request;
    }
}

TEST_F(HttpConversation, drops_an_answer_that_is_not_read_when_its_time_expires) {
    Client client = begin({.idle_max = kLong, .answer_max = kShort});
    client.send_text("GET /api/v1/large HTTP/1.1\r\n\r\n");
    EXPECT_LT(end(), kSoon);
}

TEST_F(HttpConversation, answers_endless_requests_only_as_fast_as_their_answers_are_read) {
    Client client = begin({.idle_max = kLong, .answer_max = kShort});
    std::string many;
    for (int i = 0; i < 100; ++i) many += "GET /api/v1/large HTTP/1.1\r\n\r\n";
    client.send_text(many);
    EXPECT_LT(end(), kSoon);
}

TEST_F(HttpConversation, ends_at_a_stop_during_a_request_and_during_an_answer) {
    for (const char* text : {"", "GET /api", "GET /api/v1/large HTTP/1.1\r\n\r\n"}) {
        stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
        Client client = begin({.idle_max = kLong});
        client.send_text(text);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const uint64_t one = 1;
        ASSERT_EQ(write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
        EXPECT_LT(end(), kSoon) << text;
    }
}

TEST_F(HttpConversation, refuses_a_body_without_a_length_and_ends) {
    for (const char* length : {"", "Content-Length: 2\r\n"}) {
        Client client = begin({.may_change = true, .idle_max = kLong});
        client.send_text("POST /api/v1/echo HTTP/1.1\r\n" + std::string(length) +
                         "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
        const Reply reply = client.receive();
        EXPECT_EQ(reply.status, 411);
        EXPECT_EQ(reply.message(), "chunked bodies are not supported: send a Content-Length");
        EXPECT_EQ(client.receive().status, 0);
        EXPECT_LT(end(), kSoon);
    }
}

TEST_F(HttpConversation, changes_nothing_for_a_body_that_ends_early) {
    Client client = begin({.may_change = true, .idle_max = kLong});
    client.send_text("POST /api/v1/echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}");
    client.end_sending();
    EXPECT_NE(client.receive().status, 200);
    EXPECT_LT(end(), kSoon);
}

// Headers that the library and a proxy in front of it might interpret differently.
TEST_F(HttpConversation, refuses_a_request_with_an_ambiguous_end_and_answers_none_that_is_hidden_in_it) {
    using namespace std::string_literals;
    const std::string hidden = "GET /api/v1/ping HTTP/1.1\r\n\r\n", length = std::to_string(hidden.size());
    for (const std::string& header : {"Content-Length : " + length + "\r\n",
                                      " Content-Length: " + length + "\r\n",
                                      "X: y\r\n Content-Length: " + length + "\r\n",
                                      "X: y\nContent-Length: " + length + "\r\n",
                                      "Content-Length: " + length + "\n",
                                      "X: y\rContent-Length: " + length + "\r\n",
                                      "Content-Length: 0\r\ncontent-length: " + length + "\r\n",
                                      "Content-Length: +" + length + "\r\n",
                                      "Content-Length: %3" + length + "\r\n",
                                      "Content-Length: 0x1f\r\n"s,
                                      "Content-Length:\r\n"s,
                                      "Content-Length: 18446744073709551616\r\n"s,
                                      "Content-Length: 1" + std::string(100, '0') + "\r\n",
                                      "Transfer-Encoding\t: chunked\r\n"s,
                                      "Transfer-Encoding: \x0b"
                                      "chunked\r\n"s,
                                      "Transfer-Encoding: a\r\nTransfer-Encoding: chunked\r\n"s,
                                      "Host: a\r\nHost: b\r\n"s,
                                      "X: a\0b\r\n"s,
                                      "X\0: a\r\n"s,
                                      ": a\r\n"s,
                                      "no header\r\n"s}) {
        Client client = begin({.may_change = true, .idle_max = kLong});
        client.send_text("GET /api/v1/ping HTTP/1.1\r\n" + header + "\r\n" + hidden);
        EXPECT_EQ(client.receive().status, 400) << header;
        EXPECT_EQ(client.receive().status, 0) << header;
        EXPECT_LT(end(), kSoon) << header;
    }
}

// A proxy in front may filter paths by their plain text.
TEST_F(HttpConversation, refuses_a_path_with_encoded_characters) {
    for (const char* path : {"/api/v1%2fping", "/api/v1/pin%67", "/api/v1/ping%00", "/%2e%2e/livez",
                             "/livez%20", "/livez%", "/livez#x", "/livez;x", "\\livez", " /livez", "/livez\t",
                             "*", "http://localhost/livez", "livez", "/livez\xc0\xaf"}) {
        Client client = begin({.idle_max = kShort});
        client.send_text("GET " + std::string(path) + " HTTP/1.1\r\n\r\n");
        const Reply reply = client.receive();
        EXPECT_EQ(reply.status, 400) << path;
        EXPECT_TRUE(reply.message().starts_with("a path may have only letters")) << reply.message();
        EXPECT_EQ(client.receive().status, 0) << path;
        EXPECT_LT(end(), kSoon) << path;
    }
    for (const char* path : {"/livez", "/livez?x=%2f", "/api/v1/ping"}) {
        Client client = begin({.idle_max = kShort});
        EXPECT_EQ(client.get(path).status, 200) << path;
        EXPECT_LT(end(), kSoon) << path;
    }
}

TEST_F(HttpConversation, accepts_headers_in_every_permitted_form) {
    Client client = begin({.idle_max = kShort});
    client.send_text(
        "GET /api/v1/ping HTTP/1.1\r\nhOST:localhost\r\nX:\r\nY: \t a\tb \xc3\xa4 \t\r\n"
        "!#$%&'*+-.^_`|~09azAZ: :\r\nX: again\r\n\r\n");
    EXPECT_EQ(client.receive().status, 200);
    EXPECT_LT(end(), kSoon);
}

TEST_F(HttpConversation, accepts_a_head_up_to_its_limit_and_refuses_it_beyond) {
    const std::string line = "GET /api/v1/ping HTTP/1.1\r\n";
    std::string headers;
    while (line.size() + headers.size() + 104 <= kHeadMax - 2)
        headers += "X: " + std::string(99, 'x') + "\r\n";
    headers += "X:" + std::string(kHeadMax - line.size() - headers.size() - 6, 'x') + "\r\n";
    ASSERT_EQ(line.size() + headers.size() + 2, kHeadMax);
    for (const bool longer : {false, true}) {
        Client client = begin({.idle_max = kShort});
        client.send_text(line + (longer ? "X" : "") + headers + "\r\n");
        const Reply reply = client.receive();
        EXPECT_EQ(reply.status, longer ? 400 : 200);
        if (longer) {
            EXPECT_EQ(reply.message(), "a request may have at most 16384 bytes before its body");
        }
        EXPECT_LT(end(), kSoon);
    }
}

TEST_F(HttpConversation, accepts_a_line_of_a_head_up_to_its_limit_and_refuses_it_beyond) {
    const std::string line = "GET /livez HTTP/1.1\r\n", begin_of_header = "X: ", end_of_line = "\r\n";
    for (const bool longer : {false, true}) {
        const size_t length = kLineMax - begin_of_header.size() - end_of_line.size() + longer;
        Client client = begin({.idle_max = kShort});
        client.send_text(line + begin_of_header + std::string(length, 'x') + end_of_line + "\r\n");
        const Reply reply = client.receive();
        EXPECT_EQ(reply.status, longer ? 400 : 200) << reply.message();
        if (longer) {
            EXPECT_EQ(reply.message(), "a line of a request may have at most 8192 bytes before its body");
        }
        EXPECT_LT(end(), kSoon);
    }
    const std::string begin_of_line = "GET /livez?", version = " HTTP/1.1\r\n";
    for (const bool longer : {false, true}) {
        const size_t length = kLineMax - begin_of_line.size() - version.size() + longer;
        Client client = begin({.idle_max = kShort});
        client.send_text(begin_of_line + std::string(length, 'x') + version + "\r\n");
        EXPECT_EQ(client.receive().status, longer ? 400 : 200);
        EXPECT_LT(end(), kSoon);
    }
}

// Fragments of requests, in orders and with bytes that no real client would send.
TEST_F(HttpConversation, ends_for_any_input) {
    const char* const kPieces[] = {"GET ",
                                   "POST ",
                                   "OPTIONS ",
                                   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                   "/api/v1/echo",
                                   "/api/v1/ping",
                                   "/metrics",
                                   "/%00%ff%",
                                   "?a=b&&=&%",
                                   " HTTP/1.1\r\n",
                                   " HTTP/1.0\r\n",
                                   "Host: localhost\r\n",
                                   "Content-Length: 10\r\n",
                                   "Content-Length: -1\r\n",
                                   "Content-Length: 99999999999999999999\r\n",
                                   "Transfer-Encoding: chunked\r\n",
                                   "Connection: close\r\n",
                                   "Connection: keep-alive\r\n",
                                   "Expect: 100-continue\r\n",
                                   "Range: bytes=0-,-1,5-2\r\n",
                                   "Accept-Encoding: gzip, br\r\n",
                                   "Content-Encoding: gzip\r\n",
                                   "Content-Type: multipart/form-data; boundary=x\r\n",
                                   "--x\r\nContent-Disposition: form-data; name=\"\r\n",
                                   "Upgrade: websocket\r\n",
                                   "\r\n",
                                   "\n",
                                   "\r",
                                   "{\"a\": [[[[",
                                   "]]]]}",
                                   "5\r\nhello\r\n",
                                   "0\r\n\r\n",
                                   ":",
                                   " ",
                                   "\t"};
    std::mt19937 chance(1);
    for (int round = 0; round < 500; ++round) {
        std::string text;
        for (size_t i = chance() % 24; i > 0; --i) text += kPieces[chance() % std::size(kPieces)];
        for (size_t i = chance() % 4; i > 0 && !text.empty(); --i)
            text[chance() % text.size()] = static_cast<char>(chance());
        Client client = begin({.may_change = round % 2 == 0,
                               .only_health = round % 3 == 0,
                               .only_local = round % 5 == 0,
                               .idle_max = from_s(1),
                               .request_max = from_s(1)});
        client.send_text(text);
        client.end_sending();
        while (client.receive().status != 0) continue;
        ASSERT_LT(end(), kSoon) << text;
    }
}

}  // namespace
}  // namespace wss::http
