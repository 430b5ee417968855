// SPDX-License-Identifier: Apache-2.0
// A target that does not know the secret of its initiator, for tests/system/test_auth.py:
//   WSS_TEST_IMPOSTOR=rdma://HOST:PORT    accepts logins, and at once names itself as a cache engine
// It grants what the initiator requests, authentication included, but never authenticates itself. It prints
// "listening", "login" for each login, and "engine" if an initiator connects to it as to a cache engine. It
// exits after a minute.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/wire/cache.h"
#include "lib/wire/srp.h"
#include "tests/conformance/verbs_process.h"

namespace wss::fabric {
namespace {

constexpr uint32_t kCredits = 64;
constexpr uint32_t kReceiveBytes = 1024;
constexpr size_t kNoticeBytes = 512;

class Impostor final : public ConnectionHandler, public ListenHandler {
  public:
    explicit Impostor(Address where) : where_(std::move(where)) {}

    int run() {
        if (Status started = start(); !started) {
            std::printf("failed: %s\n", started.to_string().c_str());
            return 1;
        }
        std::printf("listening\n");
        const Nanoseconds limit = SystemClock().now() + from_s(60);
        while (SystemClock().now() < limit) own_.poller->poll();
        return 0;
    }

    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        wire::CacheLogin engine;
        if (wire::parse_cache_login(request->data(), engine) == wire::ParseError::kNone) {
            std::printf("engine\n");
            return;
        }
        wire::LoginRequest login;
        if (wire::parse_login_request(request->data(), login) != wire::ParseError::kNone) return;
        std::printf("login\n");
        const wire::LoginResponse response{.tag = login.tag,
                                           .credits = kCredits,
                                           .max_it_iu = WSS_SRP_MAX_IT_IU_LEN,
                                           .max_ti_iu = WSS_SRP_MAX_TI_IU_LEN,
                                           .extended = true,
                                           .caps = login.caps};
        std::array<std::byte, 196> data{};
        const size_t length = wire::encode_login_response(response, data);
        auto made = request->create(*own_.poller, {}, *this);
        if (!made) return;
        Segment segment{own_.memory->bytes().data(), kReceiveBytes, own_.memory->lkey()};
        const Receive receive{.segments = {&segment, 1}};
        for (uint32_t i = 0; i < kCredits; ++i) (void)(*made)->post_receives({&receive, 1});
        if (Status accepted = (*made)->accept({data.data(), length}); !accepted)
            std::printf("failed: %s\n", accepted.to_string().c_str());
        connections_.push_back(std::move(*made));
    }
    void on_established(Connection& connection, std::span<const std::byte>) noexcept override {
        wire::CacheEngineNotice notice{.handle = 1};
        notice.set_uri(where_.to_string());
        const std::span<std::byte> bytes = own_.memory->bytes().subspan(kReceiveBytes, kNoticeBytes);
        Segment segment{bytes.data(), static_cast<uint32_t>(wire::encode_cache_engine(notice, bytes)),
                        own_.memory->lkey()};
        const WorkRequest work{.op = Op::kSend, .segments = {&segment, 1}};
        (void)connection.post({&work, 1});
    }
    void on_refused(Connection&, const Status&, std::span<const std::byte>) noexcept override {}
    void on_completions(Connection&, std::span<const Completion>) noexcept override {}
    void on_closed(Connection&, const Status& why) noexcept override {
        std::printf("closed: %s\n", why.to_string().c_str());
    }

  private:
    Status start() {
        WSS_TRY(own_.start(where_, kReceiveBytes + kNoticeBytes));
        auto listening = own_.poller->listen(where_, *this);
        if (!listening) return listening.status();
        listener_ = std::move(*listening);
        return Status::ok();
    }

    const Address where_;
    VerbsProcess own_;
    std::unique_ptr<Listener> listener_;
    std::vector<std::unique_ptr<Connection>> connections_;  // kept until the process ends
};

[[maybe_unused]] const bool played = [] {
    const char* where = std::getenv("WSS_TEST_IMPOSTOR");
    if (where == nullptr) return false;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    int status = 1;
    if (auto address = Address::parse(where, 0)) status = Impostor(*address).run();
    std::fflush(stdout);
    _exit(status);
}();

}  // namespace
}  // namespace wss::fabric
