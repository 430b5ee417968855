// SPDX-License-Identifier: Apache-2.0
#include "target/cache/datapath.h"

namespace wss::cache {

Datapath::Datapath(const Uses& uses, reactor::Reactor& reactor)
    : index_(uses.lines.index()),
      nodes_(uses.nodes),
      recovery_(uses.recovery),
      life_(uses.life),
      reactor_(reactor),
      commands_(uses.lines, uses.engines, uses.nodes, uses.life, reactor),
      reads_(commands_, uses.lines, uses.engines, uses.nodes, uses.losses, uses.life),
      writes_(commands_, uses.lines, uses.engines, uses.nodes, uses.members, uses.losses, uses.single,
              reactor),
      prefetch_(*this, uses.recovery, uses.lines.geometry()) {}

Status Datapath::prepare(const Nets& nets, uint32_t commands, uint32_t lines_per_command) {
    commands_.prepare(commands, lines_per_command,
                      {.datapath = this, .reads = &reads_, .writes = &writes_, .entered = entered});
    return prefetch_.prepare(nets);
}

void Datapath::count_command(CacheCommand& command) noexcept {
    CachedVolume& volume = *command.volume;
    (command.is_write ? volume.counters.writes : volume.counters.reads)++;
    (command.is_write ? volume.counters.write_bytes : volume.counters.read_bytes) += command.length;
    // Without engines there is no place to load lines into.
    if (!command.is_write && !volume.gate.frozen() && !recovery_.holding() && index_.placeable_engines() > 0)
        prefetch_.reads(volume, {command.offset, command.length});
}

void Datapath::begin(CacheCommand& command) noexcept {
    CachedVolume& volume = *command.volume;
    command.began = reactor_.now();
    if (volume.removed()) return commands_.refuse(command);
    if (!command.is_ahead && !command.is_again) count_command(command);
    if (recovery_.holds(volume) && life_.waits_are_over())
        return commands_.end_unbegun(command, {.kind = CacheOutcome::Kind::kBusy});
    volume.open->hold();
    if (volume.gate.frozen() || recovery_.holds(volume)) {
        command.state = CacheCommand::State::kHeld;
        volume.gate.hold_back(command);
        return;
    }
    if (!command.is_write && reads_.hit(command)) return;
    admit(command);
}

void Datapath::admit(CacheCommand& command) noexcept {
    command.volume->gate.begin();
    command.changes = nodes_.changes();
    command.state = CacheCommand::State::kEntering;
    commands_.name_lines(command);
    go_on(command);
}

void Datapath::entered(LineUser& user) noexcept {
    CacheCommand& command = static_cast<CacheCommand&>(user);
    Datapath& datapath = *command.path.datapath;
    command.state == CacheCommand::State::kEntering ? datapath.go_on(command)
                                                    : datapath.commands_.resume_lines(command);
}

void Datapath::go_on(CacheCommand& command) noexcept {
    if (!commands_.enter_lines(command)) return;
    if (!commands_.resume(command,
                          [](CacheCommand& resumed) noexcept { resumed.path.datapath->run(resumed); }))
        return;
    run(command);
}

void Datapath::run(CacheCommand& command) noexcept {
    // Commands that entered their lines before the volume became smaller hold these lines. Later commands
    // fail with EFBIG, because the storage has become smaller, and not with ENOSPC, because it is not full.
    if (command.offset + command.length > command.volume->open->volume().size())
        return commands_.end(command, {.kind = CacheOutcome::Kind::kStorageFailed,
                                       .error = EFBIG,
                                       .io_op = command.is_write ? io::Op::kWrite : io::Op::kRead,
                                       .offset = command.offset});
    // Read here and not earlier, because the command may have waited for its lines.
    command.by_storage = command.by_storage || command.volume->suspended;
    command.is_write ? writes_.run(command) : reads_.run(command);
}

void Datapath::buffer_ready(CacheCommand& command, std::byte* buffer, const BufferRegions& regions) noexcept {
    command.buffer = buffer;
    command.regions = &regions;
    // The buffer may be needed only for the fill.
    if (command.phase == CacheCommand::Phase::kFetch && reads_.fetches(command)) return;
    (command.is_ahead ? command.volume->counters.read_ahead_bytes
                      : command.volume->counters.through_target_bytes) += command.length;
    command.is_write ? writes_.start(command) : reads_.buffer_ready(command);
}

void Datapath::buffer_failed(CacheCommand& command) noexcept {
    // The write may have changed copies (CacheCommand::may_have_changed()).
    if (command.is_write && command.attempts > 0)
        return writes_.give_up(command, {.kind = CacheOutcome::Kind::kBusy});
    commands_.end(command, {.kind = CacheOutcome::Kind::kBusy});
}

// The owner of abandoned commands. It ignores their outcome.
class Nobody final : public CommandOwner {
  public:
    void need_buffer(CacheCommand& command) noexcept override {
        command.path.datapath->buffer_failed(command);
    }
    void delegated(CacheCommand&) noexcept override {}
    void answered(CacheCommand& command) noexcept override { command.path.datapath->release(command); }
    void ended(CacheCommand& command, const CacheOutcome&) noexcept override {
        command.path.datapath->release(command);
    }
};

// A write that has failed once ends only when its copies are made equal, possibly long after its owner is
// gone.
void Datapath::abandon(CacheCommand& command) noexcept {
    static Nobody nobody;
    command.owner = &nobody;
    command.cookie = nullptr;
    command.is_abandoned = true;
    buffer_failed(command);
}

// ---- Waiting commands ------------------------------------------------------------------------------------

void Datapath::begin_held(CachedVolume& volume) noexcept {
    while (!volume.gate.frozen() && !recovery_.holds(volume)) {
        CacheCommand* command = volume.gate.next_held();
        if (command == nullptr) return;
        admit(*command);
    }
}

void Datapath::end_held(CachedVolume& volume, const CacheOutcome& outcome) noexcept {
    while (CacheCommand* command = volume.gate.next_held()) {
        volume.open->release();
        commands_.end_unbegun(*command, outcome);
    }
}

void Datapath::end_cancelled() noexcept {
    using State = CacheCommand::State;
    List<CacheCommand> cancelled;
    commands_.for_each([&cancelled](CacheCommand& command) {
        const bool waits = command.state == State::kHeld || command.state == State::kEntering;
        if (!waits || !is_cancelled(command.cancelled)) return;
        static_cast<ListNode<>&>(command).unlink();
        cancelled.push_back(command);
    });
    while (CacheCommand* command = cancelled.pop_front()) {
        const CacheOutcome outcome{.kind = CacheOutcome::Kind::kBusy};
        if (command->state == State::kEntering) {
            commands_.end(*command, outcome);
            continue;
        }
        command->volume->open->release();
        commands_.end_unbegun(*command, outcome);
    }
    writes_.end_cancelled();
}

void Datapath::refuse_waiting(CachedVolume& volume) noexcept {
    prefetch_.forget(volume);
    while (CacheCommand* command = volume.gate.next_held()) {
        volume.open->release();
        commands_.refuse(*command);
    }
}

}  // namespace wss::cache
