// SPDX-License-Identifier: Apache-2.0
#include "target/http/conversation.h"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "target/http/loopback.h"

namespace wss::http {

namespace {

// A browser runs and loads only files of this program, and nothing that a name or a message contains.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The socket as a stream of the library. After the first failure, all calls fail.
class Connection final : public httplib::Stream {
  public:
    Connection(int fd, int stop, const Terms& terms) : fd_(fd), stop_(stop), terms_(terms) {}

    // Waits for the first byte of a request.
    bool wait_for_request() {
        answering_ = false;
        deadline_ = clock_.now() + terms_.idle_max;
        if (begin_ == end_ && !receive()) return false;
        deadline_ = clock_.now() + terms_.request_max;
        return true;
    }
    // Receives the head of the next request, for check_head(). Returns all received bytes if the head does
    // not fit the buffer, and nothing if the head did not arrive in time, the connection failed or the
    // program is stopping.
    std::string_view receive_head() {
        constexpr std::string_view kEnd = "\n\r\n";
        for (size_t seen = 0;;) {
            const std::string_view got(buffer_ + begin_, end_ - begin_);
            if (const size_t at = got.find(kEnd, seen); at != std::string_view::npos)
                return got.substr(0, at + kEnd.size());
            if (got.size() == sizeof buffer_) return got;
            seen = got.size() - std::min(got.size(), kEnd.size() - 1);
            if (!receive()) return {};
        }
    }
    // Sets the maximum size of the next request.
    void limit(size_t bytes) { left_ = bytes; }
    bool failed() const { return failed_; }

    bool is_readable() const override { return begin_ < end_ || wait(POLLIN); }
    bool is_writable() const override { return wait(POLLOUT); }
    ssize_t read(char* to, size_t size) override {
        if (begin_ == end_ && !receive()) return -1;
        const size_t count = std::min({size, end_ - begin_, left_});
        if (count == 0) return fail();
        std::copy_n(buffer_ + begin_, count, to);
        begin_ += count;
        left_ -= count;
        return static_cast<ssize_t>(count);
    }
    ssize_t write(const char* from, size_t size) override {
        if (!answering_) deadline_ = clock_.now() + terms_.answer_max;
        answering_ = true;
        while (!failed_ && wait(POLLOUT)) {
            const ssize_t sent = send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent > 0) return sent;
            if (sent == 0 || (errno != EINTR && errno != EAGAIN)) break;
        }
        return fail();
    }
    // The library needs neither addresses nor the descriptor, and would refuse one beyond FD_SETSIZE.
    void get_remote_ip_and_port(std::string&, int&) const override {}
    void get_local_ip_and_port(std::string&, int&) const override {}
    socket_t socket() const override { return INVALID_SOCKET; }

  private:
    ssize_t fail() {
        failed_ = true;
        return -1;
    }
    // Waits for `events`. Returns false if the deadline has passed or the server is stopping.
    bool wait(short events) const {
        for (;;) {
            const int64_t left = (deadline_ - clock_.now()).count / 1'000'000;
            if (left <= 0) return false;
            pollfd fds[2] = {{fd_, events, 0}, {stop_, POLLIN, 0}};
            const int ready = poll(fds, 2, static_cast<int>(left));
            if (ready < 0 && errno == EINTR) continue;
            return ready > 0 && fds[1].revents == 0;
        }
    }
    // Receives more bytes. REQUIRES: the buffer has room.
    bool receive() {
        std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        while (!failed_ && wait(POLLIN)) {
            const ssize_t got = recv(fd_, buffer_ + end_, sizeof buffer_ - end_, MSG_DONTWAIT);
            if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            if (got <= 0) break;
            end_ += static_cast<size_t>(got);
            return true;
        }
        fail();
        return false;
    }

