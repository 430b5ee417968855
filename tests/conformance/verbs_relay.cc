// SPDX-License-Identifier: Apache-2.0
// A relay over RDMA, for tests/system/test_auth.py:
//   WSS_TEST_RELAY=rdma://HOST:PORT,rdma://HOST:PORT    listens on the first address, forwards to the second
// It prints "listening", and "forwarded N" for each message that it forwards. It exits after five minutes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/conformance/verbs_process.h"
#include "tests/support/relay.h"

namespace wss::fabric {
namespace {

int run(const Address& here, const Address& target) {
    VerbsProcess own;
    Status started = own.start(here, 4096);
    if (!started) {
        std::printf("failed: %s\n", started.to_string().c_str());
        return 1;
    }
    Relay relay(*own.fabric, *own.poller, here, target);
    if (!relay.status()) {
        std::printf("failed: %s\n", relay.status().to_string().c_str());
        return 1;
    }
    std::printf("listening\n");
    const Nanoseconds limit = SystemClock().now() + from_s(300);
    for (uint32_t printed = 0; SystemClock().now() < limit;) {
        own.poller->poll();
        while (printed < relay.forwarded()) std::printf("forwarded %u\n", ++printed);
    }
    return 0;
}

[[maybe_unused]] const bool played = [] {
    const char* addresses = std::getenv("WSS_TEST_RELAY");
    if (addresses == nullptr) return false;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string both = addresses;
    const size_t comma = both.find(',');
    auto here = Address::parse(both.substr(0, comma), 0);
    auto target = Address::parse(comma == std::string::npos ? "" : both.substr(comma + 1), 0);
    const int status = here && target ? run(*here, *target) : 1;
    std::fflush(stdout);
    _exit(status);  // the connections are not destroyed
}();

}  // namespace
}  // namespace wss::fabric
