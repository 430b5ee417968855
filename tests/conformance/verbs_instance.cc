// SPDX-License-Identifier: Apache-2.0
// The verbs fabric under test, only if WSS_TEST_RDMA names the address of an RDMA device of this machine, for
// example rdma://10.87.0.1 in the lab. Otherwise the tests are not listed.
#include <cstdlib>

#include "lib/fabric/verbs/verbs.h"
#include "tests/conformance/fabric_under_test.h"

namespace wss::fabric::conformance {
namespace {

Address device_address(uint16_t port) {
    Address address = *Address::parse(std::getenv("WSS_TEST_RDMA"), 0);
    address.port = port;
    return address;
}

std::unique_ptr<Fabric> open_device() {
    Result<std::unique_ptr<Fabric>> fabric = verbs::open(device_address(0));
    if (!fabric) std::fprintf(stderr, "%s\n", fabric.status().to_string().c_str());
    WSS_ASSERT(fabric.is_ok(), "WSS_TEST_RDMA does not name the address of an RDMA device");
    return std::move(*fabric);
}

class VerbsWorld final : public World, private ListenHandler {
  public:
    Fabric& client() override { return *client_; }
    Fabric& server() override { return *server_; }
    Address listen_address() override { return device_address(0); }
    Address nobody() override { return device_address(1); }
    // A listener whose poller is never polled.
    std::optional<Address> silent() override {
        if (deaf_ == nullptr) {
            deaf_poller_ = std::move(*server_->create_poller());
            deaf_ = std::move(*deaf_poller_->listen(device_address(0), *this));
        }
        return deaf_->address();
    }
    // Ten thousand cycles take one to ten minutes, depending on the load of the machine that emulates this
    // one.
    int cycles() const override {
        const char* wanted = std::getenv("WSS_TEST_CYCLES");
        return wanted != nullptr ? std::atoi(wanted) : 300;
    }

  private:
    void on_connect_request(std::unique_ptr<ConnectRequest>) noexcept override {}

    std::unique_ptr<Fabric> client_ = open_device();
    std::unique_ptr<Fabric> server_ = open_device();
    std::unique_ptr<Poller> deaf_poller_;
    std::unique_ptr<Listener> deaf_;
};

[[maybe_unused]] const bool registered = [] {
    if (std::getenv("WSS_TEST_RDMA") == nullptr) return false;
    Registration({.name = "verbs", .make = [] { return std::make_unique<VerbsWorld>(); }});
    return true;
}();

}  // namespace
}  // namespace wss::fabric::conformance
