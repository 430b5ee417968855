// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/types.h"

namespace wss::kv::store {

std::string_view to_string(Answer answer) {
    switch (answer) {
        case Answer::kOk:
            return "ok";
        case Answer::kPending:
            return "pending";
        case Answer::kCommitted:
            return "committed";
        case Answer::kPrepared:
            return "prepared";
        case Answer::kAborted:
            return "aborted";
        case Answer::kUnknown:
            return "unknown transaction";
        case Answer::kTooOld:
            return "too old";
        case Answer::kConflict:
            return "condition does not hold";
        case Answer::kBusy:
            return "busy";
        case Answer::kNoMemory:
            return "memory limit reached";
        case Answer::kInvalid:
            return "invalid";
        case Answer::kIo:
            return "log failed";
    }
    return "?";
}

}  // namespace wss::kv::store
