// SPDX-License-Identifier: Apache-2.0
// Channel: cache engines, which answer reads instead of the target.
//
// A read is complete when all its bytes have arrived, from any number of engines; each part carries its
// length. When the target reports that an engine will not answer a command (RETRY), the link to the engine is
// closed first and the command is repeated afterwards. So nothing can write to the buffers of a request that
// was returned to the user.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/initiator/channel.h"
#include "lib/wire/scsi_codes.h"

namespace wss::initiator {

void Channel::engine_named(const wire::CacheEngineNotice& notice) noexcept {
    if ((login_.caps & WSS_CAP_CACHE) == 0) return violation("CACHE_ENGINE without the capability");
    retire_engine(notice.index);
    if (!notice.added || engines_.size() >= kEnginesMax) return;
    std::unique_ptr<EngineLink> link(new EngineLink(*this, notice.index));
    // A link that cannot be established does no harm: the target answers itself.
    Status status = link->connect(*poller_, notice, options_.connect_timeout, device());
    if (status)
        engines_.push_back(std::move(link));
    else
        log::debug("cache engine {}: {}", notice.uri_text(), status.to_string());
}

// Closes the engine's link; data that the engine still writes arrives before the link has ended.
void Channel::retire_engine(uint32_t index) noexcept {
    const bool all = index == WSS_CACHE_ENGINES_MAX;
    for (auto& link : engines_) {
        if (!all && link->index() != index) continue;
        link->close();
        retired_.push_back(std::move(link));
    }
    // Links that ended by themselves would count as connected.
    std::erase_if(engines_, [](const auto& link) { return link == nullptr || link->is_over(); });
    std::erase_if(retired_, [](const auto& link) { return link->is_over(); });
}

bool Channel::part_arrived(EngineLink&, uint32_t immediate, uint32_t bytes) noexcept {
    wire::FusedCompletion part;
    if (wire::unpack_fused(immediate, part) != wire::ParseError::kNone || part.credits != 0) return false;
    received_ = true;
    Command* command = find(part.tag, WSS_FUSED_TAG_MASK);
    if (state_ != State::kUp || command == nullptr) return false;
    const bool reads = command->payload.direction == Direction::kIn;
    if (!reads || bytes > command->payload.length - command->arrived) return false;
    command->arrived += bytes;
    if (command->arrived < command->payload.length) return true;
    wire::Response good;
    good.credits = 1;
    answered(command, good);
    return true;
}

void Channel::retry(const wire::RetryNotice& again) noexcept {
    if ((login_.caps & WSS_CAP_CACHE) == 0) return violation("RETRY without the capability");
    retire_engine(again.engine);
    Command* command = find(again.tag, ~uint64_t{0});
    if (command == nullptr) return;  // the engine has answered meanwhile
    command->again = true;
    command->again_engine = again.engine;
    retry_when_fenced();
}

void Channel::retry_when_fenced() noexcept {
    for (Command& command : commands_) {
        if (state_ != State::kUp) return;
        if (command.state != Command::State::kOnWire || !command.again) continue;
        const uint32_t engine = command.again_engine;
        const bool reachable = std::any_of(retired_.begin(), retired_.end(), [engine](const auto& link) {
            return !link->is_over() && (engine == WSS_CACHE_ENGINES_MAX || link->index() == engine);
        });
        if (reachable) continue;
        wire::Response aborted;
        aborted.status = wire::kTaskAborted;
        aborted.credits = 1;
        answered(&command, aborted);
    }
}

void Channel::link_over(EngineLink& link, const Status& why) noexcept {
    log::debug("cache engine {}: {}", link.index(), why.to_string());
    if (finishing_) {
        if (engines_quiet()) finish(why_);
        return;
    }
    retry_when_fenced();
}

bool Channel::engines_quiet() const noexcept {
    auto over = [](const auto& link) { return link->is_over(); };
    return std::all_of(engines_.begin(), engines_.end(), over) &&
           std::all_of(retired_.begin(), retired_.end(), over);
}

}  // namespace wss::initiator
