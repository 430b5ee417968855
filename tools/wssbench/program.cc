// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {

namespace {

constexpr double kStartSeconds = 60;  // a target with a large volume on a busy machine
constexpr double kStopSeconds = 20;

struct Child {
    pid_t pid;
    int output;  // the read end of its standard output
};

Result<Child> launch(const std::vector<std::string>& words, int errors) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return Status::from_errno(errno, "pipe");
    std::vector<std::string> copy = words;
    copy[0] = beside_us(words[0]);
    std::vector<char*> arguments;
    for (std::string& word : copy) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) return Status::from_errno(errno, "fork");
    if (pid == 0) {
        // A separate process group: Ctrl-C must reach only the parent, which ends the child in order.
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(127);
        dup2(ends[1], STDOUT_FILENO);
        dup2(errors, STDERR_FILENO);
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO);
        execvp(arguments[0], arguments.data());
        dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    return Child{pid, ends[0]};
}

// Reads available output, waiting at most `seconds`. False: end of the output, or the time is over.
bool read_some(int from, std::string& text, double seconds) {
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char buffer[4096];
    ssize_t count = read(from, buffer, sizeof buffer);
    if (count <= 0) return false;
    text.append(buffer, static_cast<size_t>(count));
    return true;
}

std::string end_of_file(int file) {
    char buffer[600];
    off_t size = lseek(file, 0, SEEK_END);
    off_t from = std::max<off_t>(0, size - static_cast<off_t>(sizeof buffer));
    ssize_t count = pread(file, buffer, sizeof buffer, from);
    std::string text(buffer, count > 0 ? static_cast<size_t>(count) : 0);
    while (text.ends_with('\n')) text.pop_back();
    return text;
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

int anonymous_file() {
    return memfd_create("wssbench-errors", MFD_CLOEXEC);
}

}  // namespace

std::string beside_us(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    std::error_code ignored;
    auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    auto there = self.parent_path() / name;
    return std::filesystem::exists(there, ignored) ? there.string() : name;
}

Result<std::unique_ptr<Program>> Program::start(const std::vector<std::string>& words) {
    int errors = anonymous_file();
    auto child = launch(words, errors);
    if (!child) {
        close(errors);
        return child.status();
    }
    std::unique_ptr<Program> program(new Program(child->pid));
    std::string said;
    double limit = seconds_now() + kStartSeconds;
    while (said.find('\n') == std::string::npos && seconds_now() < limit && !interrupted())
        if (!read_some(child->output, said, 0.2) && kill(child->pid, 0) == 0) {
            siginfo_t info{};
            if (waitid(P_PID, static_cast<id_t>(child->pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                info.si_pid != 0)
                break;
        }
    // Later output is not read, and must not block the program.
    close(child->output);
    size_t at = said.find("ready on ");
    std::string complaint = end_of_file(errors);
    close(errors);
    if (at == std::string::npos)
        return failure(Code::kUnavailable, "{} did not start: {}", words[0],
                       complaint.empty() ? "it printed nothing" : complaint);
    at += std::string_view("ready on ").size();
    program->address_ = said.substr(at, said.find_first_of(", \n", at) - at);
    return program;
}

Program::~Program() {
    kill(pid_, SIGTERM);
    wait_for(pid_, kStopSeconds);
}

double Program::cpu_seconds() const {
    clockid_t clock;
    timespec used{};
    if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void Program::pin(const std::vector<int>& processors) const {
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), ignored))
        pin_thread(std::stoi(task.path().filename()), processors);
}

uint64_t Program::resident_bytes() const {
    std::ifstream statm(fmt::format("/proc/{}/statm", pid_));
    uint64_t pages = 0, resident = 0;
    statm >> pages >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Result<std::string> output_of(const std::vector<std::string>& words, double limit_seconds) {
    int errors = anonymous_file();
    auto child = launch(words, errors);
    if (!child) {
        close(errors);
        return child.status();
    }
    std::string text;
    double limit = seconds_now() + limit_seconds;
    pollfd wait{.fd = child->output, .events = POLLIN, .revents = 0};
    for (bool open = true; open && seconds_now() < limit && !interrupted();)
        if (poll(&wait, 1, 200) > 0) open = read_some(child->output, text, 0);
    close(child->output);
    bool in_time = seconds_now() < limit && !interrupted();
    if (!in_time) kill(child->pid, SIGTERM);
    int status = wait_for(child->pid, kStopSeconds);
    std::string complaint = end_of_file(errors);
    close(errors);
    if (interrupted()) return Status(Code::kClosed, "interrupted");
    if (!in_time) return failure(Code::kTimedOut, "{} took longer than {} s", words[0], limit_seconds);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return failure(Code::kUnavailable, "{} failed: {}", words[0], complaint);
    return text;
}

Result<std::unique_ptr<Scratch>> Scratch::create(const std::string& parent) {
    std::string pattern = (parent.empty() ? "/var/tmp" : parent) + "/wssbench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
        return Status::from_errno(errno, fmt::format("{}: no directory can be made there", pattern));
    return std::unique_ptr<Scratch>(new Scratch(pattern));
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace wss::wssbench
