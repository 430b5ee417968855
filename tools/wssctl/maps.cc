// SPDX-License-Identifier: Apache-2.0
// wssctl maps: maps and unmaps the volumes of /etc/wss/maps. wss-maps.service runs it at boot and at
// shutdown.
//
// The command waits up to --wait seconds for disks, and until the driver's first attempts have ended. The
// driver keeps trying volumes that were not available in time. So disks of a target that starts later than
// this machine appear as well.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "lib/base/clock.h"
#include "lib/base/journal.h"
#include "lib/base/size.h"
#include "lib/fabric/resolve.h"
#include "tools/wssctl/map_requests.h"
#include "tools/wssctl/maps_file.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string file = "/etc/wss/maps";
    uint32_t wait_seconds = 30;
    bool force = false;
};

constexpr int kLookEveryMs = 100;
constexpr Nanoseconds kLookUpEvery = from_s(1);
constexpr Nanoseconds kLookUpMin = from_ms(500);
// Time beyond --wait for the driver's first attempts. Each takes at most 10 s.
constexpr Nanoseconds kFirstTryMax = from_s(15);

void wait_a_moment() {
    poll(nullptr, 0, kLookEveryMs);
}

// The progress of one line, and its result for the report.
struct MapTask {
    MapsLine line;
    bool started = false;        // its host is resolved
    Nanoseconds next_look_up{};  // earliest time of the next look-up
    bool finished = false;
    Status status = Status::ok();
    std::string text{};
    std::shared_ptr<const MapRequests> requests{};  // the requests that contain this line; nullptr: none yet
    size_t request = 0;                             // the index of this line there
    std::string why_pending{};                      // the driver's last error for this line
};

void finish(MapTask& task, std::string text) {
    task.finished = true;
    task.text = std::move(text);
}

void fail(MapTask& task, Status status) {
    task.finished = true;
    task.status = std::move(status);
}

bool all_finished(const std::vector<MapTask>& tasks) {
    return std::all_of(tasks.begin(), tasks.end(), [](const MapTask& task) { return task.finished; });
}

// A snapshot of the driver's disks and pending maps.
struct Driver {
    explicit Driver(const Context& context)
        : pendings(list_pending(context, &is_cut)), disks(list_disks(context)) {}

    template <typename T>
    static const T* find(const std::vector<T>& all, const Mapping& mapping) {
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const T& one) { return is_of(one, mapping); });
        return found == all.end() ? nullptr : &*found;
    }
    const Disk* disk(const Mapping& mapping) const { return find(disks, mapping); }
    const Pending* pending(const Mapping& mapping) const { return find(pendings, mapping); }

    // True only if it is certain that there is neither a disk nor a pending map for `mapping`.
    bool is_without(const Mapping& mapping) const {
        return disk(mapping) == nullptr && pending(mapping) == nullptr && !is_cut;
    }

    bool is_cut = false;            // there may be more pending maps than in `pendings`
    std::vector<Pending> pendings;  // read before `disks`, so that a map that succeeds in between is in both
    std::vector<Disk> disks;
};

void report(Context& context, const Arguments& arguments, const std::vector<MapTask>& tasks) {
    Json all = Json::array();
    for (const MapTask& task : tasks) {
        const Mapping& mapping = task.line.mapping;
        Json one{{"line", task.line.number}, {"target", mapping.target}, {"volume", mapping.volume}};
        if (task.status)
            one["result"] = task.text;
        else
            one["error"] = task.status.to_string();
        all.push_back(std::move(one));
        if (task.status && !context.json)
            std::printf("%s %s: %s\n", mapping.target.c_str(), mapping.volume.c_str(), task.text.c_str());
        if (task.status) continue;
        const std::string_view priority = journal::is_standard_error() ? journal::kError : "";
        std::fprintf(stderr, "%s%s:%zu: %s %s: %s\n", priority.data(), arguments.file.c_str(),
                     task.line.number, mapping.target.c_str(), mapping.volume.c_str(),
                     task.status.to_string().c_str());
        context.exit = kFailed;
    }
    if (context.json) return context.print(all);
    if (tasks.empty()) std::printf("%s: no volumes\n", arguments.file.c_str());
}

