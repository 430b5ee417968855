// SPDX-License-Identifier: Apache-2.0
// Attacks "damage" and "forge": a relay between clients and a server of tcp://. It forwards the streams
// unchanged up to a random frame. From then on, it damages one direction, mostly that to the client. The
// clients, or the server, then have a peer that behaves well up to a random point. It is a failure if the
// relay cannot listen.
//
// "damage" makes a stream invalid, but forges no answer: whatever a client accepts from it is true. "forge"
// also changes, repeats, drops and reorders answers and their data.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <list>
#include <optional>
#include <vector>

#include "lib/base/file.h"
#include "lib/fabric/address.h"
#include "lib/fabric/stream/frame.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/mutate.h"

namespace wss::hostile {
namespace {

namespace stream = fabric::stream;

constexpr size_t kQueueMax = 8 << 20;  // bytes that wait to be sent, above which nothing is read
constexpr size_t kPairsMax = 64;

volatile std::sig_atomic_t stopped = 0;

// One direction of a connection: bytes from one socket to the other.
class Direction {
  public:
    // Frames before the first damaged one. Without a value, none is damaged.
    Direction(std::optional<uint64_t> frames, bool forges, Random& random, Counts& counts)
        : frames_(frames), forges_(forges), random_(random), counts_(counts) {}

    bool wants_data() const { return out_.size() - sent_ < kQueueMax && !cut_; }
    bool has_data() const { return sent_ < out_.size(); }
    // The stream ends when the data before has been sent.
    bool is_over() const { return cut_ && !has_data(); }
    bool is_damaged() const { return damaged_; }

    // Both return false if the socket has ended.
    bool read_from(int socket) {
        std::byte bytes[64 << 10];
        const ssize_t got = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got <= 0) return got < 0 && errno == EAGAIN;
        in_.insert(in_.end(), bytes, bytes + got);
        forward();
        return true;
    }
    bool write_to(int socket) {
        const ssize_t put =
            send(socket, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0) return errno == EAGAIN;
        sent_ += static_cast<size_t>(put);
        if (!has_data()) {
            out_.clear();
            sent_ = 0;
        }
        return true;
    }

  private:
    // Length of the hello or frame at the beginning of `in`; 0 if it is not complete.
    size_t unit() const {
        size_t length = stream::kHelloBytes;
        if (greeted_) {
            stream::Frame frame;
            if (in_.size() < stream::kFrameBytes) return 0;
            if (!stream::decode(std::span(in_).first<stream::kFrameBytes>(), frame)) return in_.size();
            length = stream::kFrameBytes + stream::payload_bytes(frame);
        }
        return in_.size() < length ? 0 : length;
    }

    void forward() {
        while (!cut_) {
            const size_t length = unit();
            if (length == 0) break;
            forward_unit({in_.begin(), in_.begin() + static_cast<ptrdiff_t>(length)});
            in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(length));
        }
    }

    void forward_unit(std::vector<std::byte> bytes) {
        const bool is_hello = !greeted_;
        greeted_ = true;
        ++counts_["frames"];
        const bool harm = frames_ && number_++ >= *frames_ && !random_.chance(3);
        if (harm) {
            damaged_ = true;
            ++counts_["damaged"];
            if (is_hello)
                damage_hello(bytes, random_);
            else
                cut_ = !damage_frame(bytes, random_, forges_);
        }
        out_.insert(out_.end(), bytes.begin(), bytes.end());
    }

    const std::optional<uint64_t> frames_;
    const bool forges_;
    Random& random_;
    Counts& counts_;
    std::vector<std::byte> in_, out_;
    size_t sent_ = 0;
    uint64_t number_ = 0;
    bool greeted_ = false, damaged_ = false, cut_ = false;
};

std::optional<uint64_t> draw_frames(Random& random) {
    // Some connections carry only a few frames. Others must get far enough for I/O.
    constexpr uint64_t kFirst[] = {0, 0, 0, 200}, kMost[] = {16, 16, 1024, 2000};
    const uint64_t kind = random.below(std::size(kFirst));
    return kFirst[kind] + random.below(kMost[kind]);
}

