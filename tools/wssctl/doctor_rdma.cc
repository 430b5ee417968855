// SPDX-License-Identifier: Apache-2.0
// Checks of RDMA: locked memory, devices and their links, MTU.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>

#include "lib/base/size.h"
#include "lib/base/status.h"
#include "tools/wssctl/doctor.h"

namespace wss::wssctl {

// --- locked memory ---

// Enough for the default buffers of a client. A target also locks its volumes and caches.
constexpr uint64_t kMemlockEnough = 64 << 20;
constexpr uint64_t kCapIpcLock = 1 << 14;  // see capabilities(7): no limit applies

Findings check_memlock(const Host& host, const Question&) {
    const std::string name = "memlock";
    const std::string caps = host.value("/proc/self/status", "CapEff:\t").value_or("0");
    uint64_t bits = 0;
    std::from_chars(caps.data(), caps.data() + caps.size(), bits, 16);
    if (bits & kCapIpcLock)
        return {{name, Level::kOk, "no limit for this user; services have their own, LimitMEMLOCK=", ""}};
    auto limit = host.value("/proc/self/limits", "Max locked memory");
    if (!limit)
        return {{name, Level::kSkipped, "/proc/self/limits cannot be read",
                 "Run wssctl where /proc is mounted."}};
    limit->erase(0, limit->find_first_not_of(' '));
    if (limit->starts_with("unlimited")) return {{name, Level::kOk, "unlimited", ""}};
    uint64_t bytes = 0;
    std::from_chars(limit->data(), limit->data() + limit->size(), bytes);
    const std::string text = fmt::format("a program of this user may lock {}; RDMA locks all memory it uses",
                                         readable_size(bytes));
    if (bytes >= kMemlockEnough) return {{name, Level::kOk, text, ""}};
    const Level level = host.rdma_devices().empty() ? Level::kWarning : Level::kFailed;
    return {{name, level, text, kRaiseMemlock}};
}

// --- devices ---

std::vector<std::string> Host::interfaces_of(const std::string& device) const {
    std::set<std::string> names;
    const std::string ports = "/sys/class/infiniband/" + device + "/ports";
    for (const std::string& port : entries(ports)) {
        const std::string table = ports + "/" + port + "/gid_attrs/ndevs";
        for (const std::string& gid : entries(table))
            if (auto name = line(table + "/" + gid); name && !name->empty()) names.insert(*name);
    }
    return {names.begin(), names.end()};
}

// "4: ACTIVE" → "ACTIVE"
static std::string state_of(const Host& host, const std::string& port) {
    const std::string state = host.line(port + "/state").value_or("unknown");
    const size_t colon = state.find(": ");
    return colon == std::string::npos ? state : state.substr(colon + 2);
}

static Finding check_port(const Host& host, const std::string& device, const std::string& port) {
    const std::string state = state_of(host, "/sys/class/infiniband/" + device + "/ports/" + port);
    const std::vector<std::string> interfaces = host.interfaces_of(device);
    const std::string where = interfaces.empty() ? "" : " on " + interfaces.front();
    Finding finding{"rdma", Level::kOk, fmt::format("{} port {}{}: {}", device, port, where, state), ""};
    if (state == "ACTIVE") return finding;
    finding.level = Level::kFailed;
    finding.advice =
        fmt::format("Check the cable and the switch, and bring the interface up: ip link set {} up.",
                    interfaces.empty() ? "INTERFACE" : interfaces.front());
    return finding;
}

Findings check_rdma(const Host& host, const Question&) {
    const std::vector<std::string> devices = host.rdma_devices();
    if (devices.empty())
        return {
            {"rdma", Level::kSkipped, "no RDMA device: tcp:// and shm:// addresses work, the driver does not",
             "Install an RDMA network card, or use software RDMA: modprobe rdma_rxe && rdma link add rxe0 "
             "type rxe netdev INTERFACE."}};
    Findings findings;
    for (const std::string& device : devices)
        for (const std::string& port : host.entries("/sys/class/infiniband/" + device + "/ports"))
            findings.push_back(check_port(host, device, port));
    const bool any_up = std::any_of(findings.begin(), findings.end(),
                                    [](const Finding& one) { return one.level == Level::kOk; });
    for (Finding& finding : findings)
        if (any_up && finding.level == Level::kFailed) finding.level = Level::kWarning;
    if (!host.has("/dev/infiniband/rdma_cm"))
        findings.push_back({"rdma", Level::kFailed, "/dev/infiniband/rdma_cm does not exist",
                            "Load the connection manager for programs: modprobe rdma_ucm."});
    return findings;
}

// --- MTU ---

// RDMA over Ethernet sends 256, 512, 1024, 2048 or 4096 bytes in a packet, plus headers of this size.
constexpr uint32_t kPacketHeaders = 104;
constexpr uint32_t kWholePacket = 4096;

Findings check_mtu(const Host& host, const Question&) {
    Findings findings;
    for (const std::string& device : host.rdma_devices()) {
        for (const std::string& interface : host.interfaces_of(device)) {
            const std::string text = host.line("/sys/class/net/" + interface + "/mtu").value_or("");
            uint32_t mtu = 0;
            std::from_chars(text.data(), text.data() + text.size(), mtu);
            Finding finding{"mtu", Level::kOk, fmt::format("{} on {}: {}", device, interface, mtu), ""};
            if (mtu < kWholePacket + kPacketHeaders) {
                finding.level = Level::kWarning;
                finding.text += fmt::format(", too small for RDMA packets of {} bytes", kWholePacket);
                finding.advice = fmt::format(
                    "For throughput, set an MTU of at least 4200 on the switches and on every machine of the "
                    "network: ip link set {} mtu 4200.",
                    interface);
            }
            findings.push_back(std::move(finding));
        }
    }
    if (!findings.empty()) return findings;
    return {{"mtu", Level::kSkipped, "no RDMA device on a network interface",
             "Name a HOST to see the MTU of the path to it."}};
}

}  // namespace wss::wssctl
