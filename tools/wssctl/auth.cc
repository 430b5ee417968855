// SPDX-License-Identifier: Apache-2.0
// wssctl secret, wssctl auth show|reload
#include <cstdio>

#include "lib/base/secrets.h"
#include "tools/wssctl/client.h"

namespace wss::wssctl {

// Prints a new secret, and nothing else, to standard output, so that a shell can redirect it to a file.
static void make_secret(Context& context, const std::string& name) {
    if (Status checked = check_initiator_name(name); !checked) {
        context.fail(checked);
        context.exit = kUsage;
        return;
    }
    std::printf("%s\n", make_secret_line(name).c_str());
}

void add_secret(CLI::App& app, Context& context) {
    static std::string name;
    CLI::App* command = app.add_subcommand(
        "secret", "Print a new NAME:SECRET line: (umask 077; wssctl secret host1 > host1.secret)");
    command->add_option("NAME", name, "Name of the initiator: 1 to 63 of A-Z a-z 0-9 . _ -")->required();
    command->footer(
        "Add the same line to the file of the target (--secrets) and to the initiator's own.\n"
        "To replace a secret, add the new line to the target's file, keep the old one, and run\n"
        "`wssctl auth reload`. Give the new secret to the initiator, which uses it for its next login.\n"
        "Then remove the old line and reload again. `wssctl session list` shows which secret is in use.");
    command->callback([&context] { make_secret(context, name); });
}

static void print_authentication(Context& context, const Result<Json>& answer) {
    if (!answer) return context.fail(answer.status());
    if (context.json) return context.print(*answer);
    const std::string state = answer->value("authentication", "?");
    std::printf("authentication: %s%s\n", state.c_str(),
                state == "off" ? "; ANY PEER THAT REACHES THE TARGET MAY USE IT" : "");
    if (answer->contains("initiators"))
        std::printf("initiators known: %u\n", answer->value("initiators", 0u));
    if (answer->value("sessions_ended", 0u) > 0)
        std::printf("sessions ended: %u\n", answer->value("sessions_ended", 0u));
}

void add_auth(CLI::App& app, Context& context) {
    CLI::App* auth = app.add_subcommand("auth", "Authentication of initiators: show, reload");
    auth->require_subcommand(1);
    auth->add_subcommand("show", "Show whether initiators must authenticate")->callback([&context] {
        print_authentication(context, ask(context, "auth.show"));
    });
    auth->add_subcommand(
            "reload", "Reload the target's secrets file. Ends sessions whose secret was removed or changed")
        ->callback([&context] {
            print_authentication(context, request_change(context, "auth.reload", Json::object()));
        });
}

}  // namespace wss::wssctl
