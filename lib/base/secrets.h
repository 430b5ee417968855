// SPDX-License-Identifier: Apache-2.0
// Files of secrets: lines `NAME:SECRET`, where NAME is an initiator's. Blank lines and those that begin with
// '#' are skipped. A target's file has a line for each initiator that it knows, or two, while that changes
// from one secret to another; an initiator's file has its own.
//
// Nobody but the owner may be able to read or write such a file; one that others can is refused, because what
// it holds must be taken for known. Errors name file and line, never what stands there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/hmac.h"
#include "lib/base/status.h"

namespace wss {

constexpr size_t kInitiatorNameMax = 63;
constexpr size_t kSecretMin = 16;
constexpr size_t kSecretMax = 256;
constexpr size_t kSecretsPerName = 2;
// A file of more is not one of ours.
constexpr size_t kSecretsMax = 4096;

struct NamedSecret {
    std::string name;
    Secret secret;
};

// 1 to 63 of A-Z a-z 0-9 . _ -, not starting with '.' or '-'.
Status check_initiator_name(std::string_view name);

// A name has at most kSecretsPerName lines. An empty file is an error: nobody could log in.
Result<std::vector<NamedSecret>> read_secrets(const std::string& path);
// The only one of an initiator's file.
Result<NamedSecret> read_own_secret(const std::string& path);
// The text of such a file; `path` for the messages.
Result<std::vector<NamedSecret>> parse_secrets(std::string_view text, const std::string& path);

// A fresh line for NAME, of 256 bits of chance.
std::string make_secret_line(std::string_view name);

}  // namespace wss
