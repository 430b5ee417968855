// SPDX-License-Identifier: Apache-2.0
// Checks of the path to each target: its name, the path MTU, the connection, the login, and a read of data.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "lib/base/file.h"
#include "lib/base/size.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/tls/context.h"
#include "lib/initiator/client.h"
#include "tools/wssctl/doctor.h"

namespace wss::wssctl {

namespace {

using fabric::Address;
using fabric::Scheme;
using fabric::SocketAddress;

// The path MTU that the kernel knows, or 0 if there is no route. Sends nothing.
int path_mtu(const SocketAddress& address) {
    const bool v6 = address.storage.ss_family == AF_INET6;
    const Descriptor socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    int mtu = 0;
    socklen_t length = sizeof mtu;
    if (!socket || connect(socket.get(), address.get(), address.length) != 0 ||
        getsockopt(socket.get(), v6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP}, v6 ? IPV6_MTU : IP_MTU, &mtu,
                   &length) != 0)
        return 0;
    return mtu;
}

Finding check_path(const std::string& target, const SocketAddress& address) {
    const int mtu = path_mtu(address);
    const std::string where = fmt::format("{}: {}", target, address.host());
    if (mtu == 0)
        return {
            "route", Level::kFailed, where + ": no route leads there",
            "See ip route get " + address.host() + ", and bring the interface up or correct the address."};
    return {"route", Level::kOk, fmt::format("{}: path MTU {}", where, mtu), ""};
}

bool says(const Status& status, std::string_view text) {
    return status.text().find(text) != std::string::npos;
}

// Advice for failures of TLS, which occur before the login, or nullptr for other failures.
const char* tls_advice(const Status& status) {
    if (says(status, "connect with t")) return "Write the address as in the message.";
    if (says(status, "the clock of this machine is wrong"))
        return "Compare the clocks (date) and run a time service: timedatectl set-ntp true; if they are "
               "right, replace the certificate.";
    if (says(status, "certificate is refused"))
        return "Compare --tls-ca with the authority of the target's --tls-cert, and the name in that "
               "certificate with the address.";
    if (says(status, "certificate"))
        return "Give --tls-cert and --tls-key, signed by an authority in the target's --tls-client-ca.";
    return nullptr;
}

// Checks the files and secrets that tls:// needs. Without them no connection is tried.
std::optional<Finding> check_tls(const Address& address, const initiator::Options& options) {
    if (address.scheme != Scheme::kTls) return std::nullopt;
    fabric::tls::Credentials credentials{.files = options.tls, .identity = {}, .known = {}};
    if (!options.identity.secret.empty()) credentials.identity = options.identity;
    auto context = fabric::tls::Context::create(std::move(credentials));
    if (!context)
        return Finding{"tls", Level::kFailed, context.status().text(),
                       "Name PEM files that this user can read: authorities for --tls-ca, a certificate with "
                       "its chain for --tls-cert, its private key without a passphrase for --tls-key."};
    if (Status able = (*context)->can_connect(); !able)
        return Finding{"tls", Level::kFailed, fmt::format("{}: {}", address.to_string(), able.text()),
                       "Give --secret-file if the target has --secrets, else --tls-ca with the authority of "
                       "its certificate."};
    return std::nullopt;
}

// Adds the address to the text of a failure that does not contain it.
std::string with_address(const Address& address, const Status& status) {
    const std::string text = status.to_string(), name = address.to_string();
    return text.starts_with(name) ? text : name + ": " + text;
}

Finding explain_failure(const Address& address, const Status& status) {
    if (const char* advice = tls_advice(status))
        return {"tls", Level::kFailed, with_address(address, status), advice};
    if (is_login_failure(status))
        return {"login", Level::kFailed, status.to_string(),
                "Compare --secret-file with the target's --secrets and --access (wssctl auth show there)."};
    if (says(status, "cannot be pinned"))
        return {"memlock", Level::kFailed, with_address(address, status), kRaiseMemlock};
    return {
        "connect", Level::kFailed, with_address(address, status),
        fmt::format("Check that wss-target runs on the target and listens on port {} of that address, and "
                    "that no firewall blocks it.",
                    address.port)};
}

// The login and small commands work even if packets of the full MTU are lost, so a longer read is needed.
constexpr size_t kReadBytes = 64 << 10;

// The payload of a ping that fills this machine's path MTU.
size_t largest_ping(const SocketAddress& where) {
    const bool v6 = where.storage.ss_family == AF_INET6;
    return static_cast<size_t>(std::max(path_mtu(where), 1280)) - (v6 ? 48 : 28);
}

Finding explain_silence(const std::string& text, const Address& address, const Question& question) {
    auto found = fabric::resolve(address, question.timeout);
    if (!found)
        return {"data", Level::kFailed, text, "See the log of the target: its storage does not answer."};
    return {"data", Level::kFailed, text + ", although the login was answered",
            fmt::format(
                "Try ping -M do -s {} {}: if there is no reply, packets of this length are lost, and every "
                "machine and switch on the path needs the same MTU. Otherwise, see the log of the "
                "target for storage errors.",
                largest_ping(found->front()), found->front().host())};
}

void check_data(initiator::Client& client, const Address& address, const Question& question,
                Findings& findings) {
    const auto volumes = client.volumes();
    if (volumes.empty()) return;
    const std::string what = fmt::format("{}: volume {}", address.to_string(), volumes.front().name);
    auto volume = client.open(volumes.front().name);
    if (!volume)
        return findings.push_back(
            explain_silence(what + ": " + volume.status().to_string(), address, question));
    std::vector<std::byte> memory(std::min<uint64_t>(kReadBytes, (*volume)->info().size));
    const iovec buffer{memory.data(), memory.size()};
    initiator::ClientRequest request;
    request.volume = &(*volume)->volume();
    request.buffers = {&buffer, 1};
    request.length = memory.size();
    client.run(request);
    client.close(std::move(*volume));
    using initiator::Outcome;
    if (request.outcome == Outcome::kOk)
        return findings.push_back(
            {"data", Level::kOk, fmt::format("{}: {} read", what, readable_size(memory.size())), ""});
    const std::string text =
        fmt::format("{}: reading {}: {}", what, readable_size(memory.size()), to_string(request.outcome));
    if (request.outcome == Outcome::kTimedOut || request.outcome == Outcome::kConnectionLost)
        return findings.push_back(explain_silence(text, address, question));
    findings.push_back(
        {"data", Level::kWarning, text, "See the log of the target, and run wssctl volume list there."});
}

void check_login(const Address& address, const Question& question, Findings& findings) {
    auto options = options_with(question.credentials, question.timeout);
    if (!options)
        return findings.push_back({"login", Level::kFailed, options.status().to_string(),
                                   "Create it with wssctl secret, mode 600, and add its line to the "
                                   "target's --secrets file."});
    if (auto fault = check_tls(address, *options)) return findings.push_back(std::move(*fault));
    auto client = initiator::Client::connect(address.to_string(), std::move(*options));
    if (!client) return findings.push_back(explain_failure(address, client.status()));
    const size_t volumes = (*client)->volumes().size();
    findings.push_back({"connect", Level::kOk, address.to_string() + " answers", ""});
    findings.push_back(
        {"login", Level::kOk,
         fmt::format("{}: accepted, {} volume{}", address.to_string(), volumes, volumes == 1 ? "" : "s"),
         ""});
    check_data(**client, address, question, findings);
}

// Resolves the target's name and checks the routes. Returns false if there is no address to connect to.
bool check_name(const Address& address, const std::string& target, const Question& question,
                Findings& findings) {
    auto found = fabric::resolve(address, question.timeout);
    if (!found) {
        findings.push_back({"name", Level::kFailed, found.status().text(),
                            "Correct the name, or add it to /etc/hosts or the name server."});
        return false;
    }
    std::string all;
    for (const SocketAddress& one : *found) all += (all.empty() ? "" : ", ") + one.host();
    findings.push_back({"name", Level::kOk, fmt::format("{}: {}", target, all), ""});
    for (const SocketAddress& one : *found) findings.push_back(check_path(target, one));
    return true;
}

void check_target(const Host& host, const std::string& target, const Question& question, Findings& findings) {
    auto address = parse_host(target);
    if (!address) {
        findings.push_back(
            {"name", Level::kFailed, address.status().text(),
             "Write HOST:PORT, rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or shm:///PATH."});
        return;
    }
    const bool has_host = fabric::has_host(address->scheme);
    if (has_host && !check_name(*address, target, question, findings)) return;
    if (address->scheme == Scheme::kRdma && host.rdma_devices().empty()) {
        findings.push_back({"connect", Level::kSkipped, address->to_string() + ": no RDMA device here",
                            "See the check rdma, or try tcp://HOST:PORT if the target listens there."});
        return;
    }
    check_login(*address, question, findings);
}

}  // namespace

Findings check_targets(const Host& host, const Question& question) {
    Findings findings;
    for (const std::string& target : question.hosts) check_target(host, target, question, findings);
    if (!question.hosts.empty()) return findings;
    return {
        {"targets", Level::kSkipped, "no HOST was named", "Check the path to a target: wssctl doctor HOST."}};
}

}  // namespace wss::wssctl
