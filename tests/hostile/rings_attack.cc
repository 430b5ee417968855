// SPDX-License-Identifier: Apache-2.0
// Attack "rings": initiators on shm:// that log in, exchange valid messages up to a random point, and then
// write anything into the rings, send any frames, and answer requests for memory with any descriptors.
//
// Every connection ends with a position that no ring can have. It is a failure if the target does not hang
// up then.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "lib/fabric/shm/shm_connection.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/messages.h"
#include "tests/hostile/mutate.h"

namespace wss::hostile {
namespace {

namespace shm = fabric::shm;
namespace stream = fabric::stream;
using std::byte;
using stream::Frame;
using stream::FrameType;

constexpr Memory kMemory{.address = uint64_t{1} << 32, .rkey = 7, .length = 1 << 20};
constexpr int kLimitMs = 20'000;

class RingPeer {
  public:
    RingPeer(Random& random, Counts& counts)
        : random_(random), counts_(counts), source_(make_srp_source(random, kMemory)) {}

    // Returns a description of the failure, or "".
    std::string run(const std::string& path) {
        if (!greet(path)) return "cannot connect to " + path;
        if (!receive_answer()) {
            ++counts_["refused"];
            return {};
        }
        for (uint64_t valid = random_.below(uint64_t{1} << random_.below(9)); valid > 0 && is_open(); --valid)
            exchange();
        for (uint64_t acts = random_.below(12); acts > 0 && is_open(); --acts) act();
        counts_["closed_by_target"] += !is_open();
        return end();
    }

  private:
    bool greet(const std::string& path) {
        auto socket = shm::connect_to(path);
        auto area = shm::make_shared("wss-rings", sizeof(shm::Area), false);
        auto validity = shm::make_shared("wss-validity", shm::kValidityBytes, true);
        if (!socket || !area || !validity) return false;
        ++counts_["connections"];
        socket_ = std::move(*socket);
        rings_.attach(*std::move(shm::map_shared(area->fd.get(), sizeof(shm::Area), true)), 0);
        area_ = reinterpret_cast<shm::Area*>(area->mapping.data());
        mapping_ = std::move(area->mapping);
        stream::Hello hello{.kind = stream::HelloKind::kConnect, .read_depth = 16};
        std::array<byte, 56> data{};
        hello.set_data(std::span(data).first(source_->login(data)));
        std::vector<int> descriptors{area->fd.get(), validity->fd.get()};
        const Descriptor other = random_.chance(8) ? any_descriptor() : Descriptor();
        if (other) descriptors[random_.below(2)] = other.get();
        if (random_.chance(20)) descriptors.pop_back();
        return shm::send_hello(socket_.get(), hello, descriptors) == 0;
    }

    bool receive_answer() {
        pollfd event{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        shm::Greeting greeting;
        if (poll(&event, 1, kLimitMs) != 1 || shm::receive_hello(socket_.get(), greeting) <= 0) return false;
        if (greeting.hello.kind != stream::HelloKind::kAccept) return false;
        ++counts_["logins"];
        return source_->established(greeting.hello.private_data());
    }

    // False: the target has hung up.
    bool is_open() const {
        pollfd event{.fd = socket_.get(), .events = 0, .revents = 0};
        return poll(&event, 1, 0) == 0;
    }
    void wake() { shm::send(socket_.get(), std::array{byte{1}}, {}); }

    // Sends a valid frame with a message, and receives what the target has sent.
    void exchange() {
        if (source_->has_credit()) {
            Message message;
            const auto length = static_cast<uint32_t>(source_->next(message));
            send_frame({.type = FrameType::kSend, .length = length}, {message.data(), length});
        }
        poll(nullptr, 0, random_.chance(2) ? 1 : 0);
        byte bytes[64 << 10];
        const iovec vec{.iov_base = bytes, .iov_len = sizeof bytes};
        for (ssize_t got; (got = rings_.read({&vec, 1})) > 0;) {
            in_.insert(in_.end(), bytes, bytes + got);
            while (take_frame()) {
            }
        }
        shm::receive(socket_.get(), std::span(bytes).first(sizeof(shm::GrantMessage)));
    }

    void send_frame(Frame frame, std::span<const byte> payload) {
        frame.credits = source_->receives().count + taken_;
        frame.acknowledged = executed_;
        std::vector<byte> bytes(stream::kFrameBytes);
        stream::encode(frame, bytes.data());
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        put(bytes);
        ++counts_["frames"];
    }
    void put(std::span<const byte> bytes) {
        const iovec vec{.iov_base = const_cast<byte*>(bytes.data()), .iov_len = bytes.size()};
        rings_.write({&vec, 1});
        wake();
    }

    bool take_frame() {
        if (in_.size() < stream::kFrameBytes) return false;
        Frame frame;
        stream::decode(std::span(in_).first<stream::kFrameBytes>(), frame);
        const size_t length = stream::kFrameBytes + stream::payload_bytes(frame);
        if (in_.size() < length) return false;
        ++counts_["answers"];
        taken(frame, std::span(in_).subspan(stream::kFrameBytes, length - stream::kFrameBytes));
        in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(length));
        return true;
    }

    void taken(const Frame& frame, std::span<const byte> payload) {
        if (frame.type == FrameType::kGrantAsk) return grant(frame.rkey);
        if (frame.type < FrameType::kSend || frame.type > FrameType::kRead) return;
        ++executed_;
        if (frame.type == FrameType::kSend) source_->received(payload);
        if (frame.type == FrameType::kWriteImmediate || frame.type == FrameType::kPlacedImmediate)
            source_->received_immediate(frame.immediate);
        taken_ += frame.type != FrameType::kWrite && frame.type != FrameType::kRead;
    }

