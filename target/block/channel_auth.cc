// SPDX-License-Identifier: Apache-2.0
// Authentication of a channel. Until it has ended, the channel accepts only START and PROOF.
//
//   START → CHALLENGE, with the target's proof
//   PROOF → session table → admit() → RESULT, then commands may follow
//                 └→ refuse_authentication() → RESULT with the reason, then the channel drains and closes
#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

static_assert(kSlotAnswerBytes >= sizeof(wss_srp_auth_result) &&
                  kSlotAnswerBytes >= sizeof(wss_srp_auth_challenge),
              "the slot's answer has room for every message of authentication");

void Channel::send_ready(Request& request, size_t length) noexcept {
    request.ready_bytes = static_cast<uint16_t>(length);
    request.state = State::kSending;
    answers_.push_back(request);
    mark_dirty();
}

void Channel::received_auth(Request& request) noexcept {
    if (life_ != Life::kLive) return recycle(request);
    AuthFailures& failures = worker_.service().sessions().auth_failures();
    if (auth_->expects_proof()) {
        const Nanoseconds wait = failures.suspended(record_->source, auth_->name(), worker_.reactor().now());
        if (wait.count > 0) return refuse_suspended(request, wait);
    }
    wire::MutableBytes answer{request.slot + kSlotAnswer, kSlotAnswerBytes};
    size_t length = 0;
    auto progress = auth_->take({request.iu(), request.iu_length}, answer, length);
    if (progress == auth::Authenticator::Progress::kViolation)
        return violation(WSS_SRP_LOGOUT_NOT_AUTHENTICATED);
    begin_answer(request);
    if (progress == auth::Authenticator::Progress::kChallenge) return send_ready(request, length);
    auth_request_ = &request;
    if (progress == auth::Authenticator::Progress::kRefused) return proof_failed();
    failures.proven(record_->source, auth_->name());
    if (progress == auth::Authenticator::Progress::kOutdated) {
        audit_failure(record_->source, record_->peer, auth_->name(),
                      fmt::format("refused: {}", auth_->finding()));
        return refuse_authentication(auth_->refusal("initiator"));
    }
    worker_.service().control_reactor().post(
        [&service = worker_.service(), record = record_, name = auth_->name(), secret = auth_->secret()] {
            service.sessions().authenticated(record, name, secret);
        });
}

void Channel::proof_failed() noexcept {
    auto outcome = worker_.service().sessions().auth_failures().failed(record_->source, auth_->name(),
                                                                       worker_.reactor().now());
    audit_failure(record_->source, record_->peer, auth_->name(),
                  fmt::format("refused: {}; failures={} suspended={} s", auth_->finding(), outcome.failures,
                              outcome.suspended.count / 1'000'000'000));
    refuse_authentication(auth_->refusal("initiator"));
}

void Channel::refuse_suspended(Request& request, Nanoseconds wait) noexcept {
    begin_answer(request);
    auth_request_ = &request;
    auth_->suspend();
    refuse_authentication(fmt::format("initiator '{}' failed too often from {}: try again in {} s",
                                      auth_->name(), record_->source,
                                      (wait.count + 999'999'999) / 1'000'000'000));
}

void Channel::admit() noexcept {
    if (!running() || auth_ == nullptr || auth_request_ == nullptr) return;
    if (Status made = add_slots(slots_max_ - slots_); !made) return refuse_authentication(made.to_string());
    size_t length = auth_->result({}, {auth_request_->slot + kSlotAnswer, kSlotAnswerBytes});
    send_ready(*std::exchange(auth_request_, nullptr), length);
    auth_.reset();
    share_ = lane_.initiator_share(*record_);
    join_cache();
}

void Channel::refuse_authentication(std::string_view why) noexcept {
    if (life_ != Life::kLive || auth_ == nullptr || auth_request_ == nullptr) return;
    counters_.refused_logins.add();
    size_t length = auth_->result(why, {auth_request_->slot + kSlotAnswer, kSlotAnswerBytes});
    send_ready(*std::exchange(auth_request_, nullptr), length);
    set_life(Life::kDraining);
    drain_reason_ = "the initiator was refused";
}

}  // namespace wss::block
