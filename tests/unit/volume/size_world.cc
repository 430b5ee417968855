// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/volume/size_world.h"

#include <algorithm>
#include <fstream>

#include "lib/base/log.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {

namespace {

// The state file of all worlds, one after the other.
const StateLock::Shared& state_lock() {
    static const io::test::TemporaryFolder folder;
    static const StateLock::Shared lock = locked(folder.file("state.json"));
    return lock;
}

std::string text_of(const StoredVolume& volume) {
    const RecordedSizes& sizes = volume.sizes;
    return fmt::format("size {}, resized {}, part {}{}{}, cut from {}", volume.options.size, sizes.resized(),
                       sizes.part(), sizes.is_shrinking() ? ", shrinking" : "",
                       sizes.followed() ? ", followed" : "", sizes.cut_from());
}

}  // namespace

// --- the world ---

SizeWorld::SizeWorld(uint64_t seed, bool traces) : random_(seed), traces_(traces) {
    image_.bytes = some_size();
    begin_volume();
}

SizeWorld::~SizeWorld() {
    if (ending_ == Ending::kNo) ending_ = Ending::kStop;
    end();
}

void SizeWorld::fail(const std::string& why) {
    note("FAILURE {}", why);
    if (failure_.empty()) failure_ = why;
}

uint64_t SizeWorld::some_size() {
    const uint64_t blocks = 1 + random_.below(kModelBlocks);
    return blocks < kModelBlocks && chance(8) ? blocks * kModelBlock + 512 : blocks * kModelBlock;
}

VolumeSet::Options SizeWorld::options() {
    VolumeSet::Options options;
    options.state = state_lock();
    options.open = [this](const std::string&, const io::OpenOptions& how) { return open(how); };
    options.write = [this](const StateLock&, const std::vector<StoredVolume>& volumes) {
        return write_file(volumes);
    };
    options.wait = from_s(3600);
    options.closing_thread = false;
    options.turn = [this] { return turn(); };
    options.later = [this](LateEnds::Task task) {
        tasks_.push_back(std::move(task));
        return Status::ok();
    };
    return options;
}

Result<std::unique_ptr<io::Backend>> SizeWorld::open(const io::OpenOptions& how) {
    if (dead()) return Status(Code::kClosed, "the program has ended");
    note("open: size {}, at most {}{}", how.size, how.at_most, how.grow ? "" : ", does not grow");
    if (!how.any_size && how.size > image_.bytes) {
        if (!how.grow) return Status(Code::kIo, "the image is too small");
        image_.resize(how.size);
        ++time_;
    }
    if (image_.bytes < kModelBlock) return Status(Code::kIo, "the image is empty");
    forget_unseen();
    return std::unique_ptr<io::Backend>(std::make_unique<ModelBackend>(*this, how));
}

// What others did before the opening cannot be known to the target.
void SizeWorld::forget_unseen() {
    for (uint64_t i = 0; i < kModelBlocks; ++i)
        if (std::exchange(blocks_[i].pending, false) && engine_.copies[i].value == 0)
            blocks_[i].min_stored = std::max(blocks_[i].min_stored, blocks_[i].dead);
}

Status SizeWorld::write_file(const std::vector<StoredVolume>& volumes) {
    if (dead()) return Status(Code::kIo, "no file");
    if (!calm_ && chance(8)) others_resize(some_size());
    const bool fails = !calm_ && (disk_full_ || chance(30));
    if (!fails || chance(4)) file_ = volumes;
    for (const StoredVolume& volume : volumes)
        note("state file {}: {}",
             !fails             ? ""
             : file_ == volumes ? "fails with effect"
                                : "fails",
             text_of(volume));
    is_saved_ = !fails;
    if (!fails || file_ == volumes) unsaved_ = fails;
    return fails ? Status(Code::kIo, "the disk is full") : Status::ok();
}

void SizeWorld::begin_volume() {
    volume_options_.name = kModelVolume;
    volume_options_.backend = "model";
    volume_options_.block_size = kModelBlock;
    const uint64_t kind = random_.below(8);
    volume_options_.declared = kind >= 3;
    if (kind == 0 || kind >= 7)
        volume_options_.size = (1 + random_.below(image_.bytes / kModelBlock)) * kModelBlock;
    may_be_part_ = volume_options_.size != 0;
    start();
    if (!volume_options_.declared) {
        calm_ = true;
        const Status created = set_->create(volume_options_);
        if (!created) fail("create: " + created.to_string());
        calm_ = false;
    }
}

void SizeWorld::start() {
    {
        std::ofstream file(state_lock()->path(), std::ios::trunc);
        file << format_state(file_);
    }
    set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>{&reactor_}, options());
    set_->table(0).add_observer(engine_);
    if (Status restored = set_->restore(); !restored) fail("restore: " + restored.to_string());
    if (volume_options_.declared) {
        (void)set_->declare({volume_options_});
        (void)set_->create(volume_options_);
    }
}

