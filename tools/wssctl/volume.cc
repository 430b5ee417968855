// SPDX-License-Identifier: Apache-2.0
// wssctl volume create|resize|reopen|delete|set|access|list
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssctl/client.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string name, backend, size, read_only, iops, bandwidth;
    std::vector<std::string> access;
    bool clear = false;
    uint32_t block_size = 0;
    bool open_read_only = false, create = false, steal = false, give_up_dirty = false;
};

// Returns text such as "500/s 100 MiB/s", or "-" if there are no limits.
std::string limits_of(const Json& volume) {
    const auto iops = volume.value("iops", uint64_t{0}), bandwidth = volume.value("bandwidth", uint64_t{0});
    std::string text = iops == 0 ? "" : std::to_string(iops) + "/s";
    if (bandwidth != 0) text += (text.empty() ? "" : " ") + readable_size(bandwidth) + "/s";
    return text.empty() ? "-" : text;
}

void print_volumes(const Json& volumes) {
    Table table({"LUN", "NAME", "SIZE", "BLOCK", "MODE", "LIMITS", "STATE", "WWID", "BACKEND"});
    for (const Json& volume : volumes)
        table.add({std::to_string(volume.value("lun", 0u)), volume.value("name", "?"),
                   readable_size(volume.value("size", uint64_t{0})),
                   std::to_string(volume.value("block_size", 0u)),
                   volume.value("read_only", false) ? "ro" : "rw", limits_of(volume),
                   volume.value("state", "?"), volume.value("wwid", "?"), volume.value("backend", "?")});
    if (table.empty()) {
        std::printf("no volumes; create one: wssctl volume create NAME BACKEND\n");
        return;
    }
    table.print();
    for (const Json& volume : volumes)
        if (const std::string trouble = volume.value("trouble", ""); !trouble.empty())
            std::printf("%s: %s\n", volume.value("name", "?").c_str(), trouble.c_str());
}

// Requests a change of one volume and prints the result.
void change(Context& context, const std::string& method, const Json& params) {
    auto answer = request_change(context, method, params);
    if (!answer) return context.fail(answer.status());
    if (context.json) return context.print(*answer);
    if (answer->contains("note")) std::printf("note: %s\n", answer->value("note", "").c_str());
    if (answer->contains("lun")) print_volumes(Json::array({*answer}));
}

void add_limits(CLI::App& command, Arguments& arguments) {
    command.add_option("--iops", arguments.iops,
                       "operations per second of all initiators together; 0 or none: no limit");
    command.add_option("--bandwidth", arguments.bandwidth,
                       "bytes per second, for example 100M; 0 or none: no limit");
}

void put_limits(Json& params, const Arguments& arguments) {
    if (!arguments.iops.empty()) params["iops"] = arguments.iops;
    if (!arguments.bandwidth.empty()) params["bandwidth"] = arguments.bandwidth;
}

void add_create(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command = volume.add_subcommand("create", "Start serving a new volume");
    command->add_option("NAME", arguments.name, "1 to 63 of A-Z a-z 0-9 . _ -")->required();
    command
        ->add_option("BACKEND", arguments.backend,
                     "aio:PATH (file or block device), uring:PATH, pool:THREADS:PATH, spawn:PATH, ram:SIZE "
                     "or rbd:POOL/IMAGE")
        ->required();
    command->add_option("--size", arguments.size,
                        "for example 10G; a file is created with or extended to this size");
    command->add_option("--block-size", arguments.block_size,
                        "512 or 4096 (default: 512 if the backend supports it)");
    command->add_flag("--create", arguments.create, "create the file if it does not exist");
    command->add_flag("--read-only", arguments.open_read_only, "open the backend read-only");
    add_limits(*command, arguments);
    command->callback([&context, &arguments] {
        Json params = {{"name", arguments.name}, {"backend", arguments.backend}};
        if (!arguments.size.empty()) params["size"] = arguments.size;
        if (arguments.block_size != 0) params["block_size"] = arguments.block_size;
        if (arguments.create) params["create"] = true;
        if (arguments.open_read_only) params["read_only"] = true;
        put_limits(params, arguments);
        change(context, "volume.create", params);
    });
}

