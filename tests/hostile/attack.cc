// SPDX-License-Identifier: Apache-2.0
// wss-attack URI SECONDS SEED [kv]: runs several hostile initiators, or hostile clients of a key-value
// partition, at the same time against a running target.
//
// They log in correctly or incorrectly, send valid, damaged and random messages, exceed their credits, revoke
// memory while the target uses it, and vanish. Exit status 0 means that every connection ended after it was
// closed; 1 means that a connection could not be started or did not end. Refused connections, and connections
// that the target closes, are not failures. The output is one JSON object that counts the operations, so that
// a caller can check that there were enough.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/fabric/open.h"
#include "tests/hostile/messages.h"

namespace wss::hostile {
namespace {

using std::byte;

constexpr size_t kAttackers = 6;
constexpr uint32_t kSends = 32;  // number of send buffers
constexpr uint32_t kMemoryBytes = 1 << 20;
constexpr uint64_t kSendCookie = 1 << 20;
constexpr Nanoseconds kEndLimit = from_s(20);
constexpr Nanoseconds kStallLimit = from_s(2);

struct Counts {
    uint64_t connections = 0, refused = 0, logins = 0, messages = 0, answers = 0, closed_by_target = 0,
             stalls = 0;
};

// One connection, from its start to its end.
class Attacker final : public fabric::ConnectionHandler {
  public:
    using MakeSource = std::unique_ptr<MessageSource> (*)(Random& random, Memory memory);
    Attacker(fabric::Fabric& fabric, MakeSource make_source, Random& random, Clock& clock, Counts& counts)
        : random_(random),
          clock_(clock),
          counts_(counts),
          memory_(*std::move(fabric.allocate(kMemoryBytes, fabric::Access::kRemoteReadWrite))),
          source_(make_source(random, {memory_->remote_address(), memory_->rkey(0), kMemoryBytes})),
          receives_(source_->receives()),
          received_(
              *std::move(fabric.allocate(size_t{receives_.count} * receives_.bytes, fabric::Access::kLocal))),
          sends_(*std::move(fabric.allocate(kSends * kMessageMax, fabric::Access::kLocal))),
          life_(1 + random.below(random.chance(4) ? 2000 : 150)) {
        for (byte& each : memory_->bytes()) each = byte(random.next());
    }

    Status connect(fabric::Poller& poller, const fabric::Address& address) {
        std::array<byte, 56> data{};
        fabric::ConnectionOptions options;
        options.receive_depth = receives_.count;
        options.send_depth = kSends;
        const size_t length = source_->login(data);
        auto made = poller.connect(address, {data.data(), length}, options, *this);
        if (!made) return made.status();
        connection_ = std::move(*made);
        ++counts_.connections;
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
            if (random_.chance(400)) memory_.reset();  // the target may be accessing this memory now
            if (posted_ - done_ >= kSends) return;
            if (!source_->has_credit() && !random_.chance(2000)) return wait_for_credits();
            send_one();
        }
    }

    void on_established(fabric::Connection&, std::span<const byte> data) noexcept override {
        live_ = true;
        moved_at_ = clock_.now();
        if (!source_->established(data)) return close();
        ++counts_.logins;
        for (uint64_t i = 0; i < receives_.count; ++i) post_receive(i);
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const byte>) noexcept override {
        ended_ = true;
        ++counts_.refused;
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override {
        ended_ = true;
        if (!closing_) ++counts_.closed_by_target;
    }
    void on_completions(fabric::Connection&,
                        std::span<const fabric::Completion> completions) noexcept override {
        for (const auto& completion : completions) {
            if (completion.cookie == kSendCookie) {
                ++done_;
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
        ++counts_.answers;
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
        ++counts_.messages;
    }

    // Called without credits. Closes the connection if the target has sent nothing for kStallLimit.
    void wait_for_credits() {
        if (clock_.now() - moved_at_ < kStallLimit) return;
        ++counts_.stalls;
        close();
    }

    Random& random_;
    Clock& clock_;
    Counts& counts_;
    std::unique_ptr<fabric::Region> memory_;
    const std::unique_ptr<MessageSource> source_;
    const Receives receives_;
    std::unique_ptr<fabric::Region> received_, sends_;
    const uint64_t life_;  // number of messages that it sends
    std::unique_ptr<fabric::Connection> connection_;
    bool live_ = false, closing_ = false, ended_ = false;
    Nanoseconds closing_at_{}, moved_at_{};
    uint64_t posted_ = 0, done_ = 0, sent_ = 0;
};

class Attack {
  public:
    Attack(const fabric::Address& address, Attacker::MakeSource make_source, uint64_t seed)
        : address_(address),
          make_source_(make_source),
          random_(seed),
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
    const Counts& counts() const { return counts_; }

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
    SystemClock clock_;
    Counts counts_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::vector<std::unique_ptr<Attacker>> attackers_;
};

int run(const char* uri, uint64_t seconds, uint64_t seed, Attacker::MakeSource make_source) {
    auto address = fabric::Address::parse(uri, 0);
    if (!address) {
        std::fprintf(stderr, "wss-attack: %s\n", address.status().to_string().c_str());
        return 2;
    }
    Attack attack(*address, make_source, seed);
    const std::string wrong = attack.run(from_s(seconds));
    const Counts& counts = attack.counts();
    std::printf(
        "{\"connections\": %lu, \"refused\": %lu, \"logins\": %lu, \"messages\": %lu, \"answers\": %lu, "
        "\"closed_by_target\": %lu, \"stalls\": %lu}\n",
        counts.connections, counts.refused, counts.logins, counts.messages, counts.answers,
        counts.closed_by_target, counts.stalls);
    if (wrong.empty()) return 0;
    std::fprintf(stderr, "wss-attack: %s\n", wrong.c_str());
    return 1;
}

}  // namespace
}  // namespace wss::hostile

int main(int argc, char** argv) {
    const bool is_kv = argc == 5 && std::strcmp(argv[4], "kv") == 0;
    if (argc != 4 && !is_kv) {
        std::fprintf(stderr, "usage: wss-attack URI SECONDS SEED [kv]\n");
        return 2;
    }
    return wss::hostile::run(argv[1], std::strtoull(argv[2], nullptr, 10),
                             std::strtoull(argv[3], nullptr, 10),
                             is_kv ? wss::hostile::make_kv_source : wss::hostile::make_srp_source);
}
