// SPDX-License-Identifier: Apache-2.0
// Files of secrets: lines `NAME:SECRET`, where NAME is an initiator name. Blank lines and lines that begin
// with '#' are skipped. A target's file has a line for each known initiator, or two lines during a change of
// its secret. An initiator's file has only its own line.
//
// Only the owner, who is the user of this process or root, may be able to read or write such a file. Other
// files are rejected, because their secrets may be known to others. Errors name the file and line, never the
// content.
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
// A file with more secrets is rejected.
constexpr size_t kSecretsMax = 4096;

struct NamedSecret {
    std::string name;
    Secret secret;
};

// True if `name` is valid as the name of an initiator, cache engine or target: 1 to 63 of the characters A-Z
// a-z 0-9 . _ -, the first of which is neither '.' nor '-'.
bool is_peer_name(std::string_view name);
Status check_initiator_name(std::string_view name);

// A name has at most kSecretsPerName lines. An empty file is an error: no initiator could log in.
Result<std::vector<NamedSecret>> read_secrets(const std::string& path);
// Returns the only secret in an initiator's file.
Result<NamedSecret> read_own_secret(const std::string& path);
// Parses the text of such a file. `path` is for messages.
Result<std::vector<NamedSecret>> parse_secrets(std::string_view text, const std::string& path);

// Returns a new line for `name` with more than 256 random bits.
std::string make_secret_line(std::string_view name);

}  // namespace wss
