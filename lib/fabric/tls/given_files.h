// SPDX-License-Identifier: Apache-2.0
// Applies the files that the options of a C API (wss.h, wss_kv.h) name: our secret and those of TLS. Options
// that are not given leave `files` and `identity` unchanged.
#pragma once

#include <utility>

#include "lib/base/secrets.h"
#include "lib/fabric/tls/credentials.h"

namespace wss::fabric::tls {

template <typename Given, typename Identity>
Status take_files(const Given& given, Files& files, Identity& identity) {
    if (given.tls_ca != nullptr) files.authorities = given.tls_ca;
    if (given.tls_cert != nullptr) files.certificate = given.tls_cert;
    if (given.tls_key != nullptr) files.key = given.tls_key;
    if (given.secret_file == nullptr) return Status::ok();
    auto own = read_own_secret(given.secret_file);
    if (!own) return own.status();
    identity = std::move(*own);
    return Status::ok();
}

}  // namespace wss::fabric::tls