void add_resize(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command =
        volume.add_subcommand("resize", "Make a volume larger or smaller; data beyond the new end is lost");
    command->add_option("NAME", arguments.name)->required();
    command->add_option("SIZE", arguments.size, "for example 20G")->required();
    command->callback([&context, &arguments] {
        change(context, "volume.resize", {{"name", arguments.name}, {"size", arguments.size}});
    });
}

void add_reopen(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command = volume.add_subcommand("reopen",
                                              "Serve a volume again after another owner took its storage, or "
                                              "after its storage could not be opened (see volume list)");
    command->add_option("NAME", arguments.name)->required();
    command->add_flag(
        "--steal", arguments.steal,
        "shut out the present owner of the storage, even if the storage turns out to be too small");
    command->add_flag("--give-up-dirty", arguments.give_up_dirty,
                      "lose acknowledged writes that are in cache engines but not in the storage");
    command->callback([&context, &arguments] {
        Json params = {{"name", arguments.name}};
        if (arguments.steal) params["steal"] = true;
        if (arguments.give_up_dirty) params["give_up_dirty"] = true;
        change(context, "volume.reopen", params);
    });
}

void add_delete(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command = volume.add_subcommand(
        "delete",
        "Stop serving a volume; its backing file stays. Acknowledged writes that only "
        "cache engines have are written to it first; if that fails, the volume is not deleted");
    command->add_option("NAME", arguments.name)->required();
    command->add_flag("--give-up-dirty", arguments.give_up_dirty,
                      "delete it in any case; acknowledged writes that only cache engines have are lost");
    command->callback([&context, &arguments] {
        Json params = {{"name", arguments.name}};
        if (arguments.give_up_dirty) params["give_up_dirty"] = true;
        change(context, "volume.delete", params);
    });
}

void add_set(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command = volume.add_subcommand("set", "Change a volume while it is served");
    command->add_option("NAME", arguments.name)->required();
    CLI::Option_group* what = command->add_option_group("what");
    what->add_option("--read-only", arguments.read_only, "on or off")->check(CLI::IsMember({"on", "off"}));
    add_limits(*what, arguments);
    what->require_option(1, 0);
    command->callback([&context, &arguments] {
        Json params = {{"name", arguments.name}};
        if (!arguments.read_only.empty()) params["read_only"] = arguments.read_only == "on";
        put_limits(params, arguments);
        change(context, "volume.set", params);
    });
}

void print_access(const Json& volume) {
    const Json list = volume.value("access", Json::array());
    if (list.empty())
        std::printf("%s: every initiator that can log in may read and write\n",
                    volume.value("name", "?").c_str());
    for (const Json& word : list)
        std::printf("%s: %s\n", volume.value("name", "?").c_str(), word.get<std::string>().c_str());
}

void add_access(CLI::App& volume, Context& context, Arguments& arguments) {
    CLI::App* command = volume.add_subcommand("access", "Show or replace the access list of a volume");
    command->add_option("NAME", arguments.name)->required();
    CLI::Option* rules = command->add_option(
        "RULE", arguments.access,
        "INITIATOR=rw, =ro or =none; INITIATOR * stands for all others; give all rules at once");
    command
        ->add_flag("--clear", arguments.clear, "no list: every initiator that can log in may read and write")
        ->excludes(rules);
    command->callback([&context, &arguments] {
        Json params = {{"name", arguments.name}};
        if (arguments.clear || !arguments.access.empty()) params["access"] = arguments.access;
        auto answer = request_change(context, "volume.access", params);
        if (!answer) return context.fail(answer.status());
        context.json ? context.print(*answer) : print_access(*answer);
    });
}

void add_volume_list(CLI::App& volume, Context& context) {
    CLI::App* command = volume.add_subcommand("list", "List the volumes of the target");
    command->callback([&context] {
        auto answer = ask(context, "volume.list");
        if (!answer) return context.fail(answer.status());
        context.json ? context.print(*answer) : print_volumes(*answer);
    });
}

}  // namespace

void add_volume(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* volume = app.add_subcommand(
        "volume", "Volumes of the target: create, resize, reopen, delete, set, access, list");
    volume->require_subcommand(1);
    add_create(*volume, context, arguments);
    add_resize(*volume, context, arguments);
    add_reopen(*volume, context, arguments);
    add_delete(*volume, context, arguments);
    add_set(*volume, context, arguments);
    add_access(*volume, context, arguments);
    add_volume_list(*volume, context);
}

}  // namespace wss::wssctl
