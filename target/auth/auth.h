// SPDX-License-Identifier: Apache-2.0
// The target's half of authentication (protocol: lib/wire/auth.h): the known secrets, and the message
// exchange with one channel.
//
// The answer to a refused peer does not show whether its name or its secret was wrong. The target's log does.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/secrets.h"
#include "lib/wire/auth.h"

namespace wss::auth {

// Thread-safety: immutable, shared by all authenticators; a reload creates a new one.
class SecretBook {
  public:
    // `target_name` is sent to initiators, for display.
    SecretBook(std::string target_name, std::vector<NamedSecret> secrets);

    // The secrets of a name. Unused entries hold a random secret that no initiator has, so that a check takes
    // the same time for every name.
    struct Found {
        std::array<const Secret*, kSecretsPerName> secrets{};
        bool known = false;
    };
    Found find(std::string_view name) const;
    // The position of `secret` among those of the name, in file order, from 1; 0: it is not among them.
    unsigned place_of(std::string_view name, const Secret& secret) const;
    const std::string& target_name() const { return target_name_; }
    size_t names() const;
    const std::vector<NamedSecret>& secrets() const { return secrets_; }

  private:
    const std::string target_name_;
    const std::vector<NamedSecret> secrets_;
    Secret nobody_;
};

// The authentication of one channel. Belongs to the channel's reactor.
class Authenticator {
  public:
    Authenticator(std::shared_ptr<const SecretBook> secrets, wire::Bytes login_request,
                  wire::Bytes login_response);

    // Sets the channel binding of the connection; call it before take().
    void bind(wire::Bytes channel_binding) { transcript_.binding(channel_binding); }

    enum class Progress : uint8_t {
        kChallenge,  // `answer` holds the challenge, `length` bytes
        kProven,     // the peer has proven its name; send result() when it is admitted
        kRefused,    // the proof is wrong; send result() with the reason
        kViolation,  // an invalid or unexpected message
    };
    Progress take(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    // The next message must be the proof of name().
    bool expects_proof() const { return step_ == Step::kProof; }
    // Ends the exchange without a check of the proof.
    void suspend() { step_ = Step::kOver; }

    // Encodes the last message; returns its length. `why` empty: granted.
    size_t result(std::string_view why, wire::MutableBytes answer) const;
    const std::string& name() const { return start_.name; }
    // After kProven: the secret that the proof used.
    const Secret& secret() const { return *proven_; }
    // After kRefused: the reason for the peer, and for the target's log.
    std::string refusal() const;
    std::string_view finding() const { return known_ ? "wrong secret" : "unknown initiator"; }

  private:
    enum class Step : uint8_t { kStart, kProof, kOver };
    Progress take_start(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    Progress take_proof(wire::Bytes message);

    const std::shared_ptr<const SecretBook> secrets_;
    Step step_ = Step::kStart;
    wire::AuthStart start_;
    wire::AuthTranscript transcript_;
    bool known_ = false;
    const Secret* proven_ = nullptr;  // one of secrets_
};

}  // namespace wss::auth
