// SPDX-License-Identifier: Apache-2.0
// wssctl doctor: the table of checks, and the report.
#include "tools/wssctl/doctor.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tools/wssctl/context.h"

namespace wss::wssctl {

// --- Host ---

bool Host::has(const std::string& path) const {
    std::error_code error;
    return std::filesystem::exists(at(path), error);
}

static void trim_end(std::string& text) {
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
}

std::optional<std::string> Host::line(const std::string& path) const {
    return value(path, "");
}

std::optional<std::string> Host::value(const std::string& path, const std::string& key) const {
    std::ifstream file(at(path));
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(key)) continue;
        line.erase(0, key.size());
        trim_end(line);
        return line;
    }
    return std::nullopt;
}

std::vector<std::string> Host::entries(const std::string& folder) const {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(at(folder), error), end; !error && entry != end;
         entry.increment(error))
        names.push_back(entry->path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

// --- the command ---

const char* to_string(Level level) {
    constexpr const char* kNames[] = {"ok", "skipped", "warning", "failed"};
    return kNames[static_cast<size_t>(level)];
}

namespace {

using Check = Findings (*)(const Host&, const Question&);
constexpr Check kChecks[] = {check_kernel, check_module,  check_memlock, check_rdma,       check_mtu,
                             check_clock,  check_sockets, check_state,   check_huge_pages, check_targets};

void report(const Context& context, const Findings& findings) {
    if (!context.json) {
        for (const Finding& finding : findings) {
            std::printf("%-7s  %-14s %s\n", to_string(finding.level), finding.name.c_str(),
                        finding.text.c_str());
            if (!finding.advice.empty()) std::printf("%24s %s\n", "->", finding.advice.c_str());
        }
        return;
    }
    Json all = Json::array();
    for (const Finding& finding : findings)
        all.push_back({{"check", finding.name},
                       {"result", to_string(finding.level)},
                       {"text", finding.text},
                       {"advice", finding.advice}});
    context.print(all);
}

void examine(Context& context, const Host& host, const Question& question) {
    Findings findings;
    for (const Check check : kChecks)
        for (Finding& finding : check(host, question)) findings.push_back(std::move(finding));
    report(context, findings);
    const bool failed = std::any_of(findings.begin(), findings.end(),
                                    [](const Finding& one) { return one.level == Level::kFailed; });
    if (failed) context.exit = kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
    static Question question;
    static std::string root;
    static uint32_t wait_seconds = 5;
    CLI::App* command = app.add_subcommand(
        "doctor", "Check this machine and the path to targets, and print advice for each fault");
    command->add_option("HOST", question.hosts,
                        "Targets to reach: HOST[:PORT] (RDMA), rdma://HOST[:PORT], tcp://HOST[:PORT], "
                        "tls://HOST[:PORT] or shm:///PATH");
    describe(*command, question.credentials);
    command->add_option("--wait", wait_seconds, "Time limit of each step of reaching a host, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 600));
    command->add_option("--root", root)->group("");
    command->footer(
        "Exit status: 0 nothing failed, 1 something failed. Checks that need more rights are skipped.");
    command->callback([&context] {
        question.timeout = from_s(wait_seconds);
        examine(context, Host(root), question);
    });
}

}  // namespace wss::wssctl