// Reads the lines of the file. On failure, sets the exit status and returns none.
std::vector<MapTask> begin(Context& context, const Arguments& arguments) {
    auto lines = read_maps(arguments.file);
    if (!lines) {
        context.fail(lines.status());
        context.exit = kUsage;
        return {};
    }
    std::vector<MapTask> tasks;
    for (MapsLine& line : *lines) tasks.push_back({.line = std::move(line)});
    if (tasks.empty()) return tasks;
    if (Status loaded = check_loaded(context); !loaded) {
        context.fail(loaded);
        tasks.clear();
    }
    return tasks;
}

// Resolves the host of a line. At boot, name servers may be available later than this machine, so --wait
// includes the look-up.
bool find_host(MapTask& task, Nanoseconds deadline) {
    const Nanoseconds now = SystemClock().now();
    if (now < task.next_look_up) return false;
    const Nanoseconds left = std::max(deadline - now, kLookUpMin);
    task.status = resolve(task.line.mapping, std::min(left, fabric::kLookUpMax));
    task.next_look_up = now + kLookUpEvery;
    return task.status.is_ok();
}

// Whether users can access a mapped disk in its present state.
bool is_usable(const Disk& disk) {
    return disk.state.empty() || disk.state == "live";
}
bool is_lost(const Disk& disk) {  // the disk never recovers
    return disk.state == "failed" || disk.state == "dead";
}

Mapping with_retry(Mapping mapping) {
    const auto is_retry = [](const std::string& option) { return option.starts_with("retry="); };
    if (std::none_of(mapping.options.begin(), mapping.options.end(), is_retry))
        mapping.options.emplace_back("retry=on");
    return mapping;
}

// Requests maps for those lines whose host is resolved and that are neither mapped nor pending.
void start_maps(const Context& context, Nanoseconds deadline, std::vector<MapTask>& tasks) {
    std::vector<MapTask*> found;
    for (MapTask& task : tasks)
        if (!task.started && find_host(task, deadline)) found.push_back(&task);
    if (found.empty()) return;
    const Driver driver(context);
    std::vector<MapRequest> requests;
    std::vector<MapTask*> requested;
    for (MapTask* task : found) {
        task->started = true;
        const Mapping& mapping = task->line.mapping;
        const Disk* disk = driver.disk(mapping);
        if (disk != nullptr && is_usable(*disk)) {
            finish(*task, context.dev + "/" + disk->device + ", already mapped");
        } else if (disk != nullptr ? is_lost(*disk) : driver.pending(mapping) == nullptr) {
            task->request = requests.size();
            requests.push_back({with_retry(mapping), disk != nullptr ? disk->device : ""});
            requested.push_back(task);
        }
    }
    const auto all = std::make_shared<const MapRequests>(context, std::move(requests));
    for (MapTask* task : requested) task->requests = all;
}

bool is_unanswered(const MapTask& task) {
    return task.requests != nullptr && !task.requests->answer(task.request);
}

void look_for(const Context& context, const Driver& driver, MapTask& task) {
    if (task.requests != nullptr) {
        auto answer = task.requests->answer(task.request);
        if (!answer) return;
        if (!*answer) return fail(task, std::move(*answer));
    }
    const Disk* disk = driver.disk(task.line.mapping);
    if (disk != nullptr && is_usable(*disk))
        return finish(task, fmt::format("{}/{}, {}", context.dev, disk->device, readable_size(disk->size)));
    const Pending* pending = driver.pending(task.line.mapping);
    if (pending != nullptr) task.why_pending = pending->error;
}

// The error for a line that has no disk when the time has expired.
Status late(const Driver& driver, const Context& context, const Arguments& arguments, const MapTask& task) {
    const uint32_t seconds = arguments.wait_seconds;
    if (!task.started) return task.status;  // status of the look-up
    if (is_unanswered(task))
        return failure(Code::kTimedOut,
                       "not mapped within {} s, because its target does not answer; run wssctl maps up again",
                       seconds);
    if (const Disk* disk = driver.disk(task.line.mapping))
        return failure(Code::kTimedOut, "{}/{} is still {} after {} s", context.dev, disk->device,
                       disk->state, seconds);
    const std::string why = task.why_pending.empty() ? "" : " (" + task.why_pending + ")";
    if (driver.is_without(task.line.mapping))
        return failure(Code::kRefused,
                       "the driver has stopped trying{}; the kernel log has the reason (dmesg). Run wssctl "
                       "maps up again when the fault is repaired",
                       why);
    return failure(Code::kTimedOut, "no disk after {} s{}; the driver keeps trying", seconds, why);
}

