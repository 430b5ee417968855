// SPDX-License-Identifier: Apache-2.0
// wssbench echo: the network without storage, by number of connections and by size, with threads pinned and
// not pinned. Reproduces figures 6 and 7 of paper B (Documentation/reproduction.md).
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

struct Arguments {
    std::vector<std::string> fabrics = {"shm", "tcp"};
    std::vector<uint32_t> connections = {1, 2, 4, 8};
    std::vector<std::string> sizes = {"512", "4K"};
    std::vector<std::string> pinning = {"on", "off"};
    std::vector<std::string> operations = {"read"};
    uint32_t depth = 32;
    std::string target;
};

void echo(Context& context, const Arguments& arguments) {
    auto sizes = sizes_of(arguments.sizes);
    if (!sizes) return context.fail(sizes.status());
    auto storage = Storage::create(context.settings, "", 0);
    if (!storage) return context.fail(storage.status());
    Figure figure{.name = "echo",
                  .paper = "B figs 6, 7",
                  .title = "RDMA echo: the other side answers from memory",
                  .x = "connections",
                  .series = {"fabric", "operation", "bytes", "pinned"},
                  .elsewhere = !arguments.target.empty()};
    for (const std::string& fabric : arguments.fabrics)
        for (const std::string& operation : arguments.operations)
            for (uint32_t size : *sizes)
                for (const std::string& pinned : arguments.pinning)
                    for (uint32_t connections : arguments.connections) {
                        EchoPoint point{.options = {.mode = operation == "read" ? EchoOptions::Mode::kRead
                                                                                : EchoOptions::Mode::kWrite,
                                                    .depth = arguments.depth,
                                                    .bytes = size},
                                        .fabric = fabric,
                                        .target = arguments.target,
                                        .connections = connections};
                        Settings settings = context.settings;
                        settings.pin = settings.pin && pinned == "on";
                        figure.points.push_back({{{"fabric", fabric},
                                                  {"operation", operation},
                                                  {"pinned", pinned},
                                                  {"connections", connections},
                                                  {"bytes", size}},
                                                 [point, settings, store = *storage](const Window& window) {
                                                     return measure_echo(point, settings, *store, window);
                                                 }});
                    }
    context.deliver(run(context, figure));
}

}  // namespace

void add_echo(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand("echo", "RDMA echo: connections, sizes, pinning (B figs 6, 7)");
    add_fabric_option(*command, arguments.fabrics, {"shm", "tcp", "tls", kKernelTls, "rdma"});
    command->add_option("--connections", arguments.connections, "Connections")
        ->delimiter(',')
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str();
    command->add_option("--depth", arguments.depth, "Requests in flight on each")
        ->check(CLI::Range(1u, kEchoDepthMax))
        ->capture_default_str();
    command->add_option("--size", arguments.sizes, "Bytes of a request")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--operation", arguments.operations, "read or write")
        ->delimiter(',')
        ->check(CLI::IsMember({"read", "write"}))
        ->capture_default_str();
    command->add_option("--pinning", arguments.pinning, "on, off or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"on", "off"}))
        ->capture_default_str();
    command->add_option("--target", arguments.target, "A running wssbench echo-server (default: starts one)")
        ->type_name("URI");
    command->callback([&context] { echo(context, arguments); });
}

}  // namespace wss::wssbench
