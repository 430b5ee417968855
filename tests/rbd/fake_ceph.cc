// SPDX-License-Identifier: Apache-2.0
#include "tests/rbd/fake_ceph.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "lib/base/assert.h"

namespace wss::test {

namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr int kLibrbdThreads = 2;

size_t index(Kind kind) {
    return static_cast<size_t>(kind);
}

bool overlap(uint64_t offset, uint64_t length, const std::pair<uint64_t, uint64_t>& range) {
    return offset < range.second && range.first < offset + length;
}

bool changes(Kind kind) {
    return kind == Kind::kWrite || kind == Kind::kWriteZeroes;
}

}  // namespace

FakeCeph* FakeCeph::current_ = nullptr;

FakeCeph& FakeCeph::current() {
    WSS_ASSERT(current_ != nullptr, "no fake exists for this client of Ceph");
    return *current_;
}

FakeCeph::FakeCeph(const Layout& layout) : layout_(layout) {
    WSS_ASSERT(current_ == nullptr, "another fake exists");
    state.size = layout.size;
    current_ = this;
    for (int i = 0; i < kLibrbdThreads; ++i) librbd_.threads.emplace_back([this] { answer_calls(librbd_); });
    librados_.threads.emplace_back([this] { answer_calls(librados_); });
}

FakeCeph::~FakeCeph() {
    {
        std::lock_guard lock(m_);
        ends_ = true;
        changed_.notify_all();
    }
    for (Lane* lane : {&librbd_, &librados_})
        for (std::thread& thread : lane->threads) thread.join();
    WSS_ASSERT(clients_.empty(), "a client of Ceph outlives the fake");
    current_ = nullptr;
}

// ---- Answers

void FakeCeph::hold(uint64_t offset, uint64_t length) {
    std::lock_guard lock(m_);
    held_ranges_.emplace_back(offset, offset + length);
}

void FakeCeph::hold(Kind kind) {
    std::lock_guard lock(m_);
    held_kinds_.insert(kind);
}

void FakeCeph::hold_returns(Kind kind) {
    std::lock_guard lock(m_);
    held_returns_.insert(kind);
}

void FakeCeph::hold_looks_at(const std::string& image) {
    std::lock_guard lock(m_);
    held_headers_.insert("rbd_header." + image);
}

void FakeCeph::release() {
    std::lock_guard lock(m_);
    held_headers_.clear();
    held_ranges_.clear();
    held_kinds_.clear();
    held_returns_.clear();
    for (Operation& one : std::exchange(held_, {})) lane_of(one).ready.push_back(std::move(one));
    changed_.notify_all();
}

void FakeCeph::release(Kind kind) {
    std::lock_guard lock(m_);
    held_kinds_.erase(kind);
    for (Operation& one : std::exchange(held_, {}))
        if (is_held(one))
            held_.push_back(std::move(one));
        else
            lane_of(one).ready.push_back(std::move(one));
    changed_.notify_all();
}

std::vector<FakeCeph::HeldCall> FakeCeph::held() const {
    std::lock_guard lock(m_);
    std::vector<HeldCall> calls;
    for (const Operation& one : held_) calls.push_back({one.id, one.kind, one.offset, one.length});
    return calls;
}

bool FakeCeph::holds(Kind kind) const {
    std::lock_guard lock(m_);
    return std::any_of(held_.begin(), held_.end(), [&](auto& one) { return one.kind == kind; });
}

void FakeCeph::release(const HeldCall& call) {
    std::lock_guard lock(m_);
    const auto one = std::find_if(held_.begin(), held_.end(), [&](auto& it) { return it.id == call.id; });
    if (one == held_.end()) return;
    lane_of(*one).ready.push_back(std::move(*one));
    held_.erase(one);
    changed_.notify_all();
}

void FakeCeph::refuse(Kind kind, int error) {
    std::lock_guard lock(m_);
    refusals_[index(kind)] = error;
}

void FakeCeph::refuse_looks_at(const std::string& image, int error) {
    std::lock_guard lock(m_);
    refused_headers_["rbd_header." + image] = error;
}

uint64_t FakeCeph::answered(Kind kind) const {
    std::lock_guard lock(m_);
    return answered_[index(kind)];
}

void FakeCeph::shuffle(uint64_t seed) {
    std::lock_guard lock(m_);
    chance_ = seed | 1;
}

bool FakeCeph::wait_until(const std::function<bool()>& condition) const {
    std::unique_lock lock(m_);
    return changed_.wait_for(lock, kPatience, condition);
}

