// SPDX-License-Identifier: Apache-2.0
// The shm fabric under test.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "lib/fabric/shm/shm.h"
#include "lib/fabric/shm/socket.h"
#include "tests/conformance/fabric_under_test.h"

namespace wss::fabric::conformance {
namespace {

class ShmWorld final : public World {
  public:
    ~ShmWorld() override {
        for (const std::string& path : paths_) unlink(path.c_str());
    }
    Fabric& client() override { return *client_; }
    Fabric& server() override { return *server_; }
    Address listen_address() override {
        static std::atomic<int> count{0};
        paths_.push_back(fmt::format("/tmp/wss-conformance-{}-{}.sock", getpid(), ++count));
        return {.scheme = Scheme::kShm, .host = paths_.back(), .port = 0};
    }
    std::optional<Address> silent() override {
        Address address = listen_address();
        deaf_ = std::move(*shm::listen_at(address.host));
        return address;
    }

  private:
    std::unique_ptr<Fabric> client_ = std::move(*shm::open());
    std::unique_ptr<Fabric> server_ = std::move(*shm::open());
    std::vector<std::string> paths_;
    stream::Descriptor deaf_;  // the kernel takes connections, nobody answers them
};

const Registration kShm({.name = "shm", .make = [] { return std::make_unique<ShmWorld>(); }});

}  // namespace
}  // namespace wss::fabric::conformance
