// SPDX-License-Identifier: Apache-2.0
// The figures of paper D that need no driver: net (figs 8-10), burst (fig 12), mr (fig 11), scsi (fig 14).
// Over rdma they repeat the paper's measurements. Over shm and tcp they measure the same operations on those
// fabrics.
#include <sys/mman.h>

#include <algorithm>

#include "lib/base/size.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

using Mode = EchoOptions::Mode;

struct Arguments {
    std::vector<std::string> fabrics = {"shm", "tcp"};
    std::vector<std::string> sizes;
    std::vector<uint32_t> depths = {1};
    std::vector<std::string> operations;
    std::string target, method = "ram";
};

using Shared = std::shared_ptr<Storage>;

Result<Shared> no_storage(Context& context) {
    return Storage::create(context.settings, "", 64 << 20);
}

Point echo_point(Context& context, Shared storage, Json labels, const EchoOptions& options,
                 const std::string& fabric, const std::string& target) {
    EchoPoint point{.options = options, .fabric = fabric, .target = target};
    return {std::move(labels), [point, storage, &context](const Window& window) {
                return measure_echo(point, context.settings, *storage, window);
            }};
}

// Builds and runs a figure: `add` adds the points of each fabric and size.
template <typename Add>
void build(Context& context, const Arguments& arguments, Figure figure, Add&& add) {
    auto sizes = sizes_of(arguments.sizes);
    if (!sizes) return context.fail(sizes.status());
    auto storage = no_storage(context);
    if (!storage) return context.fail(storage.status());
    figure.elsewhere = !arguments.target.empty();
    for (const std::string& fabric : arguments.fabrics)
        for (uint32_t bytes : *sizes) add(figure, *storage, fabric, bytes);
    context.deliver(run(context, figure));
}

void net(Context& context, const Arguments& arguments) {
    constexpr std::pair<const char*, Mode> kOperations[] = {
        {"ping-pong", Mode::kPing}, {"rdma read", Mode::kRdmaRead}, {"rdma write", Mode::kRdmaWrite}};
    Figure figure{.name = "net",
                  .paper = "D figs 8, 9, 10",
                  .title = "The fabric alone: ping-pong, one RDMA at a time, and several",
                  .x = "bytes",
                  .series = {"fabric", "operation", "depth"}};
    build(context, arguments, std::move(figure),
          [&](Figure& into, const Shared& storage, const std::string& fabric, uint32_t bytes) {
              for (auto [name, mode] : kOperations)
                  for (uint32_t depth : arguments.depths) {
                      if (std::ranges::find(arguments.operations, name) == arguments.operations.end())
                          continue;
                      if (mode == Mode::kPing && (depth > 1 || bytes > kPingBytesMax)) continue;
                      into.points.push_back(echo_point(
                          context, storage,
                          {{"fabric", fabric}, {"operation", name}, {"depth", depth}, {"bytes", bytes}},
                          {.mode = mode, .depth = depth, .bytes = bytes}, fabric, arguments.target));
                  }
          });
}

void burst(Context& context, const Arguments& arguments) {
    Figure figure{.name = "burst",
                  .paper = "D fig 12",
                  .title = "1 to 8 consecutive RDMAs of one piece each, against one of the same total size",
                  .unit = "bursts/s",
                  .x = "rdmas",
                  .series = {"fabric", "operation", "piece", "as"}};
    build(context, arguments, std::move(figure),
          [&](Figure& into, const Shared& storage, const std::string& fabric, uint32_t piece) {
              for (uint32_t count : {1u, 2u, 4u, 8u})
                  for (bool merged : {false, true}) {
                      if (merged && count == 1) continue;
                      EchoOptions options{.mode = Mode::kRdmaWrite,
                                          .depth = 1,
                                          .bytes = merged ? piece * count : piece,
                                          .burst = merged ? 1 : count};
                      into.points.push_back(echo_point(context, storage,
                                                       {{"fabric", fabric},
                                                        {"operation", "rdma write"},
                                                        {"piece", piece},
                                                        {"rdmas", count},
                                                        {"as", merged ? "one" : "pieces"},
                                                        {"bytes", piece * count}},
                                                       options, fabric, arguments.target));
                  }
          });
}

// Measures registration and deregistration of populated memory.
Result<Sample> measure_mr(const std::string& uri, uint32_t bytes, const Window& window) {
    auto address = fabric::Address::parse(uri, kEchoPort);
    if (!address) return address.status();
    auto fabric = fabric::open(*address);
    if (!fabric) return fabric.status();
    size_t pages = (size_t{bytes} + 4095) / 4096 * 4096;
    void* memory =
        mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return Status::from_errno(errno, "mmap");
    std::span<std::byte> span(static_cast<std::byte*>(memory), bytes);
    double lock = 0, unlock = 0;
    uint64_t count = 0;
    Status why;
    for (double begin = seconds_now(), end = begin + window.warm_up + window.seconds;
         why && seconds_now() < end && !interrupted();) {
        double first = seconds_now();
        auto region = (*fabric)->register_memory(span, fabric::Access::kRemoteReadWrite);
        double second = seconds_now();
        why = region.status();
        if (region) region->reset();
        double third = seconds_now();
        if (first < begin + window.warm_up) continue;
        lock += second - first;
        unlock += third - second;
        ++count;
    }
    munmap(memory, pages);
    if (!why) return why;
    if (count == 0) return Status(Code::kTimedOut, "no registration completed during the measurement");
    auto times = static_cast<double>(count);
    Sample sample{.rate = times / (lock + unlock)};
    sample.more = {{"mlock_us", lock * 1e6 / times}, {"munlock_us", unlock * 1e6 / times}};
    return sample;
}

