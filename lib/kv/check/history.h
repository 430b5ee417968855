// SPDX-License-Identifier: Apache-2.0
// Histories: the reads and writes of sessions, one operation per line, in the format that independent
// isolation checkers read:
//
//   r(key,value,session,txn)   w(key,value,session,txn)
//
// All fields are decimal integers, and not negative except for a txn of -1. A value is the version's
// timestamp, unique for a key; 0 is "no version yet". The lines of a session are in the order of its
// operations. Transaction numbers are unique; a write with txn -1 was aborted.
//
// check_history() decides from such a file alone whether the history is Read Atomic. The committed
// transactions must have an order that extends each session's order and the reads-from relation. This order
// must exclude one case: a transaction reads a version of x from T1, although T2, which also wrote x, comes
// after T1, and T2 precedes the reader in its session or was read by it (Biswas and Enea, "On the complexity
// of checking transactional consistency"). This takes time linear in the size of the history, except for
// hashing.
//
// With `conditions`, a transaction that reads and writes has conditions on what it reads, as write_if()
// records them. Such transactions must also have an order in which each finds the versions that it expected
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

// Numbers of sessions. Those from kInitialSessions on contain what a process found at its start, as if they
// had written it. Those from kUnknownSessions on contain one write of unknown outcome each: with txn -1 if
// the process never read it.
constexpr uint64_t kInitialSessions = uint64_t{1} << 12;
constexpr uint64_t kUnknownSessions = uint64_t{1} << 32;

// Suffix of an incomplete history. A killed process leaves a file with this suffix.
constexpr std::string_view kPartialSuffix = ".partial";

// Thread-safety: all methods of HistoryFile may be called from any thread; a HistorySession belongs to one
// thread.
class HistoryFile {
  public:
    // A regular file has the suffix kPartialSuffix until close() renames it.
    static Result<std::unique_ptr<HistoryFile>> create(const std::string& path);
    ~HistoryFile();
    Status append(std::span<const Operation> operations);
    // Returns ok when all operations are in the file, otherwise the first error, even of an earlier append().
    Status close();

  private:
    HistoryFile(std::FILE* file, std::string path, std::string written)
        : file_(file), path_(std::move(path)), written_(std::move(written)) {}
    std::mutex mutex_;  // protects file_ and status_
    std::FILE* file_;
    const std::string path_, written_;  // final name; name until close()
    Status status_;
};

class HistorySession {
  public:
    struct Item {
        uint64_t key = 0, value = 0;
    };
    // `number` is unique among the file's sessions.
    HistorySession(HistoryFile& file, uint64_t number) : file_(file), number_(number) {}
    void read(std::span<const Item> items) { add(false, items, false); }
    void write(std::span<const Item> items, bool aborted = false) { add(true, items, aborted); }
    // A committed write and the versions that its conditions expected.
    void write_if(std::span<const Item> expected, std::span<const Item> items);
    // A write of unknown outcome. The session buffers it and all later operations until resolve() reports the
    // outcome.
    size_t write_unknown(std::span<const Item> items);
    void resolve(size_t unknown, bool committed);
    Status flush();

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
    // Written by a process that was killed: the end of each session may be missing.
    bool is_partial = false;
};
// An incomplete last line makes the history partial and is left out.
Result<History> parse_history(std::string_view text, const std::string& name);
// A file named with kPartialSuffix is partial too.
Result<History> read_history(const std::string& path);

// Joins the histories of several processes that used the same keys. A write of unknown outcome is committed
// if any process has read it. A version that a process found at its start is left out if one of the histories
// has its writer.
History merge_histories(std::vector<History> histories);

struct CheckResult {
    uint64_t transactions = 0, operations = 0;
    uint64_t unexplained = 0;  // reads of a partial history that lacks their writer
    // Empty: the history is Read Atomic.
    std::vector<std::string> violations;
};
CheckResult check_history(const History& history, bool conditions = false);

}  // namespace wss::kv::check
