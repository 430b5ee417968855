// SPDX-License-Identifier: Apache-2.0
// Fuzzes the inbound half of a stream connection. Whatever a peer sends, the engine must not crash or touch
// memory outside its regions and buffers (the sanitizers check that), and must end the connection in an
// orderly way.
//
// Input: one byte that selects how the stream is cut into reads, then frames. If a frame has rkey 1, it gets
// the real region's key, and its address is used as an offset, so that the fuzzer does not have to guess
// them.
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/fabric/stream/engine.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::stream {
namespace {

class FuzzPoller final : public EventPoller {
  public:
    FuzzPoller() { WSS_ASSERT(start(), "a poller can be made"); }
    Result<std::unique_ptr<Listener>> listen(const Address&, ListenHandler&) override {
        return failure(Code::kUnsupported, "not here");
    }
    Result<std::unique_ptr<Connection>> connect(const Address&, std::span<const std::byte>,
                                                const ConnectionOptions&, ConnectionHandler&) override {
        return failure(Code::kUnsupported, "not here");
    }
};

class FuzzConnection final : public Engine {
  public:
    FuzzConnection(FuzzPoller& poller, std::shared_ptr<RegionTable> table, const ConnectionOptions& options,
                   ConnectionHandler& handler, std::span<const std::byte> input, size_t step)
        : Engine({poller, std::move(table), options, handler, State::kRequested}),
          input_(input),
          step_(step) {
        hung_up_ = true;  // no more data will come: read until the end
        establish(4, {});
    }
    Status accept(std::span<const std::byte>) override { return Status::ok(); }

  private:
    void on_ready(uint32_t) noexcept override {}
    ssize_t read(std::span<const iovec> into) noexcept override {
        size_t left = std::min(step_, input_.size());
        size_t before = input_.size();
        for (const iovec& vec : into) {
            size_t take = std::min(vec.iov_len, left);
            if (take > 0) std::memcpy(vec.iov_base, input_.data(), take);
            input_ = input_.subspan(take);
            left -= take;
        }
        return static_cast<ssize_t>(before - input_.size());
    }
    ssize_t write(std::span<const iovec> from) noexcept override {
        ssize_t sum = 0;
        for (const iovec& vec : from) {
            // Read every byte, so that an invalid vector is detected.
            for (size_t i = 0; i < vec.iov_len; ++i)
                checksum_ = checksum_ + static_cast<const uint8_t*>(vec.iov_base)[i];
            sum += static_cast<ssize_t>(vec.iov_len);
        }
        return sum;
    }
    void detach(bool) noexcept override {}

    std::span<const std::byte> input_;
    const size_t step_;
    volatile uint32_t checksum_ = 0;
};

struct Handler final : ConnectionHandler {
    void on_established(Connection& connection, std::span<const std::byte>) noexcept override {
        Segment one{.address = buffer.data(), .length = 256, .lkey = lkey};
        for (uint64_t i = 0; i < 4; ++i) {
            Receive receive{.cookie = i, .segments = {&one, 1}};
            posted += connection.post_receives({&receive, 1}) == Code::kOk;
            Op op = i % 2 == 0 ? Op::kRead : Op::kSend;
            WorkRequest request{.op = op, .cookie = 10 + i, .segments = {&one, 1}};
            posted += connection.post({&request, 1}) == Code::kOk;
        }
    }
    void on_refused(Connection&, const Status&, std::span<const std::byte>) noexcept override {}
    void on_completions(Connection&, std::span<const Completion> batch) noexcept override {
        completed += static_cast<int>(batch.size());
    }
    void on_closed(Connection&, const Status&) noexcept override { closed = true; }
    std::vector<std::byte> buffer = std::vector<std::byte>(256);
    uint32_t lkey = 0;
    int posted = 0;
    int completed = 0;
    bool closed = false;
};

std::vector<std::byte> with_real_keys(std::span<const std::byte> input, uint64_t base, uint32_t key) {
    std::vector<std::byte> out(input.begin(), input.end());
    size_t at = 0;
    while (out.size() - at >= kFrameBytes) {
        Frame frame;
        if (!decode(std::span(out).subspan(at).first<kFrameBytes>(), frame)) break;
        if (frame.rkey == 1) {
            frame.rkey = key;
            frame.address += base;
            encode(frame, &out[at]);
        }
        size_t skip = kFrameBytes + payload_bytes(frame);
        if (skip > out.size() - at) break;
        at += skip;
    }
    return out;
}

void run(std::span<const std::byte> input) {
    if (input.empty()) return;
    size_t step = 1 + std::to_integer<size_t>(input[0]);
    static FuzzPoller poller;  // creating it takes longer than most inputs
    auto table = std::make_shared<RegionTable>();
    std::vector<std::byte> memory(512);
    uint32_t key = table->add(memory, Access::kRemoteReadWrite);
    Handler handler;
    handler.lkey = table->add(handler.buffer, Access::kLocal);
    std::vector<std::byte> bytes =
        with_real_keys(input.subspan(1), reinterpret_cast<uintptr_t>(memory.data()), key);
    ConnectionOptions options{.send_depth = 8, .receive_depth = 8, .read_depth = 4};
    FuzzConnection connection(poller, table, options, handler, bytes, step);
    for (size_t i = 0; i < bytes.size() + 1000 && !handler.closed; ++i) poller.poll();
    WSS_ASSERT(handler.closed, "a stream that ends ends its connection");
    WSS_ASSERT(handler.completed == handler.posted, "everything posted completes once");
}

}  // namespace
}  // namespace wss::fabric::stream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    wss::fabric::stream::run({reinterpret_cast<const std::byte*>(data), size});
    return 0;
}
