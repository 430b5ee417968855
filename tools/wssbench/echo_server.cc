// SPDX-License-Identifier: Apache-2.0
// wssbench echo-server: the server of echo, net and burst. One thread answers from memory.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

#include "lib/fabric/open.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/tls/kernel.h"
#include "tools/wssbench/context.h"
#include "tools/wssbench/echo_wire.h"
#include "tools/wssbench/measure.h"

namespace wss::wssbench {

namespace {

class Server;

// One client.
class Peer final : public fabric::ConnectionHandler {
  public:
    Peer(Server& server, fabric::Region& memory, std::unique_ptr<fabric::Region> messages)
        : server_(server), memory_(memory), messages_(std::move(messages)) {}

    Status take(fabric::ConnectRequest& request, fabric::Poller& poller, const fabric::Caps& caps);

    // Returns false if there is no connection. If it returns true, the peer is removed when the connection
    // has closed.
    bool close() noexcept {
        if (connection_) connection_->close();
        return connection_ != nullptr;
    }

    void on_established(fabric::Connection& connection, std::span<const std::byte>) noexcept override {
        inline_max_ = connection.limits().inline_max;
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const std::byte>) noexcept override {
        over();
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override { over(); }
    void on_completions(fabric::Connection& connection,
                        std::span<const fabric::Completion> completions) noexcept override;

  private:
    void over() noexcept;
    std::byte* message(uint64_t slot) const { return messages_->bytes().data() + slot * kPingBytesMax; }
    fabric::Segment segment(uint64_t slot, uint32_t length) const {
        return {message(slot), length, messages_->lkey()};
    }
    // Fills in one or two work requests, and returns their number.
    size_t answer(uint64_t slot, uint32_t length, fabric::WorkRequest* requests,
                  fabric::Segment* segments) noexcept;

    static constexpr size_t kBatch = 64;
    static constexpr size_t kAnswerMax = 2;  // work requests
    static constexpr uint32_t kSignalEvery = 16;
    static constexpr uint64_t kNoSlot = UINT64_MAX;
    void give_back(uint64_t slot, fabric::Segment& room, fabric::Receive& receive) const noexcept {
        room = segment(slot, kPingBytesMax);
        receive = {.cookie = slot, .segments = {&room, 1}};
    }
    Server& server_;
    fabric::Region& memory_;
    const std::unique_ptr<fabric::Region> messages_;  // one for each receive
    std::unique_ptr<fabric::Connection> connection_;
    uint32_t inline_max_ = 0;  // of the connection
    uint32_t answers_ = 0;
    bool immediate_ = false;  // whether the device supports WRITE with immediate
};

class Server final : public fabric::ListenHandler {
  public:
    static Result<std::unique_ptr<Server>> start(const std::string& uri, bool tls_kernel);
    ~Server() override;
    std::string address() const { return listener_->address().to_string(); }
    reactor::Reactor& reactor() { return reactor_; }
    void forget(Peer* peer) {
        reactor_.post([this, peer] { peers_.erase(peer); });
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override;

  private:
    Server() = default;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<fabric::Listener> listener_;
    std::map<Peer*, std::unique_ptr<Peer>> peers_;
};

Status Peer::take(fabric::ConnectRequest& request, fabric::Poller& poller, const fabric::Caps& caps) {
    fabric::ConnectionOptions options{.send_depth = 3 * kEchoDepthMax, .receive_depth = kEchoDepthMax};
    auto made = request.create(poller, options, *this);
    if (!made) return made.status();
    connection_ = std::move(*made);
    immediate_ = caps.write_immediate;
    for (uint32_t slot = 0; slot < kEchoDepthMax; ++slot) {
        fabric::Segment room = segment(slot, kPingBytesMax);
        fabric::Receive receive{.cookie = slot, .segments = {&room, 1}};
        if (connection_->post_receives({&receive, 1}) != Code::kOk)
            return Status(Code::kExhausted, "the echo server's receives cannot be posted");
    }
    Offer offer{memory_.remote_address(), memory_.bytes().size(), memory_.rkey(connection_->device()), 0};
    return connection_->accept(std::as_bytes(std::span(&offer, 1)));
}

void Peer::over() noexcept {
    server_.forget(this);
}

size_t Peer::answer(uint64_t slot, uint32_t length, fabric::WorkRequest* requests,
                    fabric::Segment* segments) noexcept {
    Ask ask;
    std::memcpy(&ask, message(slot), sizeof ask);
    const bool asks = length >= sizeof ask && (ask.kind == AskKind::kRead || ask.kind == AskKind::kWrite);
    size_t count = 0;
    if (asks && ask.kind == AskKind::kRead) {
        uint32_t bytes = std::min(ask.length, kEchoBytesMax);
        segments[0] = {memory_.bytes().data() + uint64_t{ask.slot} * bytes % (memory_.bytes().size() - bytes),
                       bytes, memory_.lkey()};
        requests[count++] = {.op = immediate_ ? fabric::Op::kWriteImmediate : fabric::Op::kWrite,
                             .signalled = immediate_ && ++answers_ % kSignalEvery == 0,
                             .cookie = kNoSlot,
                             .segments = {&segments[0], 1},
                             .remote = {ask.address, ask.rkey},
                             .immediate = ask.slot};
        if (immediate_) return count;
    }
    segments[count] = segment(slot, asks ? uint32_t{sizeof ask} : length);
    requests[count] = {.op = fabric::Op::kSend,
                       .inlined = segments[count].length <= inline_max_,
                       .cookie = slot,
                       .segments = {&segments[count], 1}};
    return count + 1;
}

// A message's buffer is posted again when it is unused: at once if the answer is sent from other memory,
// otherwise when the send of the answer has completed.
void Peer::on_completions(fabric::Connection& connection,
                          std::span<const fabric::Completion> completions) noexcept {
    fabric::Segment segments[kBatch * kAnswerMax], rooms[kBatch];
    fabric::WorkRequest requests[kBatch * kAnswerMax];
    fabric::Receive receives[kBatch];
    while (!completions.empty()) {
        size_t asked = 0, left = 0, count = std::min(kBatch, completions.size());
        for (const fabric::Completion& completion : completions.first(count)) {
            if (completion.status != fabric::CompletionStatus::kOk) continue;  // the connection closes
            uint64_t slot = completion.cookie;
            if (completion.kind == fabric::CompletionKind::kReceive) {
                asked += answer(slot, completion.length, &requests[asked], &segments[asked]);
                if (requests[asked - 1].cookie == kNoSlot) {
                    give_back(slot, rooms[left], receives[left]);
                    ++left;
                }
            } else if (completion.kind != fabric::CompletionKind::kReceiveImmediate && slot != kNoSlot) {
                give_back(slot, rooms[left], receives[left]);
                ++left;
            }
        }
        bool good = left == 0 || connection.post_receives({receives, left}) == Code::kOk;
        good &= asked == 0 || connection.post({requests, asked}) == Code::kOk;
        if (!good) return connection.close();
        completions = completions.subspan(count);
    }
}

Result<std::unique_ptr<Server>> Server::start(const std::string& uri, bool tls_kernel) {
    auto address = fabric::parse_local(uri, kEchoPort);
    if (!address) return address.status();
    std::unique_ptr<Server> server(new Server);
    WSS_TRY(server->reactor_.ready());
    fabric::tls::Credentials credentials = echo_credentials();
    if (tls_kernel) {  // a measurement of something else would be worthless
        WSS_TRY(fabric::tls::kernel::check().within("--tls-kernel"));
        credentials.kernel_sends_max = fabric::tls::kernel::kBytesPerKey;
    }
    auto opened = fabric::open(*address, credentials);
    if (!opened) return opened.status();
    server->fabric_ = std::move(*opened);
    auto memory = server->fabric_->allocate(kEchoMemory, fabric::Access::kRemoteReadWrite);
    if (!memory) return memory.status();
    server->memory_ = std::move(*memory);
    std::memset(server->memory_->bytes().data(), 0x5a, kEchoMemory);
    auto poller = server->fabric_->create_poller();
    if (!poller) return poller.status();
    server->poller_ = std::move(*poller);
    server->reactor_.add(*server->poller_);
    auto listener = server->poller_->listen(*address, *server);
    if (!listener) return listener.status();
    server->listener_ = std::move(*listener);
    return server;
}

Server::~Server() {
    listener_.reset();
    if (poller_) reactor_.remove(*poller_);
}

void Server::on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    auto messages = fabric_->allocate(size_t{kEchoDepthMax} * kPingBytesMax, fabric::Access::kLocal);
    if (!messages) return;
    auto peer = std::make_unique<Peer>(*this, *memory_, std::move(*messages));
    Peer* raw = peer.get();
    peers_.emplace(raw, std::move(peer));
    if (Status status = raw->take(*request, *poller_, fabric_->caps()); !status) {
        std::fprintf(stderr, "echo-server: %s\n", status.to_string().c_str());
        if (!raw->close()) peers_.erase(raw);
    }
}

volatile sig_atomic_t stop_asked = 0;

void serve(Context& context, const std::string& uri, bool tls_kernel) {
    auto server = Server::start(uri, tls_kernel);
    if (!server) return context.fail(server.status());
    signal(SIGTERM, [](int) { stop_asked = 1; });
    signal(SIGINT, [](int) { stop_asked = 1; });
    std::printf("wssbench: ready on %s\n", (*server)->address().c_str());
    std::fflush(stdout);
    reactor::Reactor& reactor = (*server)->reactor();
    struct Look {
        reactor::Reactor& reactor;
        reactor::Timer timer{[](void* self) noexcept { static_cast<Look*>(self)->now(); }, this};
        void now() noexcept {
            if (stop_asked) return reactor.stop();
            reactor.set(timer, reactor.now() + from_ms(50));
        }
    } look{reactor};
    look.now();
    reactor.run();
    // Open connections end with the process. Their handlers have nothing to clean up.
    std::fflush(stdout);
    _exit(context.exit);
}

}  // namespace

void add_echo_server(CLI::App& app, Context& context) {
    static std::string listen;
    static bool tls_kernel = false;
    CLI::App* command = app.add_subcommand("echo-server", "Serve echo, net and burst of another machine");
    command->add_option("--listen", listen, "Where to listen: rdma://HOST:PORT, tcp://HOST:PORT, shm:///PATH")
        ->required()
        ->type_name("URI");
    command->add_flag("--tls-kernel", tls_kernel, "With tls://: let the kernel encrypt what is sent");
    command->callback([&context] { serve(context, listen, tls_kernel); });
}

}  // namespace wss::wssbench
