// SPDX-License-Identifier: Apache-2.0
#include "lib/base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <memory>

#include "lib/base/assert.h"

namespace wss {

Digest hmac_sha256(std::string_view key, std::span<const std::span<const std::byte>> parts) {
    struct Free {
        void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
        void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
    };
    std::unique_ptr<EVP_MAC, Free> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    std::unique_ptr<EVP_MAC_CTX, Free> context(mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac.get()));
    char name[] = "SHA256";
    const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", name, 0),
                                     OSSL_PARAM_construct_end()};
    bool fine =
        context != nullptr && EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()),
                                           key.size(), parameters) == 1;
    for (std::span<const std::byte> part : parts)
        fine = fine && EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()),
                                      part.size()) == 1;
    Digest digest;
    size_t length = 0;
    fine = fine && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                                 digest.size()) == 1;
    WSS_ASSERT(fine && length == digest.size(), "libcrypto computes HMAC-SHA-256");
    return digest;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_unpredictable(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        WSS_ASSERT(got > 0, "the kernel has random bytes");
        bytes = bytes.subspan(static_cast<size_t>(got));
    }
}

void Secret::wipe() {
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
    bytes_.clear();
}

Secret take_secret(std::span<std::byte> bytes) {
    Secret taken(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    OPENSSL_cleanse(bytes.data(), bytes.size());
    return taken;
}

}  // namespace wss
