// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lib/base/clock.h"
#include "lib/base/paths.h"

namespace wss::wssctl {

namespace {

// Answers are lists of at most a few thousand lines. A longer answer is not from a WSS target.
constexpr size_t kAnswerMax = 64 << 20;

class Socket {
  public:
    Socket() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
    ~Socket() {
        if (fd_ >= 0) close(fd_);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int fd() const { return fd_; }

  private:
    int fd_;
};

Status connect_error(int error, const std::string& path) {
    if (error == ENOENT || error == ECONNREFUSED)
        return failure(Code::kUnavailable,
                       "no wss-target answers at {}: start it, or name its socket with --control", path);
    if (error == EACCES || error == EPERM)
        return failure(Code::kUnavailable,
                       "{}: not allowed; run wssctl as root or as the user that runs wss-target", path);
    return failure(Code::kUnavailable, "{}: {}", path, std::strerror(error));
}

Status connect_to(const Socket& socket, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return failure(Code::kInvalid, "--control {}: the path may have at most {} characters", path,
                       sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.data(), path.size());
    if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return Status::ok();
    return connect_error(errno, path);
}

// Checks the owner of the listening process: a command may carry secrets, and any user can listen in a
// directory where any user can create files. Accepts root, this user, and the owner of the socket's
// directory, who controls its contents (the user wss for /run/wss).
Status check_peer(const Socket& socket, const std::string& path) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return Status::from_errno(errno, path + ": SO_PEERCRED");
    if (peer.uid == 0 || peer.uid == geteuid()) return Status::ok();
    const std::string folder = std::filesystem::path(path).parent_path().string();
    struct stat info {};
    if (stat(folder.empty() ? "." : folder.c_str(), &info) == 0 && info.st_uid == peer.uid)
        return Status::ok();
    return failure(Code::kPermission,
                   "{} belongs to a process of user {}, who is neither you, nor root, nor the directory's "
                   "owner: run wssctl as that user if you trust it",
                   path, peer.uid);
}

Status send_all(const Socket& socket, const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
        ssize_t result = send(socket.fd(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (result < 0 && errno == EINTR) continue;
        // A target that refuses the request may already have answered, so read the answer.
        if (result <= 0) break;
        sent += static_cast<size_t>(result);
    }
    return Status::ok();
}

// Receives until the target closes the connection, which it does after the answer (Connection: close).
Result<std::string> receive_all(const Socket& socket, uint32_t timeout_seconds) {
    std::string text;
    Nanoseconds deadline = SystemClock().now() + from_s(timeout_seconds);
    for (;;) {
        int64_t left_ms = (deadline - SystemClock().now()).count / 1'000'000;
        pollfd ready{socket.fd(), POLLIN, 0};
        int count = left_ms <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left_ms));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            return failure(
                Code::kTimedOut,
                "no answer within {} s (--timeout); the target may still be processing the request",
                timeout_seconds);
        char chunk[65536];
        ssize_t got = recv(socket.fd(), chunk, sizeof chunk, 0);
        if (got <= 0) return text;
        text.append(chunk, static_cast<size_t>(got));
        if (text.size() > kAnswerMax)
            return Status(Code::kInvalid, "the answer does not end: not a wss-target?");
    }
}

Result<Json> parse_answer(const std::string& text) {
    if (text.empty()) return Status(Code::kUnavailable, "the target closed the connection without an answer");
    constexpr std::string_view kVersion = "HTTP/1.1 ", kEnd = "\r\n\r\n";
    const size_t end = text.find(kEnd);
    Json answer;
    if (text.starts_with(kVersion) && end != std::string::npos)
        answer =
            Json::parse(text.begin() + static_cast<ptrdiff_t>(end + kEnd.size()), text.end(), nullptr, false);
    if (!answer.is_structured())
        return Status(Code::kInvalid, "the answer is not JSON over HTTP: not a wss-target?");
    if (text.substr(kVersion.size()).starts_with("200")) return answer;
    const Json error = answer.is_object() ? answer.value("error", Json()) : Json();
    return Status(Code::kRefused, error.is_object()
                                      ? error.value("message", "the target refused without a reason")
                                      : "the target refused without a reason");
}

// `verb`: "POST" with a body, or "GET".
Result<Json> request(const Context& context, const char* verb, std::string method, const std::string& body) {
    auto path = find_control_socket(context.control);
    if (!path) return path.status();
    Socket socket;
    if (socket.fd() < 0) return Status::from_errno(errno, "socket");
    WSS_TRY(connect_to(socket, *path));
    WSS_TRY(check_peer(socket, *path));
    std::replace(method.begin(), method.end(), '.', '/');
    const std::string length =
        body.empty() ? ""
                     : fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
    WSS_TRY(
        send_all(socket, fmt::format("{} /api/v1/{} HTTP/1.1\r\nHost: wss\r\nConnection: close\r\n{}\r\n{}",
                                     verb, method, length, body)));
    auto answer = receive_all(socket, context.timeout_seconds);
    if (!answer) return answer.status();
    return parse_answer(*answer);
}

}  // namespace

Result<Json> ask(const Context& context, const std::string& method) {
    return request(context, "GET", method, "");
}

Result<Json> request_change(const Context& context, const std::string& method, const Json& params) {
    return request(context, "POST", method, params.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace wss::wssctl
