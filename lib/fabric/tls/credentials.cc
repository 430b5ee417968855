// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tls/credentials.h"

#include <openssl/crypto.h>

namespace wss::fabric::tls {

constexpr std::string_view kLabel{"wss tls 1.3 psk\0", 16};

// Wipes `bytes`.
static Secret as_secret(Digest& bytes) {
    Secret made(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    OPENSSL_cleanse(bytes.data(), bytes.size());
    return made;
}

Secret derive_psk(std::string_view name, const Secret& secret) {
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(kLabel)),
                                                std::as_bytes(std::span(name))};
    Digest key = hmac_sha256(secret.bytes(), parts);
    return as_secret(key);
}

void KnownPeers::replace(const std::vector<NamedSecret>& secrets) {
    std::vector<Known> known;
    known.reserve(secrets.size());
    for (const NamedSecret& one : secrets) known.push_back({one.name, derive_psk(one.name, one.secret)});
    std::lock_guard lock(m_);
    known_.swap(known);
}

Secret KnownPeers::key_of(std::string_view name) const {
    Digest nobodys;
    fill_unpredictable(nobodys);
    Secret key = as_secret(nobodys);
    std::lock_guard lock(m_);
    for (const Known& one : known_)  // all of them, so that the time does not depend on the place of the name
        if (one.name == name) key = one.key;
    return key;
}

Status Files::check() const {
    if (certificate.empty() == key.empty()) return Status::ok();
    return failure(Code::kInvalid,
                   "{} is given without {}: a certificate is of use only with its private key",
                   key.empty() ? "--tls-cert" : "--tls-key", key.empty() ? "--tls-key" : "--tls-cert");
}

void Files::replace_by(const Files& given) {
    for (std::string Files::*file :
         {&Files::certificate, &Files::key, &Files::authorities, &Files::client_authorities})
        if (!(given.*file).empty()) this->*file = given.*file;
}

}  // namespace wss::fabric::tls
