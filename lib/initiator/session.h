// SPDX-License-Identifier: Apache-2.0
// Session: one initiator's use of a target: connect, log in, find volumes, do I/O, reconnect after a loss.
//
//              start()               login granted              volumes known
//   idle ───────────────▶ connecting ─────────────▶ discovering ─────────────▶ live
//                            ▲  │ refused, lost          │ lost                  │ lost
//                            │  ▼                        ▼                       ▼
//                         waiting ◀──── all channels ended ──────────────── draining
//   any ──close()──▶ closing ──all channels ended──▶ closed     first connect fails: draining ──▶ closed
//
// Invariants
//  IS1  The state changes only in set_state(), according to the table there.
//  IS2  In `waiting`, `idle` and `closed` there is no channel, so no peer can access a user's buffer.
//  IS3  A request is in exactly one list: admin_, queue_, delayed_ or issued_, from submit() to its end.
//  IS4  Requests are sent only in `live`, after every open volume was looked up again by name *and* identity:
//       the target may have reassigned LUNs while it was away. Volumes that were not found are marked as
//       gone.
//  IS5  No wait is unbounded. Each request has a deadline, and once the target has been away for longer than
//       reconnect_timeout, requests fail at once until it returns. Attempts to reconnect continue.
//
// Time, random numbers and network come only from the reactor, `random` and the poller, so that a simulation
// can drive the session.
//
// Thread-safety: everything belongs to the reactor's thread. Lifetime: reactor, fabric, poller, random and
// handler outlive the session; the poller must be a source of the reactor before the session starts. Destroy
// only in `idle` or `closed`, and not from within a handler.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/initiator/channel.h"
#include "lib/initiator/discovery.h"
#include "lib/initiator/options.h"
#include "lib/initiator/payload.h"
#include "lib/initiator/request.h"
#include "lib/initiator/volume.h"
#include "lib/reactor/reactor.h"

namespace wss::initiator {

struct Disposition;
class Session;

// Receives the events of a session.
class SessionHandler {
  public:
    virtual ~SessionHandler() = default;
    // The session is live, for the first time or again.
    virtual void on_ready(Session&) noexcept {}
    virtual void on_lost(Session&, const Status&) noexcept {}
    // An attempt to reconnect failed. Another follows.
    virtual void on_reconnect_failed(Session&, const Status&) noexcept {}
    // The first connect failed; the session is closed. Last call.
    virtual void on_failed(Session&, const Status&) noexcept {}
    // close() is complete. Last call.
    virtual void on_closed(Session&) noexcept {}
    // Size, limits, write protection or existence of the volume changed.
    virtual void on_volume_changed(Session&, Volume&) noexcept {}
};

class Session final : public reactor::Source, private ChannelOwner, private AdminSubmitter {
  public:
    enum class State : uint8_t {
        kIdle,
        kConnecting,
        kDiscovering,
        kLive,
        kDraining,
        kWaiting,
        kClosing,
        kClosed
    };
    using Opened = std::function<void(Result<Volume*>)>;

    static Result<std::unique_ptr<Session>> create(reactor::Reactor& reactor, fabric::Fabric& fabric,
                                                   fabric::Poller& poller, Random& random, Options options,
                                                   SessionHandler& handler);
    ~Session() override;

    // Connects; on_ready() or on_failed() follows.
    void start();
    // Fails the outstanding requests with kClosed; on_closed() follows.
    void close();
    State state() const { return state_; }
    const Options& options() const { return options_; }

    // An empty `name` selects the only volume of the target. `done` is called once, possibly before this
    // returns.
    void open_volume(std::string name, Opened done);
    // REQUIRES: no request for it is in flight. The volume may be freed.
    void close_volume(Volume& volume);
    // The result of the latest survey; look_again() starts a new one soon.
    const std::vector<VolumeName>& volumes() const { return names_; }
    void look_again();
    // Number of volumes that are open, or closed but still in the target's list.
    size_t kept_volumes() const { return volumes_.size(); }

    // Returns true when request.done will be called. Returns false when the request has ended; `outcome` then
    // has its result (kOk: nothing to do).
    bool submit(Request& request) noexcept;

    DataMemory& memory() { return *memory_; }
    uint32_t active() const { return active_; }  // requests between submit() and done