bool FakeCeph::wait_until_quiet() const {
    return wait_until([this] {
        return librbd_.ready.empty() && librbd_.answering == 0 && librados_.ready.empty() &&
               librados_.answering == 0;
    });
}

bool FakeCeph::is_held(const Operation& operation) const {
    if (held_kinds_.contains(operation.kind)) return true;
    if (held_headers_.contains(operation.header)) return true;
    return operation.image != nullptr &&
           std::any_of(held_ranges_.begin(), held_ranges_.end(),
                       [&](auto& range) { return overlap(operation.offset, operation.length, range); });
}

int FakeCeph::refusal_of(Kind kind, const FakeClient* client) const {
    return client != nullptr && client->blocklisted ? ESHUTDOWN : refusals_[index(kind)];
}

void FakeCeph::take(Operation operation) {
    std::lock_guard lock(m_);
    operation.id = next_id_++;
    if (operation.image != nullptr) ++operation.image->in_librbd;
    const bool held = is_held(operation);
    if (held)
        held_.push_back(std::move(operation));
    else
        lane_of(operation).ready.push_back(std::move(operation));
    changed_.notify_all();
}

bool FakeCeph::cancel(const void* completion) {
    std::lock_guard lock(m_);
    const auto one =
        std::find_if(held_.begin(), held_.end(), [&](auto& it) { return it.completion == completion; });
    if (one == held_.end()) return false;
    one->carry_out = [] { return -ECANCELED; };
    librados_.ready.push_back(std::move(*one));
    held_.erase(one);
    changed_.notify_all();
    return true;
}

int FakeCeph::call(Kind kind, FakeClient* client, const std::function<int()>& carry_out) {
    std::unique_lock lock(m_);
    changed_.wait(lock, [&] { return !held_kinds_.contains(kind); });
    const int refused = refusal_of(kind, client);
    const int result = refused != 0 ? -refused : carry_out();
    ++answered_[index(kind)];
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_returns_.contains(kind); });
    return result;
}

int FakeCeph::taking() const {
    std::lock_guard lock(m_);
    return refusals_[index(Kind::kTake)];
}

size_t FakeCeph::next_of(const Lane& lane) {
    if (&lane != &librbd_ || chance_ == 0) return 0;
    chance_ = chance_ * 6364136223846793005 + 1442695040888963407;
    return (chance_ >> 33) % lane.ready.size();
}

void FakeCeph::answer_calls(Lane& lane) {
    std::unique_lock lock(m_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || !lane.ready.empty(); });
        if (lane.ready.empty()) return;
        const auto next = lane.ready.begin() + static_cast<ptrdiff_t>(next_of(lane));
        Operation operation = std::move(*next);
        lane.ready.erase(next);
        answer(lane, lock, std::move(operation));
    }
}

void FakeCeph::answer(Lane& lane, std::unique_lock<std::mutex>& lock, Operation operation) {
    ++lane.answering;
    int refused = refusal_of(operation.kind, operation.client);
    if (const auto one = refused_headers_.find(operation.header); one != refused_headers_.end())
        refused = one->second;
    const int64_t result = refused != 0 ? -refused : operation.carry_out();
    if (result < 0 && changes(operation.kind)) operation.image->map_invalid = true;
    lock.unlock();
    operation.answer(result);
    lock.lock();
    --lane.answering;
    if (operation.image != nullptr) --operation.image->in_librbd;
    ++answered_[index(operation.kind)];
    changed_.notify_all();
}

// ---- The cluster

int64_t FakeCeph::read_bytes(uint64_t offset, uint64_t length, char* to) const {
    if (offset >= state.size) return 0;
    const uint64_t end = std::min(offset + length, state.size);
    for (uint64_t at = offset; at < end;) {
        const uint64_t object = at / layout_.object, from = at % layout_.object;
        const uint64_t bytes = std::min(end - at, layout_.object - from);
        const auto found = objects_.find(object);
        if (found == objects_.end())
            std::memset(to, 0, bytes);
        else
            std::memcpy(to, found->second.data() + from, bytes);
        to += bytes;
        at += bytes;
    }
    return static_cast<int64_t>(end - offset);
}

int64_t FakeCeph::write_bytes(uint64_t offset, uint64_t length, const char* from) {
    const uint64_t end = offset + length;
    if (end > state.size) return -EINVAL;
    for (uint64_t at = offset; at < end;) {
        const uint64_t object = at / layout_.object, to = at % layout_.object;
        const uint64_t bytes = std::min(end - at, layout_.object - to);
        std::vector<char>& data = objects_[object];
        data.resize(layout_.object);
        if (from != nullptr)
            std::memcpy(data.data() + to, from + (at - offset), bytes);
        else
            std::memset(data.data() + to, 0, bytes);
        at += bytes;
    }
    return 0;
}

