// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {

namespace {

constexpr double kStartSeconds = 60;      // enough for a target with a large volume on a busy machine
constexpr double kStopSeconds = 20;       // time limit to end after SIGTERM
constexpr double kInterruptSeconds = 90;  // time limit to print what is finished after an interruption

void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
}

int wait_for(pid_t pid, double seconds) {
    int status = 0;
    for (double limit = seconds_now() + seconds; waitpid(pid, &status, WNOHANG) == 0;) {
        if (seconds_now() > limit) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        usleep(2000);
    }
    return status;
}

}  // namespace

std::string own_folder() {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::string beside_us(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    std::error_code ignored;
    std::string there = own_folder() + "/" + name;
    return std::filesystem::exists(there, ignored) ? there : name;
}

Result<std::unique_ptr<Child>> Child::start(const std::vector<std::string>& words,
                                            const ChildOptions& options) {
    std::unique_ptr<Child> child(new Child(words[0], options));
    WSS_TRY(child->launch(words));
    return child;
}

Status Child::launch(const std::vector<std::string>& words) {
    errors_ = options_.shows_errors ? -1 : memfd_create("wssbench-errors", MFD_CLOEXEC);
    std::vector<std::string> copy = words;
    copy[0] = beside_us(words[0]);
    std::vector<char*> arguments;
    for (std::string& word : copy) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // A socket is used as input: send() then reports a child that has ended, where a pipe would raise
    // SIGPIPE.
    int input[2], output[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) < 0)
        return Status::from_errno(errno, "socketpair");
    input_ = input[1];
    if (pipe2(output, O_CLOEXEC) < 0) {
        close(input[0]);
        return Status::from_errno(errno, "pipe");
    }
    output_ = output[0];
    pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) become(arguments.data(), parent, input[0], output[1]);
    int why = errno;
    close(input[0]);
    close(output[1]);
    return pid_ < 0 ? Status::from_errno(why, "fork") : Status::ok();
}

void Child::become(char* const* arguments, pid_t parent, int input, int output) const {
    // A separate process group, because Ctrl-C must reach only the parent, which ends the child in order.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, options_.on_interrupt == OnInterrupt::kPassOn ? SIGINT : SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(options_.converses ? input : open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    if (errors_ >= 0) dup2(errors_, STDERR_FILENO);
    if (!options_.directory.empty() && chdir(options_.directory.c_str()) != 0) {
        dprintf(STDERR_FILENO, "%s: %s\n", options_.directory.c_str(), strerror(errno));
        _exit(127);
    }
    execvp(arguments[0], arguments);
    if (errno == ENOENT)
        dprintf(STDERR_FILENO, "%s is neither beside wssbench nor on PATH: install it\n", arguments[0]);
    else
        dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

Child::~Child() {
    if (pid_ > 0) {
        ::kill(pid_, SIGTERM);
        (void)wait(kStopSeconds);
    }
    close_end(input_);
    close_end(output_);
    close_end(errors_);
}

// Reads available output, and waits at most `seconds` for some. Returns false if the output has ended.
bool Child::read_some(double seconds) {
    if (output_ < 0) return false;
    pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(seconds * 1000)) <= 0) return true;
    char buffer[4096];
    ssize_t count = read(output_, buffer, sizeof buffer);
    if (count <= 0) return false;
    unread_.append(buffer, static_cast<size_t>(count));
    return true;
}

Result<std::string> Child::line(double seconds) {
    double limit = seconds_now() + seconds;
    for (bool open = true;; open = read_some(std::clamp(limit - seconds_now(), 0.0, 0.2))) {
        size_t length = unread_.find('\n');
        if (length != std::string::npos || !open) {
            if (unread_.empty()) return failure(Code::kClosed, "{}: its output has ended", name_);
            std::string found = unread_.substr(0, length);
            unread_.erase(0, length == std::string::npos ? length : length + 1);
            return found;
        }
        if (interrupted()) WSS_TRY(pass_on_interrupt(limit));
        if (seconds_now() >= limit) return failure(Code::kTimedOut, "{}: no output in time", name_);
    }
}

