// SPDX-License-Identifier: Apache-2.0
// The keeper, the first thread of a client. It checks that the image exists and that this client still owns
// it, even without requests. It follows the size of the image, and reports waiting requests. Until the
// image is lost or its parents move, it never waits for librbd.
//
// A look is one small operation on the image's header, which reads its size and the holder of its lock. One
// is in flight at a time. Only looks can detect a loss for a client without requests, for a snapshot, which
// has no notifications, and for a client that lost its lock without being blocklisted.
#include <cerrno>
#include <system_error>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr auto kKeeperPeriod = std::chrono::seconds(1);
constexpr Nanoseconds kWaitWorthAWord = from_s(5);
constexpr Nanoseconds kEndsMax = from_s(1);  // wait for requests that are about to fail
constexpr Nanoseconds kNotPermittedPause = from_s(60);
constexpr size_t kSizeBytes = 9;  // one byte for the object size (log2), eight for the image size

int64_t seconds(Nanoseconds time) {
    return time.count / from_s(1).count;
}

// The size from the reply of get_size, rounded down to whole blocks.
uint64_t size_of(std::span<const char> answer) {
    uint64_t bytes = 0;
    for (size_t i = kSizeBytes; i > 1; --i) bytes = bytes << 8 | static_cast<unsigned char>(answer[i - 1]);
    return bytes / kBlock * kBlock;
}

}  // namespace

void Client::keep() {
    std::unique_lock lock(keeper_lock_);
    for (;;) {
        keeper_wake_.wait_for(lock, kKeeperPeriod,
                              [this] { return stopping_ || header_changed_ || look_over_ || urgent_; });
        if (stopping_) return;
        const bool changed = std::exchange(header_changed_, false);
        const bool looked = std::exchange(look_over_, false);
        urgent_ = false;
        lock.unlock();
        // A step that throws is repeated in the next turn.
        const Status kept = caught([&] {
            keep_up(looked, changed);
            return Status::ok();
        });
        std::string failure = kept ? "" : kept.text();
        if (!kept && failure != keeper_failure_)
            log::error("rbd:{}: checking the image failed: {}", options_.name(), failure);
        keeper_failure_ = std::move(failure);
        lock.lock();
    }
}

void Client::keep_up(bool looked, bool changed) {
    News news{.changed = changed};
    if (looked) take_look(news);
    notify(news);
    look_at_parents();
    // A header change of a clone may be its flattening, and a mark of the object map may be removed soon.
    look_soon_ |= changed || parents_.wants_look(look_.began());
    begin_look();
    give_up_lock();
    take_orphans();
    report_waiting();
}

// Takes late calls that completed after their queue was destroyed, so that they no longer block requests.
void Client::take_orphans() noexcept {
    for (Calls* calls = calls_.load(); calls != nullptr; calls = calls->next) {
        if (!calls->is_orphaned()) continue;
        for (Call* call = calls->completions().take_all(); call != nullptr; call = call->next)
            late_calls_.remove(*call);
    }
}

void Client::News::add(const News& later) {
    changed |= later.changed;
    if (!later.looked) return;
    was_marked |= later.was_marked || is_marked();
    looked = true;
    flags = later.flags;
    marks = later.marks;
}

// Passes news to the follower.
void Client::notify(const News& news) {
    if (!news.any()) return;
    std::lock_guard lock(keeper_lock_);
    news_.add(news);
    follower_wake_.notify_one();
}

// Returns false if librados has not accepted the operation.
bool Client::ask(const char* method, std::span<const char> input, Questions::Over over) noexcept {
    auto answered = [this, over = std::move(over)](int result, std::span<const char> answer) {
        if (result == -ESHUTDOWN) lose(Loss::kBlocklisted);
        over(result, answer);
    };
    return questions_.ask({pool_, header_.c_str()}, method, input, std::move(answered));
}

// Called on a thread of librbd at each change of the header. This client has the lock. So its own librbd
// carries out every resize, and this read reaches the OSD before the next resize. So this client detects both
// of two resizes in quick succession.
void Client::read_size() noexcept {
    ask("get_size", look_input_,
        [this, moment = sizes_.moment()](int, std::span<const char> answer) { size_is(answer, moment); });
}

