// SPDX-License-Identifier: Apache-2.0
// A reserved address: a starting program holds it until it listens there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/fabric/open.h"

namespace wss::fabric {
namespace {

using Ends = std::vector<std::string>;

class RecordingListener final : public Listener {
  public:
    explicit RecordingListener(Ends& ends) : ends_(ends) {}
    ~RecordingListener() override { ends_.emplace_back("listener"); }
    Address address() const override { return {}; }

  private:
    Ends& ends_;
};

class RecordingPoller final : public Poller {
  public:
    explicit RecordingPoller(Ends& ends) : ends_(ends) {}
    ~RecordingPoller() override { ends_.emplace_back("poller"); }
    size_t poll() noexcept override { return 0; }
    Result<std::unique_ptr<Listener>> listen(const Address&, ListenHandler&) override {
        return failure(Code::kUnsupported, "not used");
    }
    Result<std::unique_ptr<Connection>> connect(const Address&, std::span<const std::byte>,
                                                const ConnectionOptions&, ConnectionHandler&) override {
        return failure(Code::kUnsupported, "not used");
    }

  private:
    Ends& ends_;
};

ReservedAddress reserved(Ends& ends) {
    return {std::make_unique<RecordingPoller>(ends), std::make_unique<RecordingListener>(ends)};
}

// The destructor of a verbs listener uses the event channel of its poller.
TEST(ReservedAddress, destroys_its_listener_before_the_poller_even_on_assignment) {
    Ends ends;
    ReservedAddress address = reserved(ends);
    address = {};
    EXPECT_EQ(ends, (Ends{"listener", "poller"}));
    address = reserved(ends);
    ends.clear();
    address = reserved(ends);
    EXPECT_EQ(ends, (Ends{"listener", "poller"}));
}

}  // namespace
}  // namespace wss::fabric
