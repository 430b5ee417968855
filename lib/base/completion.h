// SPDX-License-Identifier: Apache-2.0
// Completion of command lines, from the description that --help prints. tools/completion/wss.bash calls
// PROGRAM --complete WORD..., where the last word is being typed.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wss {

// Returns the completions of the last word of `words`: commands, options, or the values of the option before
// it. The result is empty where any text is allowed, for example a file name.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

// If the command line requests completions, prints them, one per line, and returns true: the program must
// then exit. Call before the command line is parsed.
bool print_completions(const CLI::App& app, int argc, const char* const* argv);

}  // namespace wss