void mr(Context& context, const Arguments& arguments) {
    Settings alone = context.settings;
    alone.pin = false;  // this thread measures, and there is no server
    Figure figure{.name = "mr",
                  .paper = "D fig 11",
                  .title = "Registering (MLock) and deregistering (MUnlock) memory, by size",
                  .unit = "registrations/s",
                  .x = "region",
                  .series = {"fabric"},
                  .method = method_of(alone)};
    build(context, arguments, std::move(figure),
          [&](Figure& into, const Shared& storage, const std::string& fabric, uint32_t bytes) {
              into.points.push_back({{{"fabric", fabric}, {"region", bytes}},
                                     [=, &context](const Window& window) -> Result<Sample> {
                                         auto uri = listen_at(fabric, context.settings, *storage);
                                         if (!uri) return uri.status();
                                         return measure_mr(*uri, bytes, window);
                                     }});
          });
}

// Measures one command at a time. In the same turn it measures an echo of the same size: the time that the
// network alone takes.
Result<Sample> measure_scsi(const RemotePoint& point, const Settings& settings, Storage& storage,
                            const Window& window) {
    auto sample = measure_remote(point, settings, storage, window);
    if (!sample || !point.target.empty()) return sample;
    EchoPoint network{.options = {.mode = point.io.pattern.write ? Mode::kWrite : Mode::kRead,
                                  .depth = point.io.depth,
                                  .bytes = point.io.pattern.bytes},
                      .fabric = point.fabric};
    auto echo = measure_echo(network, settings, storage, window);
    if (!echo) return echo.status();
    sample->more["network_us"] = 1e6 / echo->rate;
    sample->more["wss_us"] = 1e6 / sample->rate - 1e6 / echo->rate;
    return sample;
}

void scsi(Context& context, const Arguments& arguments) {
    using Memory = LinkOptions::Memory;
    constexpr std::pair<const char*, Memory> kKinds[] = {{"registered", Memory::kRegistered},
                                                         {"copied", Memory::kCopied},
                                                         {"pin-down cache", Memory::kPinned}};
    Figure figure{
        .name = "scsi",
        .paper = "D fig 14",
        .title = "User-level SCSI reads and writes of a RAM volume, one at a time, by size and buffer",
        .unit = "IOPS",
        .x = "bytes",
        .series = {"fabric", "operation", "buffers"}};
    build(context, arguments, std::move(figure),
          [&](Figure& into, const Shared& storage, const std::string& fabric, uint32_t bytes) {
              for (bool write : {false, true})
                  for (auto [name, memory] : kKinds) {
                      RemotePoint point{.io = {.method = arguments.method,
                                               .pattern = {.write = write, .bytes = bytes},
                                               .depth = arguments.depths.front()},
                                        .fabric = fabric,
                                        .target = arguments.target,
                                        .memory = memory};
                      into.points.push_back({{{"fabric", fabric},
                                              {"operation", write ? "write" : "read"},
                                              {"buffers", name},
                                              {"depth", point.io.depth},
                                              {"bytes", bytes}},
                                             [point, storage, &context](const Window& window) {
                                                 return measure_scsi(point, context.settings, *storage,
                                                                     window);
                                             }});
                  }
          });
}

CLI::App* add(CLI::App& app, Context& context, const char* name, const char* what, Arguments& arguments,
              void (*measure)(Context&, const Arguments&)) {
    CLI::App* command = app.add_subcommand(name, what);
    add_fabric_option(*command, arguments.fabrics);
    command->add_option("--size", arguments.sizes, "Bytes")->delimiter(',')->capture_default_str();
    command->callback([&context, &arguments, measure] { measure(context, arguments); });
    return command;
}

}  // namespace

void add_paper_d(CLI::App& app, Context& context) {
    static Arguments of_net{.sizes = {"8", "64", "512", "4K", "64K"},
                            .depths = {1, 16},
                            .operations = {"ping-pong", "rdma read", "rdma write"}};
    static Arguments of_burst{.sizes = {"1K", "2K", "4K"}};
    static Arguments of_mr{.sizes = {"4K", "64K", "512K", "1M"}};
    static Arguments of_scsi{.sizes = {"512", "4K", "64K", "256K"}};
    const char* echo_server = "A running wssbench echo-server (default: starts one)";
    CLI::App* command = add(app, context, "net", "Ping-pong and RDMA by size (D figs 8-10)", of_net, net);
    command->add_option("--depth", of_net.depths, "RDMAs in flight")
        ->delimiter(',')
        ->check(CLI::Range(1u, kEchoDepthMax))
        ->capture_default_str();
    command->add_option("--operation", of_net.operations, "Operations to measure")
        ->delimiter(',')
        ->check(CLI::IsMember(of_net.operations))
        ->capture_default_str();
    command->add_option("--target", of_net.target, echo_server)->type_name("URI");
    add(app, context, "mr", "Registering memory by size (D fig 11)", of_mr, mr);
    command = add(app, context, "burst", "Consecutive RDMAs of small pieces (D fig 12)", of_burst, burst);
    command->add_option("--target", of_burst.target, echo_server)->type_name("URI");
    command =
        add(app, context, "scsi", "User-level SCSI latency by size and buffer (D fig 14)", of_scsi, scsi);
    command
        ->add_option("--target", of_scsi.target,
                     "A running wss-target with a volume `bench` (default: starts one)")
        ->type_name("URI");
}

}  // namespace wss::wssbench
