// SPDX-License-Identifier: Apache-2.0
// The target's half of authentication (lib/wire/auth.h tells the whole): which secrets it knows, and the
// conversation with one channel.
//
// What a refused peer is told does not say whether its name or its secret was wrong; the target's log does.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/secrets.h"
#include "lib/wire/auth.h"

namespace wss::auth {

// Thread-safety: immutable, shared by all who authenticate; a reload makes a new one.
class SecretBook {
  public:
    // `target_name` is told to initiators, for people.
    SecretBook(std::string target_name, std::vector<NamedSecret> secrets);

    // Of a name. In place of those that it has not: one that nobody has, so that the answer takes as long.
    struct Found {
        std::array<const Secret*, kSecretsPerName> secrets{};
        bool known = false;
    };
    Found find(std::string_view name) const;
    // Which of the name's secrets it is, from 1, as in the file; 0: none of them, or not any more.
    unsigned place_of(std::string_view name, const Secret& secret) const;
    const std::string& target_name() const { return target_name_; }
    size_t names() const;
    const std::vector<NamedSecret>& secrets() const { return secrets_; }

  private:
    const std::string target_name_;
    const std::vector<NamedSecret> secrets_;
    Secret nobody_;
};

// One channel's. Belongs to the channel's reactor.
class Authenticator {
  public:
    Authenticator(std::shared_ptr<const SecretBook> secrets, wire::Bytes login_request,
                  wire::Bytes login_response);

    // Of the connection that the conversation is on.
    void bind(wire::Bytes channel_binding) { transcript_.binding(channel_binding); }

    enum class Verdict : uint8_t {
        kChallenge,  // `answer` holds the challenge, `length` bytes
        kProven,     // the peer is who it says; result() once it is admitted
        kRefused,    // result() says so
        kViolation,  // not what may come now
    };
    Verdict take(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    // The proof is due: name() is what it will be about.
    bool expects_proof() const { return step_ == Step::kProof; }
    // The proof is not looked at: kRefused, whatever it is worth.
    void suspend() { step_ = Step::kOver; }

    // The last message. `why` empty: granted.
    size_t result(std::string_view why, wire::MutableBytes answer) const;
    const std::string& name() const { return start_.name; }
    // Of kProven: with which of the name's.
    const Secret& secret() const { return *proven_; }
    // Of kRefused: for the peer, and for our log.
    std::string refusal() const;
    std::string_view finding() const { return known_ ? "wrong secret" : "unknown initiator"; }

  private:
    enum class Step : uint8_t { kStart, kProof, kOver };
    Verdict take_start(wire::Bytes message, wire::MutableBytes answer, size_t& length);
    Verdict take_proof(wire::Bytes message);

    const std::shared_ptr<const SecretBook> secrets_;
    Step step_ = Step::kStart;
    wire::AuthStart start_;
    wire::AuthTranscript transcript_;
    bool known_ = false;
    const Secret* proven_ = nullptr;  // one of secrets_
};

}  // namespace wss::auth
