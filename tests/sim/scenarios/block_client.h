// SPDX-License-Identifier: Apache-2.0
// An initiator process of a simulated node, with its random operations. The SectorModel that all clients
// share checks what it reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/sim/sim_fabric.h"
#include "lib/initiator/session.h"
#include "tests/sim/checkers/sector_model.h"

namespace wss::sim {

// State that all clients share.
struct BlockShared {
    explicit BlockShared(uint64_t sectors) : model(sectors) {}
    SectorModel model;
    uint64_t next_id = 1;
    uint64_t begun = 0, ended = 0, failed = 0, reconnects = 0;
    Nanoseconds newest_success{};  // latest start of a successful operation other than a flush
    std::string failure;           // the first failed check

    void fail(std::string why) {
        if (failure.empty()) failure = std::move(why);
    }
};

class BlockClient final : public initiator::SessionHandler {
  public:
    BlockClient(Node& node, const fabric::SimNetwork& network, const std::string& target, uint32_t depth,
                BlockShared& shared);
    ~BlockClient() override;

    // Sets the name of the volume to open, instead of "disk". Call before start().
    void use_volume(std::string name) { volume_name_ = std::move(name); }
    // After this call, half of the operations start and end at multiples of this number of sectors.
    void align(uint64_t sectors) { align_ = sectors; }
    void start();
    void close();
    bool closed() const { return closed_; }
    // The volume is open and the session live: operations that begin now should succeed.
    bool live() const { return volume_ != nullptr && session_->state() == initiator::Session::State::kLive; }
    uint32_t under_way() const { return under_way_; }
    // Begins one random operation. Returns false if none can begin now.
    bool begin_one();
    // Begins this operation on existing sectors.
    bool begin(initiator::Operation operation, uint64_t first, uint64_t count);
    bool begin_read(uint64_t first, uint64_t count) {
        return begin(initiator::Operation::kRead, first, count);
    }
    // The outcome of the operation that ended last.
    initiator::Outcome last_outcome() const { return last_outcome_; }

    void on_ready(initiator::Session& session) noexcept override;
    void on_failed(initiator::Session& session, const Status& why) noexcept override;
    void on_closed(initiator::Session& session) noexcept override;

  private:
    struct Io {
        initiator::Request request;
        BlockClient* client = nullptr;
        bool used = false;
        uint64_t first = 0, count = 0, id = 0, flush_token = 0;
        Nanoseconds begun{};
        std::vector<std::byte> bytes;
        iovec buffer{};
    };
    // A write whose outcome is unknown: it may still take effect until this client has a new session.
    struct Zombie {
        uint64_t first, count, id;
    };

    static void done(initiator::Request& request, void* context) noexcept;
    void create_session();
    void choose(Io& io);
    bool prepare(Io& io);
    bool begin(Io& io);
    void ended(Io& io);
    void change_ended(Io& io);
    void read_ended(Io& io);
    void release_zombies();

    Node& node_;
    BlockShared& shared_;
    const std::string target_;
    std::string volume_name_ = "disk";
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    Random random_;
    std::vector<Io> ios_;
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
