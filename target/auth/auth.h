// SPDX-License-Identifier: Apache-2.0
// The target's half of authentication (protocol: lib/wire/auth.h): the known secrets, and the message
// exchange with one channel.
//
// The target proves first that it knows the secret. For an unknown name, and for a second secret that a name
// does not have, it makes the proofs with random keys of the process. So a challenge shows neither which
// names exist nor how many secrets they have.
//
// The answer to a refused peer does not show whether its name or its secret was wrong. The target's log shows
// it.
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
    // `target_name` is sent to initiators, and is part of the keys. REQUIRES: is_peer_name(target_name). The
    // names in `version_1`, and no others, may use version 1 of the protocol.
    SecretBook(std::string target_name, std::vector<NamedSecret> secrets,
               std::vector<std::string> version_1 = {});

    // The secrets of a name, with the keys derived from them. Unused entries hold random keys that no
    // initiator has, so that a check takes the same time for every name.
    struct Entry {
        const Secret* secret = nullptr;
        const Secret* key = nullptr;
    };
    struct Found {
        std::array<Entry, kSecretsPerName> entries;
        bool known = false;
    };
    Found find(std::string_view name) const;
    // The position of `secret` among the secrets of the name, in the order of the file, from 1; 0 if it is
    // not among them.
    unsigned place_of(std::string_view name, const Secret& secret) const;
    const std::string& target_name() const { return target_name_; }
    bool allows_version_1(std::string_view name) const;
    size_t names() const;
    const std::vector<NamedSecret>& secrets() const { return secrets_; }

  private:
    const std::string target_name_;
    const std::vector<NamedSecret> secrets_;
    const std::vector<std::string> version_1_;
    std::vector<Secret> keys_;                    // of secrets_, in its order
    std::array<Secret, kSecretsPerName> nobody_;  // both the secrets and the keys of unused entries
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
        kOutdated,   // the proof is right, but of version 1, which is not allowed; send result() with the
                     // reason
        kViolation,  // an invalid or unexpected message
    };
    Progress take(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    // Whether the next message must be the proof of name(). Except in version 1, the peer has then received
    // the target's proof.
    bool expects_proof() const { return step_ == Step::kProof; }
    // Ends the exchange without a check of the proof.
    void suspend() { step_ = Step::kOver; }

    // Encodes the last message, and returns its length. An empty `why` means that the peer is admitted.
    size_t result(std::string_view why, wire::MutableBytes answer) const;
    const std::string& name() const { return start_.name; }
    // After kProven: the secret that the proof used.
    const Secret& secret() const { return *proven_; }
    // After kRefused or kOutdated: the reason for the peer, and for the target's log. `role`: "initiator" or
    // "cache engine".
    std::string refusal(std::string_view role) const;
    std::string_view finding() const;
    // Why the peer may have left without sending its proof; for the target's log.
    std::string_view suspicion() const;

  private:
    enum class Step : uint8_t { kStart, kProof, kOver };
    Progress take_start(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    Progress take_proof(wire::Bytes message);
    bool is_version_1() const { return start_.version == WSS_AUTH_VERSION_1; }

    const std::shared_ptr<const SecretBook> secrets_;
    Step step_ = Step::kStart;
    wire::AuthStart start_;
    wire::AuthTranscript transcript_;
    bool known_ = false;
    bool outdated_ = false;
    const Secret* proven_ = nullptr;  // one of secrets_
};

}  // namespace wss::auth
