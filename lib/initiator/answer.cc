// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/answer.h"

namespace wss::initiator {

namespace {

using wire::AdditionalSense;
using wire::SenseKey;

Disposition refused_request(const wire::Sense& sense, Disposition disposition) {
    switch (sense.code) {
        case AdditionalSense::kLunNotSupported:
            disposition.outcome = Outcome::kVolumeGone;
            disposition.look_again = true;
            return disposition;
        case AdditionalSense::kLbaOutOfRange:  // the volume shrank
            disposition.outcome = Outcome::kOutOfRange;
            disposition.look_again = true;
            return disposition;
        case AdditionalSense::kInvalidOpcode:
            disposition.outcome = Outcome::kUnsupported;
            return disposition;
        default:
            disposition.outcome = Outcome::kRefused;
            return disposition;
    }
}

Disposition disposition_of_sense(const wire::Sense& sense) {
    Disposition disposition;
    disposition.sense = sense;
    disposition.outcome = Outcome::kRefused;
    switch (sense.key) {
        case SenseKey::kRecovered:
            disposition.outcome = Outcome::kOk;
            return disposition;
        case SenseKey::kUnitAttention:
            disposition.again = Disposition::Again::kNow;
            disposition.look_again =
                sense.code != AdditionalSense::kPowerOn && sense.code != AdditionalSense::kBusDeviceReset;
            // TARGET OPERATING CONDITIONS includes changes of identities and LUNs.
            disposition.units_changed = wire::asc(sense.code) == 0x3f;
            return disposition;
        case SenseKey::kAbortedCommand:
            disposition.again = Disposition::Again::kNow;
            return disposition;
        case SenseKey::kNotReady:
        case SenseKey::kMediumError:
        case SenseKey::kHardwareError:
            disposition.outcome = Outcome::kMediumError;
            return disposition;
        case SenseKey::kMiscompare:
            disposition.outcome = Outcome::kMismatch;
            return disposition;
        case SenseKey::kDataProtect:
            disposition.outcome = sense.code == AdditionalSense::kSpaceAllocationFailed ? Outcome::kNoSpace
                                                                                        : Outcome::kReadOnly;
            disposition.look_again = disposition.outcome == Outcome::kReadOnly;
            return disposition;
        case SenseKey::kIllegalRequest:
            return refused_request(sense, disposition);
        default:
            return disposition;
    }
}

Disposition disposition_of_good(const wire::Response& response, Operation operation) {
    Disposition disposition;
    // The length of a query's answer is not known in advance.
    if (operation == Operation::kAdmin) return disposition;
    bool complete =
        response.out.kind == wire::Residual::Kind::kNone && response.in.kind == wire::Residual::Kind::kNone;
    if (!complete) disposition.outcome = Outcome::kShort;
    return disposition;
}

}  // namespace

Disposition decide_disposition(const wire::Response& response, Operation operation) noexcept {
    Disposition disposition;
    wire::Sense sense;
    switch (response.status) {
        case wire::kGood:
            return disposition_of_good(response, operation);
        case wire::kCheckCondition:
            if (wire::parse_sense(response.sense, sense)) return disposition_of_sense(sense);
            disposition.outcome = Outcome::kRefused;
            return disposition;
        case wire::kBusy:
        case wire::kTaskSetFull:
            disposition.outcome = Outcome::kRefused;
            disposition.again = Disposition::Again::kLater;
            return disposition;
        case wire::kTaskAborted:
            disposition.outcome = Outcome::kRefused;
            disposition.again = Disposition::Again::kNow;
            return disposition;
        default:
            disposition.outcome = Outcome::kRefused;
            return disposition;
    }
}

}  // namespace wss::initiator
