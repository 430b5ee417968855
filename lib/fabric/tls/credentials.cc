// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tls/credentials.h"

#include <fmt/format.h>

namespace wss::fabric::tls {

constexpr std::string_view kKeyLabel{"wss tls 1.3 psk\0", 16};
constexpr std::string_view kIdentityLabel{"wss tls 1.3 id\0\0", 16};

static Digest digest_of(std::string_view label, std::string_view name, const Secret& secret) {
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(label)),
                                                std::as_bytes(std::span(name))};
    return hmac_sha256(secret.bytes(), parts);
}

Secret derive_psk(std::string_view name, const Secret& secret) {
    Digest key = digest_of(kKeyLabel, name, secret);
    return take_secret(key);
}

std::string psk_identity(std::string_view name, const Secret& secret) {
    const Digest digest = digest_of(kIdentityLabel, name, secret);
    std::string identity = fmt::format("{}#", name);
    for (std::byte each : std::span(digest).first(4))
        identity += fmt::format("{:02x}", std::to_integer<unsigned>(each));
    return identity;
}

void KnownPeers::replace(const std::vector<NamedSecret>& secrets) {
    std::vector<Known> known;
    known.reserve(secrets.size());
    for (const auto& [name, secret] : secrets)
        known.push_back({psk_identity(name, secret), derive_psk(name, secret)});
    std::lock_guard lock(m_);
    known_.swap(known);
}

Secret KnownPeers::key_of(std::string_view identity) const {
    Digest nobodys;
    fill_unpredictable(nobodys);
    Secret key = take_secret(nobodys);
    std::lock_guard lock(m_);
    for (const Known& one : known_)  // visits all, so that the time does not depend on the position
        if (one.identity == identity) key = one.key;
    return key;
}

Status Files::check() const {
    if (certificate.empty() == key.empty()) return Status::ok();
    return failure(Code::kInvalid,
                   "{} is given without {}: a certificate can be used only with its private key",
                   key.empty() ? "--tls-cert" : "--tls-key", key.empty() ? "--tls-key" : "--tls-cert");
}

void Files::replace_by(const Files& given) {
    for (std::string Files::*file :
         {&Files::certificate, &Files::key, &Files::authorities, &Files::client_authorities})
        if (!(given.*file).empty()) this->*file = given.*file;
}

}  // namespace wss::fabric::tls
