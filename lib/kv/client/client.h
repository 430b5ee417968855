// SPDX-License-Identifier: Apache-2.0
// The key-value client: what programs use.
//
// Requests are objects of the caller's: fill in, submit(), hear `done`. A request that is used again keeps
// its memory, so that a steady load allocates nothing. Three ways to run one:
//
//   Client      threads of its own; submit() from any thread, `done` is called on one of the client's
//   threads. Client::run()  the same, and waits. LocalClient    no thread: run() turns the calling thread's
//   own reactor until the request is over. The
//                  fastest way for a thread that does nothing else.
//
// Several clients of a process share what they know of addresses (Options::shared).
//
// Errors. Request::status is ok, or: kInvalid (the request breaks a limit), kUnavailable (a partition could
// not be reached in time), kTimedOut, kExhausted (the server's memory is full: writes fail, reads go on),
// kRefused (a condition does not hold; a lock was not to be had), kUnsupported (a partition runs a version
// that knows no conditions), kClosed (the client is closing). A
// partition that is down fails the requests that touch it, with its name and address, and no others. A write
// that fails with `outcome_unknown` may still become visible, as a whole or not at all, within the
// termination time.
//
// Thread-safety: Client all methods; LocalClient belongs to one thread. A request belongs to the client from
// submit() until `done` is called.
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

class Session;
class SharedState;  // address cache and partition map that clients of a process share

constexpr uint32_t kAddressCacheMax = 1u << 26;

struct Options {
    // URIs of the partitions, in order of their index; one URI is enough when that server knows the others.
    std::vector<std::string> partitions;
    Algorithm algorithm = Algorithm::kRampFast;
    Transport transport = Transport::kMessage;
    OneSided one_sided = OneSided::kOff;
    uint32_t threads = 1;                     // of a Client
    uint32_t sessions = 1;                    // of a LocalClient, each with connections of its own
    Nanoseconds timeout = from_s(10);         // of a request, all rounds and retries
    Nanoseconds connect_timeout = from_s(5);  // until a partition has answered, at start
    uint32_t address_cache = 1u << 16;        // keys whose addresses are remembered; 0: of none
    uint32_t lock_retries = 1000;             // of kLockParallel, each after a random wait
    // Monotonic reads across the transactions of a session (a LocalClient's, a thread's of a Client), also of
    // keys that a version seen names as its siblings: of 65536 keys, those seen last. RAMP-Fast only.
    bool session_order = false;
    std::shared_ptr<SharedState> shared;  // of another client with the same partitions
    // For tls:// addresses: the pre-shared key that is offered, and certificates.
    std::optional<NamedSecret> identity;
    fabric::tls::Files tls;
};

// What a request costs, and why.
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
    uint32_t rounds = 0;   // of messages or one-sided reads, the most that any key needed
    uint32_t retries = 0;  // of the whole transaction
    // Called once; may destroy or resubmit the request.
    void (*done)(Request& request) noexcept = nullptr;
    void* context = nullptr;  // the caller's

    // The client's while the request is under way.
    Request* next = nullptr;
};

// Reads `items` as one transaction.
struct GetAll final : Request {
    GetAll() : Request(Kind::kGetAll) {}
    struct Item {
        std::string key;  // in
        bool found = false;
        Timestamp timestamp;  // of the version, also when that says "deleted"
        Timestamp expires;    // none: never
        std::string value;
        std::vector<uint64_t> siblings;  // fingerprints of the keys that were written together (RAMP-Fast)
        Explain explain;
    };
    std::vector<Item> items;
};

// What tests do to a write: a client that dies half-way leaves exactly this behind. With skip_prepare goes
// die_after_prepare: a client that commits what is not prepared everywhere breaks the protocol.
struct WriteFault {
    uint64_t skip_prepare = 0;  // bit i: the i-th partition taking part gets no prepare
    uint64_t skip_commit = 0;   // bit i: … no commit
    bool die_after_prepare = false;
};