// Takes a reply of get_size. Called on the thread of librados that reports completions, so that replies come
// in order.
void Client::size_is(std::span<const char> answer, uint64_t moment) noexcept {
    // A lost image keeps its last size, because its current size is set by another owner.
    if (lost() || !options_.is_head() || answer.size() < kSizeBytes) return;
    const uint64_t bytes = size_of(answer);
    // An opening may still have to enlarge an image that was smaller before.
    const bool was_enough = sizes_.latest() >= at_least_;
    if (bytes == 0 || (bytes < at_least_ && was_enough)) return lose(Loss::kEmptied);
    if (resizing_.load() == Resizing::kUnknown && !sizes_.has_resized_since(moment)) {
        sizes_.failed_own(bytes);
        resizing_.store(Resizing::kNo);
        return;
    }
    // During an own growth, the former size may be that of a shrink by others that followed the growth.
    const uint64_t before = sizes_.latest();
    const bool is_news = bytes != before || resizing_.load() == Resizing::kUnderWay;
    if (!is_news || !sizes_.changed(bytes, moment) || bytes == before) return;
    log::info("rbd:{}: the image was resized from {} to {}", options_.name(), readable_size(before),
              readable_size(bytes));
}

// Blocks. Returns nullopt if the size cannot be read.
std::optional<uint64_t> Client::size_in_ceph() const {
    std::array<char, 16> answer{};
    const int result = rados_exec(pool_, header_.c_str(), "rbd", "get_size", look_input_.data(),
                                  look_input_.size(), answer.data(), answer.size());
    if (result < static_cast<int>(kSizeBytes)) return std::nullopt;
    return size_of(answer);
}

Client::Waiting Client::waiting() const {
    int64_t oldest = 0;
    Waiting all;
    for (const Calls* calls = calls_.load(); calls != nullptr; calls = calls->next) {
        all.requests += calls->requests.load(std::memory_order_relaxed);
        const int64_t since = calls->oldest.load(std::memory_order_relaxed);
        if (since != 0 && (oldest == 0 || since < oldest)) oldest = since;
    }
    if (oldest != 0) all.oldest = SystemClock().now() - Nanoseconds{oldest};
    return all;
}

void Client::report_waiting() {
    const Waiting all = waiting();
    const bool waits = all.oldest >= kWaitWorthAWord || late_calls_.count() > 0;
    if (waits == waiting_reported_) return;
    waiting_reported_ = waits;
    if (waits && all.oldest < kWaitWorthAWord)
        log::warning("rbd:{}: Ceph has not answered {} requests, which failed after {} s (osd_timeout)",
                     options_.name(), late_calls_.count(), options_.osd_timeout);
    else if (waits && throttles_.any())
        log::warning(
            "rbd:{}: {} requests wait for Ceph or for limits of the image ({}), to which osd_timeout does "
            "not apply; the oldest has waited for {} s",
            options_.name(), all.requests, throttles_.text(), seconds(all.oldest));
    else if (waits)
        log::warning(
            "rbd:{}: {} requests wait for Ceph, the oldest for {} s; each fails after {} s (osd_timeout)",
            options_.name(), all.requests, seconds(all.oldest), options_.osd_timeout);
    else if (throttles_.any())
        log::info("rbd:{}: requests no longer wait", options_.name());
    else
        log::info("rbd:{}: Ceph answers again", options_.name());
}

// Limits the rate of the log message: if only some requests are permitted, the state changes with each
// request.
bool Client::is_news_again() noexcept {
    const int64_t now = SystemClock().now().count;
    int64_t before = not_permitted_logged_.load(std::memory_order_relaxed);
    return (before == 0 || now - before >= kNotPermittedPause.count) &&
           not_permitted_logged_.compare_exchange_strong(before, now, std::memory_order_relaxed);
}

void Client::note_answer(bool read, int error) noexcept {
    if (error == ESHUTDOWN) return lose(Loss::kBlocklisted);
    if (!read && error != 0) doubt_map(error);
    const uint8_t bit = read ? 1 : 2;
    const bool before = (not_permitted_.load(std::memory_order_relaxed) & bit) != 0;
    const bool now = error == EPERM || error == EACCES;
    if (now == before) return;
    if (!now)
        not_permitted_.fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
    else if (not_permitted_.fetch_or(bit, std::memory_order_relaxed) == 0 && is_news_again())
        log::error("rbd:{}: Ceph does not permit requests of client.{}: see its capabilities (ceph auth get)",
                   options_.name(), options_.user);
}

