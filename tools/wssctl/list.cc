// SPDX-License-Identifier: Apache-2.0
// wssctl list
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssctl/driver.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

static Json to_json(const Context& context, const Disk& disk) {
    return {{"device", context.dev + "/" + disk.device},
            {"volume", disk.volume},
            {"size", disk.size},
            {"read_only", disk.read_only},
            {"state", disk.state},
            {"lun", disk.lun},
            {"wwid", disk.wwid},
            {"session", disk.session},
            {"target", disk.target}};
}

static void list(Context& context) {
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    // Read the pending maps before the disks. A map that succeeds in between then appears in both lists. In
    // the other order it would appear in neither.
    bool is_cut = false;
    const std::vector<Pending> pendings = list_pending(context, &is_cut);
    Json all = Json::array();
    Table table({"DEVICE", "VOLUME", "SIZE", "MODE", "STATE", "SESSION", "TARGET", "WWID"});
    for (const Disk& disk : list_disks(context)) {
        all.push_back(to_json(context, disk));
        table.add({context.dev + "/" + disk.device, disk.volume, readable_size(disk.size),
                   disk.read_only ? "ro" : "rw", disk.state, disk.session, disk.target, disk.wwid});
    }
    for (const Pending& pending : pendings) {
        all.push_back({{"device", pending.name},
                       {"volume", pending.volume},
                       {"state", "pending"},
                       {"target", pending.target},
                       {"last_error", pending.error}});
        table.add({pending.name, pending.volume, "", "", "pending", "", pending.target, pending.error});
    }
    if (is_cut) std::fprintf(stderr, "wssctl: %s\n", kMorePending.data());
    if (context.json) return context.print(all);
    if (table.empty())
        std::printf("no devices; create one: wssctl map TARGET VOLUME\n");
    else
        table.print();
}

void add_list(CLI::App& app, Context& context) {
    app.add_subcommand("list", "List the devices of the driver")->callback([&context] { list(context); });
}

}  // namespace wss::wssctl
