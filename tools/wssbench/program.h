// SPDX-License-Identifier: Apache-2.0
// Program: a measured process: wss-target, or wssbench as echo server. It ends when this process ends, for
// any reason.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace wss::wssbench {

class Program {
  public:
    // Starts `words` and waits for its line "ready on ADDRESS". Searches the program in the folder of this
    // one, then on PATH. Its standard error goes to a file; if the start fails, the Status has the end of it.
    static Result<std::unique_ptr<Program>> start(const std::vector<std::string>& words);
    // Sends SIGTERM, and SIGKILL if the process does not end.
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    const std::string& address() const { return address_; }
    // Processor time of all its threads so far.
    double cpu_seconds() const;
    // Pins all its present threads.
    void pin(const std::vector<int>& processors) const;
    // Resident memory.
    uint64_t resident_bytes() const;

  private:
    explicit Program(pid_t pid) : pid_(pid) {}

    const pid_t pid_;
    std::string address_;
};

// The path of program NAME in the folder of this program if it exists, else NAME.
std::string beside_us(const std::string& name);

// Runs a command to its end and returns its standard output.
Result<std::string> output_of(const std::vector<std::string>& words, double limit_seconds);

// Scratch: a temporary directory, removed with its contents by the destructor.
class Scratch {
  public:
    static Result<std::unique_ptr<Scratch>> create(const std::string& parent);
    ~Scratch();
    std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    explicit Scratch(std::string path) : path_(std::move(path)) {}
    const std::string path_;
};

}  // namespace wss::wssbench
