// SPDX-License-Identifier: Apache-2.0
// EngineLink: the storage engine's (SE's) end of the connection to one cache engine (CE).
//
// It accepts Transfers (a move between an arena slot and memory of a client or of the SE, a header, a wipe,
// an operation of real storage) and assigns an id to each. It sends the transfers of one turn in one message,
// and reports how each ended. When a CE is lost, its connection is closed first, and then all its transfers
// end with kFailed. So the CE can no longer access memory of the SE.
//
// Thread-safety: belongs to the cache's reactor. Nothing is allocated per transfer.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/list.h"
#include "lib/cache/engine/record_link.h"
#include "lib/cache/types.h"
#include "lib/fabric/fabric.h"
#include "lib/wire/cache.h"
#include "target/auth/auth.h"
#include "target/cache/buffer_regions.h"

namespace wss::cache {

constexpr uint32_t kTransfersPerEngine = 1024;

// One operation of a CE. The owner fills in the first part and keeps the object in place until `done` is
// called.
struct Transfer : ListNode<> {
    enum class Kind : uint8_t { kMove, kHeader, kWipe, kStorage };
    using Done = void (*)(Transfer& transfer, wire::CacheStatus status) noexcept;

    Kind kind = Kind::kMove;
    wire::CacheMove move;        // kHeader: arena slot and header; kWipe: arena slot
    wire::CacheStorage storage;  // kStorage, an operation of a storage process (RS)
    Done done = nullptr;
    void* context = nullptr;

    bool under_way = false;
    Nanoseconds seen = kNever;  // when a tick first found it in flight
    int error = 0;              // errno of a failure of the RS's storage
};

class EngineLink;

class EngineLinkOwner {
  public:
    // The engine has authenticated. Returns the reason why it may not join, or an empty string. The link
    // sends the reason to the engine.
    virtual std::string engine_limit(const EngineLink& engine) = 0;
    // The engine has authenticated and may join: call admit() or close().
    virtual void engine_proven(EngineLink& engine) noexcept = 0;
    virtual void engine_ready(EngineLink& engine) noexcept = 0;
    virtual void engine_item(EngineLink& engine, const wire::CacheHeader& item) noexcept = 0;
    virtual void client_attached(EngineLink& engine, uint64_t handle) noexcept = 0;
    virtual void client_detached(EngineLink& engine, uint64_t handle) noexcept = 0;
    // The engine has processed the grant of this notice: the client may connect.
    virtual void grant_known(EngineLink& engine, const wire::CacheEngineNotice& notice) noexcept = 0;
    virtual void engine_wants_to_leave(EngineLink& engine) noexcept = 0;
    // Real storage has closed its connection to the engine, which was announced to it with this handle.
    virtual void engine_gone(EngineLink& storage, uint64_t handle) noexcept = 0;
    // state_of() has changed since the storage became ready.
    virtual void volume_state_changed(EngineLink& storage) noexcept = 0;
    // The link is lost. Its outstanding transfers are reported after this call returns. No other call
    // follows. The link is destroyed when it has reported its transfers.
    virtual void engine_over(EngineLink& engine, const Status& why) noexcept = 0;

  protected:
    ~EngineLinkOwner() = default;
};

class EngineLink final : private RecordLinkOwner {
  public:
    struct Identity {
        EngineIndex index;
        Via via;
        uint64_t identity = 0;
        uint64_t memory = 0;
        uint32_t incarnation = 0;
        bool kept = false;  // its contents are valid
        // The engine holds lost lines (losses.h). Its other contents are not valid, and it is not a member.
        bool returned = false;
    };

    struct Applicant {
        size_t net = 0;
        wire::CacheJoin join;
    };

    EngineLink(EngineLinkOwner& owner, const Applicant& applicant) : owner_(owner), applicant_(applicant) {}

    Status accept(fabric::ConnectRequest& request, fabric::Fabric& fabric, fabric::Poller& poller,
                  const Identity& identity, const wire::CacheWelcome& welcome);
    // Accepts the connection, and authenticates the engine first. The engine is admitted by admit(), after
    // engine_proven().
    Status ask_for_proof(fabric::ConnectRequest& request, fabric::Fabric& fabric, fabric::Poller& poller,
                         std::shared_ptr<const auth::SecretBook> secrets);
    void admit(const Identity& identity, const wire::CacheWelcome& welcome);

