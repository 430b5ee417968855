// SPDX-License-Identifier: Apache-2.0
// A process that is measured: wss-target, or wssbench itself as the other side of an echo. It ends with us,
// whatever happens to us.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace wss::wssbench {

class Program {
  public:
    // Starts `words` and waits until it says "ready on ADDRESS". The program is looked for beside this one,
    // then on PATH. Its standard error goes to a file whose end is in the Status when it fails.
    static Result<std::unique_ptr<Program>> start(const std::vector<std::string>& words);
    // SIGTERM, and SIGKILL for who does not listen.
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    const std::string& address() const { return address_; }
    // Of all its threads, so far.
    double cpu_seconds() const;
    // All threads that it has now.
    void pin(const std::vector<int>& processors) const;
    // Bytes of memory that it has in use.
    uint64_t resident_bytes() const;

  private:
    explicit Program(pid_t pid) : pid_(pid) {}

    const pid_t pid_;
    std::string address_;
};

// "/…/NAME" beside this program, else NAME.
std::string beside_us(const std::string& name);

// What a command run to its end printed.
Result<std::string> output_of(const std::vector<std::string>& words, double limit_seconds);

// A directory of this run, removed with everything in it at the end.
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
