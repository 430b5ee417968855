// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace wss {

namespace {

bool usable(cpu_set_t& cpus) {
    CPU_ZERO(&cpus);
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0;
}

// Parses "4-7" or "2" at the start of `text` and removes it.
bool take_range(std::string_view& text, int& first, int& last) {
    const char* end = text.data() + text.size();
    auto [after, error] = std::from_chars(text.data(), end, first);
    if (error != std::errc() || first < 0) return false;
    last = first;
    if (after != end && *after == '-') {
        auto [after_last, error_last] = std::from_chars(after + 1, end, last);
        if (error_last != std::errc() || last < first) return false;
        after = after_last;
    }
    text.remove_prefix(static_cast<size_t>(after - text.data()));
    return true;
}

}  // namespace

Result<std::vector<int>> parse_cpus(std::string_view text) {
    const std::string whole(text);
    std::vector<int> cpus;
    cpu_set_t allowed;
    if (!usable(allowed)) return Status::from_errno(errno, "cannot read the processors of this process");
    for (;;) {
        int first, last;
        if (!take_range(text, first, last))
            return failure(Code::kInvalid, "'{}' is not a list of processors: write one like 2,4-7", whole);
        for (int cpu = first; cpu <= last; ++cpu) {
            if (cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<size_t>(cpu), &allowed))
                return failure(Code::kInvalid, "this process may not use processor {}", cpu);
            if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end())
                return failure(Code::kInvalid, "'{}' has processor {} twice", whole, cpu);
            cpus.push_back(cpu);
        }
        if (text.empty()) return cpus;
        if (text[0] != ',')
            return failure(Code::kInvalid, "'{}' is not a list of processors: write one like 2,4-7", whole);
        text.remove_prefix(1);
    }
}

int usable_cpus() {
    cpu_set_t cpus;
    return usable(cpus) ? std::max(CPU_COUNT(&cpus), 1) : 1;
}

Status pin_thread(pthread_t thread, int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<size_t>(cpu), &cpus);
    const int error = pthread_setaffinity_np(thread, sizeof cpus, &cpus);
    return error == 0 ? Status::ok()
                      : Status::from_errno(error, fmt::format("cannot run on processor {}", cpu));
}

uint64_t physical_memory() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace wss
