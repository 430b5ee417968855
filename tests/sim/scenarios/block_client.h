// SPDX-License-Identifier: Apache-2.0
// An initiator process of a simulated node, and the random work it does. What it reads is checked by the
// SectorModel that all clients share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/sim/sim_fabric.h"
#include "lib/initiator/session.h"
#include "tests/sim/checkers/sector_model.h"

namespace wss::sim {

// What all clients share.
struct BlockShared {
    explicit BlockShared(uint64_t sectors) : model(sectors) {}
    SectorModel model;
    uint64_t next_id = 1;
    uint64_t begun = 0, ended = 0, failed = 0, reconnects = 0;
    std::string failure;  // the first thing that did not hold

    void fail(std::string why) {
        if (failure.empty()) failure = std::move(why);
    }
};

class BlockClient final : public initiator::SessionHandler {
  public:
    BlockClient(Node& node, const fabric::SimNetwork& network, const std::string& target, uint32_t depth,
                BlockShared& shared);
    ~BlockClient() override;

    // Whose volume it opens, instead of "disk". Before start().
    void use_volume(std::string name) { volume_name_ = std::move(name); }
    // Half of what it begins from now on starts and ends at multiples of so many sectors.
    void align(uint64_t sectors) { align_ = sectors; }
    void start();
    void close();
    bool closed() const { return closed_; }
    // Its volume is open and its session live: what it begins now should succeed.
    bool live() const { return volume_ != nullptr && session_->state() == initiator::Session::State::kLive; }
    uint32_t under_way() const { return under_way_; }
    // Begins one random operation; false when none can begin now.
    bool begin_one();
    // Begins this one, on sectors that exist.
    bool begin(initiator::Operation operation, uint64_t first, uint64_t count);
    bool begin_read(uint64_t first, uint64_t count) {
        return begin(initiator::Operation::kRead, first, count);
    }
    // How the operation that ended last ended.
    initiator::Outcome last_outcome() const { return last_outcome_; }

    void on_ready(initiator::Session& session) noexcept override;
    void on_failed(initiator::Session& session, const Status& why) noexcept override;
    void on_closed(initiator::Session& session) noexcept override;

  private:
    struct Work {
        initiator::Request request;
        BlockClient* client = nullptr;
        bool used = false;
        uint64_t first = 0, count = 0, id = 0, flush_token = 0;
        Nanoseconds begun{};
        std::vector<std::byte> bytes;
        iovec buffer{};
    };
    // A write whose end we do not know: until this client has a new session it may still happen.
    struct Zombie {
        uint64_t first, count, id;
    };

    static void done(initiator::Request& request, void* context) noexcept;
    void create_session();
    void choose(Work& work);
    bool prepare(Work& work);
    bool begin(Work& work);
    void ended(Work& work);
    void change_ended(Work& work);
    void read_ended(Work& work);
    void release_zombies();

    Node& node_;
    BlockShared& shared_;
    const std::string target_;
    std::string volume_name_ = "disk";
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    Random random_;
    std::vector<Work> works_;
    std::unique_ptr<initiator::Session> session_;
    std::vector<Zombie> zombies_;
    initiator::Volume* volume_ = nullptr;
    uint64_t align_ = 1;
    uint64_t next_read_ = 0;
    uint32_t under_way_ = 0;
    initiator::Outcome last_outcome_ = initiator::Outcome::kOk;
    bool closed_ = false;
    bool closing_ = false;
    reactor::Timer retry_;
};

}  // namespace wss::sim
