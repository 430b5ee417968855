// SPDX-License-Identifier: Apache-2.0
// The key-value client for C++ programs.
//
// Requests are objects of the caller: fill one in, submit() it, and `done` is called when it has ended. A
// reused request keeps its memory, so a steady load allocates nothing. There are three ways to run a request:
//
//   Client         has threads of its own. Any thread may call submit(); `done` is called on one of the
//                  client's threads.
//   Client::run()  the same, and waits.
//   LocalClient    has no thread. run() runs the reactor in the calling thread until the request has ended.
//                  This is the fastest way for a thread that does nothing else.
//
// Several clients of a process can share an address cache (Options::shared).
//
// Errors. Request::status is ok, or:
//
//   kInvalid      the request exceeds a limit
//   kUnavailable  a partition could not be reached in time
//   kTimedOut     the request did not end in time
//   kIo           a partition cannot write its log; it refuses writes until it is restarted
//   kExhausted    the server's memory is full: writes fail, reads still work
//   kRefused      a condition does not hold, or a lock could not be obtained
//   kPermission   the client lacks a right to a key, or to read one-sidedly or through rings
//   kUnsupported  a partition runs a version without conditions
//   kClosed       the client is closing
//
// A partition that is down fails only the requests that need it; the status has its name and address. A write
// that fails with `outcome_unknown` may still become visible, as a whole or not at all, within the
// termination time.
//
// Thread-safety: all methods of Client may be called from any thread; a LocalClient belongs to one thread. A
// request belongs to the client from submit() until `done` is called.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/kv/types.h"

namespace wss::kv {

class ClientSession;
class SharedState;  // the address cache that clients of a process share

constexpr uint32_t kAddressCacheMax = 1u << 26;

struct Options {
    // URIs of the partitions, in order of their index. One URI suffices: that server then sends the others.
    std::vector<std::string> partitions;
    Algorithm algorithm = Algorithm::kRampFast;
    Transport transport = Transport::kMessage;
    OneSided one_sided = OneSided::kOff;
    uint32_t threads = 1;                     // threads of a Client
    uint32_t sessions = 1;                    // sessions of a LocalClient; each has its own connections
    Nanoseconds timeout = from_s(10);         // limit of a request with all its rounds and retries
    Nanoseconds connect_timeout = from_s(5);  // limit at the start, until one partition has answered
    uint32_t address_cache = 1u << 16;        // entries (keys); 0: no cache
    uint32_t lock_retries = 1000;             // retries of a locking write, each after a random wait
    // Monotonic reads across the transactions of a session (of a LocalClient, or of one thread of a Client).
    // Also covers the siblings that observed versions list. Bounded to 65536 keys: those with the oldest
    // versions are dropped. Works only with RAMP-Fast.
    bool session_order = false;
    std::shared_ptr<SharedState> shared;  // shared with another client of the same partitions
    // For tls:// addresses: the offered pre-shared key, and certificates.
    std::optional<NamedSecret> identity;
    fabric::tls::Files tls;
};

// Cost of reading one key, and the path taken.
struct Explain {
    Path path = Path::kNone;
    uint32_t rounds = 0;
    uint64_t bytes = 0;
};

// Base of all requests.
struct Request {
    enum class Kind : uint8_t { kGetAll, kPutAll, kPutIf, kScan, kInfo, kSnapshot };
    explicit Request(Kind of) : kind(of) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    virtual ~Request() = default;

    const Kind kind;
    Status status;
    uint32_t rounds = 0;   // messages or one-sided reads; the maximum over all keys
    uint32_t retries = 0;  // restarts of the whole transaction
    // Called once; may destroy or resubmit the request.
    void (*done)(Request& request) noexcept = nullptr;
    void* context = nullptr;  // the caller's

    // Used by the client while the request is in flight.
    Request* next = nullptr;
};

// Reads `items` as one transaction.
struct GetAll final : Request {
    GetAll() : Request(Kind::kGetAll) {}
    struct Item {
        std::string key;  // in
        bool found = false;
        Timestamp timestamp;  // the version's, even if it is a tombstone
        Timestamp expires;    // none: never
        std::string value;
        std::vector<uint64_t> siblings;  // fingerprints of the keys written together (RAMP-Fast)
        Explain explain;
    };
    std::vector<Item> items;
};

// Faults that tests inject into a write. They leave the state that a client leaves when it dies halfway.
// skip_prepare needs die_after_prepare: a client that commits a transaction that is not prepared everywhere
// breaks the protocol.
struct WriteFault {
    uint64_t skip_prepare = 0;  // bit i: send no prepare to the i-th participant
    uint64_t skip_commit = 0;   // bit i: send no commit to the i-th participant
    bool die_after_prepare = false;
};

// Writes `items` as one transaction: all become visible or none. If there are `conditions`, it writes only if
// all of them hold. Otherwise the status is kRefused and `failed_condition` is set. Conditions are checked
// together and hold until the write is visible: no other client writes their keys, or those of `items`, in
// between. Transactions with conditions on all versions that they have read are serializable with respect to
// each other. A transaction without items only checks.
//
// For a read-modify-write: get_all, expect_unchanged(), put_all, and start over if the put_all is refused
// (Redis: WATCH).
struct PutAll final : Request {
    PutAll() : Request(Kind::kPutAll) {}
    struct Item {
        std::string key;
        std::string value;
        bool remove = false;
    };
    struct Condition {
        std::string key;
        Timestamp expected;  // the version that must be the latest; none: the key must be absent
    };
    // Adds one condition for each key: that it is unchanged since `read`.
    void expect_unchanged(const GetAll& read);

