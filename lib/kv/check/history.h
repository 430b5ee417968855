// SPDX-License-Identifier: Apache-2.0
// Histories: what sessions read and wrote, one operation a line, in the form that independent checkers of
// isolation read:
//
//   r(key,value,session,txn)   w(key,value,session,txn)
//
// non-negative decimal integers. A value is the version's timestamp, unique for a key; 0 is "no version yet".
// Lines of a session are in its order; transaction numbers are unique; a write with txn -1 was aborted.
//
// judge_history() decides Read Atomic from such a file alone: the committed transactions must have an order
// that extends each session's order and who-read-from-whom, such that no transaction reads a version of x
// from T1 while T2, which wrote x too, comes after T1 and is before the reader in its session or was read
// from by it (Biswas and Enea, "On the complexity of checking transactional consistency"). Linear in the size
// of the history but for hashing.
//
// With `conditions`, a transaction that reads and writes has conditions on what it reads, as write_if() notes
// them. Such transactions must have an order of their own, in which each finds what it expected
// (serial_order.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace wss::kv::check {

struct Operation {
    bool write = false;
    uint64_t key = 0, value = 0, session = 0;
    int64_t txn = 0;  // -1: an aborted write
    bool operator==(const Operation&) const = default;
};

// The name that a history has until all of it is there: what a process that was killed leaves behind.
constexpr std::string_view kPartialSuffix = ".partial";

// Thread-safety: HistoryFile all methods; a HistorySession belongs to one thread.
class HistoryFile {
  public:
    // A regular file is written under its name and kPartialSuffix until close().
    static Result<std::unique_ptr<HistoryFile>> create(const std::string& path);
    ~HistoryFile();
    Status append(std::span<const Operation> operations);
    // Everything is in the file. The first error of any append() is told here again.
    Status close();

  private:
    HistoryFile(std::FILE* file, std::string path, std::string written)
        : file_(file), path_(std::move(path)), written_(std::move(written)) {}
    std::mutex mutex_;  // protects the file and status_
    std::FILE* file_;
    const std::string path_, written_;  // at the end, and until then
    Status status_;
};

class HistorySession {
  public:
    struct Item {
        uint64_t key = 0, value = 0;
    };
    // `number` is unique among the sessions of the file.
    HistorySession(HistoryFile& file, uint64_t number) : file_(file), number_(number) {}
    void read(std::span<const Item> items) { add(false, items, false); }
    void write(std::span<const Item> items, bool aborted = false) { add(true, items, aborted); }
    // A committed write, with the versions that its conditions expected.
    void write_if(std::span<const Item> expected, std::span<const Item> items);
    // A write whose end is not known: it and what follows it are kept until resolve() has said what became of
    // it.
    size_t write_unknown(std::span<const Item> items);
    void resolve(size_t unknown, bool committed);
    Status flush();
    bool has_unknown() const { return !unknown_.empty(); }

  private:
    struct Unknown {
        size_t first, count;
        bool resolved;
    };
    void add(bool write, std::span<const Item> items, bool aborted);
    void add_lines(bool write, std::span<const Item> items, int64_t txn);
    int64_t next_transaction();
    void flush_some();
    HistoryFile& file_;
    const uint64_t number_;
    int64_t transactions_ = 0;
    std::vector<Operation> lines_;
    std::vector<Unknown> unknown_;
};

struct History {
    std::vector<Operation> operations;
    // Of a process that was killed: of each session the end may be missing.
    bool is_partial = false;
};
// A last line without its end makes a history a partial one, and is left out.
Result<History> parse_history(std::string_view text, const std::string& name);
// So does kPartialSuffix.
Result<History> read_history(const std::string& path);

struct Verdict {
    uint64_t transactions = 0, operations = 0;
    uint64_t unexplained = 0;  // reads of a partial history whose writer is not in it
    // Empty: the history is Read Atomic.
    std::vector<std::string> violations;
};
Verdict judge_history(const History& history, bool conditions = false);

}  // namespace wss::kv::check
