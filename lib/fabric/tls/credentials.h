// SPDX-License-Identifier: Apache-2.0
// What a process shows, and whom it trusts, on tls:// addresses.
//
// Either of two kinds. *Pre-shared keys* come from secrets files: the connecting end offers its initiator
// name, the listening end finds the secret of that name, and each proves to the other that it knows it.
// *Certificates* are PEM files: the listening end shows its own, which must be of the host that the
// connecting end dialled.
//
// A key is derived from a secret by HMAC-SHA-256 under a label of its own. Neither the key nor what is
// computed from it is of use for the proofs of a login (lib/wire/auth.h), which take the same secret.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/secrets.h"

namespace wss::fabric::tls {

// The key of `name`, 32 bytes.
Secret derive_psk(std::string_view name, const Secret& secret);

// What the key is offered as, in clear text: "NAME#" and 8 hexadecimal digits that tell the secrets of a name
// apart. They help to guess a secret no more than the handshake itself, which is under the key.
std::string psk_identity(std::string_view name, const Secret& secret);

// Who may connect with a pre-shared key. Thread-safety: all methods may be called from any thread.
class KnownPeers {
  public:
    explicit KnownPeers(const std::vector<NamedSecret>& secrets) { replace(secrets); }
    // Connections that exist are not affected.
    void replace(const std::vector<NamedSecret>& secrets);
    // Of an unknown one: a key that nobody has, so that a wrong name and a wrong secret fail alike.
    Secret key_of(std::string_view identity) const;

  private:
    struct Known {
        std::string identity;
        Secret key;
    };
    mutable std::mutex m_;
    std::vector<Known> known_;  // guarded by m_
};

// Names of PEM files; "" where there is none.
struct Files {
    std::string certificate;         // ours, with the chain to the authority
    std::string key;                 // of the certificate
    std::string authorities;         // connecting: who may have signed the certificate of the other end
    std::string client_authorities;  // listening: who may have signed those of clients without a known key

    bool operator==(const Files&) const = default;
    bool empty() const { return *this == Files{}; }
    // What belongs together is there together.
    Status check() const;
    // Those that `given` has replace ours.
    void replace_by(const Files& given);
};

struct Credentials {
    Files files;
    std::optional<NamedSecret> identity;      // connecting: the key that we offer
    std::shared_ptr<const KnownPeers> known;  // listening: who may connect; with it nobody else may
};

}  // namespace wss::fabric::tls
