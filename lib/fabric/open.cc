// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/open.h"

#include "lib/fabric/device_report.h"
#include "lib/fabric/shm/shm.h"
#include "lib/fabric/tcp/tcp.h"
#include "lib/fabric/tls/context.h"
#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/context.h"
#include "lib/fabric/verbs/verbs.h"

namespace wss::fabric {

static Result<std::unique_ptr<Fabric>> open_tls(const tls::Credentials& credentials) {
    auto context = tls::Context::create(credentials);
    if (!context) return context.status();
    return tcp::open(std::move(*context));
}

Result<std::unique_ptr<Fabric>> open(const Address& address, const tls::Credentials& credentials) {
    switch (address.scheme) {
        case Scheme::kRdma:
            return verbs::open(address);
        case Scheme::kShm:
            return shm::open();
        case Scheme::kTcp:
            return tcp::open();
        case Scheme::kTls:
            return open_tls(credentials);
        default:
            break;
    }
    return failure(Code::kUnsupported, "{}: not part of this build", address.to_string());
}

namespace {

// Handler of a poller that is never polled.
class Nobody final : public ListenHandler {
    void on_connect_request(std::unique_ptr<ConnectRequest>) noexcept override {}
};

}  // namespace

Result<ReservedAddress> reserve(Fabric& fabric, const Address& address) {
    static Nobody nobody;
    auto poller = fabric.create_poller();
    if (!poller) return poller.status();
    auto listener = (*poller)->listen(address, nobody);
    if (!listener) return listener.status();
    return ReservedAddress(std::move(*poller), std::move(*listener));
}

std::string_view to_string(DeviceState state) {
    switch (state) {
        case DeviceState::kServing:
            return "serving";
        case DeviceState::kPortDown:
            return "port-down";
        case DeviceState::kRemoved:
            return "removed";
        case DeviceState::kReturned:
            return "returned";
    }
    return "unknown";
}

std::vector<DeviceReport> device_reports() {
    return verbs::Context::reports();
}

bool writes_in_order(const Connection& connection) noexcept {
    const auto* verbs = dynamic_cast<const verbs::VerbsConnection*>(&connection);
    return verbs == nullptr || verbs->writes_in_order();
}

}  // namespace wss::fabric
