// SPDX-License-Identifier: Apache-2.0
// kvctl shell: the same commands, one per line, on one connection. On a terminal it offers a history, and
// completion of commands.
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

constexpr int kHistoryLines = 1000;

// Splits at blanks, with 'single' and "double" quotes and \ as in a shell. Nothing is expanded.
Result<std::vector<std::string>> split(std::string_view line) {
    std::vector<std::string> words;
    char quote = 0;
    bool in_word = false;
    for (size_t i = 0; i < line.size(); ++i) {
        char letter = line[i];
        if (quote == 0 && std::strchr(" \t\n", letter) != nullptr) {
            in_word = false;
            continue;
        }
        if (!in_word) words.emplace_back();
        in_word = true;
        if (letter == '\\' && quote != '\'' && i + 1 < line.size())
            words.back() += line[++i];
        else if (quote != 0 && letter == quote)
            quote = 0;
        else if (quote == 0 && (letter == '\'' || letter == '"'))
            quote = letter;
        else
            words.back() += letter;
    }
    if (quote != 0) return failure(Code::kInvalid, "a quote ({}) is not closed", quote);
    return words;
}

// Returns false if the shell must end.
bool run_line(Context& context, std::string_view line) {
    auto words = split(line);
    if (!words) {
        context.fail_with(kUsage, words.status().to_string());
        return true;
    }
    if (words->empty() || (*words)[0].starts_with('#')) return true;
    if ((*words)[0] == "exit" || (*words)[0] == "quit") return false;
    if ((*words)[0] == "help") *words = {"--help"};
    context.exit = kDone;
    bool json = context.json, raw = context.raw;
    execute(context, *words);
    context.json = json;
    context.raw = raw;
    std::fflush(stdout);
    return true;
}

char prompt_text[] = "kvctl> ";
char* prompt(EditLine*) {
    return prompt_text;
}

// Completes the first word with a command.
unsigned char complete(EditLine* editor, int) {
    static const std::vector<std::string> commands = command_names();
    const LineInfo* line = el_line(editor);
    std::string typed(line->buffer, line->cursor);
    if (typed.find(' ') != typed.npos) return CC_NORM;
    std::vector<std::string> fitting;
    for (const std::string& command : commands)
        if (command.starts_with(typed)) fitting.push_back(command);
    if (fitting.size() == 1)
        return el_insertstr(editor, (fitting[0].substr(typed.size()) + " ").c_str()) == 0 ? CC_REFRESH
                                                                                          : CC_ERROR;
    if (fitting.empty()) return CC_ERROR;
    std::printf("\n");
    for (const std::string& command : fitting) std::printf("%s  ", command.c_str());
    std::printf("\n");
    return CC_REDISPLAY;
}

std::string history_path() {
    const char* home = std::getenv("HOME");
    return home == nullptr ? std::string() : std::string(home) + "/.kvctl_history";
}

class Editor {
  public:
    Editor() : editor_(el_init("kvctl", stdin, stdout, stderr)), history_(history_init()) {
        HistEvent event;
        history(history_, &event, H_SETSIZE, kHistoryLines);
        history(history_, &event, H_SETUNIQUE, 1);
        if (!path_.empty()) history(history_, &event, H_LOAD, path_.c_str());
        el_set(editor_, EL_PROMPT, prompt);
        el_set(editor_, EL_EDITOR, "emacs");
        el_set(editor_, EL_HIST, history, history_);
        el_set(editor_, EL_SIGNAL, 1);
        el_set(editor_, EL_ADDFN, "complete", "complete a command", complete);
        el_set(editor_, EL_BIND, "^I", "complete", nullptr);
        el_source(editor_, nullptr);  // the user's ~/.editrc
    }
    ~Editor() {
        HistEvent event;
        // The history may contain values, so only the owner may read it.
        mode_t mask = umask(077);
        if (!path_.empty()) history(history_, &event, H_SAVE, path_.c_str());
        umask(mask);
        history_end(history_);
        el_end(editor_);
    }
    Editor(const Editor&) = delete;
    Editor& operator=(const Editor&) = delete;

    // Returns nullptr at the end of the input.
    const char* line() {
        int length = 0;
        const char* text = el_gets(editor_, &length);
        HistEvent event;
        if (text != nullptr && length > 1) history(history_, &event, H_ENTER, text);
        return text;
    }

  private:
    const std::string path_ = history_path();
    EditLine* editor_;
    History* history_;
};

void shell(Context& context) {
    context.shell = true;
    if (!isatty(STDIN_FILENO)) {
        std::string line;
        while (std::getline(std::cin, line) && run_line(context, line)) {
        }
        return;
    }
    if (context.client() == nullptr) return;  // report the error now, not at the first command
    std::printf("%u partition%s; 'help' lists the commands, 'exit' ends\n", context.client()->partitions(),
                context.client()->partitions() == 1 ? "" : "s");
    Editor editor;
    for (const char* line; (line = editor.line()) != nullptr && run_line(context, line);) {
    }
}

}  // namespace

void add_shell(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("shell", "Commands line by line, on one connection");
    command->callback([&context] { shell(context); });
}

}  // namespace wss::kvctl
