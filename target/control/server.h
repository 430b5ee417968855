// SPDX-License-Identifier: Apache-2.0
// The control socket: a Unix socket on which wssctl asks and the target answers, one JSON object per line.
//
//   -> {"id": 1, "method": "volume.resize", "params": {"name": "disk0", "size": "20G"}}
//   <- {"id": 1, "result": {...}}            or
//   <- {"id": 1, "error": {"code": "not found", "message": "there is no volume disk0"}}
//
// Clients are root and the user who runs the target (checked by SO_PEERCRED); others are told so and closed.
// Each client has a thread of its own, so that a long change does not keep others waiting; reactors are never
// involved. Everything is bounded: clients, length of a line, time to take an answer, idle time.
//
// Thread-safety: start() and stop() from one thread. Lifetime: `methods` outlives the server.
#pragma once

#include <sys/types.h>

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
#include "target/control/methods.h"

namespace wss::control {

constexpr size_t kClientsMax = 16;
constexpr size_t kLineMax = 1 << 20;

class Server {
  public:
    // Takes over the socket of a target that is dead, refuses when it lives.
    static Result<std::unique_ptr<Server>> start(const std::string& path, const Methods& methods);
    // Ends all conversations and removes the socket. A handler that still runs after `limit` is a failure:
    // the server is leaked, and what its methods refer to must live as long as the process.
    static Status stop(std::unique_ptr<Server> server, Nanoseconds limit);
    // As stop(), and waits for handlers without limit.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    const std::string& path() const { return listener_.path(); }

  private:
    struct Client {
        int fd;
        bool finished = false;  // guarded by m_
        std::thread thread;
    };

    Server(UnixListener listener, Descriptor stop, const Methods& methods);
    void end_accepting();
    bool wait_for_clients(Nanoseconds limit);
    void accept_loop();
    void admit(int fd);
    void reap_finished();
    void serve(int fd);
    bool answer_lines(int fd, std::string& buffered);
    std::string answer(const std::string& line) const;

    // Immutable.
    const UnixListener listener_;
    const Descriptor stop_;  // readable once the server stops
    const Methods& methods_;
    std::mutex m_;
    std::condition_variable finished_;  // a client, with m_
    std::list<Client> clients_;         // changed by the accepting thread alone; `finished` guarded by m_
    std::thread acceptor_;
};

}  // namespace wss::control
