// SPDX-License-Identifier: Apache-2.0
// Site: the HTTP answers of a program, at the control socket and at the port.
//
//   GET  /api/v1/NOUN/VERB   a method that reads (control/methods.h), with its result as JSON
//   POST /api/v1/NOUN/VERB   a method that changes something; the body is the JSON of its parameters
//   GET  /metrics            counters for Prometheus
//   GET  /                   the status page, which polls the API (target/http/page); its files are at /page/
//   GET  /livez, /readyz whether the program's threads respond; whether it is ready: 200, or 503 with the
//        reason
//
// An error is {"error": {"code": "not found", "message": "there is no volume disk0"}}, with a matching HTTP
// status. Before open(), every request except those for health and static files (assets.h) gets 503.
//
// Thread-safety: open() is called once; the rest may be called from any thread at any time.
// Lifetime: the arguments of open() outlive the servers of the site.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "target/control/methods.h"
#include "target/http/health.h"
#include "target/metrics/exporter.h"

namespace wss::http {

struct Answer {
    int status = 200;
    std::string type = "application/json";
    std::string body;
    std::string allow;  // for a 405: the allowed method
    bool last = false;  // the connection ends after this answer
};

using Query = std::multimap<std::string, std::string>;

Answer error_answer(const Status& status);

class Site {
  public:
    // Starts to answer requests for methods and metrics.
    void open(const control::Methods& methods, const metrics::Exporter& exporter, const Health& health);

    // Health is answered even while other answers wait for threads that do not respond.
    static bool is_health(std::string_view path) { return path == "/livez" || path == "/readyz"; }
    Answer get(const std::string& path, const Query& query) const;
    // Checks a POST before its body is read. On failure `refusal` is the answer.
    Status check_change(const std::string& path, Answer& refusal) const;
    Answer change(const std::string& path, const std::string& body) const;

  private:
    Answer health(bool ready) const;
    // Converts "/api/v1/volume/list" to "volume.list".
    Result<std::string> method_of(const std::string& path) const;

    std::atomic<bool> open_{false};  // stored with memory order release, after the members below
    const control::Methods* methods_ = nullptr;
    const metrics::Exporter* exporter_ = nullptr;
    const Health* health_ = nullptr;
};

}  // namespace wss::http
