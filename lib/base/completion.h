// SPDX-License-Identifier: Apache-2.0
// Completion of command lines, from the description that --help prints. tools/completion/wss.bash calls
// PROGRAM --complete WORD..., where the last word is the one that is being typed.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wss {

// What the last of `words` may become: commands, options, or the values of the option before it. Empty where
// anything may stand, for example a file.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

// If the command line asks for completions, prints them, one a line, and returns true: nothing else is to be
// done. Called before the command line is parsed.
bool print_completions(const CLI::App& app, int argc, const char* const* argv);

}  // namespace wss
