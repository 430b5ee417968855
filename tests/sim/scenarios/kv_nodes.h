// SPDX-License-Identifier: Apache-2.0
// The processes of scenario "kv": a partition, and a client that runs random transactions and has them
// checked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/kv/check/checker.h"
#include "lib/kv/client/session.h"
#include "lib/kv/service/service.h"
#include "lib/kv/store/memory_log.h"
#include "tests/sim/scenarios/kv.h"

namespace wss::sim {

// The wall clock of a node.
class SimWallClock final : public kv::WallClock {
  public:
    explicit SimWallClock(Node& node) : node_(node) {}
    uint64_t unix_us() noexcept override {
        return kv::kTicksEpoch_us + 1'000'000'000'000 +
               static_cast<uint64_t>(node_.clock().now().count / 1000);
    }

  private:
    Node& node_;
};

class KvPartition {
  public:
    KvPartition(Node& node, uint32_t index, const KvOptions& options, std::vector<std::string> map,
                kv::store::Log& log);
    ~KvPartition();
    Status start();
    void stop();
    bool stopped() const { return service_ == nullptr || stopped_; }
    bool calm();  // serves, and has no undecided transaction
    bool sleeps_on_frame();
    kv::Service* service() { return service_.get(); }

  private:
    Node& node_;
    const uint32_t index_;
    const KvOptions& options_;
    const std::vector<std::string> map_;
    kv::store::Log& log_;
    SimWallClock wall_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::shared_ptr<kv::Lane> lane_;
    std::unique_ptr<kv::Service> service_;
    bool stopped_ = false;
};

// State that all clients share.
struct KvShared {
    explicit KvShared(const KvOptions& of) : options(of), checker(checker_options(of)) {}
    static kv::check::CheckerOptions checker_options(const KvOptions& options);
    const KvOptions& options;
    kv::check::Checker checker;
    uint64_t begun = 0, ended = 0, failed = 0, unknown = 0, reads = 0, writes = 0;
    uint64_t second_rounds = 0, one_sided = 0, conditions_won = 0, conditions_lost = 0;
    bool healed = false;
    Nanoseconds healed_at = kNever;  // the faults have ended, and so have their effects
    std::string failure;
    void fail(std::string why) {
        if (failure.empty()) failure = std::move(why);
    }
};

class KvClient {
  public:
    KvClient(Node& node, std::vector<std::string> map, kv::Algorithm algorithm, KvShared& shared);
    ~KvClient();
    void start();
    bool begin_one();
    bool ready() const { return ready_; }
    bool needs_restart() const { return failed_; }
    uint32_t under_way() const { return under_way_; }
    void close();
    bool sleeps_on_frame();
    bool closed() const { return session_->closed(); }
    // The node has lost power: the outcome of its writes stays unknown.
    void died();

  private:
    struct Transaction {
        KvClient* client = nullptr;
        bool used = false, writing = false;
        Nanoseconds begun{};
        kv::GetAll get;
        kv::PutAll put;
        kv::PutIf put_if;
        bool conditional = false;  // put_if
        bool updating = false;     // reads, and then writes if no key has changed
        std::vector<kv::check::Expected> expected;
        kv::check::Writer writer;
        std::vector<uint64_t> prints;
        std::vector<kv::Timestamp> floors;
        std::unique_ptr<kv::check::CheckerSession> checker;
    };
    void choose(Transaction& transaction);
    void begin_put(Transaction& transaction);
    void begin_update(Transaction& transaction);
    void stamp_put(Transaction& transaction);
    void begin_get(Transaction& transaction);
    void note_floors(Transaction& transaction);
    void put_over(Transaction& transaction);
    void begin_put_if(Transaction& transaction);
    void put_if_over(Transaction& transaction);
    void write_over(Transaction& transaction, kv::check::Outcome outcome, bool promised,
                    const Status& status);
    void get_over(Transaction& transaction);
    void check_read(Transaction& transaction);

    Node& node_;
    KvShared& shared_;
    SimWallClock wall_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<kv::Lane> lane_;
    std::unique_ptr<kv::ClientSession> session_;
    Random random_;
    std::vector<std::unique_ptr<Transaction>> transactions_;
    std::vector<std::string> keys_;                  // scratch
    std::map<std::string, kv::Timestamp> versions_;  // latest version of each key that this client has read
    uint32_t under_way_ = 0;
    bool ready_ = false, failed_ = false;
};

}  // namespace wss::sim
