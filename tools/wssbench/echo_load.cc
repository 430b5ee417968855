// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/echo_load.h"

#include <cstring>

namespace wss::wssbench {

using Mode = EchoOptions::Mode;

// Pings up to this size are inlined, so that they show the latency of the network alone.
constexpr uint32_t kInlineWish = 256;

// One connection. Operations end by the server's answer (kRead, kWrite, kPing) or by their own completion.
// Operations that end in the same turn start their successors with one post.
class EchoLoad::Link final : public fabric::ConnectionHandler {
  public:
    Link(EchoLoad& thread, std::unique_ptr<fabric::Region> memory)
        : thread_(thread), memory_(std::move(memory)), begun_(thread.options_.depth) {}

    Status connect();
    void close() noexcept;
    void on_established(fabric::Connection&, std::span<const std::byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept override;
    void on_completions(fabric::Connection&,
                        std::span<const fabric::Completion> completions) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

    // Size of a slot's memory: the data, then a message.
    static size_t slot_bytes(const EchoOptions& options) { return room(options) + sizeof(Ask); }

  private:
    // Size of the data area, which is also the receive buffer: at least one Ask, even for a short ping.
    static size_t room(const EchoOptions& options) {
        return (std::max<size_t>(size_t{options.bytes} * options.burst, sizeof(Ask)) + 63) / 64 * 64;
    }
    static constexpr size_t kBatch = 32;
    static constexpr size_t kBurstMax = 8;
    static constexpr uint32_t kSignalEvery = 16;

    bool post_receive(uint64_t slot) noexcept;
    void go(uint64_t slot) noexcept;
    void add(const fabric::WorkRequest& request, const fabric::Segment& segment) noexcept;
    void flush() noexcept;
    // The peer's answer ends an operation. So only one in kSignalEvery sends is signalled, which keeps the
    // send queue moving.
    bool signal() noexcept { return ++sends_ % kSignalEvery == 0; }
    void ended(uint64_t slot) noexcept;
    uint64_t ended_slot(const fabric::Completion& completion) const noexcept;
    std::byte* data(uint64_t slot) const {
        return memory_->bytes().data() + slot * slot_bytes(thread_.options_);
    }
    std::byte* message(uint64_t slot) const { return data(slot) + room(thread_.options_); }

    static constexpr uint64_t kNone = UINT64_MAX;
    EchoLoad& thread_;
    const std::unique_ptr<fabric::Region> memory_;
    uint32_t inline_max_ = 0;  // of the connection
    std::vector<Nanoseconds> begun_;
    std::unique_ptr<fabric::Connection> connection_;
    Offer offer_{};
    fabric::WorkRequest batch_[kBatch + kBurstMax + 1];
    fabric::Segment segments_[kBatch + kBurstMax + 1];
    size_t batched_ = 0;
    uint32_t sends_ = 0;
    bool over_ = false, closing_ = false;
};

Status EchoLoad::Link::connect() {
    const EchoOptions& options = thread_.options_;
    uint32_t each = options.burst + 1;
    fabric::ConnectionOptions wish{.send_depth = std::max(128u, 2 * options.depth * each),
                                   .receive_depth = std::max(128u, 2 * options.depth),
                                   .inline_bytes = kInlineWish};
    auto made = thread_.poller_->connect(thread_.address_, {}, wish, *this);
    if (!made) return made.status();
    connection_ = std::move(*made);
    return Status::ok();
}

void EchoLoad::Link::close() noexcept {
    closing_ = true;
    if (!over_ && connection_) connection_->close();
}

void EchoLoad::Link::on_established(fabric::Connection&, std::span<const std::byte> offered) noexcept {
    if (offered.size() < sizeof offer_)
        return thread_.failed(Status(Code::kInvalid, "this is not a wssbench echo-server"));
    std::memcpy(&offer_, offered.data(), sizeof offer_);
    inline_max_ = connection_->limits().inline_max;
    for (uint32_t slot = 0; slot < thread_.options_.depth; ++slot)
        if (!post_receive(slot))
            return thread_.failed(Status(Code::kExhausted, "a receive cannot be posted"));
    for (uint32_t slot = 0; slot < thread_.options_.depth; ++slot) go(slot);
    flush();
    thread_.begun_.fetch_add(1, std::memory_order_relaxed);
}

void EchoLoad::Link::on_refused(fabric::Connection&, const Status& why, std::span<const std::byte>) noexcept {
    over_ = true;
    thread_.failed(why);
    thread_.link_over();
}

void EchoLoad::Link::on_closed(fabric::Connection&, const Status& why) noexcept {
    over_ = true;
    if (!closing_) thread_.failed(why);
    thread_.link_over();
}

bool EchoLoad::Link::post_receive(uint64_t slot) noexcept {
    fabric::Segment segment{data(slot), static_cast<uint32_t>(room(thread_.options_)), memory_->lkey()};
    fabric::Receive receive{.cookie = slot, .segments = {&segment, 1}};
    return connection_->post_receives({&receive, 1}) == Code::kOk;
}

void EchoLoad::Link::add(const fabric::WorkRequest& request, const fabric::Segment& segment) noexcept {
    segments_[batched_] = segment;
    batch_[batched_] = request;
    batch_[batched_].segments = {&segments_[batched_], 1};
    ++batched_;
}

void EchoLoad::Link::go(uint64_t slot) noexcept {
    const EchoOptions& options = thread_.options_;
    if (thread_.ending()) return;
    begun_[slot] = thread_.stamp();
    fabric::Segment whole{data(slot), options.bytes, memory_->lkey()};
    uint64_t span = uint64_t{options.bytes} * options.burst;
    uint64_t there = offer_.address + slot * span % (offer_.bytes - span);
    if (options.mode == Mode::kRdmaRead || options.mode == Mode::kRdmaWrite) {
        fabric::Op op = options.mode == Mode::kRdmaRead ? fabric::Op::kRead : fabric::Op::kWrite;
        for (uint32_t i = 0; i < options.burst; ++i) {
            uint64_t at = uint64_t{i} * options.bytes;
            add({.op = op,
                 .signalled = i + 1 == options.burst,
                 .cookie = slot,
                 .remote = {there + at, offer_.rkey}},
                {data(slot) + at, options.bytes, memory_->lkey()});
        }
    } else if (options.mode == Mode::kPing) {
        add({.op = fabric::Op::kSend,
             .signalled = signal(),
             .inlined = options.bytes <= inline_max_,
             .cookie = slot},
            whole);
    } else {
        if (options.mode == Mode::kWrite)
            add({.op = fabric::Op::kWrite,
                 .signalled = false,
                 .cookie = slot,
                 .remote = {there, offer_.rkey}},
                whole);
        Ask ask{options.mode == Mode::kRead ? AskKind::kRead : AskKind::kWrite, static_cast<uint32_t>(slot),
                memory_->remote_address() + static_cast<uint64_t>(data(slot) - memory_->bytes().data()),
                memory_->rkey(connection_->device()), options.bytes};
        std::memcpy(message(slot), &ask, sizeof ask);
        add({.op = fabric::Op::kSend,
             .signalled = signal(),
             .inlined = sizeof ask <= inline_max_,
             .cookie = slot},
            {message(slot), sizeof ask, memory_->lkey()});
    }
    if (batched_ >= kBatch) flush();
}

void EchoLoad::Link::flush() noexcept {
    if (batched_ == 0 || over_) return;
    if (Code code = connection_->post({batch_, batched_}); code != Code::kOk && !thread_.ending())
        thread_.failed(failure(code, "the echo's work requests cannot be posted"));
    batched_ = 0;
}

// The slot whose operation this completion ends.
uint64_t EchoLoad::Link::ended_slot(const fabric::Completion& completion) const noexcept {
    bool by_itself = thread_.options_.mode == Mode::kRdmaRead || thread_.options_.mode == Mode::kRdmaWrite;
    if (by_itself) return completion.cookie;
    if (completion.kind == fabric::CompletionKind::kReceiveImmediate)
        return completion.immediate < begun_.size() ? completion.immediate : kNone;
    return completion.kind == fabric::CompletionKind::kReceive ? completion.cookie : kNone;
}

void EchoLoad::Link::on_completions(fabric::Connection&,
                                    std::span<const fabric::Completion> completions) noexcept {
    for (const fabric::Completion& completion : completions) {
        if (completion.status != fabric::CompletionStatus::kOk) {
            if (completion.status != fabric::CompletionStatus::kFlushed)
                thread_.failed(failure(Code::kIo, "echo: {}", to_string(completion.status)));
            continue;
        }
        uint64_t slot = ended_slot(completion);
        if (completion.kind == fabric::CompletionKind::kReceive ||
            completion.kind == fabric::CompletionKind::kReceiveImmediate)
            if (!closing_ && !post_receive(completion.cookie))
                thread_.failed(Status(Code::kExhausted, "a receive cannot be posted"));
        if (slot != kNone) ended(slot);
    }
    flush();
}

void EchoLoad::Link::ended(uint64_t slot) noexcept {
    thread_.count_one(begun_[slot]);
    go(slot);
}

EchoLoad::EchoLoad(const EchoOptions& options) : options_(options) {}

Result<std::unique_ptr<LoadThread>> EchoLoad::create(const std::string& uri, const EchoOptions& options) {
    auto address = fabric::Address::parse(uri, kEchoPort);
    if (!address) return address.status();
    if (options.depth > kEchoDepthMax || uint64_t{options.bytes} * options.burst > kEchoBytesMax)
        return failure(Code::kInvalid, "echo: at most {} in flight of at most {} bytes", kEchoDepthMax,
                       kEchoBytesMax);
    std::unique_ptr<EchoLoad> thread(new EchoLoad(options));
    thread->address_ = *address;
    auto opened = fabric::open(*address, echo_credentials());
    if (!opened) return opened.status();
    thread->fabric_ = std::move(*opened);
    auto poller = thread->fabric_->create_poller();
    if (!poller) return poller.status();
    thread->poller_ = std::move(*poller);
    thread->reactor_.add(*thread->poller_);
    for (uint32_t i = 0; i < options.connections; ++i) {
        auto memory = thread->fabric_->allocate(Link::slot_bytes(options) * options.depth,
                                                fabric::Access::kRemoteReadWrite);
        if (!memory) return memory.status();
        thread->links_.push_back(std::make_unique<Link>(*thread, std::move(*memory)));
    }
    return std::unique_ptr<LoadThread>(std::move(thread));
}

EchoLoad::~EchoLoad() {
    links_.clear();
    if (poller_) reactor_.remove(*poller_);
}

void EchoLoad::begin() {
    for (const auto& link : links_) {
        Status status = link->connect();
        if (status) continue;
        ++links_over_;
        failed(status);
    }
}

void EchoLoad::wind_down() {
    for (const auto& link : links_) link->close();
    if (links_over_ == links_.size()) finished();
}

void EchoLoad::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
