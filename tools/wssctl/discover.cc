// SPDX-License-Identifier: Apache-2.0
// wssctl discover: lists the volumes of a target, as seen by an initiator.
#include <cstdio>

#include "lib/base/size.h"
#include "lib/initiator/client.h"
#include "tools/wssctl/context.h"
#include "tools/wssctl/host.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string host;
    Credentials credentials;
};

Json to_json(const initiator::VolumeInfo& volume) {
    return {{"lun", volume.lun},
            {"name", volume.name},
            {"size", volume.size},
            {"block_size", volume.block_size},
            {"read_only", volume.read_only},
            {"wwid", fmt::format("naa.{:016x}", volume.naa)}};
}

// Sets kUnavailable, and thus the exit status kNotReachable, only if no target was reached. A target that
// refuses the login was reached. kInvalid means that another program answered, or that files are unusable, in
// which case no connection was tried.
Status explain(const Status& failure) {
    const bool unreachable = !is_login_failure(failure) && failure.code() != Code::kInvalid;
    return unreachable ? Status(Code::kUnavailable, failure.to_string()) : failure;
}

// Skips volumes that are deleted in the meantime.
Result<Json> discover(const fabric::Address& address, const Arguments& arguments, Nanoseconds timeout) {
    auto options = options_with(arguments.credentials, timeout);
    if (!options) return options.status();
    auto client = initiator::Client::connect(address.to_string(), std::move(*options));
    if (!client) return explain(client.status());
    Json volumes = Json::array();
    for (const initiator::VolumeName& name : (*client)->volumes()) {
        auto volume = (*client)->open(name.name);
        if (!volume && volume.status().code() == Code::kNotFound) continue;
        if (!volume) return explain(volume.status().within(name.name));
        volumes.push_back(to_json((*volume)->info()));
        (*client)->close(std::move(*volume));
    }
    return volumes;
}

void print_volumes(const Json& volumes, const std::string& host) {
    Table table({"LUN", "NAME", "SIZE", "BLOCK", "MODE", "WWID"});
    for (const Json& volume : volumes)
        table.add({std::to_string(volume.value("lun", 0u)), volume.value("name", "?"),
                   readable_size(volume.value("size", uint64_t{0})),
                   std::to_string(volume.value("block_size", 0u)),
                   volume.value("read_only", false) ? "ro" : "rw", volume.value("wwid", "?")});
    if (table.empty())
        std::printf("%s has no volumes for this initiator\n", host.c_str());
    else
        table.print();
}

}  // namespace

void add_discover(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command =
        app.add_subcommand("discover", "List the volumes of a target that this machine may use");
    command
        ->add_option(
            "HOST", arguments.host,
            "Target: HOST[:PORT] (RDMA), rdma://HOST[:PORT], tcp://HOST[:PORT], tls://HOST[:PORT] or "
            "shm:///PATH")
        ->required();
    describe(*command, arguments.credentials);
    command->footer("wssctl map HOST NAME creates a device for one of them. Discovery needs no driver.");
    command->callback([&context] {
        auto address = parse_host(arguments.host);
        if (!address) {
            context.fail(address.status());
            context.exit = kUsage;
            return;
        }
        auto volumes = discover(*address, arguments, from_s(context.timeout_seconds));
        if (!volumes) return context.fail(volumes.status());
        context.json ? context.print(*volumes) : print_volumes(*volumes, arguments.host);
    });
}

}  // namespace wss::wssctl
