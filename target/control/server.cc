// SPDX-License-Identifier: Apache-2.0
#include "target/control/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
constexpr int kAcceptRetryMs = 100;  // out of descriptors

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

// What one line holds. The JSON library copies and destroys nested values recursively, so that the parser
// counts the levels and builds nothing beyond kNestingMax of them: deep nesting would exhaust the stack.
Result<json> parse_request(const std::string& line) {
    if (line.size() > kLineMax)
        return failure(Code::kInvalid, "a request may have at most {} bytes", kLineMax);
    bool too_deep = false;
    auto parse_limit = [&](int depth, json::parse_event_t event, json&) {
        const bool opens =
            event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
        if (opens && depth >= kNestingMax) too_deep = true;
        return !too_deep;
    };
    json request = json::parse(line, parse_limit, false);
    if (too_deep) return failure(Code::kInvalid, "a request may nest at most {} levels deep", kNestingMax);
    if (!request.is_object()) return failure(Code::kInvalid, "not a JSON object");
    return request;
}

std::string error_line(const json& id, const Status& status) {
    return dump(
        {{"id", id}, {"error", {{"code", to_string(status.code())}, {"message", status.to_string()}}}});
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const std::string& path, const Methods& methods) {
    std::error_code error;
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error)
        return Status::from_errno(error.value(),
                                  fmt::format("control socket {}: cannot make its folder", path));
    auto listener = UnixListener::open(path, SOCK_STREAM | SOCK_NONBLOCK, kBacklog);
    if (!listener && listener.status().code() == Code::kBusy)
        return listener.status().within("another wss-target runs: stop it or give --control");
    if (!listener) return listener.status().within("control socket");
    Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop) return Status::from_errno(errno, fmt::format("control socket {}: eventfd", path));
    return std::unique_ptr<Server>(new Server(std::move(*listener), std::move(stop), methods));
}

Server::Server(UnixListener listener, Descriptor stop, const Methods& methods)
    : listener_(std::move(listener)), stop_(std::move(stop)), methods_(methods) {
    // Signals are the main thread's: threads inherit the mask they are started with.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    acceptor_ = std::thread([this] { accept_loop(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Server::end_accepting() {
    if (!acceptor_.joinable()) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(stop_.get(), &one, sizeof one);
    acceptor_.join();
}

bool Server::wait_for_clients(Nanoseconds limit) {
    std::unique_lock lock(m_);
    return finished_.wait_for(lock, std::chrono::nanoseconds(limit.count), [this] {
        return std::all_of(clients_.begin(), clients_.end(),
                           [](const Client& client) { return client.finished; });
    });
}

Status Server::stop(std::unique_ptr<Server> server, Nanoseconds limit) {
    if (server == nullptr) return Status::ok();
    server->end_accepting();
    if (server->wait_for_clients(limit)) return Status::ok();
    (void)server.release();
    return failure(Code::kTimedOut,
                   "a command of the control socket is not over after {} s; ending without it",
                   limit.count / 1'000'000'000);
}

Server::~Server() {
    end_accepting();
    for (Client& client : clients_) {
        client.thread.join();
        close(client.fd);
    }
}

void Server::accept_loop() {
    for (;;) {
        pollfd fds[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
        if (fds[1].revents != 0) return;
        int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(fd);
        } else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
            // Out of descriptors or memory. The client stays in the backlog, which keeps the listening socket
            // readable: without a pause this loop would spin.
            reap_finished();
            if (poll(&fds[1], 1, kAcceptRetryMs) > 0) return;
        }
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
        finished_.notify_all();
    });
}

void Server::serve(int fd) {
    std::string buffered;
    char chunk[16384];
    for (;;) {
        pollfd fds[2] = {{fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
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
    auto parsed = parse_request(line);
    if (!parsed) return error_line(nullptr, parsed.status());
    json& request = *parsed;
    json id = request.contains("id") ? request["id"] : json();
    if (!request.contains("method") || !request["method"].is_string())
        return error_line(id, Status(Code::kInvalid, "\"method\" is missing or no text"));
    auto result = methods_.call(request["method"].get<std::string>(), request.value("params", json()));
    if (!result) return error_line(id, result.status());
    return dump({{"id", id}, {"result", *result}});
}

}  // namespace wss::control
