// SPDX-License-Identifier: Apache-2.0
// Attack "slow": initiators that log in, send as many reads of the good client's volume as their credits
// allow, and then accept nothing until the end of the attack. It is a failure if a login gets no answer, or
// if a closed connection does not end.
//
// Over RDMA, no program takes part in a transfer into its memory, so initiators cannot refuse the data. There
// they refuse the responses: they post no receives. Their reads are small, because the software RDMA device
// of an emulated machine transfers about 30 MiB/s: 256 reads of 1 MiB would keep it from all others for 8 s.
#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/wire/srp.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/messages.h"

namespace wss::hostile {
namespace {

constexpr size_t kInitiators = 8;
constexpr uint32_t kSends = 32;
constexpr uint32_t kReadBytes = 1 << 20;
constexpr uint32_t kRdmaReadBytes = 16 << 10;
constexpr uint32_t kReceives = 64;
constexpr uint32_t kReceiveBytes = 512;
constexpr size_t kCommandBytes = 256;
constexpr Nanoseconds kLimit = from_s(20);

class Sleeper final : public fabric::ConnectionHandler {
  public:
    Sleeper(fabric::Fabric& fabric, bool over_rdma, uint8_t number, Counts& counts)
        : memory_(*std::move(fabric.allocate(kReadBytes, fabric::Access::kRemoteReadWrite))),
          received_(*std::move(fabric.allocate(kReceives * kReceiveBytes, fabric::Access::kLocal))),
          sends_(*std::move(fabric.allocate(kSends * kCommandBytes, fabric::Access::kLocal))),
          over_rdma_(over_rdma),
          number_(number),
          counts_(counts) {}

    Status connect(fabric::Poller& poller, const fabric::Address& address) {
        wire::LoginRequest login{.tag = 1, .immediate = true};
        login.initiator_port[0] = number_;
        login.initiator_port[15] = 0x51;
        login.extended = true;
        login.caps = WSS_CAP_FUSED_COMPLETION;
        std::array<std::byte, 56> data{};
        const size_t length = wire::encode_login_request(login, data);
        fabric::ConnectionOptions options;
        options.receive_depth = kReceives;
        options.send_depth = kSends;
        options.posts_reads = false;
        auto made = poller.connect(address, {data.data(), length}, options, *this);
        if (!made) return made.status();
        connection_ = std::move(*made);
        return Status::ok();
    }
    bool began() const { return began_ || ended_; }
    bool ended() const { return ended_ || connection_ == nullptr; }
    void close() {
        closing_ = true;
        if (!ended()) connection_->close();
    }

    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override {
        began_ = true;
        wire::LoginResponse login;
        if (wire::parse_login_response(data, login) != wire::ParseError::kNone) return close();
        ++counts_["logins"];
        for (uint64_t i = 0; i < kReceives && !over_rdma_; ++i) {
            fabric::Segment segment{received_->bytes().data() + i * kReceiveBytes, kReceiveBytes,
                                    received_->lkey()};
            fabric::Receive receive{.cookie = i, .segments = {&segment, 1}};
            connection_->post_receives({&receive, 1});
        }
        for (uint32_t i = 0; i < std::min(login.credits, kSends); ++i) send_read(i);
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const std::byte>) noexcept override {
        ended_ = true;
        ++counts_["refused"];
    }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override {}
    void on_closed(fabric::Connection&, const Status&) noexcept override {
        ended_ = true;
        if (!closing_) ++counts_["closed_by_target"];
    }

  private:
    void send_read(uint32_t index) {
        const uint32_t bytes = over_rdma_ ? kRdmaReadBytes : kReadBytes;
        std::array<std::byte, 16> cdb{};
        cdb[0] = std::byte{0x88};
        wire::put32(cdb.data() + 10, bytes / 512);
        wire::RemoteBuffer to{memory_->remote_address(), memory_->rkey(connection_->device()), bytes};
        wire::CommandRequest request{.tag = index + 1,
                                     .lun = kGoodLun,
                                     .direction = wire::CommandRequest::Direction::kIn,
                                     .cdb = cdb,
                                     .descriptors = {&to, 1}};
        std::byte* at = sends_->bytes().data() + index * kCommandBytes;
        const size_t length = wire::encode_command(request, {at, kCommandBytes});
        fabric::Segment segment{at, static_cast<uint32_t>(length), sends_->lkey()};
        fabric::WorkRequest work{.op = fabric::Op::kSend, .segments = {&segment, 1}};
        counts_["reads"] += connection_->post({&work, 1}) == Code::kOk;
    }

    std::unique_ptr<fabric::Region> memory_, received_, sends_;
    const bool over_rdma_;
    const uint8_t number_;
    Counts& counts_;
    std::unique_ptr<fabric::Connection> connection_;
    bool began_ = false, closing_ = false, ended_ = false;
};

// Polls until the condition holds for all. Returns false after kLimit.
bool wait(fabric::Poller& poller, const std::vector<std::unique_ptr<Sleeper>>& all,
          bool (Sleeper::*holds)() const) {
    SystemClock clock;
    const Nanoseconds end = clock.now() + kLimit;
    while (!std::all_of(all.begin(), all.end(), [&](const auto& each) { return (*each.*holds)(); })) {
        if (clock.now() > end) return false;
        poller.poll();
    }
    return true;
}

std::string hold(fabric::Poller& poller, const std::vector<std::unique_ptr<Sleeper>>& all,
                 Nanoseconds duration) {
    if (!wait(poller, all, &Sleeper::began)) return "a login got no answer within 20 s";
    for (int i = 0; i < 3; ++i) poller.poll();  // sends the reads
    const timespec time{.tv_sec = duration.count / 1'000'000'000, .tv_nsec = 0};
    nanosleep(&time, nullptr);
    for (const auto& each : all) each->close();
    return wait(poller, all, &Sleeper::ended) ? "" : "a closed connection did not end within 20 s";
}

}  // namespace

std::string attack_by_slowness(const Order& order, Counts& counts) {
    auto address = fabric::Address::parse(order.address, 0);
    if (!address) return address.status().to_string();
    auto fabric = fabric::open(*address);
    if (!fabric) return fabric.status().to_string();
    auto poller = *std::move((*fabric)->create_poller());
    std::vector<std::unique_ptr<Sleeper>> all;
    std::string wrong;
    for (uint8_t i = 0; i < kInitiators && wrong.empty(); ++i) {
        auto sleeper =
            std::make_unique<Sleeper>(**fabric, address->scheme == fabric::Scheme::kRdma, i, counts);
        Status status = sleeper->connect(*poller, *address);
        if (status)
            all.push_back(std::move(sleeper));
        else
            wrong = status.to_string();
    }
    const std::string held = hold(*poller, all, wrong.empty() ? order.duration : from_s(0));
    return wrong.empty() ? held : wrong;
}

}  // namespace wss::hostile
