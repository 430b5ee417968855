// SPDX-License-Identifier: Apache-2.0
// Child: a process with pipes. Program: a measured process, which is wss-target, wss-cache, or wssbench as an
// echo server. Both end when this process ends, for any reason.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/wssbench/measure.h"

namespace wss::wssbench {

// What Child::line() does when the user interrupts this process: fail; pass SIGINT on and read what the child
// prints then; or nothing.
enum class OnInterrupt { kFail, kPassOn, kIgnore };

struct ChildOptions {
    OnInterrupt on_interrupt = OnInterrupt::kFail;
    bool shows_errors =
        false;               // its standard error is that of this process; otherwise see Child::complaint()
    bool converses = false;  // its standard input is what send() writes; otherwise it is empty
    std::string directory;   // directory in which it runs; empty: that of this process
};

class Child {
  public:
    // Searches for the program in the directory of this one, then on PATH.
    static Result<std::unique_ptr<Child>> start(const std::vector<std::string>& words,
                                                const ChildOptions& options = {});
    // Sends SIGTERM, and later SIGKILL if the process does not end.
    ~Child();
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    pid_t pid() const { return pid_; }
    // The next line of its standard output, without the newline. Fails with kClosed if the output has ended,
    // or the user has interrupted this process (OnInterrupt::kFail), and with kTimedOut if there is no line
    // within `seconds`.
    Result<std::string> line(double seconds);
    // Writes `text` and a newline to its standard input. REQUIRES: `converses`.
    Status send(const std::string& text);
    void close_output();
    // Closes the pipes, and sends SIGKILL after `seconds`. The Status shows how the process ended.
    Status wait(double seconds);
    void kill();
    // The end of its standard error, as far as it has been written.
    std::string complaint() const;

  private:
    Child(std::string name, const ChildOptions& options) : name_(std::move(name)), options_(options) {}
    Status launch(const std::vector<std::string>& words);
    [[noreturn]] void become(char* const* arguments, pid_t parent, int input, int output) const;
    Status pass_on_interrupt(double& limit);
    bool read_some(double seconds);

    const std::string name_;
    const ChildOptions options_;
    pid_t pid_ = -1;
    int input_ = -1, output_ = -1, errors_ = -1;  // the ends of this process; -1: closed
    std::string unread_;
    double end_ = 0;  // the time limit after an interruption; 0: not interrupted
};

class Program {
  public:
    // Starts `words`, and waits for the line "ready on ADDRESS". If the start fails, the Status contains the
    // end of the program's standard error.
    static Result<std::unique_ptr<Program>> start(const std::vector<std::string>& words);

    const std::string& address() const { return address_; }
    // Processor time that all its threads have used so far.
    double cpu_seconds() const;
    double storage_bytes() const { return storage_bytes_of(std::to_string(child_->pid())); }
    // Pins all threads that it has now.
    void pin(const std::vector<int>& processors) const;
    // Resident memory in MiB.
    double resident_mib() const;
    // Kills it. This is for cases in which an orderly stop would take a long time.
    void kill() { child_->kill(); }

  private:
    explicit Program(std::unique_ptr<Child> child) : child_(std::move(child)) {}

    const std::unique_ptr<Child> child_;
    std::string address_;
};

using Programs = std::vector<std::unique_ptr<Program>>;

// The directory of this program.
std::string own_folder();
// The path of program NAME in the directory of this program if it exists there, otherwise NAME.
std::string beside_us(const std::string& name);

// Runs a command to its end and returns its standard output.
Result<std::string> output_of(const std::vector<std::string>& words, double limit_seconds,
                              OnInterrupt on_interrupt = OnInterrupt::kFail);

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