    size_t poll() noexcept override;
    bool arm() noexcept override { return !wants_turn_; }

  private:
    using Stage = Request::Stage;
    struct PendingOpen {
        std::string name;
        Opened done;
        bool looked = false;  // the list of volumes is newer than this entry
    };

    Session(reactor::Reactor& reactor, fabric::Fabric& fabric, fabric::Poller& poller, Random& random,
            Options options, SessionHandler& handler);

    // session.cc: states, channels, time
    void set_state(State next);
    void connect();
    Status add_channel(bool multi);
    void channels_settled();
    void check_boot(uint32_t boot_id);
    void lose(const Status& why);
    void settle();
    void reconnect_later();
    bool failing_fast() const;
    void tick();
    void expire();
    void set_tick();
    void closed();
    void channel_up(Channel& channel) noexcept override;
    void channel_over(Channel& channel, const Status& why, bool was_up) noexcept override;
    std::string_view target_name() const noexcept override { return target_name_; }
    void notified(const wire::Notify& notify) noexcept override;

    // session_volumes.cc
    void run_control();
    void survey();
    void forget_closed_volumes();
    void survey_next();
    void survey_done(const Status& status);
    void fail_for_gone_volumes();
    void survey_probed(Volume& volume, const Status& status, VolumeInfo info);
    void open_next();
    void open_probed(const VolumeName& wanted, const Status& status, VolumeInfo info);
    const VolumeName* find_name(const std::string& name) const;
    Status no_such_volume(const std::string& name) const;
    void finish_open(Result<Volume*> result);
    void fail_opens(const Status& why);
    Volume& adopt(VolumeInfo info);

    // session_datapath.cc
    bool submit_admin(Request& request) noexcept override;
    bool admit(Request& request, List<Request>& list) noexcept;
    void begin(Request& request, Stage stage) noexcept;
    size_t pump() noexcept;
    size_t pump_list(List<Request>& list) noexcept;
    Channel* pick_channel() noexcept;
    bool issue(Request& request, Channel& channel) noexcept;
    void command_answered(Command& command, const wire::Response& response) noexcept override;
    void command_abandoned(Command& command) noexcept override;
    void take_disposition(Request& request, const Disposition& disposition) noexcept;
    void command_over(Request& request) noexcept;
    void queue_again(Request& request) noexcept;
    void finish(Request& request) noexcept;
    void fail_all(List<Request>& list, Outcome outcome) noexcept;
    void collect_expired(List<Request>& from, List<Request>& expired, bool& on_wire) noexcept;
    void sort_after_loss(List<Request>& from, List<Request>& keep, List<Request>& over) noexcept;

    // Immutable.
    reactor::Reactor& reactor_;
    fabric::Fabric& fabric_;
    fabric::Poller& poller_;
    Random& random_;
    const Options options_;
    SessionHandler& handler_;
    wire::PortId initiator_port_{};
    std::unique_ptr<DataMemory> memory_;

    State state_ = State::kIdle;
    bool ever_live_ = false;
    std::string target_name_;  // the given name, or else that of the first login; empty: any
    uint32_t boot_id_ = 0;     // boot id of the target's machine at the last login; 0: not reported
    bool wants_turn_ = false;
    std::vector<std::unique_ptr<Channel>> channels_;
    size_t next_channel_ = 0;
    Status lost_why_;
    Nanoseconds down_since_ = kNever;
    Nanoseconds delay_{};  // wait before the next attempt
    reactor::Timer reconnect_timer_;
    reactor::Timer tick_timer_;
    reactor::Timer busy_timer_;
    bool ticking_fast_ = false;

    List<Request> admin_;    // queries of the session itself, queued
    List<Request> queue_;    // queued
    List<Request> delayed_;  // the target was BUSY; they return to queue_ soon
    List<Request> issued_;   // every command is on the wire, or no more will be sent
    uint32_t active_ = 0;

    Discovery discovery_;
    std::vector<VolumeName> names_;
    std::vector<std::unique_ptr<Volume>> volumes_;  // volumes that were opened, by name and identity
    size_t survey_at_ = 0;
    bool look_again_ = false;
    bool units_unknown_ = false;  // LUNs may denote other units: commands for volumes wait for a survey
    std::deque<PendingOpen> opens_;
};

std::string_view to_string(Session::State state);

}  // namespace wss::initiator
