// SPDX-License-Identifier: Apache-2.0
#include "lib/base/secrets.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/file.h"

namespace wss {

namespace {

// Maximum number of lines of maximum length.
constexpr off_t kFileMax = kSecretsMax * (kInitiatorNameMax + 1 + kSecretMax + 1);

// The contents of a secrets file. The destructor wipes them.
struct Text {
    std::string bytes;
    ~Text() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

Status check_file(const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return failure(Code::kInvalid, "{}: not a file", path);
    if (facts.st_uid != geteuid() && facts.st_uid != 0)
        return failure(Code::kPermission, "{}: belongs to user {}; it must be yours or root's", path,
                       facts.st_uid);
    if ((facts.st_mode & 077) != 0)
        return failure(Code::kPermission,
                       "{}: mode {:04o} lets others access the secrets; replace them with new ones and chmod "
                       "600 the file",
                       path, facts.st_mode & 07777u);
    if (facts.st_size > kFileMax)
        return failure(Code::kInvalid, "{}: larger than {} bytes: not a file of secrets", path, kFileMax);
    return Status::ok();
}

Status read_checked(const std::string& path, Text& text) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat facts;
    if (!file || fstat(file.get(), &facts) != 0)
        return Status::from_errno(errno, fmt::format("{}: cannot read the secrets", path));
    WSS_TRY(check_file(path, facts));
    // All memory is reserved at once: growing would leave copies of secrets behind.
    text.bytes.reserve(static_cast<size_t>(kFileMax) + 65536);
    return read_rest(file, path, static_cast<size_t>(kFileMax), text.bytes);
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Status parse_line(std::string_view line, const std::string& path, size_t number, NamedSecret& out) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos)
        return failure(Code::kInvalid, "{}:{}: not of the form NAME:SECRET", path, number);
    if (Status named = check_initiator_name(line.substr(0, colon)); !named)
        return failure(Code::kInvalid, "{}:{}: invalid name before ':'; a name has {}", path, number,
                       "1 to 63 of A-Z a-z 0-9 . _ -");
    std::string_view secret = line.substr(colon + 1);
    if (secret.size() < kSecretMin || secret.size() > kSecretMax || !is_printable(secret))
        return failure(Code::kInvalid, "{}:{}: a secret has {} to {} printable characters without blanks",
                       path, number, kSecretMin, kSecretMax);
    out = {std::string(line.substr(0, colon)), Secret(secret)};
    return Status::ok();
}

}  // namespace

bool is_peer_name(std::string_view name) {
    auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '_' || c == '-';
    };
    return !name.empty() && name.size() <= kInitiatorNameMax && name[0] != '.' && name[0] != '-' &&
           std::all_of(name.begin(), name.end(), allowed);
}

Status check_initiator_name(std::string_view name) {
    if (is_peer_name(name)) return Status::ok();
    return failure(
        Code::kInvalid,
        "'{}' is not a valid initiator name: 1 to {} of A-Z a-z 0-9 . _ -, beginning with a letter, "
        "digit or _",
        name, kInitiatorNameMax);
}

Result<std::vector<NamedSecret>> parse_secrets(std::string_view text, const std::string& path) {
    std::vector<NamedSecret> secrets;
    for (size_t number = 1; !text.empty(); ++number) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line[0] == '#') continue;
        if (secrets.size() == kSecretsMax)
            return failure(Code::kInvalid, "{}: more than {} secrets", path, kSecretsMax);
        NamedSecret next;
        WSS_TRY(parse_line(line, path, number, next));
        size_t others = 0;
        for (const NamedSecret& each : secrets) {
            if (each.name != next.name) continue;
            ++others;
            if (each.secret.bytes() == next.secret.bytes())
                return failure(Code::kInvalid, "{}:{}: initiator {} already has this secret", path, number,
                               next.name);
        }
        if (others == kSecretsPerName)
            return failure(Code::kInvalid, "{}:{}: initiator {} already has {} secrets: remove an old one",
                           path, number, next.name, kSecretsPerName);
        secrets.push_back(std::move(next));
    }
    if (secrets.empty())
        return failure(Code::kInvalid, "{}: contains no secret; `wssctl secret NAME` creates one", path);
    return secrets;
}

Result<std::vector<NamedSecret>> read_secrets(const std::string& path) {
    Text text;
    WSS_TRY(read_checked(path, text));
    return parse_secrets(text.bytes, path);
}

Result<NamedSecret> read_own_secret(const std::string& path) {
    auto all = read_secrets(path);
    if (!all) return all.status();
    if (all->size() != 1)
        return failure(Code::kInvalid,
                       "{}: {} secrets; an initiator's file has one line, its own: do not copy the target's "
                       "file to initiators",
                       path, all->size());
    return std::move((*all)[0]);
}

std::string make_secret_line(std::string_view name) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    constexpr size_t kCharacters = 43;  // six bits each, 258 in total
    std::array<std::byte, kCharacters> chance;
    fill_unpredictable(chance);
    std::string line(name);
    line += ':';
    for (std::byte each : chance) line += kDigits[std::to_integer<size_t>(each) % kDigits.size()];
    return line;
}

}  // namespace wss