std::string FakeCeph::read(uint64_t offset, uint64_t length) const {
    std::lock_guard lock(m_);
    std::string bytes(length, '\0');
    bytes.resize(static_cast<size_t>(read_bytes(offset, length, bytes.data())));
    return bytes;
}

void FakeCeph::resize(uint64_t bytes) {
    with([&] {
        state.size = bytes;
        objects_.erase(objects_.lower_bound((bytes + layout_.object - 1) / layout_.object), objects_.end());
        const auto last = objects_.find(bytes / layout_.object);
        if (last != objects_.end())
            std::fill(last->second.begin() + static_cast<ptrdiff_t>(bytes % layout_.object),
                      last->second.end(), '\0');
    });
    notify();
}

void FakeCeph::set(const std::string& name, const std::string& value) {
    with([&] { state.settings[name] = value; });
    notify();
}

void FakeCeph::have_headers_read() {
    std::lock_guard lock(m_);
    for (FakeImage* image : images_) image->marked = state.map_invalid;
    changed_.notify_all();
}

void FakeCeph::notify() {
    have_headers_read();
    std::lock_guard lock(watches_lock_);
    for (const auto& [id, watch] : watches_)
        if (watch.header.empty()) watch.changed();
}

// Calls without a lock, as librados does: a watch may be notified after it has ended.
void FakeCeph::notify_of(const std::string& header) {
    if (header.empty()) return notify();
    std::vector<std::function<void()>> watching;
    {
        std::lock_guard lock(watches_lock_);
        for (const auto& [id, watch] : watches_)
            if (watch.header == header) watching.push_back(watch.changed);
    }
    for (const auto& changed : watching) changed();
}

uint64_t FakeCeph::watch(void (*changed)(void*), void* context) {
    return watch_header("", [=] { changed(context); });
}

uint64_t FakeCeph::watch_header(const std::string& header, std::function<void()> changed) {
    const uint64_t id = with([this] { return next_id_++; });
    std::lock_guard lock(watches_lock_);
    watches_[id] = {header, std::move(changed)};
    return id;
}

uint64_t FakeCeph::watch_lock(std::function<void(uint64_t client)> notified) {
    const uint64_t id = with([this] { return next_id_++; });
    std::lock_guard lock(watches_lock_);
    lock_watches_[id] = std::move(notified);
    return id;
}

void FakeCeph::work_for_others(bool works) {
    std::lock_guard lock(m_);
    for (FakeImage* image : images_)
        if (image->id == kImage) works ? ++image->in_librbd : --image->in_librbd;
    changed_.notify_all();
}

void FakeCeph::let_others_lock_once() {
    with([&] { state.lock_is_taken_once = true; });
}

void FakeCeph::let_others_lock(uint64_t client) {
    std::lock_guard lock(watches_lock_);
    other_locker_ = client;
}

void FakeCeph::lock_broken() {
    if (holds_broken_locks_.load()) hold(Kind::kLock);
    std::lock_guard lock(watches_lock_);
    if (other_locker_ == 0) return;
    for (const auto& [id, notified] : lock_watches_) notified(other_locker_);
}

size_t FakeCeph::watches() {
    std::lock_guard lock(watches_lock_);
    return watches_.size();
}

void FakeCeph::unwatch(uint64_t id) {
    std::lock_guard lock(watches_lock_);
    watches_.erase(id);
    lock_watches_.erase(id);
}

uint64_t FakeCeph::size() const {
    std::lock_guard lock(m_);
    return state.size;
}

void FakeCeph::delete_pool() {
    std::lock_guard lock(m_);
    state.pool_exists = false;
    objects_.clear();
}

void FakeCeph::clone(const std::string& image, const std::string& parent) {
    with([&] {
        state.cloned_from.erase(image);
        if (parent.empty()) return;
        state.cloned_from[image] = parent;
        state.parents.insert(parent);
    });
    notify_of(image == kImage ? "" : "rbd_header." + image);
}

void FakeCeph::remove(const std::string& parent) {
    with([&] { state.parents.erase(parent); });
    notify_of("rbd_header." + parent);
}

void FakeCeph::set_metadata(const std::string& key, const std::string& value) {
    std::lock_guard lock(m_);
    state.metadata[key] = value;
}

std::string FakeCeph::metadata(const std::string& key) const {
    std::lock_guard lock(m_);
    const auto found = state.metadata.find(key);
    return found == state.metadata.end() ? std::string() : found->second;
}

void FakeCeph::set_lock_owner(uint64_t client) {
    std::lock_guard lock(m_);
    state.lock_owner = client;
    changed_.notify_all();
}

