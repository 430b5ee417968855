// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/fabric.h"

namespace wss::fabric {

std::string_view to_string(CompletionStatus status) {
    switch (status) {
        case CompletionStatus::kOk:
            return "ok";
        case CompletionStatus::kFlushed:
            return "flushed: the connection closed first";
        case CompletionStatus::kRemoteAccess:
            return "remote access denied (key, range or permission)";
        case CompletionStatus::kLocalAccess:
            return "a local segment is not registered memory";
        case CompletionStatus::kLength:
            return "the message is longer than the receive buffer";
        case CompletionStatus::kPeerLost:
            return "the peer does not answer";
        case CompletionStatus::kOther:
            return "failed";
    }
    return "unknown";
}

}  // namespace wss::fabric
