// SPDX-License-Identifier: Apache-2.0
// kvctl: transactions on the key-value store from the command line. context.h lists the sub-commands.
#include <algorithm>
#include <cstdio>

#include "kernel/uapi/wss_version.h"
#include "lib/base/completion.h"
#include "lib/base/suggest.h"
#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

using kv::Algorithm;
using kv::OneSided;
using kv::Transport;

const std::map<std::string, Algorithm> kAlgorithms = {
    {"ramp-fast", Algorithm::kRampFast},        {"ramp-small", Algorithm::kRampSmall},
    {"ramp-hybrid", Algorithm::kRampHybrid},    {"2pl-sequential", Algorithm::kLockSequential},
    {"2pl-parallel", Algorithm::kLockParallel}, {"none", Algorithm::kNone},
};
const std::map<std::string, Transport> kTransports = {{"message", Transport::kMessage},
                                                      {"ring", Transport::kRing},
                                                      {"ring-polled", Transport::kRingPolled},
                                                      {"ring-announced", Transport::kRingAnnounced}};
const std::map<std::string, OneSided> kOneSided = {
    {"off", OneSided::kOff}, {"paper", OneSided::kPaper}, {"on", OneSided::kOn}};

template <typename T>
void add_choice(CLI::App& app, const std::string& name, const std::string& help,
                const std::map<std::string, T>& choices, T& value) {
    std::vector<std::string> words;
    for (const auto& [word, choice] : choices) words.push_back(word);
    app.add_option_function<std::string>(
           name, [&choices, &value](const std::string& word) { value = choices.at(word); }, help)
        ->check(CLI::IsMember(words));
}

void add_global_options(CLI::App& app, Context& context) {
    app.add_option("--target,-t", context.options.partitions,
                   "Partitions of the store, as URIs separated by commas: rdma://HOST:PORT, tcp://HOST:PORT, "
                   "tls://HOST:PORT, shm:///PATH")
        ->delimiter(',')
        ->envname("KVCTL_TARGET")
        ->type_name("URI,...");
    app.add_option(
           "--secret-file", context.secret_file,
           "File with the client's NAME:SECRET line (mode 600), for tls:// partitions with --kv-secrets")
        ->type_name("FILE");
    app.add_option("--tls-ca", context.options.tls.authorities,
                   "CA certificates (PEM) that sign the certificates of tls:// partitions")
        ->type_name("FILE");
    app.add_option("--tls-cert", context.options.tls.certificate,
                   "Client certificate (PEM), for partitions that require one")
        ->type_name("FILE");
    app.add_option("--tls-key", context.options.tls.key, "Private key of --tls-cert (PEM)")
        ->type_name("FILE");
    add_choice(app, "--algorithm",
               "Concurrency control: ramp-fast, ramp-small, ramp-hybrid, 2pl-sequential, 2pl-parallel, none",
               kAlgorithms, context.options.algorithm);
    add_choice(app, "--transport", "message (send and receive) or ring (GET+/PUT+: RDMA-written rings)",
               kTransports, context.options.transport);
    add_choice(app, "--one-sided",
               "Reads without the server's CPU: off, paper (GET* with its invalid bit) or on (GET* without "
               "this bit)",
               kOneSided, context.options.one_sided);
    app.add_option(
           "--address-cache", context.options.address_cache,
           "Number of keys whose slot addresses are cached for --one-sided; 0: every read searches the "
           "partition's index")
        ->capture_default_str()
        ->check(CLI::Range(0u, kv::kAddressCacheMax))
        ->type_name("KEYS");
    app.add_flag("--session-order", context.options.session_order,
                 "A session never reads an older version of a key than it has read before (ramp-fast)");
    app.add_option("--timeout", context.timeout_seconds, "Time limit of a request, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 3600));
    app.add_flag("--json", context.json, "Print answers as JSON, one object per line");
    app.add_flag("--raw", context.raw, "Print values as they are, byte for byte");
}

void describe(CLI::App& app, Context& context) {
    app.require_subcommand(1);
    app.fallthrough();
    app.set_version_flag("--version", "kvctl " WSS_VERSION);
    add_global_options(app, context);
    add_get(app, context);
    add_put(app, context);
    add_del(app, context);
    add_get_all(app, context);
    add_put_all(app, context);
    add_incr(app, context);
    add_txn(app, context);
    add_scan(app, context);
    add_explain(app, context);
    add_info(app, context);
    add_watch_stats(app, context);
    add_snapshot(app, context);
    add_export(app, context);
    add_import(app, context);
    add_bench(app, context);
    add_check(app, context);
    if (!context.shell) add_shell(app, context);
    app.footer(
        "Transactions are Read Atomic: either all of a put-all is visible or none of it. They are not "
        "serializable: lost updates and write skew are possible, unless a put-all or txn has conditions "
        "on what was read (--if, \"if\").\n"
        "Examples:\n"
        "  export KVCTL_TARGET=tcp://10.0.0.1:5600,tcp://10.0.0.2:5600\n"
        "  kvctl put-all follows:a:b=1 followers:b:a=1\n"
        "  kvctl get-all follows:a:b followers:b:a --json\n"
        "  kvctl put-all balance:a=90 balance:b=110 --if balance:a=5577006791947779410 --if "
        "balance:b=absent\n"
        "  kvctl bench --workload a -p threadcount=4 -p txnlen=8 --verify\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not reachable, 4 key not found, 5 condition does "
        "not hold, 6 isolation violated, 7 no right (the target's --kv-access)");
}

std::vector<std::string> names_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

void add_options_of(const CLI::App& app, std::vector<std::string>& names) {
    for (const CLI::Option* option : app.get_options())
        if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
}

// A hint about the first unknown word, or an empty string if there is none.
std::string hint_at_word(const CLI::App& app) {
    std::vector<std::string> rest = app.remaining(true);
    if (rest.empty()) return {};
    const CLI::App* deepest = &app;
    while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
    bool option = rest[0].starts_with('-');
    std::vector<std::string> names = names_of(app);
    if (option) {
        names.clear();
        for (const CLI::App* level : {deepest, &app}) add_options_of(*level, names);
    }
    return fmt::format("unknown {} '{}'{}", option ? "option" : "command", rest[0],
                       suggestion(rest[0], {names.begin(), names.end()}));
}

}  // namespace

void execute(Context& context, std::vector<std::string> words) {
    CLI::App app("Transactions on a WSS key-value store", "kvctl");
    describe(app, context);
    std::reverse(words.begin(), words.end());  // the order that CLI11 needs
    try {
        app.parse(words);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {
            app.exit(error);
            return;
        }
        std::string hint = hint_at_word(app);
        context.fail_with(kUsage, hint.empty() ? error.what() : hint);
        std::fprintf(stderr, "see kvctl --help or kvctl COMMAND --help\n");
    }
}

static bool complete(int argc, char** argv) {
    CLI::App app;
    Context context;
    describe(app, context);
    return print_completions(app, argc, argv);
}

std::vector<std::string> command_names() {
    CLI::App app;
    Context context;
    describe(app, context);
    return names_of(app);
}

}  // namespace wss::kvctl

int main(int argc, char** argv) {
    wss::kvctl::Context context;
    try {
        if (wss::kvctl::complete(argc, argv)) return wss::kvctl::kDone;
        wss::kvctl::execute(context, {argv + 1, argv + argc});
        if (std::fflush(stdout) != 0) context.fail(wss::Status::from_errno(errno, "standard output"));
        return context.exit;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kvctl: %s\n", error.what());
        return wss::kvctl::kFailed;
    }
}
