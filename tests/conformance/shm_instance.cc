// SPDX-License-Identifier: Apache-2.0
// The shm fabric under test.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "lib/fabric/shm/shm.h"
#include "lib/fabric/shm/socket.h"
#include "tests/conformance/fabric_under_test.h"

namespace wss::fabric::conformance {
namespace {

// The folder of the sockets. Some tests fork peers and kill them; the first process deletes the sockets that
// these leave.
struct Folder {
    const pid_t owner = getpid();
    std::string path = "/tmp/wss-conformance-XXXXXX";
    Folder() { WSS_ASSERT(mkdtemp(path.data()) != nullptr, "cannot create a folder in /tmp"); }
    ~Folder() {
        if (getpid() == owner) std::filesystem::remove_all(path);
    }
};
const Folder folder;

class ShmWorld final : public World {
  public:
    Fabric& client() override { return *client_; }
    Fabric& server() override { return *server_; }
    Address listen_address() override {
        static std::atomic<int> count{0};
        return {.scheme = Scheme::kShm,
                .host = fmt::format("{}/{}-{}.sock", folder.path, getpid(), ++count),
                .port = 0};
    }
    std::optional<Address> silent() override {
        Address address = listen_address();
        deaf_ = std::move(*shm::listen_at(address.host));
        return address;
    }

  private:
    std::unique_ptr<Fabric> client_ = std::move(*shm::open());
    std::unique_ptr<Fabric> server_ = std::move(*shm::open());
    UnixListener deaf_;  // the kernel accepts connections, but no listener answers them
};

const Registration kShm({.name = "shm", .make = [] { return std::make_unique<ShmWorld>(); }});

}  // namespace
}  // namespace wss::fabric::conformance
