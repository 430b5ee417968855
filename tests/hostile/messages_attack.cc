// SPDX-License-Identifier: Apache-2.0
// Attacks "srp" and "kv": several hostile initiators, or hostile clients of a key-value partition, at a time.
//
// They log in correctly or not, send valid, damaged and random messages, exceed their credits, access memory
// with guessed keys, revoke memory while the target uses it, and vanish. It is a failure if a connection
// cannot be started, or does not end after it was closed.
#include <cstring>
#include <memory>
#include <vector>

#include "lib/fabric/open.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/messages.h"

namespace wss::hostile {
namespace {

using std::byte;

constexpr size_t kAttackers = 6;
constexpr uint32_t kSends = 32;  // number of send buffers
constexpr uint32_t kMemoryBytes = 1 << 20;
constexpr uint64_t kSendCookie = 1 << 20;
constexpr uint64_t kAccessCookie = kSendCookie + 1;
constexpr uint32_t kAccessMax = 4096;
constexpr Nanoseconds kEndLimit = from_s(20);
constexpr Nanoseconds kStallLimit = from_s(2);

// One connection, from connect to end.
class Attacker final : public fabric::ConnectionHandler {
  public:
    using MakeSource = std::unique_ptr<MessageSource> (*)(Random& random, Memory memory);
    Attacker(fabric::Fabric& fabric, MakeSource make_source, Random& random, Clock& clock, Counts& counts)
        : random_(random),
          clock_(clock),
          counts_(counts),
          memory_(*std::move(fabric.allocate(kMemoryBytes, fabric::Access::kRemoteReadWrite))),
          key_(memory_->rkey(0)),
          source_(make_source(random, {memory_->remote_address(), key_, kMemoryBytes})),
          receives_(source_->receives()),
          received_(
              *std::move(fabric.allocate(size_t{receives_.count} * receives_.bytes, fabric::Access::kLocal))),
          sends_(*std::move(fabric.allocate(kSends * kMessageMax, fabric::Access::kLocal))),
          accessed_(*std::move(fabric.allocate(kAccessMax, fabric::Access::kLocal))),
          life_(1 + random.below(random.chance(4) ? 2000 : 150)) {
        for (byte& each : memory_->bytes()) each = byte(random.next());
    }

    Status connect(fabric::Poller& poller, const fabric::Address& address) {
        std::array<byte, 56> data{};
        fabric::ConnectionOptions options;
        options.receive_depth = receives_.count;
        options.send_depth = kSends;
        options.posts_reads = false;  // not if the target allows none
        const size_t length = source_->login(data);
        auto made = poller.connect(address, {data.data(), length}, options, *this);
        if (!made) return made.status();
        connection_ = std::move(*made);
        ++counts_["connections"];
        moved_at_ = clock_.now();
        return Status::ok();
    }

    bool ended() const { return ended_; }
    bool overdue() { return closing_ && !ended_ && clock_.now() - closing_at_ > kEndLimit; }
    void close() {
        if (closing_ || ended_) return;
        closing_ = true;
        closing_at_ = clock_.now();
        connection_->close();
    }

    // Sends as many messages as credits and buffers allow.
    void act() {
        for (int burst = 0; burst < 16 && live_ && !closing_ && !ended_; ++burst) {
            if (sent_ >= life_) return close();
            if (random_.chance(400)) memory_.reset();  // while the target may be accessing it
            if (posted_ - done_ >= kSends) return;
            if (!source_->has_credit() && !random_.chance(2000)) return wait_for_credits();
            random_.chance(100) ? access_memory() : send_one();
        }
    }

