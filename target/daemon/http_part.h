// SPDX-License-Identifier: Apache-2.0
// HttpPart: the HTTP servers of a program with its methods, counters and health, at the control socket and at
// the port of --http.
//
// Thread-safety: start and stop it from one thread. Lifetime: the objects to which methods, counters and
// health checks refer outlive it. If stop() fails, they must live as long as the process.
#pragma once

#include <memory>
#include <string>

#include "target/control/methods.h"
#include "target/http/server.h"

namespace wss::daemon {

class HttpPart {
  public:
    // A request may wait for several threads, each for seconds.
    static constexpr Nanoseconds kAnswerMax = from_s(60);

    // Must be the first step of a start. It fails at once if the port or socket is in use. Until open(),
    // clients get the answer that the program is starting. `address`: that of the port. `control`: path of
    // the control socket; "": none.
    Status listen(const std::string& address, const std::string& control);
    // Must be filled before open().
    control::Methods& methods() { return methods_; }
    metrics::Exporter& exporter() { return exporter_; }
    http::Health& health() { return health_; }
    const http::Health& health() const { return health_; }
    // Starts to serve methods and metrics.
    void open() { site_.open(methods_, exporter_, health_); }
    // Fails if a request at the control socket has not ended within `limit`, or one at the port within
    // kAnswerMax.
    Status stop(Nanoseconds limit);

  private:
    control::Methods methods_;
    metrics::Exporter exporter_;
    http::Health health_;
    http::Site site_;
    std::unique_ptr<http::Server> port_, control_;
};

}  // namespace wss::daemon
