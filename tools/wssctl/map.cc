// SPDX-License-Identifier: Apache-2.0
// wssctl map
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "lib/base/secrets.h"
#include "lib/base/size.h"
#include "tools/wssctl/driver.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string target, volume, secret_file;
    std::vector<std::string> options;
};

Result<std::string> line_of(const Arguments& arguments) {
    WSS_TRY(check_word(arguments.target));
    WSS_TRY(check_word(arguments.volume));
    std::string line = "target=" + arguments.target + " volume=" + arguments.volume;
    for (const std::string& option : arguments.options) {
        WSS_TRY(check_word(option));
        if (option.find('=') == std::string::npos)
            return failure(Code::kInvalid, "'{}' is not of the form key=value", option);
        line += " " + option;
    }
    return line;
}

bool contains(const std::vector<Disk>& disks, const std::string& device) {
    return std::any_of(disks.begin(), disks.end(), [&](const Disk& disk) { return disk.device == device; });
}

// The one that was not there before. Others may map at the same moment: then the name of the volume decides.
const Disk* find_new(const std::vector<Disk>& before, const std::vector<Disk>& after,
                     const std::string& volume) {
    const Disk* found = nullptr;
    for (const Disk& disk : after) {
        if (contains(before, disk.device)) continue;
        if (found == nullptr || disk.volume == volume) found = &disk;
    }
    return found;
}

// The driver finds it in a keyring that ends with this process: nobody can read it there, and no command line
// or file of the kernel shows it.
Status lend_secret(const std::string& path, std::string& line) {
    auto secret = read_own_secret(path);
    if (!secret) return secret.status();
    const std::string name = "wss:" + secret->name;
    std::string_view bytes = secret->secret.bytes();
    if (syscall(SYS_add_key, "logon", name.c_str(), bytes.data(), bytes.size(), KEY_SPEC_PROCESS_KEYRING) < 0)
        return Status::from_errno(errno, "cannot hand the secret to the kernel (add_key)");
    line += " initiator=" + secret->name;
    return Status::ok();
}

void map(Context& context, const Arguments& arguments) {
    auto line = line_of(arguments);
    if (!line) {
        context.fail(line.status());
        context.exit = kUsage;
        return;
    }
    if (!arguments.secret_file.empty())
        if (Status lent = lend_secret(arguments.secret_file, *line); !lent) return context.fail(lent);
    std::vector<Disk> before = list_disks(context);
    if (Status mapped = write_control(context, "map", *line); !mapped)
        return context.fail(mapped);  // the driver says itself what it could not map
    std::vector<Disk> after = list_disks(context);
    const Disk* disk = find_new(before, after, arguments.volume);
    // Who asked for lun:0 hears the volume's name.
    const std::string volume = disk == nullptr ? arguments.volume : disk->volume;
    std::string device = disk == nullptr ? "" : context.dev + "/" + disk->device;
    if (context.json)
        return context.print(
            {{"device", device}, {"volume", volume}, {"size", disk == nullptr ? 0 : disk->size}});
    if (disk == nullptr && !list_pending(context).empty())
        std::printf("%s is not there yet (%s): the driver goes on trying\n", arguments.volume.c_str(),
                    list_pending(context).back().error.c_str());
    else if (disk == nullptr)
        std::printf("mapped %s (see wssctl list)\n", arguments.volume.c_str());
    else
        std::printf("%s  %s  %s\n", device.c_str(), volume.c_str(), readable_size(disk->size).c_str());
}

}  // namespace

void add_map(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand("map", "Make a device /dev/wssN of a target's volume (driver)");
    command->add_option("TARGET", arguments.target, "ADDR:PORT or rdma://ADDR:PORT")->required();
    command->add_option("VOLUME", arguments.volume, "its name, lun:N or naa.HEX")->required();
    command
        ->add_option("--secret-file", arguments.secret_file,
                     "file with the line NAME:SECRET that the target has of us (wssctl secret; mode 600)")
        ->type_name("FILE");
    command->add_option("OPTION", arguments.options,
                        "key=value for the driver: cat /sys/class/wss/map lists them");
    command->callback([&context] { map(context, arguments); });
}

}  // namespace wss::wssctl