    void on_established(fabric::Connection&, std::span<const byte> data) noexcept override {
        live_ = true;
        moved_at_ = clock_.now();
        if (!source_->established(data)) return close();
        ++counts_["logins"];
        for (uint64_t i = 0; i < receives_.count; ++i) post_receive(i);
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const byte>) noexcept override {
        ended_ = true;
        ++counts_["refused"];
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override {
        ended_ = true;
        if (!closing_) ++counts_["closed_by_target"];
    }
    void on_completions(fabric::Connection&,
                        std::span<const fabric::Completion> completions) noexcept override {
        for (const auto& completion : completions) {
            if (completion.cookie == kSendCookie || completion.cookie == kAccessCookie) {
                ++done_;
                if (completion.cookie == kAccessCookie) accessed(completion);
                continue;
            }
            if (completion.status != fabric::CompletionStatus::kOk || completion.cookie >= receives_.count)
                continue;
            received(completion);
            if (!closing_) post_receive(completion.cookie);
        }
    }

  private:
    void post_receive(uint64_t index) {
        fabric::Segment segment{received_->bytes().data() + index * receives_.bytes, receives_.bytes,
                                received_->lkey()};
        fabric::Receive receive{.cookie = index, .segments = {&segment, 1}};
        connection_->post_receives({&receive, 1});
    }

    void received(const fabric::Completion& completion) {
        ++counts_["answers"];
        moved_at_ = clock_.now();
        if (completion.kind == fabric::CompletionKind::kReceiveImmediate)
            return source_->received_immediate(completion.immediate);
        source_->received(
            {received_->bytes().data() + completion.cookie * receives_.bytes, completion.length});
    }

    void send_one() {
        Message message;
        const size_t length = source_->next(message);
        byte* at = sends_->bytes().data() + (posted_ % kSends) * kMessageMax;
        std::memcpy(at, message.data(), length);
        fabric::Segment segment{at, static_cast<uint32_t>(length), sends_->lkey()};
        fabric::WorkRequest work{.op = fabric::Op::kSend, .cookie = kSendCookie, .segments = {&segment, 1}};
        if (connection_->post({&work, 1}) != Code::kOk) return close();
        ++posted_;
        ++sent_;
        ++counts_["messages"];
    }

    // Reads or writes memory of the target with a guessed key, or sends an arbitrary immediate.
    void access_memory() {
        constexpr fabric::Op kOps[] = {fabric::Op::kRead, fabric::Op::kWrite, fabric::Op::kWriteImmediate};
        const fabric::Op op = kOps[random_.below(std::size(kOps))];
        if (op == fabric::Op::kRead && connection_->limits().read_depth == 0) return;
        // Keys of one device or table often resemble each other.
        const auto key =
            static_cast<uint32_t>(random_.chance(2) ? random_.next() : key_ + random_.below(4096));
        const auto base = reinterpret_cast<uint64_t>(received_->bytes().data());
        const uint64_t address = random_.chance(2) ? random_.next() : base + random_.below(1 << 20);
        fabric::Segment segment{accessed_->bytes().data(),
                                static_cast<uint32_t>(1 + random_.below(kAccessMax)), accessed_->lkey()};
        fabric::WorkRequest work{.op = op,
                                 .cookie = kAccessCookie,
                                 .segments = {&segment, 1},
                                 .remote = {address, key},
                                 .immediate = static_cast<uint32_t>(random_.next())};
        if (op == fabric::Op::kWriteImmediate && random_.chance(2)) work.segments = {};
        if (connection_->post({&work, 1}) != Code::kOk) return close();
        ++posted_;
        ++counts_[op == fabric::Op::kWriteImmediate ? "immediates" : "accesses"];
    }

    void accessed(const fabric::Completion& completion) {
        using enum fabric::CompletionStatus;
        if (completion.status == kRemoteAccess) ++counts_["accesses_refused"];
        if (completion.status == kOk && completion.kind == fabric::CompletionKind::kRead)
            ++counts_["accesses_granted"];
    }

    // Called without credits. Closes the connection if the target has sent nothing for kStallLimit.
    void wait_for_credits() {
        if (clock_.now() - moved_at_ < kStallLimit) return;
        ++counts_["stalls"];
        close();
    }

    Random& random_;
    Clock& clock_;
    Counts& counts_;
    std::unique_ptr<fabric::Region> memory_;
    const uint32_t key_;  // of memory_
    const std::unique_ptr<MessageSource> source_;
    const Receives receives_;
    std::unique_ptr<fabric::Region> received_, sends_, accessed_;
    const uint64_t life_;  // messages
    std::unique_ptr<fabric::Connection> connection_;
    bool live_ = false, closing_ = false, ended_ = false;
    Nanoseconds closing_at_{}, moved_at_{};
    uint64_t posted_ = 0, done_ = 0, sent_ = 0;
};

class Attackers {
  public:
    Attackers(const fabric::Address& address, Attacker::MakeSource make_source, uint64_t seed, Counts& counts)
        : address_(address),
          make_source_(make_source),
          random_(seed),
          counts_(counts),
          fabric_(*std::move(fabric::open(address))),
          poller_(*std::move(fabric_->create_poller())),
          attackers_(kAttackers) {}

    // Returns a description of the failure, or an empty string.
    std::string run(Nanoseconds duration) {
        const Nanoseconds end = clock_.now() + duration;
        while (clock_.now() < end || busy()) {
            if (clock_.now() >= end)
                for (auto& attacker : attackers_)
                    if (attacker) attacker->close();
            if (std::string wrong = turn(clock_.now() < end); !wrong.empty()) return wrong;
        }
        return {};
    }

  private:
    bool busy() const {
        for (const auto& attacker : attackers_)
            if (attacker) return true;
        return false;
    }

    std::string turn(bool more) {
        for (auto& attacker : attackers_) {
            if (attacker && attacker->ended()) attacker.reset();
            if (!attacker && more) {
                attacker = std::make_unique<Attacker>(*fabric_, make_source_, random_, clock_, counts_);
                if (Status status = attacker->connect(*poller_, address_); !status) return status.to_string();
            }
            if (!attacker) continue;
            if (attacker->overdue()) return "a closed connection did not end within 20 s";
            attacker->act();
            if (random_.chance(20000)) attacker->close();
        }
        poller_->poll();
        return {};
    }

    const fabric::Address address_;
    const Attacker::MakeSource make_source_;
    Random random_;
    Counts& counts_;
    SystemClock clock_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::vector<std::unique_ptr<Attacker>> attackers_;
};

std::string attack(const Order& order, Attacker::MakeSource make_source, Counts& counts) {
    auto address = fabric::Address::parse(order.address, 0);
    if (!address) return address.status().to_string();
    return Attackers(*address, make_source, order.seed, counts).run(order.duration);
}

}  // namespace

std::string attack_with_srp_messages(const Order& order, Counts& counts) {
    return attack(order, make_srp_source, counts);
}

std::string attack_with_kv_messages(const Order& order, Counts& counts) {
    return attack(order, make_kv_source, counts);
}

}  // namespace wss::hostile