    // Answers a request for memory: with the memory, or with anything else.
    void grant(uint32_t rkey) {
        ++counts_["grants"];
        shm::GrantMessage message{.rkey = rkey,
                                  .kind = shm::GrantKind::kMapped,
                                  .access = fabric::Access::kRemoteReadWrite,
                                  .validity = {.slot = 1, .generation = 0},
                                  .address = kMemory.address,
                                  .length = kMemory.length};
        Descriptor memory;
        if (random_.chance(3)) {
            memory = any_descriptor();
            if (random_.chance(2)) change(message);
        } else if (auto shared = shm::make_shared("wss-memory", kMemory.length, false); shared) {
            memory = std::move(shared->fd);
        }
        const int fd = memory.get();
        const auto* bytes = reinterpret_cast<const byte*>(&message);
        shm::send(socket_.get(), {bytes, sizeof message}, {&fd, size_t{fd >= 0}});
        send_frame(
            {.type = FrameType::kGrant, .status = static_cast<uint8_t>(random_.chance(8)), .rkey = rkey}, {});
    }

    void change(shm::GrantMessage& message) {
        const uint64_t any = random_.chance(2) ? random_.next() : UINT64_MAX - random_.below(8192);
        switch (random_.below(6)) {
            case 0:
                message.rkey = static_cast<uint32_t>(any);
                break;
            case 1:
                message.kind = static_cast<shm::GrantKind>(any);
                break;
            case 2:
                message.access = static_cast<fabric::Access>(any);
                break;
            case 3:
                message.validity.slot = static_cast<uint32_t>(any);
                break;
            case 4:
                message.address = any;
                break;
            default:
                message.length = any;
        }
    }

    // Memory that may shrink, is too small, or cannot be written; a pipe; or none.
    Descriptor any_descriptor() {
        switch (random_.below(4)) {
            case 0: {
                Descriptor unsealed(memfd_create("any", MFD_CLOEXEC));
                if (ftruncate(unsealed.get(), static_cast<off_t>(random_.below(4 << 20))) != 0)
                    unsealed.reset();
                return unsealed;
            }
            case 1: {
                auto shared = shm::make_shared("any", 1 + random_.below(8192), random_.chance(2));
                return shared ? std::move(shared->fd) : Descriptor();
            }
            case 2: {
                int ends[2];
                if (pipe2(ends, O_CLOEXEC) != 0) return Descriptor();
                close(ends[0]);
                return Descriptor(ends[1]);
            }
            default:
                return Descriptor();
        }
    }

    void act() {
        ++counts_["scribbles"];
        auto& direction = area_->directions[random_.below(2)];
        switch (random_.below(7)) {
            case 0:
                for (uint64_t i = random_.below(4096); i > 0; --i)
                    direction.data[random_.below(shm::kRingBytes)] = byte(random_.next());
                break;
            case 1:
                (random_.chance(2) ? direction.head : direction.tail).value =
                    random_.chance(2) ? random_.next()
                                      : direction.head.value + random_.below(shm::kRingBytes);
                break;
            case 2:
                area_->asleep[random_.below(2)].value = static_cast<uint32_t>(random_.next());
                break;
            case 3: {
                Frame frame = any_frame(random_, true);
                if (random_.chance(2)) frame.acknowledged = 0;
                std::vector<byte> bytes(stream::kFrameBytes + random_.below(300));
                stream::encode(frame, bytes.data());
                put(bytes);
                break;
            }
            case 4: {
                std::vector<byte> bytes(1 + random_.below(64));
                for (byte& each : bytes) each = byte(random_.next());
                const Descriptor other = any_descriptor();
                const int fd = other.get();
                shm::send(socket_.get(), bytes, {&fd, size_t{fd >= 0}});
                break;
            }
            case 5:
                for (uint64_t i = random_.below(600); i > 0; --i) wake();
                break;
            default:
                exchange();
        }
        wake();
    }

    // Breaks the ring for certain, and waits until the target hangs up.
    std::string end() {
        area_->directions[0].head.value = UINT64_MAX / 2;
        wake();
        pollfd event{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
        if (poll(&event, 1, kLimitMs) == 1) return {};
        return "the target did not hang up within 20 s after an impossible position in its ring";
    }

    Random& random_;
    Counts& counts_;
    const std::unique_ptr<MessageSource> source_;
    Descriptor socket_;
    shm::Mapping mapping_;
    shm::Area* area_ = nullptr;
    shm::Rings rings_;
    std::vector<byte> in_;
    uint32_t taken_ = 0;     // messages of the target
    uint32_t executed_ = 0;  // requests of the target
};

}  // namespace

std::string attack_rings(const Order& order, Counts& counts) {
    auto address = fabric::Address::parse(order.address, 0);
    if (!address) return address.status().to_string();
    if (address->scheme != fabric::Scheme::kShm) return "the attack needs a shm:// address";
    Random random(order.seed);
    SystemClock clock;
    std::string wrong;
    for (const Nanoseconds end = clock.now() + order.duration; clock.now() < end && wrong.empty();)
        wrong = RingPeer(random, counts).run(address->host);
    return wrong;
}

}  // namespace wss::hostile