    std::vector<Item> items;
    std::vector<Condition> conditions;  // each must have another key
    uint64_t ttl_ms = 0;                // 0: never; all items expire together; at most kTtlMax_ms
    Timestamp expires;                  // used if ttl_ms is 0: the time of expiry
    WriteFault fault;
    // Out.
    Timestamp timestamp;
    bool outcome_unknown = false;
    bool is_over = false;                    // `expires` is not after `timestamp`; nothing was written
    std::optional<size_t> failed_condition;  // the first condition found not to hold
    Timestamp present;                       // the latest version of its key; none: the key is absent
};

// Writes one key if a condition holds, atomically on its partition. The status is kRefused if it does not
// hold.
struct PutIf final : Request {
    PutIf() : Request(Kind::kPutIf) {}
    enum class Condition : uint8_t { kAbsent, kTimestamp };
    std::string key;
    std::string value;
    bool remove = false;
    uint64_t ttl_ms = 0;
    Condition condition = Condition::kAbsent;
    Timestamp expected;  // kTimestamp: the version that must be the latest
    // Out.
    Timestamp timestamp;  // that of the version that was (perhaps) written, or of the conflicting one
    bool outcome_unknown = false;
};

// One page of the keys with a prefix, in order of (partition, key). Pages are not one transaction; use
// get_all for that.
struct Scan final : Request {
    Scan() : Request(Kind::kScan) {}
    std::string prefix;
    uint32_t limit = 100;
    bool with_values = false;
    std::string cursor;  // in: "" to begin; out: where to continue, "" at the end
    struct Row {
        std::string key;
        std::string value;
        Timestamp timestamp;
        Timestamp expires;  // none: never
    };
    std::vector<Row> rows;
};

// Status and counters of one partition as JSON text.
struct Info final : Request {
    Info() : Request(Kind::kInfo) {}
    uint32_t partition = 0;
    std::string json;
};

// Every partition writes a read-atomic snapshot to a directory with the name `directory`, below the one that
// its operator configured.
struct Snapshot final : Request {
    Snapshot() : Request(Kind::kSnapshot) {}
    std::string directory;
    Timestamp timestamp;  // out: the snapshot holds all transactions up to and including it
};

struct Statistics {
    uint64_t get_all = 0, put_all = 0, failed = 0;
    uint64_t second_rounds = 0;   // get_alls that needed one
    uint64_t restarts = 0;        // transactions that started over, for any reason
    uint64_t lock_conflicts = 0;  // 2PL
    uint64_t messages = 0;
    uint64_t reads_one_sided = 0, reads_by_message = 0;  // number of keys
    uint64_t index_reads = 0;                            // buckets read after address-cache misses
    // Keys that could have been read one-sidedly but were read by message, by reason (Fallback).
    uint64_t fallback_no_address = 0, fallback_invalid = 0, fallback_stale = 0, fallback_torn = 0,
             fallback_large = 0, fallback_second_round = 0;
    uint64_t reconnects = 0;
    void add(const Statistics& other);
};

class Client {
  public:
    // Returns when one partition has answered, or an error with the reason why none has. Connections to the
    // other partitions are created on demand.
    static Result<std::unique_ptr<Client>> connect(const Options& options);
    ~Client();  // ends requests in flight with kClosed first
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void submit(Request& request) noexcept;
    void run(Request& request) noexcept;  // must not be called from `done`
    uint32_t partitions() const noexcept;
    uint32_t partition_of(std::string_view key) const noexcept;
    Statistics statistics();
    std::shared_ptr<SharedState> shared() const;

  private:
    class Worker;
    Client() = default;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::shared_ptr<SharedState> shared_;
};

class LocalClient {
  public:
    static Result<std::unique_ptr<LocalClient>> connect(const Options& options);
    ~LocalClient();
    LocalClient(const LocalClient&) = delete;
    LocalClient& operator=(const LocalClient&) = delete;

    // Starts a request without waiting; poll() makes progress. `done` is called from within poll(), run() or
    // submit().
    void submit(Request& request, uint32_t session = 0) noexcept;
    size_t poll() noexcept;
    // The same as poll(), but waits if there is nothing to do. Call it only while a request is in flight.
    void turn() noexcept;
    // For callers that submit requests in a loop, when these requests end within submit(). It polls only
    // occasionally, so that the client detects lost connections.
    void maybe_poll() noexcept;
    void run(Request& request) noexcept;
    uint32_t partitions() const noexcept;
    uint32_t sessions() const noexcept;
    uint32_t partition_of(std::string_view key) const noexcept;
    const Statistics& statistics() const noexcept;
    std::shared_ptr<SharedState> shared() const;

  private:
    struct Parts;
    LocalClient();
    std::unique_ptr<Parts> parts_;
};

}  // namespace wss::kv
