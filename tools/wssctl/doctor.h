// SPDX-License-Identifier: Apache-2.0
// The checks of `wssctl doctor`. Each examines one thing, changes nothing, and returns its findings in
// bounded time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tools/wssctl/host.h"

namespace wss::wssctl {

enum class Level : uint8_t { kOk, kSkipped, kWarning, kFailed };
const char* to_string(Level level);

struct Finding {
    std::string name;
    Level level = Level::kOk;
    std::string text;    // the observation
    std::string advice;  // one sentence with the next step; empty if the finding is ok
};
using Findings = std::vector<Finding>;

// The machine to check: files below `root`, which may be a copy of another machine's files.
class Host {
  public:
    explicit Host(std::string root = {}) : root_(std::move(root)) {}
    // `path` must be absolute.
    std::string at(const std::string& path) const { return root_ + path; }
    bool has(const std::string& path) const;
    // The first line without trailing blanks, or nullopt if the file is empty or cannot be read.
    std::optional<std::string> line(const std::string& path) const;
    // The rest of the first line that begins with `key`, without trailing blanks, or nullopt if there is no
    // such line.
    std::optional<std::string> value(const std::string& path, const std::string& key) const;
    std::vector<std::string> entries(const std::string& folder) const;  // names, sorted

    std::vector<std::string> rdma_devices() const { return entries("/sys/class/infiniband"); }
    // Names of the network interfaces of an RDMA device.
    std::vector<std::string> interfaces_of(const std::string& device) const;

  private:
    const std::string root_;
};

// The arguments of the command.
struct Question {
    std::vector<std::string> hosts;  // targets
    Credentials credentials;
    Nanoseconds timeout = from_s(5);  // time limit of each step of a connection to a host
};

// Advice for users who are not permitted to lock the memory that RDMA needs.
inline constexpr const char* kRaiseMemlock =
    "Set LimitMEMLOCK=infinity in the service, or write '* - memlock unlimited' into "
    "/etc/security/limits.d/wss.conf and log in again.";

// Checks of this machine (doctor_machine.cc, doctor_rdma.cc).
Findings check_kernel(const Host& host, const Question& question);
Findings check_module(const Host& host, const Question& question);
Findings check_memlock(const Host& host, const Question& question);
Findings check_rdma(const Host& host, const Question& question);
Findings check_mtu(const Host& host, const Question& question);
Findings check_clock(const Host& host, const Question& question);
Findings check_sockets(const Host& host, const Question& question);
Findings check_state(const Host& host, const Question& question);
Findings check_huge_pages(const Host& host, const Question& question);
// Checks of the targets (doctor_target.cc).
Findings check_targets(const Host& host, const Question& question);

}  // namespace wss::wssctl
