// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/answer.h"

namespace wss::initiator {

namespace {

using wire::AdditionalSense;
using wire::SenseKey;

Verdict refused_request(const wire::Sense& sense, Verdict verdict) {
    switch (sense.code) {
        case AdditionalSense::kLunNotSupported:
            verdict.outcome = Outcome::kVolumeGone;
            verdict.look_again = true;
            return verdict;
        case AdditionalSense::kLbaOutOfRange:  // the volume shrank
            verdict.outcome = Outcome::kOutOfRange;
            verdict.look_again = true;
            return verdict;
        case AdditionalSense::kInvalidOpcode:
            verdict.outcome = Outcome::kUnsupported;
            return verdict;
        default:
            verdict.outcome = Outcome::kRefused;
            return verdict;
    }
}

Verdict judge_sense(const wire::Sense& sense) {
    Verdict verdict;
    verdict.sense = sense;
    verdict.outcome = Outcome::kRefused;
    switch (sense.key) {
        case SenseKey::kRecovered:
            verdict.outcome = Outcome::kOk;
            return verdict;
        case SenseKey::kUnitAttention:
            verdict.again = Verdict::Again::kNow;
            verdict.look_again =
                sense.code != AdditionalSense::kPowerOn && sense.code != AdditionalSense::kBusDeviceReset;
            // TARGET OPERATING CONDITIONS includes changes of identities and LUNs.
            verdict.units_changed = wire::asc(sense.code) == 0x3f;
            return verdict;
        case SenseKey::kAbortedCommand:
            verdict.again = Verdict::Again::kNow;
            return verdict;
        case SenseKey::kNotReady:
        case SenseKey::kMediumError:
        case SenseKey::kHardwareError:
            verdict.outcome = Outcome::kMediumError;
            return verdict;
        case SenseKey::kMiscompare:
            verdict.outcome = Outcome::kMismatch;
            return verdict;
        case SenseKey::kDataProtect:
            verdict.outcome = sense.code == AdditionalSense::kSpaceAllocationFailed ? Outcome::kNoSpace
                                                                                    : Outcome::kReadOnly;
            verdict.look_again = verdict.outcome == Outcome::kReadOnly;
            return verdict;
        case SenseKey::kIllegalRequest:
            return refused_request(sense, verdict);
        default:
            return verdict;
    }
}

Verdict judge_good(const wire::Response& response, Operation operation) {
    Verdict verdict;
    // The length of a query's answer is not known in advance.
    if (operation == Operation::kAdmin) return verdict;
    bool complete =
        response.out.kind == wire::Residual::Kind::kNone && response.in.kind == wire::Residual::Kind::kNone;
    if (!complete) verdict.outcome = Outcome::kShort;
    return verdict;
}

}  // namespace

Verdict judge(const wire::Response& response, Operation operation) noexcept {
    Verdict verdict;
    wire::Sense sense;
    switch (response.status) {
        case wire::kGood:
            return judge_good(response, operation);
        case wire::kCheckCondition:
            if (wire::parse_sense(response.sense, sense)) return judge_sense(sense);
            verdict.outcome = Outcome::kRefused;
            return verdict;
        case wire::kBusy:
        case wire::kTaskSetFull:
            verdict.outcome = Outcome::kRefused;
            verdict.again = Verdict::Again::kLater;
            return verdict;
        case wire::kTaskAborted:
            verdict.outcome = Outcome::kRefused;
            verdict.again = Verdict::Again::kNow;
            return verdict;
        default:
            verdict.outcome = Outcome::kRefused;
            return verdict;
    }
}

}  // namespace wss::initiator
