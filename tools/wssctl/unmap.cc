// SPDX-License-Identifier: Apache-2.0
// wssctl unmap
#include <cstdio>

#include "tools/wssctl/driver.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string device;
    bool force = false, all = false;
};

Status unmap_one(const Context& context, const std::string& device, bool force) {
    Status done = write_control(context, "unmap", device + (force ? " force" : ""));
    return done ? done : done.within("cannot unmap " + device);
}

void unmap(Context& context, Arguments arguments) {
    std::vector<std::string> devices;
    if (arguments.all) {
        for (const Disk& disk : list_disks(context)) devices.push_back(disk.device);
        for (const Pending& pending : list_pending(context)) devices.push_back(pending.name);
    } else {
        devices.push_back(arguments.device.starts_with("/dev/") ? arguments.device.substr(5)
                                                                : arguments.device);
    }
    for (const std::string& device : devices)
        if (Status word = check_word(device); !word) {
            context.fail(word);
            context.exit = kUsage;
            return;
        }
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    Json done = Json::array();
    for (const std::string& device : devices) {
        if (Status status = unmap_one(context, device, arguments.force); !status)
            context.fail(status);
        else
            done.push_back(device);
    }
    if (context.json) context.print({{"unmapped", done}});
}

}  // namespace

void add_unmap(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command =
        app.add_subcommand("unmap", "Remove a device of the driver; refused while it is open");
    CLI::Option* device = command->add_option(
        "DEVICE", arguments.device, "wss0 or /dev/wss0; pending0 for a map that waits for its target");
    CLI::Option* all = command->add_flag("--all", arguments.all, "every device");
    command->add_flag("--force", arguments.force, "also while it is open: its users get I/O errors");
    device->excludes(all);
    command->callback([&context, device, all] {
        if (device->count() + all->count() == 0) throw CLI::RequiredError("DEVICE or --all");
        unmap(context, arguments);
    });
}

}  // namespace wss::wssctl
