// SPDX-License-Identifier: Apache-2.0
#include "target/cache/datapath.h"

namespace wss::se {

Datapath::Datapath(const Uses& uses, reactor::Reactor& reactor)
    : index_(uses.lines.index()),
      nodes_(uses.nodes),
      recovery_(uses.recovery),
      life_(uses.life),
      reactor_(reactor),
      commands_(uses.lines, uses.engines, uses.nodes, reactor),
      reads_(commands_, uses.lines, uses.engines, uses.nodes, uses.losses, uses.life),
      writes_(commands_, uses.lines, uses.engines, uses.nodes, uses.members, uses.losses, uses.single,
              reactor),
      prefetch_(*this, uses.recovery, uses.lines.geometry()) {}

Status Datapath::prepare(const Nets& nets, uint32_t works, uint32_t lines_per_work) {
    commands_.prepare(works, lines_per_work,
                      {.datapath = this, .reads = &reads_, .writes = &writes_, .entered = entered});
    return prefetch_.prepare(nets);
}

void Datapath::count_command(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    (work.is_write ? volume.counters.writes : volume.counters.reads)++;
    (work.is_write ? volume.counters.write_bytes : volume.counters.read_bytes) += work.length;
    // Without engines there is no place to load lines into.
    if (!work.is_write && !volume.gate.frozen() && !recovery_.holding() && index_.placeable_engines() > 0)
        prefetch_.reads(volume, {work.offset, work.length});
}

void Datapath::begin(Work& work) noexcept {
    CachedVolume& volume = *work.volume;
    if (!work.is_ahead && !work.is_again) count_command(work);
    work.began = reactor_.now();
    if (volume.removed()) return commands_.refuse(work);
    if (recovery_.holds(volume) && life_.waits_are_over())
        return commands_.end_unbegun(work, {.kind = Ending::Kind::kBusy});
    volume.open->hold();
    if (volume.gate.frozen() || recovery_.holds(volume)) {
        work.state = Work::State::kHeld;
        volume.gate.hold_back(work);
        return;
    }
    if (!work.is_write && reads_.hit(work)) return;
    admit(work);
}

void Datapath::admit(Work& work) noexcept {
    work.volume->gate.begin();
    work.changes = nodes_.changes();
    work.state = Work::State::kEntering;
    commands_.name_lines(work);
    go_on(work);
}

void Datapath::entered(LineUser& user) noexcept {
    Work& work = static_cast<Work&>(user);
    Datapath& datapath = *work.path.datapath;
    work.state == Work::State::kEntering ? datapath.go_on(work) : datapath.commands_.resume_lines(work);
}

// Size check, in run(): commands that entered their lines before the volume became smaller hold them. Later
// ones fail.
void Datapath::go_on(Work& work) noexcept {
    if (!commands_.enter_lines(work)) return;
    if (!commands_.resume(work, [](Work& resumed) noexcept { resumed.path.datapath->run(resumed); })) return;
    run(work);
}

void Datapath::run(Work& work) noexcept {
    if (work.offset + work.length > work.volume->open->volume().size())
        return commands_.end(work, {.kind = Ending::Kind::kStorageFailed,
                                    .error = ENOSPC,
                                    .io_op = work.is_write ? io::Op::kWrite : io::Op::kRead,
                                    .offset = work.offset});
    // Not before: the command may have waited for its lines.
    work.by_storage = work.by_storage || work.volume->suspended;
    work.is_write ? writes_.run(work) : reads_.run(work);
}

void Datapath::buffer_ready(Work& work, std::byte* buffer, const BufferRegions& regions) noexcept {
    work.buffer = buffer;
    work.regions = &regions;
    // The buffer may serve only the fill.
    if (work.phase == Work::Phase::kFetch && reads_.fetches(work)) return;
    (work.is_ahead ? work.volume->counters.read_ahead_bytes : work.volume->counters.through_us_bytes) +=
        work.length;
    work.is_write ? writes_.start(work) : reads_.buffer_ready(work);
}

void Datapath::buffer_failed(Work& work) noexcept {
    // The write may have changed copies: Work::may_have_changed().
    if (work.is_write && work.attempts > 0) return writes_.give_up(work, {.kind = Ending::Kind::kBusy});
    commands_.end(work, {.kind = Ending::Kind::kBusy});
}

// Owner of abandoned commands: ignores their outcome.
class Nobody final : public WorkOwner {
  public:
    void need_buffer(Work& work) noexcept override { work.path.datapath->buffer_failed(work); }
    void delegated(Work&) noexcept override {}
    void answered(Work& work) noexcept override { work.path.datapath->release(work); }
    void ended(Work& work, const Ending&) noexcept override { work.path.datapath->release(work); }
};

// A write that has failed once ends only when its copies are made equal, possibly long after its owner is
// gone.
void Datapath::abandon(Work& work) noexcept {
    static Nobody nobody;
    work.owner = &nobody;
    work.cookie = nullptr;
    work.is_abandoned = true;
    buffer_failed(work);
}

// ---- Waiting commands ------------------------------------------------------------------------------------

void Datapath::begin_held(CachedVolume& volume) noexcept {
    while (!volume.gate.frozen() && !recovery_.holds(volume)) {
        Work* work = volume.gate.next_held();
        if (work == nullptr) return;
        admit(*work);
    }
}

void Datapath::end_held(CachedVolume& volume, const Ending& ending) noexcept {
    while (Work* work = volume.gate.next_held()) {
        volume.open->release();
        commands_.end_unbegun(*work, ending);
    }
}

void Datapath::refuse_waiting(CachedVolume& volume) noexcept {
    prefetch_.forget(volume);
    while (Work* work = volume.gate.next_held()) {
        volume.open->release();
        commands_.refuse(*work);
    }
}

}  // namespace wss::se