void up(Context& context, const Arguments& arguments) {
    std::vector<MapTask> tasks = begin(context, arguments);
    if (context.exit != kDone) return;
    const Nanoseconds deadline = SystemClock().now() + from_s(arguments.wait_seconds);
    for (;;) {
        start_maps(context, deadline, tasks);
        const bool is_any_unanswered = std::any_of(tasks.begin(), tasks.end(), is_unanswered);
        const Driver driver(context);
        for (MapTask& task : tasks)
            if (task.started && !task.finished) look_for(context, driver, task);
        const Nanoseconds now = SystemClock().now();
        if (all_finished(tasks) || now >= deadline + kFirstTryMax || (now >= deadline && !is_any_unanswered))
            break;
        wait_a_moment();
    }
    const Driver driver(context);
    for (MapTask& task : tasks)
        if (!task.finished) fail(task, late(driver, context, arguments, task));
    report(context, arguments, tasks);
}

// Removes the disk or the pending map of a line. It is called repeatedly, because a disk may be open for a
// moment (for example by udev).
void try_unmap(const Context& context, const Driver& driver, const Arguments& arguments, MapTask& task) {
    const Disk* disk = driver.disk(task.line.mapping);
    const Pending* pending = driver.pending(task.line.mapping);
    if (disk == nullptr && pending == nullptr) return;
    const std::string name = disk != nullptr ? disk->device : pending->name;
    task.text = name;
    task.status =
        write_control(context, "unmap", name + (disk != nullptr && arguments.force ? " force" : ""));
}

void look_whether_gone(const Driver& driver, MapTask& task) {
    if (!driver.is_without(task.line.mapping)) return;
    task.status = Status::ok();
    finish(task, task.text.empty() ? "not mapped" : "unmapped");
}

void down(Context& context, const Arguments& arguments) {
    std::vector<MapTask> tasks = begin(context, arguments);
    if (context.exit != kDone) return;
    std::reverse(tasks.begin(), tasks.end());
    const Nanoseconds deadline = SystemClock().now() + from_s(arguments.wait_seconds);
    for (MapTask& task : tasks)
        if (!find_host(task, deadline))
            fail(task, failure(task.status.code(), "{}; wssctl list shows the disk, wssctl unmap removes it",
                               task.status.text()));
    for (;;) {
        const bool is_last = SystemClock().now() >= deadline;
        for (MapTask& task : tasks)
            if (!task.finished) try_unmap(context, Driver(context), arguments, task);
        const Driver driver(context);
        for (MapTask& task : tasks)
            if (!task.finished) look_whether_gone(driver, task);
        if (all_finished(tasks) || is_last) break;
        wait_a_moment();
    }
    for (MapTask& task : tasks) {
        if (task.finished || !task.status) continue;
        fail(task,
             task.text.empty()
                 ? failure(Code::kTimedOut,
                           "the driver's list of pending maps is full, so this map may be pending without "
                           "being listed: unmap others first (wssctl list)")
                 : failure(Code::kTimedOut, "{} still exists after {} s", task.text, arguments.wait_seconds));
    }
    report(context, arguments, tasks);
}

void check(Context& context, const Arguments& arguments) {
    auto lines = read_maps(arguments.file);
    if (!lines) {
        context.fail(lines.status());
        context.exit = kUsage;
        return;
    }
    if (context.json) return context.print({{"lines", lines->size()}});
    std::printf("%s: %zu volume%s\n", arguments.file.c_str(), lines->size(), lines->size() == 1 ? "" : "s");
}

}  // namespace

void add_maps(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* maps =
        app.add_subcommand("maps", "Map or unmap the volumes of /etc/wss/maps, as at boot (driver)");
    maps->require_subcommand(1);
    maps->fallthrough();
    maps->add_option("--file", arguments.file, "Lines of TARGET VOLUME [secret-file=FILE] [KEY=VALUE ...]")
        ->capture_default_str()
        ->type_name("FILE");
    maps->add_option("--wait", arguments.wait_seconds, "How long to wait for the disks, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(0, 3600));
    CLI::App* command = maps->add_subcommand("up", "Map the volumes that are not mapped");
    command->callback([&context] { up(context, arguments); });
    command = maps->add_subcommand("down", "Unmap them in reverse order; disks in use remain");
    command->add_flag("--force", arguments.force, "also unmap disks in use: their users get I/O errors");
    command->callback([&context] { down(context, arguments); });
    maps->add_subcommand("check", "Check the file and change nothing")->callback([&context] {
        check(context, arguments);
    });
}

}  // namespace wss::wssctl
