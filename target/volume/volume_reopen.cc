// SPDX-License-Identifier: Apache-2.0
// VolumeSet: reopens a volume that lost its storage to another owner, when the operator requests it. The
// volume gets a new backend and keeps everything else.
//
//   look      the volume is lost, no observer holds data that its storage lacks, and the present owner of the
//             storage can be shut out, if that was requested
//   open      the new backend opens by its own rules (it may refuse while another owner is alive)
//   drop      observers drop their copies of its contents, which others have written since; before "open" if
//             that shuts out another owner
//   replace   the old volume closes on each reactor, the new one takes its LUN, name and identity
//
// A volume that could not be opened at all has no old backend. It is opened as at a start.
//
// A failure before "replace" leaves the volume lost, as it was.
#include "lib/base/log.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// The volume to reopen. Used on the caller's thread.
class VolumeSet::LostVolume {
  public:
    LostVolume(VolumeSet& set, const std::string& name) : set_(set), name_(name) {}
    // Waits until the volume that was replaced, or a new one that is not served, is closed.
    ~LostVolume() {
        record_.reset();
        volume_.reset();
        set_.retire();
    }
    LostVolume(const LostVolume&) = delete;
    LostVolume& operator=(const LostVolume&) = delete;
    // Fails unless the volume exists and is lost. With `may_give_up`, trouble of its backend suffices.
    Status find(bool may_give_up);
    // Marks the volume as lost, unless it already is.
    Status give_up();
    // Observers drop their copies of its contents. `look_only`: they only report whether they would.
    Status drop_contents(bool give_up_dirty, bool look_only);
    // True if others took storage that the volume covered entirely. The caller has the turn of the volume, so
    // no change of its size is in progress.
    bool covered_all() const {
        return volume_->loss_.load(std::memory_order_acquire) == Volume::Loss::kOfKnownSize &&
               !volume_->sizes().is_part();
    }
    Result<std::unique_ptr<io::Backend>> open_storage(bool steal) const;
    // Copies the settings of the volume to `made`. Changes of settings are then refused until the reopening
    // ends. A failure changes nothing.
    Status hand_over_to(Record& made);

    // Ends its notices. It closes as soon as the reactors have released it.
    void let_go() {
        volume_->backend().watch_size({});
        volume_.reset();
    }

    const RecordPtr& record() const { return record_; }
    const std::shared_ptr<Volume>& volume() const { return volume_; }

  private:
    Status save_for(const Record& made);  // change_m_ held
    Status not_lost() const;

    VolumeSet& set_;
    const std::string& name_;
    RecordPtr record_;
    std::shared_ptr<Volume> volume_;
};

Status VolumeSet::LostVolume::find(bool may_give_up) {
    std::lock_guard lock(set_.m_);
    auto record = set_.find_live(name_);
    if (!record) return record.status();
    record_ = *record;
    volume_ = record_->volume;
    if (volume_->lost() || (may_give_up && !volume_->backend().trouble().empty())) return Status::ok();
    return not_lost();
}

Status VolumeSet::LostVolume::give_up() {
    if (volume_->lost()) return Status::ok();
    if (!volume_->backend().give_up()) return not_lost();
    // The size of its storage may not be known, so the volume keeps its size.
    set_.storage_lost(name_, volume_.get(), 0);
    return Status::ok();
}

Status VolumeSet::LostVolume::not_lost() const {
    const std::string trouble = volume_->backend().trouble();
    if (trouble.empty())
        return failure(Code::kInvalid, "volume {} still has its storage: there is nothing to reopen", name_);
    return failure(Code::kInvalid, "volume {} has not lost its storage: there is nothing to reopen; {}",
                   name_, trouble);
}

Status VolumeSet::LostVolume::drop_contents(bool give_up_dirty, bool look_only) {
    return set_.wait_for("reopening volume " + name_, [&](Done done) {
        auto& tables = set_.tables_;
        if (tables.empty()) return done(Status::ok());
        auto gathering = std::make_shared<Gathering>(tables.size(), std::move(done));
        for (size_t i = 0; i < tables.size(); ++i)
            set_.reactors_[i]->post(
                [table = tables[i].get(), volume = volume_, gathering, give_up_dirty, look_only] {
                    auto answer = [gathering](Status status) { gathering->arrive(std::move(status)); };
                    OpenVolume* open = table->find(volume->lun());
                    if (open == nullptr || &open->volume() != volume.get())
                        return answer(removed_meanwhile());
                    table->reopen(*open, give_up_dirty, look_only, answer);
                });
    });
}

Result<std::unique_ptr<io::Backend>> VolumeSet::LostVolume::open_storage(bool steal) const {
    return set_.options_.open(volume_->backend_name(), {.size = volume_->size(),
                                                        .read_only = record_->options.read_only,
                                                        .grow = false,
                                                        .block = volume_->block_size(),
                                                        .any_size = true,
                                                        .steal = steal,
                                                        .given_up = record_->removed});
}

// Creates the volume as a start would, on an open backend.
Result<VolumeSet::RecordPtr> VolumeSet::make_again(const Record& lost, const Volume& volume, bool covered_all,
                                                   std::unique_ptr<io::Backend> backend) {
    auto record = std::make_shared<Record>();
    {
        std::lock_guard lock(m_);
        record->options = lost.options;
    }
    record->options.create = false;
    record->options.block_size = volume.block_size();
    // A volume that covered all of its storage still does.
    record->options.size = covered_all ? 0 : volume.size();
    record->grow = false;
    record->identity = lost.identity;
    record->configured_size = lost.configured_size;
    record->keeps_size = lost.keeps_size;
    record->part = volume.sizes().part();
    record->reopening = true;
    WSS_TRY(make_volume(*record, std::move(backend)));
    if (covered_all) record->volume->size_.take_all();
    record->options.size = lost.options.size;
    return record;
}

