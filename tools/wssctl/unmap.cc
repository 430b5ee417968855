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

// Unmaps the device and adds it to `done`, or reports the failure.
bool unmap_one(Context& context, const std::string& device, bool force, Json& done) {
    const Status status = write_control(context, "unmap", device + (force ? " force" : ""));
    if (status)
        done.push_back(device);
    else
        context.fail(status.within("cannot unmap " + device));
    return status.is_ok();
}

// Disks are unmapped last, because a pending map may become a disk at any time. The driver shows at most one
// page of the pending maps; the others appear when those on the page end.
void unmap_all(Context& context, bool force, Json& done) {
    for (bool is_cut = true; is_cut;) {
        bool is_any_gone = false;
        for (const Pending& pending : list_pending(context, &is_cut))
            is_any_gone = unmap_one(context, pending.name, force, done) || is_any_gone;
        if (!is_cut || is_any_gone) continue;
        context.fail(Status(Code::kRefused, std::string(kMorePending) + "; those were not unmapped"));
        break;
    }
    for (const Disk& disk : list_disks(context)) unmap_one(context, disk.device, force, done);
}

void unmap(Context& context, const Arguments& arguments) {
    const std::string device =
        arguments.device.starts_with("/dev/") ? arguments.device.substr(5) : arguments.device;
    if (Status word = check_word(device); !arguments.all && !word) {
        context.fail(word);
        context.exit = kUsage;
        return;
    }
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    Json done = Json::array();
    if (arguments.all)
        unmap_all(context, arguments.force, done);
    else
        unmap_one(context, device, arguments.force, done);
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
    command->add_flag("--force", arguments.force, "even while it is open: its users get I/O errors");
    device->excludes(all);
    command->callback([&context, device, all] {
        if (device->count() + all->count() == 0) throw CLI::RequiredError("DEVICE or --all");
        unmap(context, arguments);
    });
}

}  // namespace wss::wssctl
