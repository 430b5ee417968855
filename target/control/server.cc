// SPDX-License-Identifier: Apache-2.0
#include "target/control/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/log.h"

namespace wss::control {

namespace {

using nlohmann::json;

constexpr int kIdleMs = 5 * 60 * 1000;  // then a silent client gives its place to others
constexpr int kSendSeconds = 10;        // a client that does not take its answer is dropped
constexpr int kBacklog = 16;
constexpr int kNestingMax = 32;

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return failure(Code::kInvalid, "control socket '{}': the path must have 1 to {} characters", path,
                       sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

// A socket file whose owner is dead is removed; a living one is an error.
Status clear_the_way(const std::string& path, const sockaddr_un& address) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return Status::ok();
    if (!S_ISSOCK(info.st_mode))
        return failure(Code::kExists, "control socket {}: there is another file of this name", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return Status::from_errno(errno, fmt::format("control socket {}", path));
    int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    int error = errno;
    close(fd);
    if (result == 0)
        return failure(Code::kBusy,
                       "control socket {} is in use: another wss-target runs; stop it or give --control",
                       path);
    if (error == ECONNREFUSED && unlink(path.c_str()) == 0) return Status::ok();
    return Status::from_errno(error, fmt::format("control socket {}", path));
}

Status bind_and_listen(int fd, const std::string& path, const sockaddr_un& address) {
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return Status::from_errno(errno, fmt::format("control socket {}: cannot bind", path));
    // Before listen(), when nobody can have connected.
    if (chmod(path.c_str(), 0600) != 0 || listen(fd, kBacklog) != 0)
        return Status::from_errno(errno, fmt::format("control socket {}: cannot listen", path));
    return Status::ok();
}

bool may_use(int fd) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

bool send_line(int fd, std::string line) {
    line += '\n';
    size_t sent = 0;
    while (sent < line.size()) {
        ssize_t result = send(fd, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (result < 0 && errno == EINTR) continue;
        if (result <= 0) return false;
        sent += static_cast<size_t>(result);
    }
    return true;
}

std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The JSON library copies nested values recursively: what is nested without end would exhaust the stack.
// Brackets within texts count too, which only makes the limit stricter.
bool nested_too_deep(const std::string& line) {
    int depth = 0;
    for (char c : line) {
        if (c == '[' || c == '{') ++depth;
        if (c == ']' || c == '}') --depth;
        if (depth > kNestingMax) return true;
    }
    return false;
}

std::string error_line(const json& id, const Status& status) {
    return dump(
        {{"id", id}, {"error", {{"code", to_string(status.code())}, {"message", status.to_string()}}}});
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const std::string& path, const Methods& methods) {
    auto address = address_of(path);
    if (!address) return address.status();
    std::error_code error;
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error)
        return Status::from_errno(error.value(),
                                  fmt::format("control socket {}: cannot make its folder", path));
    WSS_TRY(clear_the_way(path, *address));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return Status::from_errno(errno, fmt::format("control socket {}", path));
    if (Status bound = bind_and_listen(fd, path, *address); !bound) {
        close(fd);
        return bound;
    }
    int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0) {
        Status failed = Status::from_errno(errno, fmt::format("control socket {}: eventfd", path));
        close(fd);
        unlink(path.c_str());
        return failed;
    }
    return std::unique_ptr<Server>(new Server(path, fd, stop_fd, methods));
}

Server::Server(std::string path, int listen_fd, int stop_fd, const Methods& methods)
    : path_(std::move(path)), listen_fd_(listen_fd), stop_fd_(stop_fd), methods_(methods) {
    // Signals are the main thread's: threads inherit the mask they are started with.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    acceptor_ = std::thread([this] { accept_loop(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Server::~Server() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(stop_fd_, &one, sizeof one);
    acceptor_.join();
    for (Client& client : clients_) {
        client.thread.join();
        close(client.fd);
    }
    close(listen_fd_);
    close(stop_fd_);
    unlink(path_.c_str());
}

void Server::accept_loop() {
    for (;;) {
        pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
        if (fds[1].revents != 0) return;
        int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) admit(fd);
    }
}

void Server::reap_finished() {
    for (auto client = clients_.begin(); client != clients_.end();) {
        bool finished = false;
        {
            std::lock_guard lock(m_);
            finished = client->finished;
        }
        if (!finished) {
            ++client;
            continue;
        }
        client->thread.join();
        close(client->fd);
        client = clients_.erase(client);
    }
}

void Server::admit(int fd) {
    reap_finished();
    timeval patience{kSendSeconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    Status refusal;
    if (!may_use(fd))
        refusal = Status(Code::kPermission, "only root and the user who runs wss-target may control it");
    else if (clients_.size() >= kClientsMax)
        refusal = failure(Code::kBusy, "{} clients are connected, the limit: end one of them", kClientsMax);
    if (!refusal) {
        send_line(fd, error_line(nullptr, refusal));
        close(fd);
        return;
    }
    Client& client = clients_.emplace_back(Client{fd, false, {}});
    client.thread = std::thread([this, &client] {
        serve(client.fd);
        shutdown(client.fd, SHUT_RDWR);
        std::lock_guard lock(m_);
        client.finished = true;
    });
}

void Server::serve(int fd) {
    std::string buffered;
    char chunk[16384];
    for (;;) {
        pollfd fds[2] = {{fd, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
        int ready = poll(fds, 2, kIdleMs);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0 || fds[1].revents != 0) return;
        ssize_t got = recv(fd, chunk, sizeof chunk, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        buffered.append(chunk, static_cast<size_t>(got));
        if (!answer_lines(fd, buffered)) return;
    }
}

bool Server::answer_lines(int fd, std::string& buffered) {
    size_t start = 0;
    for (size_t end; (end = buffered.find('\n', start)) != std::string::npos; start = end + 1)
        if (!send_line(fd, answer(buffered.substr(start, end - start)))) return false;
    buffered.erase(0, start);
    if (buffered.size() <= kLineMax) return true;
    send_line(fd,
              error_line(nullptr, failure(Code::kInvalid, "a request may have at most {} bytes", kLineMax)));
    return false;
}

std::string Server::answer(const std::string& line) const {
    if (nested_too_deep(line)) return error_line(nullptr, Status(Code::kInvalid, "nested too deeply"));
    json request = json::parse(line, nullptr, false);
    if (!request.is_object()) return error_line(nullptr, Status(Code::kInvalid, "not a JSON object"));
    json id = request.contains("id") ? request["id"] : json();
    if (!request.contains("method") || !request["method"].is_string())
        return error_line(id, Status(Code::kInvalid, "\"method\" is missing or no text"));
    auto result = methods_.call(request["method"].get<std::string>(), request.value("params", json()));
    if (!result) return error_line(id, result.status());
    return dump({{"id", id}, {"result", *result}});
}

}  // namespace wss::control
