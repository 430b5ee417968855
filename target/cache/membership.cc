// SPDX-License-Identifier: Apache-2.0
#include "target/cache/membership.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/file.h"

namespace wss::cache {

using nlohmann::json;

// Version 2 added lost lines; version 3 the volumes that may be dirty; version 4 the volumes whose storage
// has another owner, and the generation of lost data; version 5 the bounds of copies of lost lines. A program
// without support for these must reject the file: it would return old data, or destage it over newer data.
constexpr int kVersion = 5;

static json wwids(const std::set<uint64_t>& volumes) {
    json out = json::array();
    for (uint64_t wwid : volumes) out.push_back(fmt::format("{:016x}", wwid));
    return out;
}

static std::set<uint64_t> parse_wwids(const json& volumes) {
    std::set<uint64_t> out;
    for (const json& wwid : volumes) out.insert(std::stoull(wwid.get<std::string>(), nullptr, 16));
    return out;
}

static json place(const io::Succession& of) {
    return {of.series, of.term, of.since};
}

static io::Succession parse_place(const json& place) {
    return {.series = place.at(0).get<uint64_t>(),
            .term = place.at(1).get<uint64_t>(),
            .since = place.at(2).get<uint64_t>()};
}

static void put_dirty(const Membership& membership, json& out) {
    json dirty = json::object();
    for (const auto& [wwid, volume] : membership.dirty)
        dirty[fmt::format("{:016x}", wwid)] = {{"name", volume.name},
                                               {"bytes", volume.bytes},
                                               {"ownership", volume.ownership},
                                               {"owner", volume.owner},
                                               {"process", volume.process},
                                               {"taken_from", place(volume.taken)},
                                               {"storage", volume.storage.name},
                                               {"file", volume.storage.file}};
    out["dirty"] = dirty;
    out["given_up"] = wwids(membership.given_up);
    out["storage_lost"] = wwids(membership.storage_lost);
}

static json served_by(const ServedBy& by) {
    json out = place(by.last);
    out.push_back(by.latest_term);
    return out;
}

// Older files have no latest term.
static void get_served(const json& all, Membership& out) {
    for (const auto& [wwid, by] : all.items()) {
        ServedBy& served = out.served[std::stoull(wwid, nullptr, 16)];
        served.serve(parse_place(by));
        if (by.size() > 3) served.latest_term = std::max(served.latest_term, by.at(3).get<uint64_t>());
    }
}

// Older files store a chain of holders as "taken". No process follows a holder of that chain.
static io::Succession parse_taken(const json& volume) {
    if (volume.contains("taken_from")) return parse_place(volume.at("taken_from"));
    return {.series = volume.value("taken", uint64_t{0}), .term = 1, .since = 1};
}

static void get_dirty(const json& all, Membership& out) {
    for (const auto& [wwid, volume] : all.at("dirty").items())
        out.dirty[std::stoull(wwid, nullptr, 16)] = {
            .name = volume.at("name").get<std::string>(),
            .bytes = volume.at("bytes").get<uint64_t>(),
            .ownership = volume.value("ownership", std::string()),
            .owner = volume.value("owner", uint64_t{0}),
            .process = volume.value("process", uint64_t{0}),
            .taken = parse_taken(volume),
            .storage = {volume.value("storage", std::string()), volume.value("file", std::string())}};
    out.given_up = parse_wwids(all.at("given_up"));
}

// Older files have no such list. Their dirty volumes are those for which the operator chose write-back.
static void derive_dirty(Membership& out) {
    for (const auto& [wwid, settings] : out.policies)
        if (settings.policy == Policy::kBack) out.dirty[wwid];
    for (const auto& [key, loss] : out.lost.lines()) out.dirty[key.volume];
    for (uint64_t wwid : out.lost.whole()) out.dirty[wwid];
}

static json lines_of(const LostSubBlocks& lost, uint64_t volume) {
    json out = json::array();
    const auto end = lost.lines().upper_bound({volume, UINT64_MAX, UINT64_MAX});
    for (auto line = lost.lines().lower_bound({volume, 0, 0}); line != end; ++line) {
        const auto& [key, loss] = *line;
        out.push_back(fmt::format("{:x} {:x} {:x} {:x} {:x}", key.line, key.generation, loss.sub_blocks.bits,
                                  loss.bounds.end, loss.bounds.passed_over));
    }
    return out;
}

// Volumes with the fewest lost lines come first, so that a large loss of one volume does not cause other
// volumes to be saved as lost as a whole.
static void put_lost_lines(const LostSubBlocks& lost, json& out) {
    std::vector<std::pair<size_t, uint64_t>> volumes;
    for (const auto& [volume, count] : lost.counts()) volumes.push_back({count.lines, volume});
    std::sort(volumes.begin(), volumes.end());
    json lines = json::object();
    std::set<uint64_t> whole = lost.whole();
    size_t left = kLostLinesSaved;
    for (const auto& [count, volume] : volumes) {
        if (count > left) {
            whole.insert(volume);
            continue;
        }
        left -= count;
        lines[fmt::format("{:016x}", volume)] = lines_of(lost, volume);
    }
    out["lost"] = lines;
    out["lost_whole"] = wwids(whole);
}

static void put_lost(const Membership& membership, json& out) {
    json away = json::object();
    for (const auto& [identity, incarnation] : membership.away)
        away[fmt::format("{:016x}", identity)] = incarnation;
    out["away"] = away;
    out["generation"] = fmt::format("{:x}", membership.generation);
    put_lost_lines(membership.lost, out);
}

// Older files have no generation. Headers of unacknowledged writes are newer than lost data by less than
// 2^32.
static void derive_generation(Membership& out) {
    for (const auto& [key, loss] : out.lost.lines())
        out.generation = std::max(out.generation, key.generation + (uint64_t{1} << 32));
}

static Status get_lost(const json& all, int version, Membership& out) {
    for (const auto& [identity, incarnation] : all.at("away").items())
        out.away[std::stoull(identity, nullptr, 16)] = incarnation.get<uint32_t>();
    for (const auto& [volume, lines] : all.at("lost").items())
        for (const json& line : lines) {
            std::istringstream words(line.get<std::string>());
            LostSubBlocks::Key key{.volume = std::stoull(volume, nullptr, 16)};
            SubBlocks sub_blocks;
            LossBounds bounds;
            words >> std::hex >> key.line >> key.generation >> sub_blocks.bits;
            if (version >= 5) words >> bounds.end >> bounds.passed_over;
            if (!words) return failure(Code::kInvalid, "damaged: a lost line of {}", volume);
            out.lost.add(key, sub_blocks, {}, bounds);
        }
    for (const json& volume : all.at("lost_whole"))
        out.lost.add_whole(std::stoull(volume.get<std::string>(), nullptr, 16));
    return Status::ok();
}

const DirtyVolume* other_by_storage(const std::map<uint64_t, DirtyVolume>& dirty,
                                    const volume::Volume& volume) {
    const std::string ownership = volume.backend().ownership();
    for (const auto& [wwid, other] : dirty) {
        if (wwid == volume.wwid()) continue;
        // The ownership identifies an image, regardless of the name under which it is opened.
        const bool same_owner = !ownership.empty() && io::is_same_ownership(other.ownership, ownership);
        if (same_owner || other.storage.is_same(volume.storage_name())) return &other;
    }
    return nullptr;
}

Status refused_for(const volume::Volume& volume, const DirtyVolume& other) {
    return failure(Code::kRefused,
                   "volume {}: cache engines may hold acknowledged writes of volume {}, which has the same "
                   "storage. Serve the storage under that name, with --cache-listen, until these writes are "
                   "destaged (wssctl cache status), or give them up there (wssctl cache give-up {})",
                   volume.name(), other.name, other.name);
}

std::string Membership::to_text(const std::map<uint64_t, uint32_t>& members) const {
    json engines_json = json::object(), policies_json = json::object();
    for (const auto& [identity, incarnation] : members)
        engines_json[fmt::format("{:016x}", identity)] = incarnation;
    for (const auto& [wwid, settings] : policies)
        policies_json[fmt::format("{:016x}", wwid)] = {{"policy", std::string(to_string(settings.policy))},
                                                       {"unsafe", settings.unsafe}};
    json out{{"version", kVersion},
             {"storage", fmt::format("{:016x}", storage)},
             {"next_incarnation", next_incarnation},
             {"line_bytes", line_bytes},
             {"degraded", degraded},
             {"engines", engines_json},
             {"policies", policies_json}};
    put_lost(*this, out);
    put_dirty(*this, out);
    json places = json::object();
    for (const auto& [wwid, by] : served) places[fmt::format("{:016x}", wwid)] = served_by(by);
    out["served"] = places;
    // The ownership text of storage may contain any byte.
    return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Membership> Membership::parse(const std::string& text) {
    try {
        const json all = json::parse(text);
        Membership out;
        const int version = all.at("version").get<int>();
        if (version < 1 || version > kVersion)
            return failure(Code::kUnsupported, "written by another version of this program");
        out.storage = std::stoull(all.at("storage").get<std::string>(), nullptr, 16);
        out.next_incarnation = all.at("next_incarnation").get<uint32_t>();
        out.line_bytes = all.at("line_bytes").get<uint32_t>();
        out.degraded = all.at("degraded").get<bool>();
        for (const auto& [identity, incarnation] : all.at("engines").items())
            out.engines[std::stoull(identity, nullptr, 16)] = incarnation.get<uint32_t>();
        for (const auto& [wwid, settings] : all.at("policies").items()) {
            auto policy = parse_policy(settings.at("policy").get<std::string>());
            if (!policy) return policy.status();
            out.policies[std::stoull(wwid, nullptr, 16)] = {*policy, settings.at("unsafe").get<bool>()};
        }
        if (all.contains("served")) get_served(all.at("served"), out);
        if (all.contains("lost")) WSS_TRY(get_lost(all, version, out));
        version >= 3 ? get_dirty(all, out) : derive_dirty(out);
        if (version < 4) {
            derive_generation(out);
            return out;
        }
        out.storage_lost = parse_wwids(all.at("storage_lost"));
        std::erase_if(out.storage_lost, [&out](uint64_t wwid) { return !out.dirty.contains(wwid); });
        out.generation = std::stoull(all.at("generation").get<std::string>(), nullptr, 16);
        return out;
    } catch (const std::exception& error) {
        return failure(Code::kInvalid, "damaged: {}", error.what());
    }
}

namespace {

// A file for thousands of engines and volumes is smaller. A larger one was not written by this program.
constexpr size_t kFileMax = 16 << 20;
constexpr const char* kSuffix = ".cache";  // beside the state file

class FileStore final : public MembershipStore {
  public:
    FileStore(volume::StateLock::Shared state, reactor::Reactor& reactor)
        : state_(std::move(state)), reactor_(reactor), thread_([this] { run(); }) {}
    ~FileStore() override {
        {
            std::lock_guard lock(m_);
            stopping_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    Result<std::string> load() override {
        auto text = read_file(state_->path() + kSuffix, kFileMax);
        if (!text && text.status().sys_errno() == ENOENT) return std::string();
        // Engines that join a cache without a membership erase their contents.
        if (text && text->empty())
            return failure(Code::kInvalid,
                           "{}{} is damaged: it is empty; repair it, or move it away, which gives up data "
                           "that only cache engines hold",
                           state_->path(), kSuffix);
        return text;
    }
    void save(std::string text, std::function<void(Status)> done) override {
        {
            std::lock_guard lock(m_);
            WSS_ASSERT(!job_, "one save at a time");
            job_ = {std::move(text), std::move(done)};
        }
        changed_.notify_all();
    }
    bool is_stable() const noexcept override { return true; }

  private:
    struct Job {
        std::string text;
        std::function<void(Status)> done;
    };
    void run() {
        std::unique_lock lock(m_);
        for (;;) {
            changed_.wait(lock, [this] { return job_ || stopping_; });
            if (!job_) return;
            Job job = std::move(*job_);
            job_.reset();
            lock.unlock();
            Status saved = state_->write(kSuffix, job.text);
            reactor_.post([done = std::move(job.done), saved] { done(saved); });
            lock.lock();
        }
    }

    const volume::StateLock::Shared state_;
    reactor::Reactor& reactor_;
    std::mutex m_;
    std::condition_variable changed_;
    std::optional<Job> job_;  // guarded by m_
    bool stopping_ = false;   // guarded by m_
    std::thread thread_;
};

class MemoryStore final : public MembershipStore {
  public:
    explicit MemoryStore(reactor::Reactor& reactor) : reactor_(reactor) {}
    Result<std::string> load() override { return std::string(); }
    void save(std::string, std::function<void(Status)> done) override {
        reactor_.post([done = std::move(done)] { done(Status::ok()); });
    }
    bool is_stable() const noexcept override { return false; }

  private:
    reactor::Reactor& reactor_;
};

}  // namespace

std::unique_ptr<MembershipStore> open_membership_file(volume::StateLock::Shared state,
                                                      reactor::Reactor& reactor) {
    return std::make_unique<FileStore>(std::move(state), reactor);
}

std::unique_ptr<MembershipStore> open_membership_memory(reactor::Reactor& reactor) {
    return std::make_unique<MemoryStore>(reactor);
}

}  // namespace wss::cache
