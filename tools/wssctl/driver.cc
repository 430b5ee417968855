// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace wss::wssctl {

namespace {

// The maximum length of a sysfs file: a page without its last byte.
constexpr size_t kPageFull = 4095;

constexpr uint64_t kSysfsSector = 512;  // unit of /sys/block/*/size, whatever the logical block size

std::string read_line(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

uint64_t number_of(const std::string& text) {
    uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// The entries of `folder` whose names consist of `prefix` and a number, sorted by that number.
std::vector<std::string> numbered(const std::filesystem::path& folder, const std::string& prefix) {
    std::vector<std::pair<uint64_t, std::string>> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        std::string name = entry->path().filename();
        if (!name.starts_with(prefix)) continue;
        std::string digits = name.substr(prefix.size());
        bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
        if (is_number) found.emplace_back(number_of(digits), name);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> names;
    for (auto& [number, name] : found) names.push_back(std::move(name));
    return names;
}

std::filesystem::path class_folder(const Context& context) {
    return std::filesystem::path(context.sysfs) / "class/wss";
}

}  // namespace

Status check_loaded(const Context& context) {
    std::error_code error;
    if (std::filesystem::exists(class_folder(context), error)) return Status::ok();
    return Status(Code::kUnavailable,
                  "module not loaded: modprobe wss; if it is not installed, see wssctl doctor");
}

std::vector<Disk> list_disks(const Context& context) {
    std::vector<Disk> disks;
    std::filesystem::path blocks = std::filesystem::path(context.sysfs) / "block";
    for (const std::string& name : numbered(blocks, "wss")) {
        std::filesystem::path folder = blocks / name;
        Disk disk;
        disk.device = name;
        disk.size = number_of(read_line(folder / "size")) * kSysfsSector;
        disk.read_only = read_line(folder / "ro") == "1";
        disk.volume = read_line(folder / "wss/volume");
        disk.wwid = read_line(folder / "wss/wwid");
        disk.lun = read_line(folder / "wss/lun");
        disk.session = read_line(folder / "wss/session");
        disk.state = read_line(folder / "wss/state");
        if (!disk.session.empty()) disk.target = read_line(class_folder(context) / disk.session / "target");
        disks.push_back(std::move(disk));
    }
    return disks;
}

std::vector<Pending> list_pending(const Context& context, bool* cut) {
    std::ifstream file(class_folder(context) / "pending");
    std::stringstream text;
    text << file.rdbuf();
    // sysfs truncates at the end of the page, either in the middle of a line or after one.
    const std::string page = text.str();
    if (cut != nullptr) *cut = page.size() >= kPageFull || (!page.empty() && !page.ends_with('\n'));
    std::vector<Pending> all;
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        Pending pending;
        if (!(words >> pending.name >> pending.target >> pending.volume >> pending.tries)) continue;
        if (size_t equals = pending.tries.find('='); equals != std::string::npos)
            pending.tries.erase(0, equals + 1);
        std::getline(words >> std::ws, pending.error);
        all.push_back(std::move(pending));
    }
    return all;
}

Json session_statistics(const Context& context) {
    Json all = Json::object();
    for (const std::string& name : numbered(class_folder(context), "session")) {
        std::filesystem::path folder = class_folder(context) / name;
        Json counters = Json::object();
        std::vector<std::filesystem::path> files;
        std::error_code error;
        for (std::filesystem::directory_iterator entry(folder / "stats", error), end; !error && entry != end;
             entry.increment(error))
            files.push_back(entry->path());
        std::sort(files.begin(), files.end());
        for (const auto& file : files) counters[file.filename().string()] = number_of(read_line(file));
        all[name] = {{"target", read_line(folder / "target")},
                     {"state", read_line(folder / "state")},
                     {"last_error", read_line(folder / "last_error")},
                     {"counters", counters}};
    }
    return all;
}

Status check_word(const std::string& word) {
    const auto splits = [](unsigned char c) { return c <= ' ' || c == ',' || c == 0x7f; };
    if (!word.empty() && std::none_of(word.begin(), word.end(), splits)) return Status::ok();
    std::string shown = word;
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
    return failure(Code::kInvalid, "'{}' must not be empty or contain blanks, commas or control characters",
                   shown);
}

Status write_control(const Context& context, const std::string& file, const std::string& line) {
    WSS_TRY(check_loaded(context));
    std::string path = class_folder(context) / file;
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == EACCES || errno == EPERM)
            return failure(Code::kPermission, "{}: only root may do this", path);
        return Status::from_errno(errno, fmt::format("cannot open {}", path));
    }
    ssize_t written = write(fd, line.data(), line.size());
    int error = errno;
    close(fd);
    if (written == static_cast<ssize_t>(line.size())) return Status::ok();
    std::string reason = read_line(class_folder(context) / "last_error");
    if (reason.empty()) return Status::from_errno(error, fmt::format("the driver refuses '{}'", line));
    return Status(Code::kRefused, reason);
}

}  // namespace wss::wssctl