// A client's connection and the relay's own connection to the server.
struct Pair {
    Pair(Descriptor from, Descriptor to, bool forges, Random& random, Counts& counts)
        : client(std::move(from)),
          server(std::move(to)),
          harms_client(!random.chance(5)),
          to_client(harms_client ? draw_frames(random) : std::nullopt, forges, random, counts),
          to_server(harms_client ? std::nullopt : draw_frames(random), forges, random, counts) {}

    // Returns false if the pair has ended.
    bool step(const pollfd& at_client, const pollfd& at_server, Counts& counts) {
        bool client_lives = true, server_lives = true;
        if (at_client.revents & ~POLLOUT) client_lives = to_server.read_from(client.get());
        if (at_server.revents & ~POLLOUT) server_lives = to_client.read_from(server.get());
        if (client_lives && to_client.has_data()) client_lives = to_client.write_to(client.get());
        if (server_lives && to_server.has_data()) server_lives = to_server.write_to(server.get());
        if (!client_lives && to_client.is_damaged()) ++counts["closed_by_client"];
        if (!server_lives && to_server.is_damaged()) ++counts["closed_by_server"];
        return client_lives && server_lives && !to_client.is_over() && !to_server.is_over();
    }

    Descriptor client, server;
    const bool harms_client;
    Direction to_client, to_server;
};

pollfd events_of(int socket, const Direction& in, const Direction& out) {
    return {.fd = socket,
            .events = static_cast<short>((in.wants_data() ? POLLIN : 0) | (out.has_data() ? POLLOUT : 0)),
            .revents = 0};
}

class Relay {
  public:
    Relay(const Order& order, bool forges, Counts& counts)
        : order_(order), forges_(forges), random_(order.seed), counts_(counts) {}

    std::string run() {
        auto from = address_of(order_.listen), to = address_of(order_.address);
        if (!from || !to) return "a relay needs tcp://NUMBER:PORT twice";
        to_ = *to;
        listening_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int one = 1;
        setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(listening_.get(), reinterpret_cast<sockaddr*>(&*from), sizeof *from) != 0 ||
            listen(listening_.get(), kPairsMax) != 0)
            return order_.listen + ": cannot listen";
        std::signal(SIGTERM, [](int) { stopped = 1; });
        SystemClock clock;
        for (const Nanoseconds end = clock.now() + order_.duration; clock.now() < end && stopped == 0;)
            turn();
        return {};
    }

  private:
    static std::optional<sockaddr_in> address_of(const std::string& uri) {
        auto address = fabric::Address::parse(uri, 0);
        if (!address || address->scheme != fabric::Scheme::kTcp) return std::nullopt;
        sockaddr_in made{
            .sin_family = AF_INET, .sin_port = htons(address->port), .sin_addr = {}, .sin_zero = {}};
        if (inet_pton(AF_INET, address->host.c_str(), &made.sin_addr) != 1) return std::nullopt;
        return made;
    }

    void turn() {
        std::vector<pollfd> events{{.fd = listening_.get(), .events = POLLIN, .revents = 0}};
        for (const Pair& each : pairs_) {
            events.push_back(events_of(each.client.get(), each.to_server, each.to_client));
            events.push_back(events_of(each.server.get(), each.to_client, each.to_server));
        }
        if (poll(events.data(), events.size(), 100) <= 0) return;
        size_t at = 1;
        for (auto each = pairs_.begin(); each != pairs_.end(); at += 2) {
            const bool lives = each->step(events[at], events[at + 1], counts_);
            each = lives ? std::next(each) : pairs_.erase(each);
        }
        if (events[0].revents != 0) admit();
    }

    void admit() {
        Descriptor from(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Descriptor to(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ++counts_["connections"];
        if (pairs_.size() == kPairsMax || !from ||
            connect(to.get(), reinterpret_cast<sockaddr*>(&to_), sizeof to_) != 0)
            return;
        pairs_.emplace_back(std::move(from), std::move(to), forges_, random_, counts_);
    }

    const Order& order_;
    const bool forges_;
    Random random_;
    Counts& counts_;
    sockaddr_in to_{};
    Descriptor listening_;
    std::list<Pair> pairs_;
};

}  // namespace

std::string relay_with_damage(const Order& order, Counts& counts) {
    return Relay(order, false, counts).run();
}

std::string relay_with_forgery(const Order& order, Counts& counts) {
    return Relay(order, true, counts).run();
}

}  // namespace wss::hostile
