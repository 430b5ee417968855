// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/engine/record_link.h"

#include <array>
#include <cstring>

#include "lib/wire/text.h"

namespace wss::cache {

namespace {

constexpr uint64_t kSendTag = 1, kReceiveTag = 2;

// The size of RDMA/CM's private data in a rejection.
constexpr size_t kReasonMax = 148;

// `number` is that of a receive buffer, or the number of sends so far.
constexpr uint64_t cookie_of(uint64_t number, uint64_t tag) {
    return number << 2 | tag;
}

}  // namespace

Result<std::unique_ptr<RecordLink>> RecordLink::create(fabric::Fabric& fabric, const Options& options,
                                                       RecordLinkOwner& owner) {
    std::unique_ptr<RecordLink> link(new RecordLink(options, owner));
    if (Status status = link->prepare(fabric); !status) return status;
    return link;
}

Status RecordLink::prepare(fabric::Fabric& fabric) {
    WSS_TRY(sends_.open(fabric).within("send buffers of a cache link"));
    return receives_.open(fabric).within("receive buffers of a cache link");
}

RecordLink::~RecordLink() {
    WSS_ASSERT(is_over(), "a link is closed before its destruction");
}

fabric::ConnectionOptions RecordLink::connection_options() const {
    fabric::ConnectionOptions options;
    options.send_depth = options_.operations + kMessages;
    options.receive_depth = kMessages;
    options.send_segments = 1;
    options.inline_bytes = 0;
    options.connect_timeout = options_.connect_timeout;
    return options;
}

Status RecordLink::connect(fabric::Poller& poller, const fabric::Address& address,
                           std::span<const std::byte> data) {
    auto connection = poller.connect(address, data, connection_options(), *this);
    if (!connection) {
        state_ = State::kOver;
        return connection.status();
    }
    connection_ = std::move(*connection);
    state_ = State::kConnecting;
    return Status::ok();
}

Status RecordLink::accept(fabric::ConnectRequest& request, fabric::Poller& poller,
                          std::span<const std::byte> data) {
    auto connection = request.create(poller, connection_options(), *this);
    if (!connection) {
        state_ = State::kOver;
        return connection.status();
    }
    connection_ = std::move(*connection);
    state_ = State::kConnecting;
    if (!post_receives(kMessages)) {
        close(Status(Code::kInternal, "cannot post the receives of a cache link"));
        return Status::ok();
    }
    // From here on the connection ends only by on_closed() or on_refused().
    if (Status accepted = connection_->accept(data); !accepted) close(accepted);
    return Status::ok();
}

bool RecordLink::post_receives(uint32_t count) noexcept {
    auto cookie = [](uint32_t index) { return cookie_of(index, kReceiveTag); };
    return connection_->post_receives(receives_.take(count, cookie)) == Code::kOk;
}

void RecordLink::on_established(fabric::Connection&, std::span<const std::byte> data) noexcept {
    if (state_ != State::kConnecting) return;
    // The accepting side, where `data` is empty, posted its receives in accept().
    const bool connecting_side = !data.empty();
    if (connecting_side && !post_receives(kMessages))
        return close(Status(Code::kInternal, "cannot post the receives of a cache link"));
    state_ = State::kUp;
    if (!owner_.link_up(*this, data))
        close(Status(Code::kInvalid, "the peer's handshake is not valid for the cache protocol"));
}

// The peer's rejection may contain text.
void RecordLink::on_refused(fabric::Connection&, const Status& why,
                            std::span<const std::byte> data) noexcept {
    std::array<char, kReasonMax> text{};
    const size_t length =
        wire::copy_printable({reinterpret_cast<const char*>(data.data()), data.size()}, text);
    over(length == 0 ? why : Status(Code::kRefused, "the peer refused: " + std::string(text.data(), length)));
}

void RecordLink::on_closed(fabric::Connection&, const Status& why) noexcept {
    over(state_ == State::kClosing && !why_.is_ok() ? why_ : why);
}

void RecordLink::over(const Status& why) noexcept {
    state_ = State::kOver;
    spill_.clear();
    Status reason = why.is_ok() ? Status(Code::kUnavailable, "the connection was closed by the peer") : why;
    owner_.link_over(*this, reason);
}

void RecordLink::close(Status why) noexcept {
    if (state_ != State::kConnecting && state_ != State::kUp) return;
    state_ = State::kClosing;
    why_ = std::move(why);
    connection_->close();
}

// ---- Sending ---------------------------------------------------------------------------------------------

wire::MutableBytes RecordLink::room() noexcept {
    if (open_ && wire::kCacheMessageMax - open_bytes_ < kRecordMax) seal();
    if (!open_ && spill_.empty() && sends_.has_room()) {
        open_ = true;
        open_bytes_ = 0;
    }
    if (open_) return {sends_.next() + open_bytes_, wire::kCacheMessageMax - open_bytes_};
    if (spill_.empty() || wire::kCacheMessageMax - spill_.back().bytes < kRecordMax) spill_one_more();
    Spilled& last = spill_.back();
    return {last.block->data() + last.bytes, last.block->size() - last.bytes};
}

void RecordLink::spill_one_more() noexcept {
    if (spill_.size() < options_.spill_max) return spill_.push_back({std::make_unique<Block>(), 0});
    // The link closes and sends nothing more, so the next record may overwrite the last block.
    spill_.back().bytes = 0;
    close(Status(Code::kExhausted, "the peer does not receive: too many messages are queued"));
}

void RecordLink::wrote(size_t bytes, bool urgent) noexcept {
    WSS_ASSERT(bytes > 0, "a record fits its buffer");
    (open_ ? open_bytes_ : spill_.back().bytes) += bytes;
    urgent_ = urgent_ || urgent;
}

void RecordLink::seal() noexcept {
    if (!std::exchange(open_, false)) return;
    urgent_ = false;
    if (open_bytes_ > 0 && state_ == State::kUp) send(open_bytes_);
}

void RecordLink::send(size_t bytes) noexcept {
    const fabric::Segment segment = sends_.post(static_cast<uint32_t>(bytes));
    fabric::WorkRequest work{.op = fabric::Op::kSend,
                             .signalled = sends_.is_signalled(),
                             .cookie = cookie_of(sends_.posted(), kSendTag),
                             .segments = {&segment, 1}};
    if (connection_->post({&work, 1}) == Code::kOk) return;
    close(Status(Code::kInternal, "cannot post a cache message"));
}

void RecordLink::refill_from_spill() noexcept {
    while (state_ == State::kUp && !spill_.empty() && sends_.has_room()) {
        const Spilled& oldest = spill_.front();
        std::memcpy(sends_.next(), oldest.block->data(), oldest.bytes);
        send(oldest.bytes);
        spill_.pop_front();
    }
}

bool RecordLink::post(fabric::WorkRequest work) noexcept {
    if (state_ != State::kUp) return false;
    work.signalled = true;
    if (connection_->post({&work, 1}) == Code::kOk) return true;
    close(Status(Code::kInternal, "cannot post a cache operation"));
    return false;
}

size_t RecordLink::flush() noexcept {
    // Records for a closing link are never sent. They do not count as activity, or the reactor would never
    // sleep.
    if (state_ != State::kUp || !open_ || open_bytes_ == 0 || !urgent_) return 0;
    seal();
    return 1;
}

// ---- Receiving -------------------------------------------------------------------------------------------

void RecordLink::on_completions(fabric::Connection&,
                                std::span<const fabric::Completion> completions) noexcept {
    for (const fabric::Completion& completion : completions) {
        const bool good = completion.status == fabric::CompletionStatus::kOk;
        const uint64_t number = completion.cookie >> 2;
        switch (completion.cookie & kCookieMask) {
            case kSendTag:
                sends_.done(number);
                refill_from_spill();
                break;
            case kReceiveTag:
                if (good && state_ == State::kUp) received(static_cast<uint32_t>(number), completion.length);
                break;
            default:
                owner_.operation_over(*this, completion.cookie, good);
        }
    }
}

void RecordLink::received(uint32_t buffer, uint32_t length) noexcept {
    ++messages_received_;
    wire::Bytes message{receives_.buffer(buffer), length};
    while (!message.empty() && state_ == State::kUp) {
        wire::Record record;
        if (wire::next_record(message, record) != wire::ParseError::kNone || !owner_.record(*this, record))
            return close(Status(Code::kInvalid, "protocol violation by the peer"));
    }
    if (state_ != State::kUp) return;
    receives_.give_back(buffer);
    if (!post_receives(1)) close(Status(Code::kInternal, "cannot post a receive of a cache link"));
}

}  // namespace wss::cache
