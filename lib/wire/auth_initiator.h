// SPDX-License-Identifier: Apache-2.0
// AuthInitiator: the connecting side of one authentication (auth.h). It is an initiator or a cache engine. It
// checks the target's proof and name before it proves anything itself. It does not know version 1.
//
// Order of calls: start(), take_challenge(), take_result().
//
// Thread-safety: none; it belongs to its connection.
#pragma once

#include <memory>
#include <string>

#include "lib/base/secrets.h"
#include "lib/base/status.h"
#include "lib/wire/auth.h"

namespace wss::wire {

class AuthInitiator {
  public:
    // `expected_target` is the name that the target must have. If it is empty, any name will do.
    AuthInitiator(NamedSecret own, std::string expected_target)
        : own_(std::move(own)), expected_target_(std::move(expected_target)) {}

    // Encodes START and returns its length. REQUIRES that the logins have their full length.
    size_t start(Bytes login_request, Bytes login_response, Bytes binding, MutableBytes out);
    // Encodes PROOF and returns its length. kInvalid: the message is malformed or unexpected. kPermission:
    // the peer is not the expected target; the text has the reason and the remedy.
    Result<size_t> take_challenge(Bytes message, MutableBytes out);
    // kInvalid has the same meaning as above. kRefused: the text is the target's reason.
    Status take_result(Bytes message);

    // True after take_challenge() has succeeded.
    bool is_target_proven() const { return proven_; }
    // True after take_result() has succeeded.
    bool is_granted() const { return granted_; }
    // Valid if is_target_proven().
    const std::string& target_name() const { return target_name_; }

  private:
    const NamedSecret own_;
    const std::string expected_target_;
    AuthTranscript transcript_;
    std::string target_name_;
    bool proven_ = false, granted_ = false;
};

}  // namespace wss::wire