std::string Client::trouble() const {
    switch (loss_.load(std::memory_order_acquire)) {
        case Loss::kBlocklisted:
            return "blocklisted by Ceph: another client took the image";
        case Loss::kDeleted:
            return "the image, its snapshot or its pool is deleted";
        case Loss::kTaken:
            if (keeps_claim_.load())
                return "its exclusive lock was taken away, and its client cannot be blocklisted (see the "
                       "log); the image is not reopened until it is";
            return "its exclusive lock was taken away: another client can write the image";
        case Loss::kEmptied:
            return "the image was resized to 0 bytes, or to less than one block of the volume";
        case Loss::kNone:
            break;
    }
    if (unusable())
        return "a parent of the image was replaced or removed, and reads as zeroes: "
               "restart the program that has the image open";
    const Waiting all = waiting();
    const Nanoseconds silent = since(answered_);
    const bool away = suspended();
    std::string text;
    if (all.oldest >= kWaitWorthAWord)
        text = fmt::format("{} requests wait for {}, the oldest for {} s", all.requests,
                           throttles_.any() ? fmt::format("Ceph, or for {}", throttles_.text()) : "Ceph",
                           seconds(all.oldest));
    else if (const int error = look_error_.load(); error != 0)
        text = fmt::format("reads of the image's header have failed for {} s ({})", seconds(silent),
                           std::generic_category().message(error));
    else if (away || silent >= kWaitWorthAWord)
        text = fmt::format("Ceph has not answered for {} s", seconds(silent));
    else if (holds())
        text =
            "a parent of the image is gone or was replaced: "
            "requests wait until the image shows whether it needs that parent";
    else if (late_calls_.count() > 0)
        text = fmt::format("Ceph has not answered {} requests, which failed after {} s (osd_timeout)",
                           late_calls_.count(), options_.osd_timeout);
    else if (const int unmarkable = mark_error_.load(); unmarkable != 0 && doubts_map())
        text = unmarked(unmarkable);
    else if (not_permitted_.load(std::memory_order_relaxed) != 0)
        text = fmt::format("Ceph does not permit requests of client.{}", options_.user);
    else if (parents_.silent(boot_time()) >= kWaitWorthAWord)
        text = fmt::format("Ceph has not answered checks of the image's parents for {} s",
                           seconds(parents_.silent(boot_time())));
    if (away) text += "; another client may have taken the image meanwhile (away_timeout)";
    return text;
}

Nanoseconds Client::since(const std::atomic<int64_t>& time) noexcept {
    return SystemClock().now() - Nanoseconds{time.load(std::memory_order_acquire)};
}

// A snapshot is suspended only if it is unusable, because no client can change it.
bool Client::suspended() const noexcept {
    if (unusable() || !options_.is_head()) return unusable();
    const Nanoseconds seen{seen_.load(std::memory_order_acquire)};
    return boot_time() - seen >= from_s(options_.away_timeout);
}

void Client::begin_look() {
    const Nanoseconds now = boot_time();
    look_.cancel_late(now, from_s(options_.away_timeout));
    questions_.cancel_late(now, from_s(options_.away_timeout));
    if (look_.under_way() || (!look_soon_ && now - look_.began() < kLookPeriod)) return;
    look_soon_ = false;
    auto over = [](rados_completion_t, void* context) {
        auto* self = static_cast<Client*>(context);
        // A notification may have been missed while the watch of the image was renewed.
        self->size_is(self->look_.size(), self->look_moment_);
        std::lock_guard lock(self->keeper_lock_);
        self->look_over_ = true;
        self->keeper_wake_.notify_one();
    };
    look_moment_ = sizes_.moment();
    look_marks_ = marks_.load();
    (void)look_.begin({.pool = pool_,
                       .header = header_.c_str(),
                       .snapshot = look_input_,
                       .lock = options_.is_head(),
                       .parent = parents_.any()},
                      now, over, this);
}