void FakeCeph::add_watcher(uint64_t client) {
    std::lock_guard lock(m_);
    state.watchers.insert(client);
}
void FakeCeph::add_parent_watcher(uint64_t client) {
    std::lock_guard lock(m_);
    state.parent_watchers.insert(client);
}
void FakeCeph::add_dead_watcher(uint64_t client) {
    std::lock_guard lock(m_);
    state.dead_watchers[client] = Watcher{}.cookie;
}

void FakeCeph::kill_watchers() {
    std::lock_guard lock(m_);
    for (uint64_t client : std::exchange(state.watchers, {})) state.dead_watchers[client] = Watcher{}.cookie;
    for (uint64_t client : std::exchange(state.parent_watchers, {}))
        state.dead_watchers[client] = kWatchesOnly;
}

void FakeCeph::remove_dead_watchers() {
    std::lock_guard lock(m_);
    state.dead_watchers.clear();
}

uint64_t FakeCeph::lock_owner() const {
    std::lock_guard lock(m_);
    return state.lock_owner;
}

bool FakeCeph::is_blocklisted(uint64_t client) const {
    std::lock_guard lock(m_);
    return blocklist_.contains(client);
}

bool FakeCeph::is_map_invalid() const {
    std::lock_guard lock(m_);
    return state.map_invalid;
}

bool FakeCeph::knows_mark(uint64_t client) const {
    return std::ranges::any_of(
        images_, [=](const FakeImage* image) { return image->client->number == client && image->marked; });
}

void FakeCeph::rebuild_map() {
    with([this] { state.map_invalid = false; });
    forget_flags();
}

void FakeCeph::forget_flags() {
    with([this] {
        for (FakeImage* image : images_) image->map_invalid = false;
    });
    have_headers_read();
}

// ---- Clients

FakeClient* FakeCeph::connect() {
    auto client = std::make_unique<FakeClient>();
    std::lock_guard lock(m_);
    client->number = next_client_++;
    clients_.insert(client.get());
    return client.release();
}

void FakeCeph::disconnect(FakeClient* client) {
    std::lock_guard lock(m_);
    clients_.erase(client);
    delete client;
    changed_.notify_all();
}

FakeImage* FakeCeph::open(FakeClient* client, const std::string& id) {
    auto image = std::make_unique<FakeImage>();
    image->client = client;
    image->id = id;
    std::lock_guard lock(m_);
    image->marked = state.map_invalid;
    images_.insert(image.get());
    return image.release();
}

void FakeCeph::wait_for_calls(FakeImage& image) {
    std::unique_lock lock(m_);
    changed_.wait(lock, [&] { return image.in_librbd == 0 && !held_kinds_.contains(Kind::kLock); });
}

void FakeCeph::wait_for_marks(const FakeClient* client) {
    auto is_mark = [=](const Operation& one) { return one.kind == Kind::kMark && one.client == client; };
    std::unique_lock lock(m_);
    changed_.wait(lock, [&] {
        return std::none_of(held_.begin(), held_.end(), is_mark) &&
               std::none_of(librados_.ready.begin(), librados_.ready.end(), is_mark);
    });
}

void FakeCeph::close(FakeImage* image) {
    wait_for_calls(*image);
    wait_for_marks(image->client);
    std::lock_guard lock(m_);
    const bool owns = state.lock_owner == image->client->number && !image->client->blocklisted;
    if (owns && image->id == kImage) state.lock_owner = 0;
    images_.erase(image);
    delete image;
    changed_.notify_all();
}

// "192.0.2.1:0/NUMBER", as librbd names a client; librados puts "v1:" before it.
std::string FakeCeph::address_of(uint64_t client) {
    return "192.0.2.1:0/" + std::to_string(client);
}

bool FakeCeph::blocklist(const std::string& address) {
    const size_t at = address.find(":0/");
    if (at == std::string::npos) return false;
    const uint64_t number = std::stoull(address.substr(at + 3));
    blocklist_.insert(number);
    for (FakeClient* client : clients_) client->blocklisted |= client->number == number;
    return true;
}

std::vector<FakeCeph::Watcher> FakeCeph::alive() const {
    std::vector<Watcher> found;
    for (const FakeImage* image : images_)
        if (image->id == kImage && !image->client->blocklisted)
            found.push_back({.client = image->client->number});
    for (uint64_t client : state.watchers) found.push_back({.client = client});
    for (uint64_t client : state.parent_watchers) found.push_back({.client = client, .cookie = kWatchesOnly});
    return found;
}

}  // namespace wss::test
