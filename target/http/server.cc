// SPDX-License-Identifier: Apache-2.0
#include "target/http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lib/base/thread.h"
#include "lib/fabric/resolve.h"
#include "target/http/loopback.h"

namespace wss::http {

namespace {

constexpr Nanoseconds kControlIdle = from_s(5 * 60);
constexpr Nanoseconds kPortIdle = from_s(30);
constexpr int kBacklog = 64;
constexpr int kAcceptRetryMs = 100;  // pause when there are no free descriptors

void signal_event(const Descriptor& event) {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(event.get(), &one, sizeof one);
}

bool may_use(int fd) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

Result<fabric::SocketAddress> resolve(const std::string& address) {
    const bool only_port = address.find_first_not_of("0123456789") == std::string::npos;
    auto parsed = fabric::Address::parse((only_port ? "tcp://127.0.0.1:" : "tcp://") + address, 0);
    if (!parsed || address.empty() || (parsed->port == 0 && !address.ends_with("0")))
        return failure(Code::kInvalid,
                       "invalid address '{}': write HOST:PORT, or PORT for the loopback address", address);
    auto all = fabric::resolve(*parsed);
    if (!all) return all.status();
    return all->front();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start_at_socket(const std::string& path, const Site& site) {
    std::error_code error;
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error)
        return Status::from_errno(error.value(),
                                  fmt::format("control socket {}: cannot create its directory", path));
    auto listener = UnixListener::open(path, SOCK_STREAM | SOCK_NONBLOCK, kBacklog);
    if (!listener && listener.status().code() == Code::kBusy)
        return failure(Code::kBusy, "control socket {}; stop that program, or give another --control",
                       listener.status().text());
    if (!listener) return listener.status().within("control socket");
    return start({.path = std::move(*listener)}, path, site);
}

// SO_REUSEADDR lets a restarted program bind the port at once, even if connections of its predecessor still
// exist. Unlike SO_REUSEPORT, it does not let two programs listen at the port.
Result<Server::Listener> Server::listen_at_port(const std::string& address, std::string& bound) {
    auto wanted = resolve(address);
    if (!wanted) return wanted.status();
    Descriptor socket(::socket(wanted->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
        return Status::from_errno(errno, "cannot create a socket");
    if (bind(socket.get(), wanted->get(), wanted->length) != 0 || listen(socket.get(), kBacklog) != 0) {
        if (errno == EADDRINUSE)
            return failure(Code::kBusy,
                           "another program listens there: give another port, or stop it (ss -ltnp)");
        return Status::from_errno(errno, "cannot listen there");
    }
    fabric::SocketAddress got = *wanted;
    if (getsockname(socket.get(), got.get(), &got.length) != 0)
        return Status::from_errno(errno, "getsockname");
    bound = got.to_string();
    return Listener{.port = std::move(socket), .only_local = is_loopback(got.storage)};
}

Result<std::unique_ptr<Server>> Server::start_at_port(const std::string& address, const Site& site) {
    std::string bound;
    auto listener = listen_at_port(address, bound);
    if (!listener) return listener.status().within("--http " + address);
    return start(std::move(*listener), std::move(bound), site);
}

Result<std::unique_ptr<Server>> Server::start(Listener listener, std::string address, const Site& site) {
    Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop || !ended)
        return Status::from_errno(errno, fmt::format("{}: cannot create an eventfd", address));
    return std::unique_ptr<Server>(
        new Server(std::move(listener), std::move(address), std::move(stop), std::move(ended), site));
}

Server::Server(Listener listener, std::string address, Descriptor stop, Descriptor ended, const Site& site)
    : listener_(std::move(listener)),
      address_(std::move(address)),
      stop_(std::move(stop)),
      ended_(std::move(ended)),
      site_(site) {
    // The threads of the server receive no signals, because each thread inherits the signal mask of its
    // creator.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    acceptor_ = std::thread([this] { accept_loop(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Server::end_accepting() {
    if (!acceptor_.joinable()) return;
    signal_event(stop_);
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
    return failure(Code::kTimedOut, "a request has not completed after {} s; exiting without it",
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
        pollfd fds[3] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR) return;
        if (fds[1].revents != 0) return;
        reap_finished();
        int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(fd);
        } else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
            // There are no free descriptors, or no memory. The client stays in the backlog, which keeps the
            // listening socket readable: without a pause this loop would spin.
            if (poll(&fds[1], 1, kAcceptRetryMs) > 0) return;
        }
    }
}

void Server::reap_finished() {
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(ended_.get(), &count, sizeof count);
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

// Checks the permission of the client and the limit on clients.
Status Server::check(int fd) const {
    if (listener_.path && !may_use(fd))
        return Status(Code::kPermission, "only root and the user who runs this program may control it");
    const size_t most = listener_.path ? kControlClientsMax : kPortClientsMax + kHealthClientsMax;
    if (clients_.size() < most) return Status::ok();
    return failure(Code::kExhausted, "{} clients are connected, the maximum: disconnect one of them", most);
}

void Server::admit(int fd) {
    const int yes = 1;
    if (!listener_.path) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (Status allowed = check(fd); !allowed) {
        refuse(fd, allowed);
        close(fd);
        return;
    }
    const bool control = static_cast<bool>(listener_.path);
    const Terms terms{.may_change = control,
                      .only_health = !control && clients_.size() >= kPortClientsMax,
                      .only_local = listener_.only_local,
                      .idle_max = control ? kControlIdle : kPortIdle};
    Client& client = clients_.emplace_back(Client{fd, terms, false, {}});
    auto thread = start_thread("another client", [this, &client] { serve(client); });
    if (thread) {
        client.thread = std::move(*thread);
        return;
    }
    refuse(fd, Status(Code::kExhausted, "cannot create a thread for another client: try again later"));
    close(fd);
    clients_.pop_back();
}

void Server::serve(Client& client) {
    converse(client.fd, stop_.get(), site_, client.terms);
    shutdown(client.fd, SHUT_RDWR);
    std::lock_guard lock(m_);
    client.finished = true;
    finished_.notify_all();
    signal_event(ended_);
}

}  // namespace wss::http
