// SPDX-License-Identifier: Apache-2.0
#include "target/cache/commands.h"

#include <algorithm>
#include <utility>

#include "lib/cache/header.h"
#include "target/cache/remote.h"

namespace wss::cache {

using Op = wire::CacheStorage::Op;

void Commands::drop_all() noexcept {
    const auto drop = [](CacheCommand& command) {
        static_cast<ListNode<>&>(command).unlink();
        static_cast<ListNode<ForwardedTag>&>(command).unlink();
        command.place.release();
    };
    if (own_ != nullptr) own_->for_each(drop);  // nullptr: the cache could not be prepared
    forwarded_.for_each(drop);
}

void Commands::prepare(uint32_t commands, uint32_t lines_per_command, const CommandPaths& paths) {
    paths_ = paths;
    lines_per_command_ = lines_per_command;
    own_ = std::make_unique<CommandPool>(commands, lines_per_command, paths, nullptr);
}

// ---- Command objects -------------------------------------------------------------------------------------

CommandPool& Commands::make_pool(CommandHome& home) {
    const auto commands = static_cast<uint32_t>(own_->size());
    others_.push_back(std::make_unique<CommandPool>(commands, lines_per_command_, paths_, &home));
    return *others_.back();
}

CacheCommand* Commands::take(CachedVolume& volume, const CommandShareRef& share) noexcept {
    CacheCommand* command = own_->take(volume, volume.commands, share);
    if (command != nullptr) command->place = volume.gate.enter();
    return command;
}

void Commands::arrived(CacheCommand& command) noexcept {
    command.place = command.volume->gate.enter();
    forwarded_.push_back(command);
}

// Called by the owner when it no longer needs the command and its buffer. If the cache's part has not ended
// yet, part_over() calls it again, which frees both.
void Commands::release(CacheCommand& command) noexcept {
    command.hold = false;
    if (command.phase != CacheCommand::Phase::kNone) return;
    // The volume may be freed with its last place.
    Gate::Holder place = std::move(command.place);
    if (command.home == nullptr) return own_->give(command);
    static_cast<ListNode<ForwardedTag>&>(command).unlink();
    command.fences.clear();
    place.release();
    command.home->over(command);
}

void Commands::fence_abandoned(const CachedVolume& volume, const Fence& fence) {
    for_each([&](CacheCommand& command) {
        if (command.volume == &volume && command.is_write && command.is_abandoned &&
            command.phase != CacheCommand::Phase::kNone)
            command.fences.emplace_back(fence);
    });
}

void Commands::forget(const Client& client) noexcept {
    for_each([&](CacheCommand& command) {
        if (command.client == &client) command.client = nullptr;
    });
}

// ---- Lines -----------------------------------------------------------------------------------------------

void Commands::name_lines(CacheCommand& command) noexcept {
    uint64_t at = command.offset;
    uint64_t left = command.length;
    while (left > 0) {
        WSS_ASSERT(command.line_count < lines_per_command_, "a command is no longer than its lines");
        LinePart& line = command.lines[command.line_count++];
        line.span = geometry_.first_span(at, left);
        line.touched = geometry_.touched(line.span);
        line.covered = geometry_.covered(line.span);
        line.line = nullptr;
        line.filling = line.overlay = {};
        line.transfers_used = 0;
        at += line.span.length;
        left -= line.span.length;
    }
}

// Whether operations of the volume must name all sub-blocks of a line (SE1).
bool Commands::is_wide(const CachedVolume& volume) noexcept {
    return volume.settings.policy == Policy::kBack || index_.dirty_lines(volume.number) > 0;
}

// Enters lines in ascending order and keeps each (L1). While the command waits for the next line, its lines
// rest, because storage may hold the next line for hours.
bool Commands::enter_lines(CacheCommand& command) noexcept {
    while (command.entered < command.line_count) {
        LinePart& line = command.lines[command.entered];
        Line* entry = index_.open({command.volume->number, line.span.line});
        if (entry == nullptr) {
            ++command.volume->counters.busy;
            end(command, {.kind = CacheOutcome::Kind::kBusy});
            return false;
        }
        line.line = entry;
        const bool hit = !command.is_write && entry->valid().contains(line.touched);
        line.op.access = hit ? Access::kShared : Access::kExclusive;
        line.op.sub_blocks = !hit && is_wide(*command.volume) ? geometry_.all() : line.touched;
        if (!lines_.enter(*entry, line.op, command)) {
            rest(command);
            ++command.entered;
            engines_.flush_completions();
            return false;  // continues from Lines::serve()
        }
        ++command.entered;
    }
    command.state = CacheCommand::State::kRunning;
    return true;
}

void Commands::rest(CacheCommand& command) noexcept {
    for (uint32_t i = 0; i < command.entered; ++i) command.lines[i].op.rest();
    command.rests = true;
}

bool Commands::resume(CacheCommand& command, void (*then)(CacheCommand& command) noexcept) noexcept {
    if (!command.rests) return true;
    command.on_resumed = nullptr;
    command.resumed = 0;
    resume_lines(command);
    command.on_resumed = then;
    return !command.rests;
}

// Keeps each resumed line, as enter_lines() does. Resuming may wait until engines have copied a line. Copying
// waits for no other operation, so there is no deadlock.
void Commands::resume_lines(CacheCommand& command) noexcept {
    while (command.resumed < command.entered)
        if (!index_.resume(command.lines[command.resumed++].op)) return;
    command.rests = false;
    if (command.on_resumed != nullptr) command.on_resumed(command);
}

void Commands::leave_lines(CacheCommand& command) noexcept {
    for (uint32_t i = 0; i < command.entered; ++i) {
        lines_.leave(command.lines[i].op);
        command.lines[i].line = nullptr;
    }
    command.entered = 0;
    lines_.want_turn_if_granted();
}

// ---- Endings ---------------------------------------------------------------------------------------------

// Notifies the owner. The command leaves its lines here or, if a fill continues, in finish_part().
//
// When the target has left its engines, the next start finds dirty lines in them. A read may lack their data,
// and their data will overwrite that of a write. So the initiator repeats the command to the next target.
void Commands::end(CacheCommand& command, const CacheOutcome& how) noexcept {
    if (command.state == CacheCommand::State::kAnswered) {  // by end_early()
        finish_part(command);
        return part_over(command);
    }
    const bool is_late = life_.leaving() && how.kind == CacheOutcome::Kind::kGood;
    const CacheOutcome outcome = is_late ? CacheOutcome{.kind = CacheOutcome::Kind::kBusy} : how;
    command.outcome = outcome;
    const bool filling = command.phase == CacheCommand::Phase::kFill;
    if (!filling) finish_part(command);
    command.state = CacheCommand::State::kAnswered;
    // The owner may release it before ended() returns.
    if (!filling) command.phase = CacheCommand::Phase::kEnding;
    command.owner->ended(command, outcome);
    if (!filling) part_over(command);
}

void Commands::end_early(CacheCommand& command) noexcept {
    command.cancelled = nullptr;
    command.state = CacheCommand::State::kAnswered;
    command.owner->ended(command, {.kind = CacheOutcome::Kind::kBusy});
}

void Commands::finish_part(CacheCommand& command) noexcept {
    leave_lines(command);
    if (command.staging) nodes_.give_back(command.staging);
    CachedVolume& volume = *command.volume;
    // The time includes a fill that continued after the answer, because the next reader of these sub-blocks
    // waits for it. For a completion that was reported late, the latency of the last one that was reported at
    // once is used.
    auto took = static_cast<uint64_t>((reactor_.now() - command.began).count);
    if (command.is_coalesced)
        took = volume.hit_ns;
    else if (command.is_delegated)
        volume.hit_ns = took;
    if (!command.is_ahead) (command.is_write ? volume.counters.write_ns : volume.counters.read_ns) += took;
    volume.open->release();
    volume.gate.end();
}

void Commands::refuse(CacheCommand& command) noexcept {
    // The target closes its volumes when it stops. The next target has them.
    if (life_.leaving()) return end_unbegun(command, {.kind = CacheOutcome::Kind::kBusy});
    end_unbegun(command, {.kind = CacheOutcome::Kind::kStorageFailed,
                          .error = ENXIO,
                          .io_op = command.is_write ? io::Op::kWrite : io::Op::kRead,
                          .offset = command.offset});
}

void Commands::end_unbegun(CacheCommand& command, const CacheOutcome& outcome) noexcept {
    command.phase = CacheCommand::Phase::kEnding;
    command.state = CacheCommand::State::kAnswered;
    command.owner->ended(command, outcome);
    part_over(command);
}

void Commands::part_over(CacheCommand& command) noexcept {
    command.phase = CacheCommand::Phase::kNone;
    if (command.hold) return;
    release(command);
}

// ---- Transfers -------------------------------------------------------------------------------------------

Transfer& Commands::next_transfer(CacheCommand& command, LinePart& line, ArenaSlot slot,
                                  Transfer::Done done) noexcept {
    WSS_ASSERT(line.transfers_used < line.transfers.size(), "one transfer for each copy");
    const uint32_t i = line.transfers_used++;
    line.slots[i] = slot;
    EngineLink* engine = engines_.link(slot.engine);
    line.incarnations[i] = engine == nullptr ? 0 : engine->identity().incarnation;
    Transfer& transfer = line.transfers[i];
    transfer.kind = Transfer::Kind::kMove;
    transfer.move = {};
    transfer.move.slot = slot.number;
    transfer.done = done;
    transfer.context = &command;
    ++command.outstanding;
    return transfer;
}

void Commands::note_failed(CacheCommand& command, const Transfer& transfer) noexcept {
    const bool is_first = !std::exchange(command.transfer_failed, true);
    for (uint32_t i = 0; i < command.line_count; ++i)
        for (uint32_t t = 0; t < command.lines[i].transfers_used; ++t) {
            if (&command.lines[i].transfers[t] != &transfer) continue;
            const uint32_t engine = command.lines[i].slots[t].engine.value;
            // One engine, or all engines once a second one has failed.
            command.failed_engine =
                is_first || command.failed_engine == engine ? engine : WSS_CACHE_ENGINES_MAX;
            // A move to or from the target's own memory can fail only because of the engine.
            EngineLink* failed = engines_.link(command.lines[i].slots[t].engine);
            if (failed != nullptr && transfer.move.handle == wire::kStorageHandle)
                failed->close(Status(Code::kIo, "the engine failed to move data"));
        }
}

bool Commands::still_there(const LinePart& line) noexcept {
    for (uint32_t i = 0; i < line.transfers_used; ++i) {
        EngineLink* engine = engines_.link(line.slots[i].engine);
        if (engine == nullptr || !engine->is_ready()) return false;
        if (engine->identity().incarnation != line.incarnations[i]) return false;
        auto holders = line.line->holders();
        if (std::find(holders.begin(), holders.end(), line.slots[i]) == holders.end()) return false;
    }
    return line.transfers_used > 0;
}

bool Commands::attached(const CacheCommand& command, ArenaSlot slot) noexcept {
    return command.client != nullptr && command.remote.length >= command.length &&
           command.client->engines[slot.engine.value].attached && engines_.link(slot.engine) != nullptr &&
           engines_.link(slot.engine)->is_ready();
}

std::array<std::byte, wire::kCacheHeaderBytes> Commands::header_bytes(const LinePart& line, ArenaSlot slot,
                                                                      const CachedVolume& volume,
                                                                      SubBlocks valid, SubBlocks dirty,
                                                                      uint64_t generation) {
    std::array<std::byte, wire::kCacheHeaderBytes> bytes;
    LineHeader header{.volume = volume.open->volume().wwid(),
                      .line = line.span.line,
                      .generation = generation,
                      .incarnation = engines_.link(slot.engine)->identity().incarnation,
                      .valid = valid,
                      .dirty = dirty,
                      .line_shift = geometry_.shift()};
    write_header(header, bytes);
    return bytes;
}

// ---- Real storage ----------------------------------------------------------------------------------------

void Commands::start_storage(CacheCommand& command, io::Op op,
                             void (*done)(io::Request& io) noexcept) noexcept {
    CachedVolume& volume = *command.volume;
    command.io.op = op;
    command.io.offset = command.offset;
    command.io.length = command.length;
    command.io.data = command.buffer;
    command.io.done = done;
    command.io.context = &command;
    (op == io::Op::kRead ? volume.counters.storage_read_bytes : volume.counters.storage_write_bytes) +=
        command.length;
    ++command.outstanding;
    volume.open->queue().submit(command.io);
}

void Commands::note_error(CacheCommand& command, const io::Request& io) noexcept {
    if (io.error == 0 || command.outcome.error != 0) return;
    command.outcome = {.kind = CacheOutcome::Kind::kStorageFailed,
                       .error = io.error,
                       .io_op = io.op,
                       .offset = io.offset + io.done_bytes};
}

bool Commands::reaches_storage(const CacheCommand& command) noexcept {
    if (command.volume->remote == nullptr || command.client == nullptr ||
        command.remote.length < command.length)
        return false;
    const EngineLink* storage = command.volume->remote->storage();
    return storage != nullptr && command.client->engines[storage->index().value].attached;
}

Transfer& Commands::remote_io(CacheCommand& command, Op op, Transfer::Done done) noexcept {
    EngineLink& storage = *command.volume->remote->storage();
    command.remote_engine = storage.index();
    Transfer& transfer = command.remote_io;
    transfer.kind = Transfer::Kind::kStorage;
    transfer.storage = {.op = op,
                        .volume = command.volume->remote->number(),
                        .offset = command.offset,
                        .length = command.length};
    if (command.client != nullptr) {
        transfer.storage.handle = command.client->engines[storage.index().value].handle;
        transfer.storage.remote = {command.remote.address, command.remote.rkey, command.length};
    }
    if (command.staging) {
        transfer.storage.staged = true;
        transfer.storage.staging_offset = command.staging.place();
    }
    transfer.done = done;
    transfer.context = &command;
    ++command.outstanding;
    return transfer;
}

}  // namespace wss::cache
