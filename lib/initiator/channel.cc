// SPDX-License-Identifier: Apache-2.0
// Channel: memory, login and closing. channel_datapath.cc sends commands and receives responses.
#include "lib/initiator/channel.h"

#include <algorithm>
#include <utility>

namespace wss::initiator {

Result<std::unique_ptr<Channel>> Channel::create(fabric::Fabric& fabric, const Options& options,
                                                 ChannelOwner& owner) {
    std::unique_ptr<Channel> channel(new Channel(options, owner, fabric.caps()));
    if (Status status = channel->prepare(fabric); !status) return status;
    return channel;
}

Status Channel::prepare(fabric::Fabric& fabric) {
    uint32_t depth = std::clamp<uint32_t>(options_.queue_depth, 1, kQueueDepthMax);
    uint32_t immediate = std::min<uint32_t>(options_.immediate_max, WSS_SRP_IMM_DATA_MAX);
    // A stock target refuses less than 64. This size has room for every kind of descriptor list.
    uint32_t needed = WSS_SRP_IMM_DATA_OFFSET + sizeof(wss_srp_indirect_buf) +
                      kDescriptorsMax * static_cast<uint32_t>(sizeof(wss_srp_direct_buf));
    iu_bytes_ = std::max(needed, WSS_SRP_IMM_DATA_OFFSET + immediate);
    slot_bytes_ = (iu_bytes_ + 63) / 64 * 64;  // slots do not share cache lines
    receive_count_ = depth + kSpareReceives;
    send_depth_ = depth + kSignalEvery + 2 * kShortSlots;

    size_t send_bytes =
        size_t{depth} * slot_bytes_ + size_t{kShortSlots} * kShortBytes + size_t{kAuthSlots} * kAuthBytes;
    auto sends = fabric.allocate(send_bytes, fabric::Access::kLocal);
    if (!sends) return sends.status().within("memory for commands");
    sends_ = std::move(*sends);
    auto receives = fabric.allocate(size_t{receive_count_} * WSS_SRP_MAX_TI_IU_LEN, fabric::Access::kLocal);
    if (!receives) return receives.status().within("memory for answers");
    receives_ = std::move(*receives);

    commands_ = std::vector<Command>(depth);
    for (uint32_t i = 0; i < depth; ++i) {
        commands_[i].channel = this;
        commands_[i].slot = static_cast<uint16_t>(i);
        free_.push_back(commands_[i]);
    }
    return Status::ok();
}

Channel::~Channel() {
    WSS_ASSERT(state_ == State::kIdle || state_ == State::kOver, "a channel ends before it is destroyed");
    while (free_.pop_front() != nullptr) {
    }
}

Status Channel::connect(fabric::Poller& poller, bool multi, const wire::PortId& initiator_port) {
    wire::LoginRequest login;
    login.multi_channel = multi;
    login.immediate = options_.immediate_max > 0;
    login.max_it_iu = iu_bytes_;
    login.initiator_port = initiator_port;
    login.target_port = options_.target_port;
    login.extended = true;
    login.caps = options_.caps & ~uint32_t{WSS_CAP_REMOTE_INVALIDATE};
    if (!caps_.write_immediate) login.caps &= ~uint32_t{WSS_CAP_FUSED_COMPLETION};
    if ((login.caps & WSS_CAP_FUSED_COMPLETION) == 0)
        login.caps &= ~uint32_t{WSS_CAP_CACHE | WSS_CAP_BATCHED_COMPLETION};
    poller_ = &poller;
    login.caps &= ~uint32_t{WSS_CAP_AUTHENTICATE};
    if (!options_.identity.secret.empty()) login.caps |= WSS_CAP_AUTHENTICATE;
    std::array<std::byte, sizeof(wss_srp_login_req)> data;
    size_t length = wire::encode_login_request(login, data);
    WSS_ASSERT(length == data.size(), "login requests have a fixed length");
    login_request_ = data;

    fabric::ConnectionOptions options;
    options.send_depth = send_depth_;
    options.receive_depth = receive_count_;
    options.send_segments = 1;
    options.receive_segments = 1;
    options.inline_bytes = kInlineWish;
    options.posts_reads = false;
    options.connect_timeout = options_.connect_timeout;
    auto connection = poller.connect(options_.address, data, options, *this);
    if (!connection) {
        state_ = State::kOver;
        return connection.status();
    }
    connection_ = std::move(*connection);
    state_ = State::kConnecting;
    return Status::ok();
}

void Channel::on_established(fabric::Connection&, std::span<const std::byte> data) noexcept {
    if (state_ != State::kConnecting) return;
    inline_max_ = std::min(connection_->limits().inline_max, kInlineWish);
    Status status = take_login(data);
    if (status.is_ok()) status = post_all_receives();
    if (!status) return close(status);
    if (options_.identity.secret.empty()) return set_up();
    begin_proving(data);
}

void Channel::set_up() noexcept {
    state_ = State::kUp;
    was_up_ = true;
    owner_.channel_up(*this);
}

// Checks the values of the target's response on which this side depends, and stores them.
Status Channel::take_login(std::span<const std::byte> data) {
    wire::ParseError error = wire::parse_login_response(data, login_);
    if (error != wire::ParseError::kNone)
        return failure(Code::kInvalid,
                       "{}: the process that listens there does not speak SRP: a login response of {} bytes "
                       "is invalid: {}",
                       options_.address.to_string(), data.size(), wire::to_string(error));
    if (login_.credits == 0)
        return failure(Code::kRefused, "{}: the target grants no credits", options_.address.to_string());
    constexpr uint32_t kLeastIu =
        sizeof(wss_srp_cmd) + sizeof(wss_srp_indirect_buf) + kDescriptorsMax * sizeof(wss_srp_direct_buf);
    if (login_.max_it_iu < kLeastIu)
        return failure(Code::kUnsupported,
                       "{}: the target accepts messages of at most {} bytes; {} are needed",
                       options_.address.to_string(), login_.max_it_iu, kLeastIu);
    credits_ = std::min(login_.credits, kQueueDepthMax);
    if (!login_.extended) login_.caps = 0;
    if (!options_.identity.secret.empty() && (login_.caps & WSS_CAP_AUTHENTICATE) == 0)
        return failure(
            Code::kPermission,
            "{}: the target does not authenticate, so its identity is unproven; connect without a secret "
            "if that is intended",
            options_.address.to_string());
    if ((login_.caps & WSS_CAP_KEEPALIVE) != 0) keepalive_ = from_ms(login_.keepalive_ms);
    uint32_t iu = std::min(login_.max_it_iu, iu_bytes_);
    if (login_.immediate && iu > WSS_SRP_IMM_DATA_OFFSET)
        immediate_room_ = std::min<uint32_t>(iu - WSS_SRP_IMM_DATA_OFFSET, options_.immediate_max);
    return Status::ok();
}

Status Channel::post_all_receives() {
    for (uint32_t i = 0; i < receive_count_; ++i) {
        if (reposted_ == kBatch) flush_receives();
        reposts_[reposted_++] = i;
    }
    flush_receives();
    return state_ == State::kConnecting ? Status::ok() : why_;
}

void Channel::on_refused(fabric::Connection&, const Status& why, std::span<const std::byte> data) noexcept {
    wire::LoginReject reject;
    if (data.empty() || wire::parse_login_reject(data, reject) != wire::ParseError::kNone) return finish(why);
    std::string_view text = reject.text().empty() ? wire::reject_reason_text(reject.reason) : reject.text();
    finish(
        failure(Code::kRefused, "{}: the target refused the login: {}", options_.address.to_string(), text));
}

void Channel::close(Status why) noexcept {
    if (state_ != State::kConnecting && !talking()) return;
    state_ = State::kClosing;
    why_ = std::move(why);
    connection_->close();
}

void Channel::on_closed(fabric::Connection&, const Status& why) noexcept {
    Status reason = state_ == State::kClosing ? why_ : why;
    if (reason.is_ok()) reason = Status(Code::kUnavailable, "the connection was closed by the target");
    finish(reason);
}

void Channel::finish(const Status& why) {
    // No engine may write to the buffers that are returned here.
    if (!engines_quiet()) {
        finishing_ = true;
        state_ = State::kClosing;
        why_ = why;
        for (const auto& link : engines_) link->close();
        return;
    }
    finishing_ = false;
    state_ = State::kOver;
    batched_ = reposted_ = 0;
    for (Command& command : commands_) {
        bool on_wire = command.state == Command::State::kOnWire;
        if (command.state == Command::State::kFree) continue;
        command.send_pending = false;
        if (on_wire) owner_.command_abandoned(command);
        free_command(command);
    }
    outstanding_ = 0;
    owner_.channel_over(*this, why, was_up_);
}

}  // namespace wss::initiator