void SizeWorld::end() {
    note("the target ends{}", dead() ? " at once" : "");
    tasks_.clear();
    (void)set_->close_all();
    engine_.forget_requests();
    set_->table(0).remove_observer(engine_);
    tasks_.clear();
    set_.reset();
    backend_ = nullptr;
}

void SizeWorld::restart() {
    end();
    ending_ = Ending::kNo;
    const bool exempt = std::exchange(unsaved_, false);
    requests_.clear();
    while_it_does_not_run();
    for (uint64_t i = 0; i < kModelBlocks; ++i) {
        Block& block = blocks_[i];
        if (!engine_.copies[i].dirty) engine_.copies[i] = {};
        if (exempt) block = {};
    }
    if (volume_options_.declared && chance(3)) reconfigure();
    const bool keeps_size = !volume_options_.declared || volume_options_.size != 0;
    may_be_part_ |= keeps_size || exempt;
    may_lag_ = keeps_size || (!file_.empty() && file_.front().sizes.part() != 0);
    start();
}

// The operator adds or removes `size=` of the volume's configuration.
void SizeWorld::reconfigure() {
    if (volume_options_.size != 0)
        volume_options_.size = 0;
    else if (!file_.empty())
        volume_options_.size = file_.front().options.size;
    note("the configuration now has size={}", volume_options_.size);
    may_be_part_ = true;
}

void SizeWorld::while_it_does_not_run() {
    while (chance(3)) others_resize(some_size());
    if (!chance(8)) return;
    note("another owner has the image");
    ++image_.owner;
    for (Block& block : blocks_) block.sure = false;
    for (uint64_t i = 0; i < image_.bytes / kModelBlock; ++i)
        if (chance(2)) image_.blocks[i] = blocks_[i].others = ++value_;
}

const Volume* SizeWorld::volume() {
    OpenVolume* open = set_->table(0).find(0);
    return open == nullptr ? nullptr : &open->volume();
}

// --- requests of clients ---

void SizeWorld::write(uint64_t index) {
    const Volume* to = volume();
    if (to == nullptr || to->lost() || index >= to->blocks() || backend_ == nullptr) return;
    const bool fits = (index + 1) * kModelBlock <= std::min(image_.bytes, backend_->notices().size());
    const bool keeps = chance(2);
    if (!keeps && !fits) return;  // EFBIG
    ++value_;
    note("write {} to block {}{}", value_, index, keeps ? ", kept by the engine" : "");
    if (keeps)
        engine_.copies[index] = {value_, true, value_};
    else
        image_.blocks[index] = value_;
    if (!keeps)
        engine_.copies[index] = chance(2) ? ModelEngine::Copy{value_, false, value_} : ModelEngine::Copy{};
    Block& block = blocks_[index];
    block.written = value_;
    block.operators = false;
    if (block.pending || backend_->lost_) return;
    block.sure = true;
    block.min_copy = block.min_stored = value_;
    if (keeps) block.min_stored = 0;
}

void SizeWorld::read(uint64_t index) {
    const Volume* of = volume();
    if (of == nullptr || of->lost() || index >= of->blocks() || backend_ == nullptr) return;
    if (backend_->lost_) return;
    const Block& block = blocks_[index];
    ModelEngine::Copy& copy = engine_.copies[index];
    const bool is_copy = copy.value != 0;
    const bool fits = (index + 1) * kModelBlock <= std::min(image_.bytes, backend_->notices().size());
    if (!is_copy && !fits) return;  // EIO
    const uint64_t value = is_copy ? copy.value : image_.blocks[index];
    if (block.pending) return;
    if (block.sure && value != block.written)
        return fail(fmt::format("S2: block {} has {}, not {}", index, value, block.written));
    if (is_copy && copy.made < block.min_copy)
        return fail(fmt::format("S1: a copy of block {} has {}, which was removed", index, value));
    if (!is_copy && value != 0 && value < block.min_stored && value != block.others)
        return fail(fmt::format("S1: the image has {} in block {}, which was dropped", value, index));
    if (!is_copy && value != 0 && chance(2)) copy = {value, false, ++value_};
}

void SizeWorld::destage() {
    if (backend_ == nullptr || backend_->lost_ || volume() == nullptr || volume()->lost()) return;
    const uint64_t end = std::min({image_.bytes, backend_->notices().size(), volume()->size()}) / kModelBlock;
    for (uint64_t i = 0; i < end; ++i) {
        ModelEngine::Copy& copy = engine_.copies[i];
        if (!std::exchange(copy.dirty, false)) continue;
        // Nobody could know of the shrink yet: this is as good as a write after it.
        if (blocks_[i].pending) copy.value = ++value_;
        image_.blocks[i] = copy.value;
    }
}

// --- what is known ---

void SizeWorld::removed_by_others(uint64_t bytes) {
    for (uint64_t i = bytes / kModelBlock; i < kModelBlocks; ++i) {
        blocks_[i].sure = false;
        const bool is_unseen = backend_ == nullptr;
        if (is_unseen && engine_.copies[i].value == 0) blocks_[i].min_stored = value_ + 1;
        if (is_unseen) continue;
        blocks_[i].pending = true;
        blocks_[i].dead = value_ + 1;
    }
}

