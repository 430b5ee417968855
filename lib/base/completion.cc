// SPDX-License-Identifier: Apache-2.0
#include "lib/base/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

namespace wss {

namespace {

constexpr std::string_view kAsk = "--complete";

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

// The options that may follow a command: its own, and those of its parent commands.
std::vector<const CLI::Option*> options_at(const CLI::App& command) {
    std::vector<const CLI::Option*> options;
    for (const CLI::App* level = &command; level != nullptr; level = level->get_parent())
        for (const CLI::Option* option : level->get_options())
            if (option->nonpositional() && !option->get_group().empty()) options.push_back(option);
    return options;
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
    for (const CLI::Option* option : options_at(command))
        if (option->check_name(word)) return option;
    return nullptr;
}

// Values of an option that takes one of several words: its type name is "TEXT:{one,another}".
std::vector<std::string> values_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    const size_t begin = type.find('{');
    const size_t end = type.find('}', begin);
    if (begin == std::string::npos || end == std::string::npos) return {};
    return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

// What the command line contains before the word that is being typed.
struct Place {
    const CLI::App* command;
    const CLI::Option* awaits_value = nullptr;  // the previous word is this option
};

void advance(Place& place, const std::string& word) {
    if (word == "=") return;  // the shell splits --option=value
    if (place.awaits_value != nullptr) {
        place.awaits_value = nullptr;
        return;
    }
    if (word.starts_with('-')) {
        const CLI::Option* option = find_option(*place.command, word);
        if (option != nullptr && option->get_items_expected_max() > 0) place.awaits_value = option;
        return;
    }
    for (const CLI::App* command : visible_commands(*place.command))
        if (command->check_name(word)) {
            place.command = command;
            return;
        }
}

std::vector<std::string> candidates_at(const Place& place, const std::string& word) {
    std::vector<std::string> all;
    if (place.awaits_value != nullptr) return values_of(*place.awaits_value);
    if (word.starts_with('-')) {
        for (const CLI::Option* option : options_at(*place.command))
            for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
        return all;
    }
    for (const CLI::App* command : visible_commands(*place.command)) all.push_back(command->get_name());
    return all;
}

}  // namespace

std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words) {
    Place place{&app};
    for (size_t i = 0; i + 1 < words.size(); ++i) advance(place, words[i]);
    std::string word = words.empty() ? "" : words.back();
    if (word == "=") word.clear();
    std::vector<std::string> found;
    for (std::string& one : candidates_at(place, word))
        if (one.starts_with(word)) found.push_back(std::move(one));
    return found;
}

bool print_completions(const CLI::App& app, int argc, const char* const* argv) {
    if (argc < 2 || argv[1] != kAsk) return false;
    for (const std::string& one : completions(app, {argv + 2, argv + argc})) std::printf("%s\n", one.c_str());
    return true;
}

}  // namespace wss
