// SPDX-License-Identifier: Apache-2.0
// Server: serves a Site at a Unix socket, which is the control socket of wssctl, or at a TCP port.
//
// control socket   allows changes. Clients are root and the user who runs the program (checked by
//                  SO_PEERCRED). Others get an error. Example:
//                  curl --unix-socket PATH http://wss/api/v1/volume/list
// port             read-only, without authentication. At a loopback address it also refuses requests whose
//                  Host: header is another name, or missing in HTTP/1.1, so that no web site can read it
//                  through a browser of this machine (DNS rebinding).
//
// Each client has its own thread, so a long change does not delay others. Methods post tasks to reactors.
// Everything is bounded: clients, sizes, time to send a request and to receive an answer, idle time. Beyond
// its limit of clients, a port serves kHealthClientsMax more clients, but answers only their health checks.
//
// Thread-safety: call the start functions and stop() from one thread. Lifetime: `site` outlives the server.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/base/unix_socket.h"
#include "target/http/conversation.h"

namespace wss::http {

constexpr size_t kControlClientsMax = 16;
constexpr size_t kPortClientsMax = 48;
constexpr size_t kHealthClientsMax = 16;  // in addition to the normal limit

class Server {
  public:
    // Replaces the socket of a program that has ended. Fails if that program is still running.
    static Result<std::unique_ptr<Server>> start_at_socket(const std::string& path, const Site& site);
    // `address`: "HOST:PORT", or "PORT" at 127.0.0.1. Fails if another program uses the port.
    static Result<std::unique_ptr<Server>> start_at_port(const std::string& address, const Site& site);
    // Ends all connections and removes the socket. Fails if a handler still runs after `limit`. The server is
    // leaked in that case, and the objects that its methods use must live as long as the process.
    static Status stop(std::unique_ptr<Server> server, Nanoseconds limit);
    // Like stop(), but waits for handlers without a limit.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // The path, or HOST:PORT with the bound port.
    const std::string& address() const { return address_; }

  private:
    struct Client {
        int fd;
        Terms terms;
        bool finished = false;  // guarded by m_
        std::thread thread;
    };
    // Either `path` or `port` is set.
    struct Listener {
        UnixListener path;
        Descriptor port;
        bool only_local = false;
        int get() const { return path ? path.get() : port.get(); }
    };

    static Result<Listener> listen_at_port(const std::string& address, std::string& bound);
    static Result<std::unique_ptr<Server>> start(Listener listener, std::string address, const Site& site);
    Server(Listener listener, std::string address, Descriptor stop, Descriptor ended, const Site& site);
    void end_accepting();
    bool wait_for_clients(Nanoseconds limit);
    void accept_loop();
    void admit(int fd);
    void serve(Client& client);
    Status check(int fd) const;
    void reap_finished();

    // Immutable.
    const Listener listener_;
    const std::string address_;
    const Descriptor stop_;   // readable once the server stops
    const Descriptor ended_;  // readable while a finished client's thread is not joined
    const Site& site_;
    std::mutex m_;
    std::condition_variable finished_;  // a client has finished; used with m_
    std::list<Client> clients_;         // changed only by the accepting thread; `finished` guarded by m_
    std::thread acceptor_;
};

}  // namespace wss::http
