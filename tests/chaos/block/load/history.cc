// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/block/load/history.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

namespace wss::chaos {

struct History::File {
    std::atomic<uint64_t> next;
    Event events[kEvents];
};

static int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::optional<History> History::open(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return std::nullopt;
    void* memory = MAP_FAILED;
    if (::ftruncate(fd, sizeof(File)) == 0)
        memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) return std::nullopt;
    return History(static_cast<File*>(memory));
}

History::History(History&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}

History::~History() {
    if (file_ != nullptr) ::munmap(file_, sizeof(File));
}

uint64_t History::begin(uint32_t volume, const char* kind, const Range& range, uint64_t id) {
    const uint64_t number = file_->next++;
    Event event{.volume = volume, .range = range, .id = id, .began_us = now_us()};
    std::strncpy(event.kind, kind, sizeof event.kind - 1);
    file_->events[number % kEvents] = event;
    return number;
}

void History::end(uint64_t number, int result) {
    if (file_->next > number + kEvents) return;  // overwritten
    Event& event = file_->events[number % kEvents];
    event.result = result;
    event.ended_us = now_us();
}

std::string History::about(uint32_t volume, uint64_t sector, size_t count) const {
    auto time = [](int64_t us) {
        return fmt::format("{:%T}.{:06}", fmt::localtime(static_cast<std::time_t>(us / 1'000'000)),
                           us % 1'000'000);
    };
    std::string text;
    const uint64_t last = file_->next, first = last > kEvents ? last - kEvents : 0;
    for (uint64_t number = last; number-- > first && count > 0;) {
        const Event& event = file_->events[number % kEvents];
        if (event.volume != volume || sector < event.range.first || sector >= event.range.end()) continue;
        const std::string end = event.ended_us == 0
                                    ? "in flight"
                                    : fmt::format("{} result {}", time(event.ended_us), event.result);
        text = fmt::format("  {} to {}: {} of sectors {} to {}, change {}\n", time(event.began_us), end,
                           event.kind, event.range.first, event.range.end(), event.id & ~kZeroesBit) +
               text;
        --count;
    }
    return text;
}

}  // namespace wss::chaos
