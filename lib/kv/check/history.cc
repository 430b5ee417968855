// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/check/history.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <iterator>
#include <utility>

namespace wss::kv::check {

constexpr size_t kLinesKept = 4096;
// A transaction number has the session number in the upper bits and the number within the session in the
// lower ones. So it is unique, and positive as a signed number.
constexpr int kTransactionBits = 40;

Result<std::unique_ptr<HistoryFile>> HistoryFile::create(const std::string& path) {
    struct stat there {};
    const bool is_regular = stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode);
    const std::string written = is_regular ? path + std::string(kPartialSuffix) : path;
    std::FILE* file = std::fopen(written.c_str(), "we");
    if (file == nullptr) return Status::from_errno(errno, "history " + written);
    return std::unique_ptr<HistoryFile>(new HistoryFile(file, path, written));
}

HistoryFile::~HistoryFile() {
    if (file_ != nullptr) std::fclose(file_);
}

Status HistoryFile::append(std::span<const Operation> operations) {
    std::string text;
    for (const Operation& o : operations)
        fmt::format_to(std::back_inserter(text), "{}({},{},{},{})\n", o.write ? 'w' : 'r', o.key, o.value,
                       o.session, o.txn);
    std::lock_guard lock(mutex_);
    if (!status_) return status_;
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size())
        status_ = Status::from_errno(errno, "writing the history");
    return status_;
}

Status HistoryFile::close() {
    std::lock_guard lock(mutex_);
    if (file_ == nullptr) return status_;
    if (std::fclose(std::exchange(file_, nullptr)) != 0 && status_)
        status_ = Status::from_errno(errno, "writing the history");
    if (status_ && written_ != path_ && std::rename(written_.c_str(), path_.c_str()) != 0)
        status_ = Status::from_errno(errno, "naming the history " + path_);
    return status_;
}

void HistorySession::add_lines(bool write, std::span<const Item> items, int64_t txn) {
    for (const Item& item : items) lines_.push_back({write, item.key, item.value, number_, txn});
}

void HistorySession::add(bool write, std::span<const Item> items, bool aborted) {
    add_lines(write, items, aborted ? -1 : next_transaction());
    flush_some();
}

void HistorySession::write_if(std::span<const Item> expected, std::span<const Item> items) {
    const int64_t txn = next_transaction();
    add_lines(false, expected, txn);
    add_lines(true, items, txn);
    flush_some();
}

int64_t HistorySession::next_transaction() {
    return static_cast<int64_t>(number_ << kTransactionBits) + transactions_++;
}

void HistorySession::flush_some() {
    if (lines_.size() >= kLinesKept && unknown_.empty()) (void)flush();  // HistoryFile keeps the error
}

size_t HistorySession::write_unknown(std::span<const Item> items) {
    unknown_.push_back({lines_.size(), items.size(), false});
    add(true, items, false);
    return unknown_.size() - 1;
}

void HistorySession::resolve(size_t unknown, bool committed) {
    Unknown& which = unknown_[unknown];
    which.resolved = true;
    // The client gave up, and the partitions decided the write later. It becomes a session of its own, which
    // has no later operations.
    for (size_t i = 0; i < which.count; ++i) {
        lines_[which.first + i].session = (number_ + 1) * kUnknownSessions | unknown;
        if (!committed) lines_[which.first + i].txn = -1;
    }
}

Status HistorySession::flush() {
    for (const Unknown& unknown : unknown_)
        if (!unknown.resolved) return Status(Code::kBusy, "a write of unknown outcome has not been resolved");
    unknown_.clear();
    Status written = file_.append(lines_);
    lines_.clear();
    return written;
}

// Parses a number and the character after it.
template <typename T>
static bool take_number(std::string_view& line, char after, T& value) {
    auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end == line.data() + line.size() || *end != after) return false;
    line.remove_prefix(static_cast<size_t>(end - line.data()) + 1);
    return true;
}

static bool parse_line(std::string_view line, Operation& out) {
    if (line.size() < 2 || (line[0] != 'r' && line[0] != 'w') || line[1] != '(') return false;
    out.write = line[0] == 'w';
    line.remove_prefix(2);
    return take_number(line, ',', out.key) && take_number(line, ',', out.value) &&
           take_number(line, ',', out.session) && take_number(line, ')', out.txn) && line.empty() &&
           (out.txn >= 0 || (out.txn == -1 && out.write));
}

// True for the incomplete last line of a writer that was killed.
static bool is_cut_off(std::string_view line) {
    constexpr std::string_view kEmpty = "(,,,)";
    if (line[0] != 'r' && line[0] != 'w') return false;
    size_t at = 0;  // position in kEmpty
    for (char letter : line.substr(1)) {
        if (at < kEmpty.size() && letter == kEmpty[at])
            ++at;
        else if (at == 0 || at == kEmpty.size() || !((letter >= '0' && letter <= '9') || letter == '-'))
            return false;
    }
    return at < kEmpty.size();
}

Result<History> parse_history(std::string_view text, const std::string& name) {
    History history;
    const bool ends = text.empty() || text.back() == '\n';
    for (size_t number = 1; !text.empty(); ++number) {
        size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty()) continue;
        Operation operation;
        if (!parse_line(line, operation)) {
            history.is_partial = text.empty() && !ends && is_cut_off(line);
            if (history.is_partial) break;
            return failure(Code::kInvalid, "{}:{}: '{}' is neither r(key,value,session,txn) nor w(…)", name,
                           number, line.substr(0, 80));
        }
        history.operations.push_back(operation);
    }
    return history;
}

Result<History> read_history(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return Status::from_errno(errno, "history " + path);
    std::string text;
    char buffer[1 << 16];
    for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
    bool failed = std::ferror(file) != 0;
    std::fclose(file);
    if (failed) return Status(Code::kIo, "history " + path + " cannot be read completely");
    auto history = parse_history(text, path);
    if (history && path.ends_with(kPartialSuffix)) history->is_partial = true;
    return history;
}

}  // namespace wss::kv::check
