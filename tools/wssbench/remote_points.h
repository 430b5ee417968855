// SPDX-License-Identifier: Apache-2.0
// Points of local I/O, echo and remote I/O. The figures `local`, `echo`, `net`, `burst`, `remote`, `replay`
// and `scsi` and the scaling table consist of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/wssbench/echo_load.h"
#include "tools/wssbench/figure.h"
#include "tools/wssbench/io_load.h"
#include "tools/wssbench/remote_load.h"

namespace wss::wssbench {

// A fabric of `echo`: tls whose server lets the kernel encrypt.
constexpr const char* kKernelTls = "tls-kernel";

// The storage of a run: temporary files, or the path that the user gave. Local I/O and the target have
// separate temporary files, because a target locks its storage.
class Storage {
  public:
    // If `path` is empty, files of `bytes` are created on first use.
    static Result<std::shared_ptr<Storage>> create(const Settings& settings, const std::string& path,
                                                   uint64_t bytes);
    Result<std::string> path(const std::string& side);
    uint64_t bytes() const { return bytes_; }
    std::string socket(const std::string& name) const { return scratch_->file(name); }

  private:
    Storage() = default;
    std::string given_;
    uint64_t bytes_ = 0;
    std::unique_ptr<Scratch> scratch_;
    std::vector<std::string> made_;
};

struct IoPoint {
    std::string method = "aio";
    uint32_t threads = 16;  // threads for the method `static`
    Pattern pattern;
    uint32_t depth = 32;                 // requests in flight; for remote I/O, on each connection
    std::shared_ptr<SharedTrace> trace;  // used instead of the pattern
};

struct RemotePoint {
    IoPoint io;
    std::string fabric = "shm";
    std::string target;                   // address of a running target; empty: one is started
    std::vector<const Program*> servers;  // the processes of `target` whose processor time is measured
    uint32_t connections = 1, reactors = 1;
    LinkOptions::Memory memory = LinkOptions::Memory::kRegistered;
    std::string volume = "bench";
};

struct EchoPoint {
    EchoOptions options;
    std::string fabric = "shm";
    std::string target;  // address of a running echo server; empty: one is started
    uint32_t connections = 1;
};

Result<Sample> measure_local(const IoPoint& point, const Settings& settings, Storage& storage,
                             const Window& window);
Result<Sample> measure_remote(const RemotePoint& point, const Settings& settings, Storage& storage,
                              const Window& window);
Result<Sample> measure_echo(const EchoPoint& point, const Settings& settings, Storage& storage,
                            const Window& window);

// A listen address on this machine for `fabric`: shm, tcp, tls or rdma.
Result<std::string> listen_at(const std::string& fabric, const Settings& settings, const Storage& storage);

// Parses sizes such as "512", "4K", "64K".
Result<std::vector<uint32_t>> sizes_of(const std::vector<std::string>& words);

// Adds --fabric, with the same description for all commands.
void add_fabric_option(CLI::App& command, std::vector<std::string>& fabrics,
                       const std::vector<std::string>& known = {"shm", "tcp", "rdma"});

}  // namespace wss::wssbench
