// SPDX-License-Identifier: Apache-2.0
// wssbench local: storage without a network, by number of requests in flight and by size.
// Reproduces figures 4 and 5 of paper B (Documentation/reproduction.md).
#include "lib/base/size.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

struct Arguments {
    std::vector<std::string> methods = {"static", "aio", "uring"};
    std::vector<uint32_t> threads = {1, 4, 16, 64};
    std::vector<std::string> sizes = {"512", "4K"};
    std::vector<std::string> operations = {"read"};
    std::string path, file_size = "256M";
    bool sequential = false;
};

void local(Context& context, const Arguments& arguments) {
    auto sizes = sizes_of(arguments.sizes);
    if (!sizes) return context.fail(sizes.status());
    auto bytes = parse_size(arguments.file_size);
    if (!bytes) return context.fail(bytes.status());
    auto storage = Storage::create(context.settings, arguments.path, *bytes);
    if (!storage) return context.fail(storage.status());
    Figure figure{.name = "local",
                  .paper = "B figs 4, 5",
                  .title = "Local I/O by threads or requests in flight, and by size",
                  .unit = "IOPS",
                  .x = "threads",
                  .series = {"method", "operation", "bytes"}};
    for (const std::string& operation : arguments.operations)
        for (uint32_t size : *sizes)
            for (const std::string& method : arguments.methods)
                for (uint32_t threads : arguments.threads) {
                    IoPoint point{.method = method,
                                  .threads = threads,
                                  .pattern = {.write = operation == "write",
                                              .sequential = arguments.sequential,
                                              .bytes = size},
                                  .depth = threads};
                    figure.points.push_back({{{"method", method},
                                              {"operation", operation},
                                              {"threads", threads},
                                              {"bytes", size}},
                                             [point, &context, store = *storage](const Window& window) {
                                                 return measure_local(point, context.settings, *store,
                                                                      window);
                                             }});
                }
    context.deliver(run(context, figure));
}

}  // namespace

void add_local(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand("local", "Local I/O: threads, read sizes (B figs 4, 5)");
    command->add_option("--method", arguments.methods, "static, dynamic, aio, uring or ram")
        ->delimiter(',')
        ->check(CLI::IsMember(methods()))
        ->capture_default_str();
    command
        ->add_option("--threads", arguments.threads,
                     "I/O threads; for aio and uring, which need none, requests in flight")
        ->delimiter(',')
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str();
    command->add_option("--size", arguments.sizes, "Bytes of a request")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--operation", arguments.operations, "read or write")
        ->delimiter(',')
        ->check(CLI::IsMember({"read", "write"}))
        ->capture_default_str();
    command->add_flag("--sequential", arguments.sequential, "Access blocks sequentially, not at random");
    command->add_option("--path", arguments.path,
                        "File or device to use; writes destroy its contents (default: a temporary file)");
    command->add_option("--file-size", arguments.file_size, "Number of bytes of it to use")
        ->capture_default_str();
    command->callback([&context] { local(context, arguments); });
}

}  // namespace wss::wssbench
