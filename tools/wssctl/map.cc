// SPDX-License-Identifier: Apache-2.0
// wssctl map
#include <algorithm>
#include <cstdio>

#include "lib/base/size.h"
#include "lib/fabric/resolve.h"
#include "tools/wssctl/mapping.h"

namespace wss::wssctl {

namespace {

bool contains(const std::vector<Disk>& disks, const std::string& device) {
    return std::any_of(disks.begin(), disks.end(), [&](const Disk& disk) { return disk.device == device; });
}

// The disk that is new in `after`. If other users map at the same moment, it is the one with the volume's
// name.
const Disk* find_new(const std::vector<Disk>& before, const std::vector<Disk>& after,
                     const std::string& volume) {
    const Disk* found = nullptr;
    for (const Disk& disk : after) {
        if (contains(before, disk.device)) continue;
        if (found == nullptr || disk.volume == volume) found = &disk;
    }
    return found;
}

void map(Context& context, Mapping& arguments) {
    if (Status right = check(arguments); !right) {
        context.fail(right);
        context.exit = kUsage;
        return;
    }
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    if (Status found = resolve(arguments, fabric::kLookUpMax); !found) return context.fail(found);
    std::vector<Disk> before = list_disks(context);
    if (Status mapped = request_map(context, arguments); !mapped)
        return context.fail(mapped);  // the driver's error names the volume
    std::vector<Disk> after = list_disks(context);
    const Disk* disk = find_new(before, after, arguments.volume);
    // Prints the volume's name, even if the argument was lun:N or a WWID.
    const std::string volume = disk == nullptr ? arguments.volume : disk->volume;
    std::string device = disk == nullptr ? "" : context.dev + "/" + disk->device;
    if (context.json)
        return context.print(
            {{"device", device}, {"volume", volume}, {"size", disk == nullptr ? 0 : disk->size}});
    const std::vector<Pending> pending = list_pending(context);
    if (disk == nullptr && !pending.empty())
        std::printf("%s is not available yet (%s): the driver keeps trying\n", arguments.volume.c_str(),
                    pending.back().error.c_str());
    else if (disk == nullptr)
        std::printf("mapped %s (see wssctl list)\n", arguments.volume.c_str());
    else
        std::printf("%s  %s  %s\n", device.c_str(), volume.c_str(), readable_size(disk->size).c_str());
}

}  // namespace

void add_map(CLI::App& app, Context& context) {
    static Mapping arguments;
    CLI::App* command =
        app.add_subcommand("map", "Create a device /dev/wssN for a volume of a target (driver)");
    command
        ->add_option("TARGET", arguments.target,
                     "HOST, HOST:PORT or rdma://HOST:PORT; all addresses of the host are tried")
        ->required();
    command->add_option("VOLUME", arguments.volume, "its name, lun:N or naa.HEX")->required();
    command
        ->add_option(
            "--secret-file", arguments.secret_file,
            "file with this machine's NAME:SECRET line (mode 600; see wssctl secret), as in the target's "
            "--secrets")
        ->type_name("FILE");
    command->add_option("OPTION", arguments.options,
                        "key=value for the driver; /sys/class/wss/map lists the keys");
    command->callback([&context] { map(context, arguments); });
}

}  // namespace wss::wssctl
