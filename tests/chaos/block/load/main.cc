// SPDX-License-Identifier: Apache-2.0
// wss-chaos-load URI NUMBER COUNT SEED HISTORY-FILE [SECRET-FILE]: runs one client of a chaos run.
//
// Reads commands from standard input, one per line, and answers each with one line:
//
//   open NAME ID SECTORS LIMIT FILE   starts the load on a volume unless it is open; the ledger is in FILE
//   close NAME                        ends the load on a volume; operations in flight may still fail
//   limit NAME SECTORS                uses only the first SECTORS sectors
//   unsure NAME 0|1                   whether a command that changes the rules is in progress
//   loosen NAME                       unflushed changes may be undone
//   cut NAME SECTORS 0|1              the sectors beyond SECTORS were cut off (1) or may have been (0)
//   verify SECONDS                    reads this client's sectors in use and flushes, within a time limit
//   status                            prints counters as JSON
//
// Exit status 3: a read returned data that the ledger does not allow. Standard error then has the data and
// the history of the sector.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <list>
#include <map>
#include <sstream>

#include "tests/chaos/block/load/volume_load.h"

namespace wss::chaos {
namespace {

constexpr int kWrongData = 3;
constexpr auto kConnectAgain = std::chrono::milliseconds(100);

[[noreturn]] void report_wrong(const std::string& volume, const std::string& what) {
    fmt::print(stderr, "WRONG {}: {}\n", volume, what);
    std::_Exit(kWrongData);
}

std::atomic<bool> terminated{false};

class Commands {
  public:
    Commands(Client& client, uint64_t seed) : client_(client), seed_(seed) {}

    std::string run(const std::string& line) {
        std::istringstream words(line);
        std::string command, name;
        words >> command;
        if (command == "status") return status();
        if (command == "verify") return verify(words);
        words >> name;
        if (command == "open") return open(name, words);
        auto found = loads_.find(name);
        if (found == loads_.end()) return "error: no load on " + name;
        uint64_t value = 0;
        words >> value;
        if (command == "close") return close(found);
        if (command == "limit") return found->second->set_limit(value), "ok";
        if (command == "unsure") return found->second->set_unsure(value != 0), "ok";
        if (command == "loosen") return found->second->loosen(), "ok";
        if (command == "cut") {
            bool certain = false;
            words >> certain;
            return found->second->cut(value, certain), "ok";
        }
        return "error: unknown command " + command;
    }

  private:
    using Loads = std::map<std::string, std::unique_ptr<VolumeLoad>>;

    std::string open(const std::string& name, std::istream& words) {
        uint32_t id = 0;
        uint64_t sectors = 0, limit = 0;
        std::string path;
        if (!(words >> id >> sectors >> limit >> path)) return "error: open NAME ID SECTORS LIMIT FILE";
        if (loads_.contains(name)) return "ok";
        auto ledger = Ledger::open(path, id, sectors);
        if (!ledger) return "error: cannot open " + path;
        if (limit != 0) ledger->set_limit(limit);
        loads_[name] = std::make_unique<VolumeLoad>(client_, name, std::move(*ledger), seed_++);
        return "ok";
    }

    // The target may be stopped, so this does not wait for operations in flight.
    std::string close(Loads::iterator found) {
        found->second->stop();
        closing_.emplace_back([load = std::move(found->second)]() mutable { load.reset(); });
        loads_.erase(found);
        return "ok";
    }

    std::string verify(std::istream& words) {
        uint64_t seconds = 0;
        words >> seconds;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
        client_.paused = true;
        std::string failures;
        for (auto& [name, load] : loads_)
            if (std::string failure = load->verify(deadline); !failure.empty())
                failures += fmt::format("{}volume {}: {}", failures.empty() ? "" : "; ", name, failure);
        client_.paused = false;
        return failures.empty() ? "ok" : "failed: " + failures;
    }

    std::string status() const {
        const Counters& c = client_.counters;
        return fmt::format(
            R"({{"reads":{},"writes":{},"zeroes":{},"discards":{},"flushes":{},"errors":{},"timeouts":{},"slowest_ms":{}}})",
            c.reads.load(), c.writes.load(), c.zeroes.load(), c.discards.load(), c.flushes.load(),
            c.errors.load(), c.timeouts.load(), c.slowest_ms.load());
    }

    Client& client_;
    uint64_t seed_;
    Loads loads_;
    std::list<std::jthread> closing_;
};

wss_client* connect(const char* uri, const char* secret_file) {
    wss_options options{};
    options.size = sizeof options;
    options.channels = 2;
    options.connect_timeout_ms = 2000;
    options.request_timeout_ms = 30000;
    options.reconnect_timeout_ms = 60000;
    options.secret_file = secret_file;
    wss_client* client = nullptr;
    while (!terminated && wss_connect(uri, &options, &client) != 0) {
        fmt::print(stderr, "{}\n", wss_error());
        std::this_thread::sleep_for(kConnectAgain);
    }
    return client;
}

int run(int argc, char** argv) {
    if (argc < 6) {
        fmt::print(stderr, "usage: wss-chaos-load URI NUMBER COUNT SEED HISTORY-FILE [SECRET-FILE]\n");
        return 2;
    }
    auto history = History::open(argv[5]);
    if (!history) {
        fmt::print(stderr, "cannot open {}\n", argv[5]);
        return 2;
    }
    // The signal interrupts the read of standard input.
    struct sigaction action {};
    action.sa_handler = [](int) { terminated = true; };
    sigaction(SIGTERM, &action, nullptr);
    Client client;
    client.number = static_cast<uint32_t>(std::atoi(argv[2]));
    client.count = static_cast<uint32_t>(std::atoi(argv[3]));
    client.history = &*history;
    client.wrong = report_wrong;
    fmt::print("ready\n");
    std::fflush(stdout);
    client.session = connect(argv[1], argc > 6 ? argv[6] : nullptr);
    if (client.session == nullptr) return 0;
    {
        Commands commands(client, std::strtoull(argv[4], nullptr, 10));
        for (std::string line; !terminated && std::getline(std::cin, line);) {
            fmt::print("{}\n", commands.run(line));
            std::fflush(stdout);
        }
    }
    wss_disconnect(client.session);
    return 0;
}

}  // namespace
}  // namespace wss::chaos

int main(int argc, char** argv) {
    return wss::chaos::run(argc, argv);
}