void Client::take_look(News& news) {
    const int result = look_.take();
    if (result == -ESHUTDOWN) return lose(Loss::kBlocklisted);
    if (result == -ENOENT || !pools_exist()) return lose(Loss::kDeleted);
    if (result == -ECANCELED) return;
    look_error_.store(result < 0 ? -result : 0);
    if (result < 0) return;
    if (options_.is_head() && !unusable()) check_lock();
    if (parents_.any() && !parents_.image_is(look_, look_.began(), options_.is_head()))
        look_error_.store(EBADMSG);
    if (unusable() || look_error_.load() != 0 || !parents_.exist()) return;
    seen_.store(look_.began().count, std::memory_order_release);
    answered_.store(SystemClock().now().count, std::memory_order_release);
    if (const std::optional<uint64_t> flags = look_.flags(); flags && options_.is_head() && !read_only_) {
        const bool maps = look_.maps_objects();
        news.was_marked = maps && !maps_objects_.load();
        maps_objects_.store(maps);
        news.looked = true;
        news.flags = *flags;
        news.marks = look_marks_;
        was_marked_at_look_.store(news.is_marked());
        if (maps && (news.was_marked || news.is_marked())) was_marked_.store(true);
    }
}

void Client::check_lock() {
    if (!look_.has_lock()) return lose(Loss::kTaken);
    switch (look_.holder(rados_get_instance_id(cluster_))) {
        case LockHolder::kOurs:
            no_holder_since_ = kNever;
            return;
        case LockHolder::kOther:
            return lose(Loss::kTaken);
        case LockHolder::kNobody:
            // librbd itself may cause this for a moment, when it renews the lock with the watch of the image.
            if (no_holder_since_ == kNever) no_holder_since_ = look_.began();
            if (look_.began() - no_holder_since_ >= kLookPeriod) lose(Loss::kTaken);
            return;
        case LockHolder::kUnreadable:
            look_error_.store(EBADMSG);
    }
}

void Client::look_at_parents() {
    if (lost()) return parents_.end_watches();
    const Parents::State state = parents_.look(boot_time(), from_s(options_.away_timeout));
    if (state == Parents::State::kDeleted) return lose(Loss::kDeleted);
    if (state != Parents::State::kMoved || unusable()) return;
    moved_at_ = boot_time();
    parents_moved_.store(true, std::memory_order_release);
    parents_.end_watches();
    log::error("rbd:{}: {}. All requests fail until then", options_.name(), trouble());
}

bool Client::release_lock() const {
    const int result = rbd_lock_release(image_);
    if (result >= 0 || result == -ENOENT) return true;
    if (!keeps_claim_.load())
        log::warning("rbd:{}: cannot release the exclusive lock: {}", options_.name(),
                     std::generic_category().message(-result));
    return false;
}

// Releases the lock of an image that is lost although this client is not blocklisted, or whose parents moved:
// with the lock, librbd would carry out requests of others (rbd flatten) with outdated knowledge of the
// parents. The last requests must end before another client can take the image. If the parents moved,
// requests fail anyway, and those that Ceph does not answer delay the release by at most kEndsMax. If the
// lock was taken away, librbd still has calls, or the release fails, this client blocklists itself, so that
// OSDs reject its operations. In the first case it does so at once: another client may write already, and
// requests that an image's limits delay could overwrite its data hours later. A resize is such a call: librbd
// would take the lock again for a resize that the release interrupts.
void Client::give_up_lock() {
    const Loss loss = loss_.load();
    const bool moved = parents_moved_.load() && options_.is_head();
    if (!(keeps_lock(loss) || moved) || gave_up_lock_) return;
    if (!is_without_lock() && waiting().requests > 0 && !(moved && boot_time() - moved_at_ >= kEndsMax))
        return;
    end_marks();
    // If the release cannot be recorded, the next holder must find the lock of a client that is shut out.
    const bool in_order = moved && succession_.is_known();
    bool released = false;
    if (!is_without_lock() && in_librbd().requests == 0) {
        const std::unique_lock no_resize(size_lock_, std::try_to_lock);
        released = no_resize && (in_order ? release_in_order().is_ok() : release_lock());
    }
    if (!released) {
        // The claim is kept until the blocklisting succeeds.
        if (Status shut = shut_itself_out(); !shut) {
            if (!keeps_claim_.exchange(true)) log::warning("rbd:{}: {}", options_.name(), shut.to_string());
            return;
        }
    }
    gave_up_lock_ = true;
    keeps_claim_.store(false);
    // With moved parents the claim stays: this volume destages its dirty data after a restart of the program.
    if (!moved) claim_.release();
}

}  // namespace wss::io::rbd
