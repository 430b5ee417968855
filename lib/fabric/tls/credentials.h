// SPDX-License-Identifier: Apache-2.0
// Credentials of a process, and its trust anchors, for tls:// addresses.
//
// There are two kinds. *Pre-shared keys* come from secrets files: the connecting end offers its initiator
// name, the listening end finds the secret of that name, and each proves to the other that it has the secret.
// *Certificates* are PEM files: the listening end presents its own, which must be for the host that the
// connecting end dialled.
//
// A key is derived from a secret by HMAC-SHA-256 under a separate label. Neither the key nor values computed
// from it are usable in login proofs (lib/wire/auth.h), which use the same secret.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/secrets.h"

namespace wss::fabric::tls {

// The pre-shared key of `name`, 32 bytes.
Secret derive_psk(std::string_view name, const Secret& secret);

// Identity of the key, sent in clear text: "NAME#" and 8 hexadecimal digits that distinguish the secrets of a
// name. An eavesdropper can test guesses of the secret against them, but also against the handshake itself.
std::string psk_identity(std::string_view name, const Secret& secret);

// Peers that may connect with a pre-shared key. Thread-safety: all methods may be called from any thread.
class KnownPeers {
  public:
    explicit KnownPeers(const std::vector<NamedSecret>& secrets) { replace(secrets); }
    // Existing connections are not affected.
    void replace(const std::vector<NamedSecret>& secrets);
    // Returns a random key for an unknown identity, so that a wrong name and a wrong secret fail alike.
    Secret key_of(std::string_view identity) const;

  private:
    struct Known {
        std::string identity;
        Secret key;
    };
    mutable std::mutex m_;
    std::vector<Known> known_;  // guarded by m_
};

// Names of PEM files; "" for none.
struct Files {
    std::string certificate;         // our own, with the chain to the authority
    std::string key;                 // private key of the certificate
    std::string authorities;         // connecting: authorities for certificates of listeners
    std::string client_authorities;  // listening: authorities for certificates of clients without a known key

    bool operator==(const Files&) const = default;
    bool empty() const { return *this == Files{}; }
    // Fails if only one of certificate and key is given.
    Status check() const;
    // Replaces each file of this object for which `given` has a name.
    void replace_by(const Files& given);
};

struct Credentials {
    Files files;
    std::optional<NamedSecret> identity;  // connecting: the name to offer, and its secret
    // Listening: peers that may connect with a pre-shared key. If it is set, other peers may connect only
    // with a certificate of Files::client_authorities.
    std::shared_ptr<const KnownPeers> known;
    // The connection ends when the kernel has encrypted this many bytes (kernel.h). 0: libssl encrypts.
    uint64_t kernel_sends_max = 0;
};

}  // namespace wss::fabric::tls