    const int fd_, stop_;
    const Terms& terms_;
    mutable SystemClock clock_;
    Nanoseconds deadline_{};
    bool answering_ = false, failed_ = false;
    size_t left_ = 0;
    char buffer_[kHeadMax];
    size_t begin_ = 0, end_ = 0;  // received bytes that were not yet consumed
};

class Conversation final : private httplib::Server {
  public:
    Conversation(int fd, int stop, const Site& site, const Terms& terms)
        : fd_(fd), connection_(fd, stop, terms), site_(site), terms_(terms) {
        set_payload_max_length(kBodyMax);
        set_keep_alive_timeout(terms.idle_max.count / 1'000'000'000);
        set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
            return route(request, response);
        });
        Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
            give(site_.change(request.path, request.body), response);
        });
        // Answers for requests that the library itself refuses.
        set_error_handler(HandlerWithResponse([](const httplib::Request&, httplib::Response& response) {
            if (!response.body.empty()) return HandlerResponse::Unhandled;
            const Answer answer = error_answer(Status(
                Code::kInvalid, response.status == 413
                                    ? fmt::format("a body may have at most {} bytes", kBodyMax)
                                    : std::string("malformed HTTP request, or a part of it is too long")));
            response.set_content(answer.body, answer.type);
            return HandlerResponse::Handled;
        }));
    }

    void run() {
        while (!over_ && connection_.wait_for_request()) {
            const std::string_view head = connection_.receive_head();
            if (head.empty()) return;
            if (const Status in_order = check_head(head); !in_order) return refuse(fd_, in_order);
            connection_.limit(terms_.may_change ? kHeadMax + kBodyMax : kHeadMax);
            bool closed = false, understood = false;
            const bool answered =
                process(connection_, closed, [this, &understood](httplib::Request& request) {
                    understood = true;
                    prepare(request);
                });
            // After a request that could not be parsed, the start of the next one is unknown.
            over_ |= !answered || !understood || closed || connection_.failed() || terms_.only_health;
        }
    }

  private:
    // Newer versions of the library (0.18.7 in Debian 13) also expect the addresses of both ends.
    template <class Stream, class Prepare>
    bool process(Stream& stream, bool& closed, const Prepare& prepare) {
        const bool last = terms_.only_health;
        if constexpr (requires { process_request(stream, last, closed, prepare); })
            return process_request(stream, last, closed, prepare);
        else
            return process_request(stream, "", 0, "", 0, last, closed, prepare);
    }

    // Removes headers that would make the library decode, split or compress. Bodies are JSON, whatever their
    // Content-Type.
    void prepare(httplib::Request& request) {
        for (const char* name : {"Accept-Encoding", "Content-Encoding", "Content-Type", "Range"})
            request.headers.erase(name);
        request.ranges.clear();
        const bool body = request.has_header("Content-Length") || request.has_header("Transfer-Encoding");
        if (!body || request.method == "POST") return;
        over_ = true;  // the body is not read
        request.headers.erase("Connection");
        request.set_header("Connection", "close");
    }

    HandlerResponse route(const httplib::Request& request, httplib::Response& response) {
        const bool reads = request.method == "GET" || request.method == "HEAD";
        if (auto refusal = refusal_of(request, reads)) {
            give(*refusal, response);
        } else if (reads) {
            const Answer answer = site_.get(request.path, {request.params.begin(), request.params.end()});
            over_ |= answer.last;
            give(answer, response);
        } else {
            Answer refused;
            if (site_.check_change(request.path, refused)) return HandlerResponse::Unhandled;
            give(refused, response);
        }
        over_ |= !reads;  // the body is not read
        if (over_) response.set_header("Connection", "close");
        return HandlerResponse::Handled;
    }

    std::optional<Answer> refusal_of(const httplib::Request& request, bool reads) const {
        // A client of HTTP/1.0 may omit the header. Browsers never do.
        const bool names_host = request.has_header("Host") || request.version != "HTTP/1.0";
        if (terms_.only_local && names_host && !names_this_machine(request.get_header_value("Host")))
            return error_answer(
                Status(Code::kPermission,
                       "this port serves only programs on this machine: request localhost or a loopback "
                       "address, not another name"));
        if (terms_.only_health && !Site::is_health(request.path))
            return error_answer(Status(Code::kExhausted, "too many clients are connected: try again later"));
        if (!reads && request.method != "POST") {
            Answer answer = error_answer(
                failure(Code::kInvalid, "method {} is not supported: use GET, HEAD or POST", request.method));
            answer.status = 405;
            answer.allow = "GET, HEAD, POST";
            return answer;
        }
        if (!reads && !terms_.may_change)
            return error_answer(Status(Code::kPermission,
                                       "this port is read-only: changes need the control socket (wssctl)"));
        // The library accepts chunks that end in the wrong place.
        if (request.has_header("Transfer-Encoding")) {
            Answer answer = error_answer(
                Status(Code::kInvalid, "chunked bodies are not supported: send a Content-Length"));
            answer.status = 411;
            return answer;
        }
        return std::nullopt;
    }

    static void give(const Answer& answer, httplib::Response& response) {
        response.status = answer.status;
        response.set_content(answer.body, answer.type);
        // This also applies to the page: after an upgrade, a browser must not use the old page.
        response.set_header("Cache-Control", "no-store");
        response.set_header("Content-Security-Policy", kContentSecurityPolicy);
        response.set_header("Referrer-Policy", "no-referrer");
        response.set_header("X-Content-Type-Options", "nosniff");
        response.set_header("Cross-Origin-Resource-Policy", "same-origin");
        if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
    }

    const int fd_;
    Connection connection_;
    const Site& site_;
    const Terms& terms_;
    bool over_ = false;  // the connection ends after this answer
};

}  // namespace

void converse(int fd, int stop, const Site& site, const Terms& terms) {
    try {
        Conversation(fd, stop, site, terms).run();
    } catch (const std::exception& error) {  // of the library
        log::error("HTTP: {}", error.what());
    }
}

void refuse(int fd, const Status& status) {
    const Answer answer = error_answer(status);
    const std::string text = fmt::format(
        "HTTP/1.1 {} Refused\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        answer.status, answer.type, answer.body.size(), answer.body);
    // The buffer of a new connection has room for a few hundred bytes.
    (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace wss::http
