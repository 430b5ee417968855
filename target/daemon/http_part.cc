// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/http_part.h"

#include "lib/base/log.h"

namespace wss::daemon {

Status HttpPart::listen(const std::string& address, const std::string& control) {
    if (!address.empty()) {
        auto server = http::Server::start_at_port(address, site_);
        if (!server) return server.status();
        port_ = std::move(*server);
        log::info("HTTP: metrics and API at http://{}/", port_->address());
    }
    if (!control.empty()) {
        auto server = http::Server::start_at_socket(control, site_);
        if (!server) return server.status();
        control_ = std::move(*server);
    }
    return Status::ok();
}

Status HttpPart::stop(Nanoseconds limit) {
    const Status control = http::Server::stop(std::move(control_), limit);
    const Status port = http::Server::stop(std::move(port_), kAnswerMax);
    return control ? port : control;
}

}  // namespace wss::daemon