Status VolumeSet::LostVolume::hand_over_to(Record& made) {
    std::lock_guard changing(set_.change_m_);
    WSS_TRY(save_for(made));
    const bool read_only = volume_->read_only();
    std::lock_guard lock(set_.m_);
    auto live = set_.find_live(name_);
    if (!live) return live.status();
    if (*live != record_) return failure(Code::kBusy, "volume {} was replaced meanwhile", name_);
    record_->state = Record::State::kRemoving;
    record_->reopening = true;
    made.access = record_->access;
    made.options.access = record_->options.access;
    made.write_protected = read_only;
    made.volume->read_only_.store(read_only, std::memory_order_relaxed);
    return Status::ok();
}

Status VolumeSet::LostVolume::save_for(const Record& made) {
    Known before;
    // Others may have resized the storage: the next start must not restore the configured size.
    const bool there = set_.remember(*volume_, [&](Known& known) {
        before = known;
        const uint64_t bytes = made.volume->size(), configured = record_->options.size;
        const bool takes_any_size =
            !made.keeps_size && made.part == 0 && made.volume->sizes().is_all_of(made.storage_bytes);
        const bool is_resized = known.sizes.resized() != 0 || (configured != 0 && configured != bytes);
        std::optional<uint64_t> part;
        if (made.part != 0) part = made.volume->sizes().part();
        known.sizes.reopen(is_resized && !takes_any_size ? bytes : 0, part);
    });
    if (!there) return removed_meanwhile();
    Status saved = set_.save();
    if (saved) return saved;
    set_.remember(*volume_, [&](Known& known) { known = before; });
    set_.save_again();
    return saved.within(fmt::format("volume {} was not reopened", name_));
}

// Opens the volume as a start does. Data in cache engines is not dropped: the cache refuses a volume that
// does not match that data (Observer::may_open()).
Status VolumeSet::open_again(const std::string& name, bool steal) {
    VolumeOptions options;
    {
        std::lock_guard lock(m_);
        const Unopened::One* unopened = unopened_.find(name);
        if (unopened == nullptr) return failure(Code::kNotFound, "there is no volume {}", name);
        options = unopened->stored.options;
    }
    Status opened = wait_for("opening volume " + name, [&](Done done) {
        open_async(options, {.again = true, .steal = steal}, std::move(done));
    });
    if (opened) return opened;
    std::lock_guard lock(m_);
    unopened_.explain(name, reason_of(opened, name));
    return opened;
}

Status VolumeSet::reopen(const std::string& name, const ReopenOptions& how) {
    bool unopened = false;
    {
        std::lock_guard lock(m_);
        unopened = unopened_.find(name) != nullptr;
    }
    if (unopened && how.give_up_dirty)
        return failure(Code::kInvalid,
                       "volume {} is not open: wssctl cache give-up {} drops its data in cache engines", name,
                       name);
    if (unopened) {
        WSS_TRY(open_again(name, how.steal));
        std::lock_guard changing(change_m_);
        save_again();
        return Status::ok();
    }
    LostVolume former(*this, name);
    WSS_TRY(former.find(how.give_up_dirty));
    const RecordPtr lost = former.record();
    Volume* const volume = former.volume().get();  // until let_go()
    const bool was_lost = volume->lost();
    if (lost->resizing.exchange(true))
        return failure(Code::kBusy, "volume {}: a resize or a reopening is still in progress; try again",
                       name);
    const Turn turn(lost);
    if (how.steal) WSS_TRY(volume->backend().may_steal().within("volume " + name));
    // The next step drops contents, which is allowed only for a lost volume.
    if (how.steal) WSS_TRY(former.give_up());
    // With `steal`, contents are dropped now, before a live owner is shut out.
    WSS_TRY(former.drop_contents(how.give_up_dirty, !how.steal));
    auto backend = former.open_storage(how.steal);
    if (!backend) return backend.status().within("volume " + name);
    const bool covered_all = former.covered_all();
    auto made = make_again(*lost, *volume, covered_all, std::move(*backend));
    if (!made) return made.status();
    const std::shared_ptr<Volume> again = (*made)->volume;
    // The checks above ensure that observers no longer refuse.
    WSS_TRY(former.give_up());
    if (!how.steal) WSS_TRY(former.drop_contents(how.give_up_dirty, false));
    WSS_TRY(former.hand_over_to(**made));
    former.let_go();
    WSS_TRY(wait_for("reopening volume " + name, [&](Done done) { replace(lost, *made, std::move(done)); }));
    {
        std::lock_guard changing(change_m_);
        save_again();
    }
    const io::Backend& now = again->backend();
    if (!now.lost()) {
        // Storage of another node that is too small for the volume reports no size. Size notices that came
        // before the new volume replaced the old one had no effect. A volume that was given up does not
        // shrink to storage that may be the wrong one.
        if (was_lost) follow_backend(name, again.get(), covered_all ? again->size() : 0, now.limits().size);
        return Status::ok();
    }
    return failure(Code::kRefused, "volume {}: its storage still has another owner: {}", name, now.trouble());
}

void VolumeSet::replace(const RecordPtr& lost, const RecordPtr& made, Done done) {
    auto closed = [this, lost, made, done](Status) {
        {
            std::lock_guard lock(m_);
            lost->opens.clear();
            retired_.push_back(std::move(lost->volume));
            records_[made->options.name] = made;
        }
        serve(made, [this, made, done](Status served) {
            if (!served && !ends_)
                log::error("{}; the volume is not served until wssctl volume reopen {} succeeds",
                           served.to_string(), made->options.name);
            done(std::move(served));
        });
    };
    close_on_reactors(lost, closed, true);
}

}  // namespace wss::volume
