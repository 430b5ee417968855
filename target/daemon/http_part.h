// SPDX-License-Identifier: Apache-2.0
// HttpPart: a program's side of HTTP: its methods, counters and health, at the control socket and at the port
// of --http.
//
// Thread-safety: start and stop from one thread. Lifetime: what methods, counters and health checks refer to
// outlives it, and lasts as long as the process if stop() fails.
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

    // First of all steps of a start: a port or socket that is in use fails at once, and clients learn that
    // the program is starting. `address` of the port, `control`: path of the control socket; "": none.
    Status listen(const std::string& address, const std::string& control);
    // To be filled before open().
    control::Methods& methods() { return methods_; }
    metrics::Exporter& exporter() { return exporter_; }
    http::Health& health() { return health_; }
    const http::Health& health() const { return health_; }
    // The program serves.
    void open() { site_.open(methods_, exporter_, health_); }
    // Fails if a change has not ended within `limit`.
    Status stop(Nanoseconds limit);

  private:
    control::Methods methods_;
    metrics::Exporter exporter_;
    http::Health health_;
    http::Site site_;
    std::unique_ptr<http::Server> port_, control_;
};

}  // namespace wss::daemon
