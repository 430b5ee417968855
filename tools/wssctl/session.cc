// SPDX-License-Identifier: Apache-2.0
// wssctl session list|end
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssctl/client.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

static std::string joined(const Json& words) {
    std::string text;
    for (const Json& word : words)
        if (word.is_string()) text += (text.empty() ? "" : ",") + word.get<std::string>();
    return text.empty() ? "-" : text;
}

static std::string authentication(const Json& session) {
    if (!session.value("authenticated", false)) return "no";
    const Json secrets = session.value("secrets", Json::array());
    if (secrets == Json::array({2})) return "yes (second secret)";
    return secrets.size() == 2 ? "yes (both secrets)" : "yes";
}

static void print_sessions(const Json& sessions) {
    Table table({"NAME", "INITIATOR", "AUTH", "KIND", "FABRIC", "CHANNELS", "READS", "WRITES", "ERRORS",
                 "EXTENSIONS", "PEER"});
    for (const Json& session : sessions) {
        Json counters = session.value("counters", Json::object());
        auto counter = [&](const char* name) { return std::to_string(counters.value(name, uint64_t{0})); };
        Json peers = session.value("peers", Json::array());
        table.add({session.value("name", "?"), session.value("initiator", "?"), authentication(session),
                   session.value("kind", "?"), session.value("fabric", "?"),
                   std::to_string(session.value("channels", 0u)), counter("reads"), counter("writes"),
                   counter("errors"), joined(session.value("capabilities", Json::array())),
                   peers.empty() || !peers[0].is_string() ? "-" : peers[0].get<std::string>()});
    }
    if (table.empty())
        std::printf("no sessions\n");
    else
        table.print();
}

void add_session(CLI::App& app, Context& context) {
    CLI::App* session = app.add_subcommand("session", "Initiators connected to the target: list, end");
    session->require_subcommand(1);
    CLI::App* list = session->add_subcommand("list", "List the sessions of initiators");
    list->footer(
        "AUTH shows whether a session logged in with the second of the two secrets of its name. A secret\n"
        "that no session uses can be removed from the file without ending a session.");
    list->callback([&context] {
        auto answer = ask(context, "session.list");
        if (!answer) return context.fail(answer.status());
        if (context.json) return context.print(*answer);
        print_sessions(answer->is_object() ? answer->value("sessions", Json::array()) : *answer);
    });
    static std::string initiator;
    CLI::App* end = session->add_subcommand("end", "Log an initiator out; commands in flight complete");
    end->add_option("INITIATOR", initiator, "its name or its port id, as `session list` shows them")
        ->required();
    end->footer(
        "The initiator may log in again. To keep it out, remove its line from the secrets file and run\n"
        "`wssctl auth reload`, which ends its sessions as well.");
    end->callback([&context] {
        auto answer = request_change(context, "session.end", {{"initiator", initiator}});
        if (!answer) return context.fail(answer.status());
        if (context.json) return context.print(*answer);
        std::printf("sessions ended: %u\n", answer->value("sessions_ended", 0u));
    });
}

}  // namespace wss::wssctl