Status Child::pass_on_interrupt(double& limit) {
    if (options_.on_interrupt == OnInterrupt::kIgnore) return Status::ok();
    if (options_.on_interrupt == OnInterrupt::kFail) return Status(Code::kClosed, "interrupted");
    if (end_ == 0) {
        ::kill(pid_, SIGINT);
        end_ = seconds_now() + kInterruptSeconds;
    }
    limit = std::min(limit, end_);
    return Status::ok();
}

Status Child::send(const std::string& text) {
    std::string all = text + "\n";
    for (size_t sent = 0; sent < all.size();) {
        ssize_t count = ::send(input_, all.data() + sent, all.size() - sent, MSG_NOSIGNAL);
        if (count < 0) return Status::from_errno(errno, fmt::format("{} ended: {}", name_, complaint()));
        sent += static_cast<size_t>(count);
    }
    return Status::ok();
}

void Child::close_output() {
    close_end(output_);
}

Status Child::wait(double seconds) {
    close_end(input_);
    close_end(output_);
    int status = wait_for(pid_, seconds);
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::ok();
    std::string why = complaint();
    if (why.empty() && WIFEXITED(status)) why = fmt::format("exit status {}", WEXITSTATUS(status));
    if (why.empty()) why = fmt::format("signal {}", WTERMSIG(status));
    return failure(Code::kUnavailable, "{} failed: {}", name_, why);
}

void Child::kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string Child::complaint() const {
    if (errors_ < 0) return "";
    char buffer[600];
    off_t size = lseek(errors_, 0, SEEK_END);
    ssize_t count =
        pread(errors_, buffer, sizeof buffer, std::max<off_t>(0, size - static_cast<off_t>(sizeof buffer)));
    std::string text(buffer, count > 0 ? static_cast<size_t>(count) : 0);
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

Result<std::unique_ptr<Program>> Program::start(const std::vector<std::string>& words) {
    auto child = Child::start(words);
    if (!child) return child.status();
    auto said = (*child)->line(kStartSeconds);
    if (!said && interrupted()) return said.status();
    size_t at = said ? said->find("ready on ") : std::string::npos;
    if (at == std::string::npos) {
        std::string complaint = (*child)->complaint();
        return failure(Code::kUnavailable, "{} did not start: {}", words[0],
                       complaint.empty() ? "it printed nothing" : complaint);
    }
    // Output after this is not read, and must not block the program.
    (*child)->close_output();
    std::unique_ptr<Program> program(new Program(std::move(*child)));
    at += std::string_view("ready on ").size();
    program->address_ = said->substr(at, said->find_first_of(", ", at) - at);
    return program;
}

double Program::cpu_seconds() const {
    clockid_t clock;
    timespec used{};
    if (clock_getcpuclockid(child_->pid(), &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void Program::pin(const std::vector<int>& processors) const {
    std::error_code ignored;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", child_->pid()), ignored))
        pin_thread(std::stoi(task.path().filename()), processors);
}

double Program::resident_mib() const {
    std::ifstream statm(fmt::format("/proc/{}/statm", child_->pid()));
    uint64_t pages = 0, resident = 0;
    statm >> pages >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

Result<std::string> output_of(const std::vector<std::string>& words, double limit_seconds,
                              OnInterrupt on_interrupt) {
    auto child = Child::start(words, {.on_interrupt = on_interrupt});
    if (!child) return child.status();
    std::string text;
    for (double limit = seconds_now() + limit_seconds;;) {
        auto line = (*child)->line(limit - seconds_now());
        if (line)
            text += *line + "\n";
        else if (interrupted() && on_interrupt == OnInterrupt::kFail)
            return line.status();
        else if (line.status().code() == Code::kTimedOut)
            return failure(Code::kTimedOut, "{} took longer than {} s", words[0], limit_seconds);
        else
            break;
    }
    WSS_TRY((*child)->wait(kStopSeconds));
    return text;
}

Result<std::unique_ptr<Scratch>> Scratch::create(const std::string& parent) {
    std::string pattern = (parent.empty() ? "/var/tmp" : parent) + "/wssbench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
        return Status::from_errno(errno, fmt::format("{}: cannot create a directory there", pattern));
    return std::unique_ptr<Scratch>(new Scratch(pattern));
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace wss::wssbench