void SizeWorld::applied_own(uint64_t bytes) {
    note("the image is resized from {} to {}", image_.bytes, bytes);
    ++time_;
    const Volume* served = set_ == nullptr ? nullptr : volume();
    for (uint64_t i = bytes / kModelBlock; i < image_.bytes / kModelBlock && i < kModelBlocks; ++i) {
        Block& block = blocks_[i];
        if (block.sure && served != nullptr && i < served->blocks())
            fail(fmt::format("S2: a resize to {} cuts off block {}, which is served", bytes, i));
        block.sure = false;
        block.min_copy = block.min_stored = value_ + 1;
    }
    image_.resize(bytes);
    if (backend_ == nullptr || backend_->lost_) return;
    backend_->looked_ = false;
    backend_->read_size();
}

void SizeWorld::issued_own(uint64_t bytes) {
    const auto request = std::find_if(requests_.rbegin(), requests_.rend(),
                                      [&](const Request& one) { return one.bytes == bytes; });
    if (request == requests_.rend())
        return fail(fmt::format("S4: nobody requested to resize the image to {}", bytes));
    const uint64_t latest = backend_->notices().latest();
    if (latest > request->latest && bytes < latest)
        fail(fmt::format("S4: others have enlarged the image to {} since the request to resize it to {}",
                         latest, bytes));
}

// The target has followed all that others have done.
void SizeWorld::note_followed() {
    if (backend_ == nullptr || backend_->lost_ || backend_->has_reads() || !backend_->has_looked() ||
        backend_->is_resizing() || volume() == nullptr)
        return;
    for (Block& block : blocks_) {
        if (!std::exchange(block.pending, false)) continue;
        block.min_copy = std::max(block.min_copy, block.dead);
        block.min_stored = std::max(block.min_stored, block.dead);
    }
}

// --- quiet ---

// Lets everything end that has begun. Returns whether anything was left.
bool SizeWorld::settle_once() {
    if (reactor_.step() > 0) return true;
    if (backend_ != nullptr && backend_->has_reads()) return backend_->deliver_read(), true;
    if (backend_ != nullptr && !backend_->lost_ && backend_->is_late()) return backend_->progress(), true;
    if (backend_ != nullptr && !backend_->lost_ && !backend_->has_looked() && !backend_->is_late())
        return backend_->read_size(), true;
    if (engine_.is_shrinking()) return engine_.answer(true), true;
    if (backend_ != nullptr && !reporting_) {
        ++depth_;
        reporting_ = true;
        const auto done = backend_->notices().report();
        reporting_ = false;
        --depth_;
        if (done) note("the notice: {}", *done ? "done" : "to be repeated");
        if (done && *done) return true;
        if (done) refused_ = true;
        if (!done) note_followed();
    }
    if (!tasks_.empty() && depth_ < 4) return run_task(), true;
    return false;
}

void SizeWorld::settle() {
    note("quiet begins");
    calm_ = true;
    disk_full_ = refuses_ = false;
    const bool repeats = chance(2);
    int rounds = 0;
    for (; rounds < 300 && !over(); ++rounds) {
        refused_ = false;
        if (settle_once() || refused_) continue;
        (void)set_->declare({});
        const bool is_away = volume() == nullptr || volume()->lost();
        if (is_away && rounds > 100 && image_.bytes < kModelBlocks * kModelBlock)
            others_resize(kModelBlocks * kModelBlock);
        if (is_away)
            reopen();
        else if (incomplete_ && repeats && rounds < 200)
            operator_resizes(volume()->size());
        else
            break;
    }
    if (!over() && rounds >= 300) fail("S3: it does not become quiet");
    if (!over()) check_quiet();
    calm_ = false;
    note("quiet ends");
}

void SizeWorld::check_quiet() {
    const Volume& of = *volume();
    const uint64_t part = of.sizes().part(), whole = image_.whole();
    const uint64_t wanted = part == 0 ? whole : std::min(part, whole);
    if (part != 0 && !may_be_part_) fail(fmt::format("S3: the volume has become a part of {}", part));
    const bool may_be_smaller = incomplete_ || may_lag_;
    if (of.size() != wanted && !(may_be_smaller && of.size() < wanted))
        fail(fmt::format("S3: the volume has {} of {}, its part is {}", of.size(), whole, part));
    if (part != 0 || of.size() == whole) incomplete_ = false;
    if (part == 0 && !incomplete_) may_be_part_ = false;
    for (uint64_t i = 0; i < kModelBlocks; ++i) {
        if (i >= of.blocks() && blocks_[i].sure && !blocks_[i].operators)
            fail(fmt::format("S2: block {} is beyond the end {}, and nobody cut it off", i, of.size()));
        read(i);
    }
}

void SizeWorld::run(int steps) {
    for (int i = 0; i < steps && failure_.empty(); ++i) {
        if (ending_ != Ending::kNo) restart();
        if (!over()) event();
    }
    if (ending_ != Ending::kNo && failure_.empty()) restart();
    if (!over()) settle();
}

}  // namespace wss::volume