// Writes `items` as one transaction: all become visible or none. With `conditions` only if all of them hold;
// kRefused and `failed_condition` when one does not. They are checked together, and hold until the write is
// visible: nobody writes their keys, or those of `items`, in between. Transactions that have conditions on
// all that they have read are serializable among each other. A transaction without items only checks.
//
// To write what was computed from what was read: get_all, expect_unchanged(), put_all; from the start again
// where that is refused (what Redis calls WATCH).
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
    // Adds the conditions that the keys are as they were read.
    void expect_unchanged(const GetAll& read);

    std::vector<Item> items;
    std::vector<Condition> conditions;  // of distinct keys
    uint64_t ttl_ms = 0;                // 0: never; all items expire together; at most kTtlMax_ms
    Timestamp expires;                  // instead of ttl_ms: the moment
    WriteFault fault;
    // Out.
    Timestamp timestamp;
    bool outcome_unknown = false;
    bool is_over = false;                    // `expires` is not after `timestamp`: nothing was written
    std::optional<size_t> failed_condition;  // the first that was found not to hold
    Timestamp present;                       // of its key: the version that there is; none: it is absent
};

// Writes one key if a condition holds; atomic on its partition. kRefused when it does not hold.
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
    Timestamp timestamp;  // of what was written, or may have been, or of what stands in the way
    bool outcome_unknown = false;
};

// One page of keys by prefix, in order of (partition, key). Pages are not one transaction: read the keys with
// get_all for that.
struct Scan final : Request {
    Scan() : Request(Kind::kScan) {}
    std::string prefix;
    uint32_t limit = 100;
    bool with_values = false;
    std::string cursor;  // in: "" to begin; out: where to go on, "" at the end
    struct Row {
        std::string key;
        std::string value;
        Timestamp timestamp;
        Timestamp expires;  // none: never
    };
    std::vector<Row> rows;
};

// What one partition says about itself, as JSON text.
struct Info final : Request {
    Info() : Request(Kind::kInfo) {}
    uint32_t partition = 0;
    std::string json;
};

// Every partition writes a read-atomic snapshot below `directory` on its host.
struct Snapshot final : Request {
    Snapshot() : Request(Kind::kSnapshot) {}
    std::string directory;
    Timestamp timestamp;  // out: what the snapshot holds, up to and including
};

struct Statistics {
    uint64_t get_all = 0, put_all = 0, failed = 0;
    uint64_t second_rounds = 0;   // get_all that needed one
    uint64_t restarts = 0;        // transactions begun anew: a version was gone, or the window passed
    uint64_t lock_conflicts = 0;  // 2PL
    uint64_t messages = 0;
    uint64_t reads_one_sided = 0, reads_by_message = 0;  // of keys
    uint64_t index_reads = 0;                            // of buckets, where an address was not known
    // Why a key that could have been read one-sided was asked for by a message.
    uint64_t fallback_cold = 0, fallback_invalid = 0, fallback_stale = 0, fallback_torn = 0,
             fallback_large = 0, fallback_second_round = 0;
    uint64_t reconnects = 0;
    void add(const Statistics& other);
};

class Client {
  public:
    // Returns when a partition has answered, or why none has. The others are connected when they are needed.
    static Result<std::unique_ptr<Client>> connect(const Options& options);
    ~Client();  // requests under way end with kClosed first
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void submit(Request& request) noexcept;
    void run(Request& request) noexcept;  // not from `done`
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

    // Starts without waiting; poll() makes it go on. `done` is called from within poll(), run() or submit().
    void submit(Request& request, uint32_t session = 0) noexcept;
    size_t poll() noexcept;
    // As poll(), and waits where there is nothing to do. Only while a request is under way.
    void turn() noexcept;
    // For a loop of requests that end within submit(): a turn now and then, so that it notices what happens.
    void breathe() noexcept;
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