    // Never fails. A transfer to an engine that is lost ends with kFailed during turn().
    void submit(Transfer& transfer) noexcept;
    // grant_known() follows, unless the engine is lost.
    void grant(const wire::CacheEngineNotice& notice) noexcept;
    void revoke(uint64_t handle) noexcept;
    // Only for real storage with staging buffers: requests that the storage connects to the engine that the
    // notice names, or disconnects from that engine. engine_gone() follows when that connection has ended.
    void name_engine(const wire::CacheEngineNotice& notice) noexcept;
    // The engine may erase its contents from now on.
    void say_goodbye() noexcept;
    // Flushes completions: requests that the engine reports completed operations now, and those in flight as
    // soon as they complete.
    void flush_completions() noexcept;
    void close(Status why) noexcept { link_->close(std::move(why)); }
    // True if requests for this volume of real storage are unanswered.
    bool has_requests_of(uint32_t volume) noexcept;
    size_t turn() noexcept;
    // Pings the engine. Closes the link if the engine is silent for longer than `limit` while an answer is
    // due, or if it answers pings but does not complete in time an operation that depends on no other node.
    void tick(Nanoseconds now, Nanoseconds limit) noexcept;

    const Applicant& applicant() const noexcept { return applicant_; }
    // True for real storage: it has volumes, no lines, and is not a member.
    bool is_storage() const noexcept { return applicant_.join.is_storage; }
    const std::vector<wire::CacheVolume>& volumes() const noexcept { return volumes_; }
    // Returns nullptr if this storage has no volume with this number, or does not report states.
    const wire::CacheVolumeState* state_of(uint32_t number) const noexcept;
    // Staging buffers of real storage; no bytes if it lends none.
    const wire::CacheStaging& staging() const noexcept { return staging_; }
    // Has no index until the engine is admitted.
    const Identity& identity() const noexcept { return identity_; }
    EngineIndex index() const noexcept { return identity_.index; }
    bool is_ready() const noexcept { return ready_ && !released_ && link_->is_up(); }
    bool is_over() const noexcept { return over_ && refused_.empty() && queue_.empty() && outstanding_ == 0; }
    uint32_t slots() const noexcept { return slots_; }
    uint32_t outstanding() const noexcept { return outstanding_; }
    uint32_t coalesced() const noexcept { return coalesced_; }
    std::string peer() const { return link_ ? link_->peer() : std::string(); }
    const std::vector<fabric::Address>& addresses() const noexcept { return addresses_; }
    uint64_t bytes_to_clients() const noexcept { return bytes_to_clients_; }
    bool leaving() const noexcept { return leaving_; }
    void mark_leaving() noexcept { leaving_ = true; }

  private:
    bool link_up(RecordLink&, std::span<const std::byte>) noexcept override { return true; }
    bool record(RecordLink&, const wire::Record& record) noexcept override;
    void operation_over(RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(RecordLink&, const Status& why) noexcept override;
    Status open(fabric::ConnectRequest& request, fabric::Fabric& fabric, fabric::Poller& poller,
                wire::Bytes answer);
    void begin(const Identity& identity, const wire::CacheWelcome& welcome);
    bool prove(const wire::Record& record) noexcept;
    bool take_offer(const wire::Record& record);
    bool take_state(const wire::Record& record);
    bool take_item(const wire::Record& record) noexcept;
    bool take_slots(const wire::Record& record) noexcept;
    bool violates(std::string why) noexcept;
    bool done(const wire::Record& record, wire::CacheStatus status, int error) noexcept;
    void pong(uint32_t id) noexcept;
    void send(Transfer& transfer) noexcept;

    EngineLinkOwner& owner_;
    const Applicant applicant_;
    std::unique_ptr<auth::Authenticator> auth_;  // until the engine has authenticated
    Identity identity_;                          // set when it is admitted
    std::unique_ptr<RecordLink> link_;
    std::vector<Transfer*> by_id_;
    std::vector<uint32_t> free_ids_;
    List<Transfer> queue_;    // wait for a free id
    List<Transfer> refused_;  // transfers that will end with kFailed
    uint32_t outstanding_ = 0;
    uint32_t coalesced_ = 0;  // outstanding moves with coalesced completion
    std::vector<fabric::Address> addresses_;
    std::vector<wire::CacheVolume> volumes_;
    std::vector<wire::CacheVolumeState> states_;  // at most one per number in volumes_
    wire::CacheStaging staging_;
    uint64_t slots_max_ = 0;  // number of arena slots of the memory that the join offered
    uint64_t next_item_ = 0;  // items come in ascending order of arena slots, each once
    uint32_t slots_ = 0;
    bool ready_ = false, leaving_ = false, released_ = false, over_ = false;
    uint64_t bytes_to_clients_ = 0;
    Nanoseconds asked_since_ = kNever;
    uint64_t heard_ = 0;
    std::deque<wire::CacheEngineNotice> granted_;  // not yet confirmed by the engine, in order
};

}  // namespace wss::cache
