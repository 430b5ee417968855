// SPDX-License-Identifier: Apache-2.0
// Points of local I/O, echo and remote I/O: what `local`, `echo`, `remote`, `replay`, `scsi` and the scaling
// table are made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/wssbench/echo_lane.h"
#include "tools/wssbench/figure.h"
#include "tools/wssbench/io_lane.h"
#include "tools/wssbench/remote_lane.h"

namespace wss::wssbench {

// Where the data is: a file of our own in a directory of this run, or what the user named. The local side and
// the target have one each: a target locks what it serves.
class Storage {
  public:
    // `path` empty: files of `bytes`, made when first asked for.
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
    uint32_t threads = 16;  // of the method `static`
    Pattern pattern;
    uint32_t depth = 32;                 // in flight: of all, or of each connection
    std::shared_ptr<SharedTrace> trace;  // instead of the pattern
};

struct RemotePoint {
    IoPoint io;
    std::string fabric = "shm";
    std::string target;  // a running target's address; empty: one is started
    uint32_t connections = 1, reactors = 1;
    RemoteOptions::Memory memory = RemoteOptions::Memory::kRegistered;
    std::string volume = "bench";
};

struct EchoPoint {
    EchoOptions options;
    std::string fabric = "shm";
    std::string target;  // a running echo server's address; empty: one is started
    uint32_t connections = 1;
};

Result<Sample> measure_local(const IoPoint& point, const Settings& settings, Storage& storage,
                             const Window& window);
Result<Sample> measure_remote(const RemotePoint& point, const Settings& settings, Storage& storage,
                              const Window& window);
Result<Sample> measure_echo(const EchoPoint& point, const Settings& settings, Storage& storage,
                            const Window& window);

// Where to listen on this machine: shm, tcp or rdma.
Result<std::string> listen_at(const std::string& fabric, const Settings& settings, const Storage& storage);

// "512,4K,64K".
Result<std::vector<uint32_t>> sizes_of(const std::vector<std::string>& words);

// The options that the commands have in common, described in one way.
void add_fabric_option(CLI::App& command, std::vector<std::string>& fabrics,
                       const std::vector<std::string>& known = {"shm", "tcp", "rdma"});

}  // namespace wss::wssbench
