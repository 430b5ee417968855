// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/kv_store.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace wss::wssbench {

namespace {

bool is_free(uint16_t port) {
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool free = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(probe);
    return free;
}

// The addresses of all partitions must be known before the first one starts. The ports are below the
// ephemeral range (32768 and up), so that a free port stays free until its partition starts. Concurrent
// processes usually choose from different ranges.
Result<std::string> free_tcp_address() {
    constexpr uint32_t kFirst = 20000, kRange = 100, kRanges = 120;
    static std::atomic<uint32_t> next{0};
    uint32_t base = kFirst + static_cast<uint32_t>(getpid()) % kRanges * kRange;
    for (uint32_t tries = 0; tries < kRange; ++tries) {
        uint32_t port = base + next++ % kRange;
        if (is_free(static_cast<uint16_t>(port))) return fmt::format("tcp://127.0.0.1:{}", port);
    }
    return failure(Code::kExhausted, "no port from {} to {} is free: stop programs that listen there", base,
                   base + kRange - 1);
}

}  // namespace

uint32_t whole_seconds(double seconds) {
    return static_cast<uint32_t>(std::max(1.0, std::round(seconds)));
}

Result<std::unique_ptr<KvStore>> KvStore::start(const std::string& fabric, uint32_t partitions,
                                                const Storage& storage,
                                                const std::vector<std::string>& more) {
    static std::atomic<uint32_t> count{0};
    std::vector<std::string> addresses;
    for (uint32_t i = 0; i < partitions; ++i) {
        auto address =
            fabric == "tcp"
                ? free_tcp_address()
                : Result<std::string>(fmt::format("shm://{}", storage.socket(fmt::format("kv{}", count++))));
        if (!address) return address.status();
        addresses.push_back(*address);
    }
    std::unique_ptr<KvStore> store(new KvStore);
    store->target_ = fmt::format("{}", fmt::join(addresses, ","));
    for (uint32_t i = 0; i < partitions; ++i) {
        std::vector<std::string> words = {"wss-target",
                                          "--role",
                                          "kv",
                                          "--listen",
                                          addresses[i],
                                          "--kv-map",
                                          store->target_,
                                          "--kv-partition",
                                          std::to_string(i),
                                          "--control",
                                          "",
                                          "--log-level",
                                          "warning"};
        words.insert(words.end(), more.begin(), more.end());
        auto partition = Program::start(words);
        if (!partition) return partition.status();
        store->partitions_.push_back(std::move(*partition));
    }
    return store;
}

Result<Json> KvStore::bench(const KvProperties& properties, const std::string& phase, double limit_seconds,
                            const std::vector<std::string>& modes) const {
    std::vector<std::string> words = {"kvctl", "--target", target_};
    words.insert(words.end(), modes.begin(), modes.end());
    words.insert(words.end(), {"--json", "bench", "--phase", phase});
    for (const auto& [name, value] : properties) words.insert(words.end(), {"-p", name + "=" + value});
    auto printed = output_of(words, limit_seconds);
    if (!printed) return printed.status();
    while (printed->ends_with('\n')) printed->pop_back();
    size_t last = printed->rfind('\n');
    Json report =
        Json::parse(last == std::string::npos ? *printed : printed->substr(last + 1), nullptr, false);
    if (!report.is_object())
        return failure(Code::kInternal, "kvctl bench printed no report: {}", printed->substr(0, 200));
    return report;
}

double KvStore::resident_mib() const {
    double mib = 0;
    for (const auto& partition : partitions_) mib += partition->resident_mib();
    return mib;
}

void KvStore::kill() {
    for (const auto& partition : partitions_) partition->kill();
}

Result<Sample> sample_of_report(const Json& report) {
    const char* kCpu = "CpuPerOperation(us)";
    if (!report.contains("throughput") || !report.contains("CLIENT") || !report.contains("SERVER"))
        return Status(Code::kInternal, "the report of kvctl bench lacks throughput or processor time");
    return Sample{.rate = report["throughput"].get<double>(),
                  .client_cpu_us = report["CLIENT"].value(kCpu, -1.0),
                  .server_cpu_us = report["SERVER"].value(kCpu, -1.0)};
}

}  // namespace wss::wssbench
