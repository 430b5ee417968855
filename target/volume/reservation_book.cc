// SPDX-License-Identifier: Apache-2.0
#include "target/volume/reservation_book.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"

namespace wss::volume {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "wss-target-reservations";
constexpr int kVersion = 1;
constexpr const char* kSuffix = ".reservations";
// 1024 volumes with all their registrations: a larger file is not a reservations file.
constexpr size_t kFileMax = 32 << 20;

template <typename... Args>
Status damaged(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    return failure(Code::kInvalid,
                   "reservations file {} is damaged: {}; repair it or move it away, which releases all "
                   "reservations",
                   path, fmt::format(format, std::forward<Args>(args)...));
}

bool parse_hex(std::string_view text, uint64_t& value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return error == std::errc() && end == text.data() + text.size();
}

std::string port_text(const wire::PortId& port) {
    std::string text;
    for (uint8_t byte : port) text += fmt::format("{:02x}", byte);
    return text;
}

bool parse_port(const std::string& text, wire::PortId& port) {
    if (text.size() != 2 * port.size()) return false;
    for (size_t i = 0; i < port.size(); ++i) {
        uint64_t byte = 0;
        if (!parse_hex(std::string_view(text).substr(2 * i, 2), byte)) return false;
        port[i] = static_cast<uint8_t>(byte);
    }
    return true;
}

Json to_json(const Reservations& reservations) {
    Json list = Json::array();
    for (const Registration& each : reservations.registrations)
        list.push_back({{"initiator", port_text(each.initiator.port)},
                        {"name", each.initiator.name},
                        {"key", fmt::format("{:016x}", each.key)},
                        {"holder", each.is_holder}});
    return {{"type", static_cast<uint8_t>(reservations.type)}, {"registrations", std::move(list)}};
}

// Throws the exceptions of nlohmann::json. False: a value is invalid.
bool take_volume(const Json& json, Reservations& out) {
    const auto type = json.at("type").get<uint64_t>();
    if (type > UINT8_MAX || (type != 0 && !is_reservation_type(static_cast<uint8_t>(type)))) return false;
    out.type = static_cast<ReservationType>(type);
    out.persists = true;
    size_t holders = 0;
    for (const Json& item : json.at("registrations")) {
        Registration each;
        each.initiator.name = item.at("name").get<std::string>();
        each.is_holder = item.at("holder").get<bool>();
        holders += each.is_holder;
        if (!parse_port(item.at("initiator").get<std::string>(), each.initiator.port) ||
            !parse_hex(item.at("key").get<std::string>(), each.key) || each.key == 0 ||
            out.find(each.initiator) != nullptr)
            return false;
        out.registrations.push_back(std::move(each));
    }
    const size_t count = out.registrations.size();
    const bool one_holds = out.type != ReservationType::kNone && !is_for_all(out.type);
    return count > 0 && count <= kRegistrationsMax && holders == (one_holds ? 1 : 0);
}

}  // namespace

std::string ReservationBook::format(const Stored& stored) {
    Json json{{"format", kFormat}, {"version", kVersion}, {"volumes", Json::object()}};
    for (const auto& [wwid, reservations] : stored)
        json["volumes"][fmt::format("{:015x}", wwid)] = to_json(reservations);
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ReservationBook::Stored> ReservationBook::parse(const std::string& text, const std::string& path) {
    Stored stored;
    try {
        const Json json = Json::parse(text);
        if (json.at("format").get<std::string>() != kFormat)
            return damaged(path, "its format is not {}", kFormat);
        if (json.at("version").get<int>() != kVersion)
            return damaged(path, "its version is not {}, the one that this program supports", kVersion);
        for (const auto& [wwid_text, volume] : json.at("volumes").items()) {
            uint64_t wwid = 0;
            if (!parse_hex(wwid_text, wwid) || !take_volume(volume, stored[wwid]))
                return damaged(path, "volume {} has an invalid field", wwid_text);
        }
    } catch (const Json::exception& error) {
        return damaged(path, "{}", error.what());
    }
    return stored;
}

Status ReservationBook::write_file(const StateLock& state, std::string_view text) {
    return state.write(kSuffix, text);
}

Result<std::shared_ptr<ReservationBook>> ReservationBook::open(StateLock::Shared state, Write write) {
    std::shared_ptr<ReservationBook> book(new ReservationBook(std::move(state), std::move(write)));
    WSS_TRY(book->load());
    auto thread = start_thread("persistent reservations", [raw = book.get()] { raw->run(); });
    if (!thread) return thread.status();
    book->thread_ = std::move(*thread);
    return book;
}

ReservationBook::~ReservationBook() {
    {
        std::lock_guard lock(m_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    correct_later_.end();
    if (!correct()) log::error("{}{} may contain changes of commands that failed", state_->path(), kSuffix);
}

Status ReservationBook::load() {
    const std::string path = state_->path() + kSuffix;
    auto text = read_file(path, kFileMax);
    if (!text && text.status().sys_errno() == ENOENT) {
        stored_ = format({});
        return Status::ok();
    }
    if (!text) return text.status().within("reservations file");
    auto stored = parse(*text, path);
    if (!stored) return stored.status();
    for (auto& [wwid, reservations] : *stored)
        entries_[wwid] = {.now = std::make_shared<const Reservations>(std::move(reservations))};
    stored_ = std::move(*text);
    return Status::ok();
}

ReservationBook::Shared ReservationBook::find(uint64_t wwid) const {
    std::lock_guard lock(m_);
    auto found = entries_.find(wwid);
    return found == entries_.end() ? nullptr : found->second.now;
}

void ReservationBook::change(uint64_t wwid, bool lasts, Decide decide, Done done) {
    auto task = [this, wwid, lasts, decide = std::move(decide), done = std::move(done)] {
        perform(wwid, lasts, decide, done);
    };
    has_file() ? post(std::move(task)) : task();
}

void ReservationBook::perform(uint64_t wwid, bool lasts, const Decide& decide, const Done& done) {
    Shared now;
    Status status;
    {
        std::lock_guard changing(change_m_);
        now = find(wwid);
        std::optional<Reservations> next = decide(now != nullptr ? *now : Reservations());
        if (next) {
            const Entry entry{std::make_shared<const Reservations>(std::move(*next)), lasts};
            Entries all = entries();
            all[wwid] = entry;
            status = store_or_correct(all);
            std::lock_guard lock(m_);
            if (status) entries_[wwid] = entry;
            if (status) now = entry.now;
        }
    }
    done(status, now);
}

ReservationBook::Entries ReservationBook::entries() const {
    std::lock_guard lock(m_);
    return entries_;
}

// change_m_ held.
Status ReservationBook::store(const Entries& all) {
    if (!has_file()) return Status::ok();
    Stored kept;
    for (const auto& [wwid, each] : all)
        if (each.now != nullptr && each.lasts && each.now->persists && !each.now->registrations.empty())
            kept[wwid] = *each.now;
    std::string text = format(kept);
    if (stored_ == text) return Status::ok();
    Status written = write_(*state_, text);
    stored_ = written ? std::optional(std::move(text)) : std::nullopt;
    return written;
}

// A refused change may have reached the file, and a start would read it. change_m_ held.
Status ReservationBook::store_or_correct(const Entries& all) {
    Status stored = store(all);
    if (!stored) correct_later_.begin();
    return stored;
}

bool ReservationBook::correct() {
    std::lock_guard changing(change_m_);
    return !has_file() || stored_ || store(entries());
}

void ReservationBook::forget(uint64_t wwid) {
    if (keeps_all_ || find(wwid) == nullptr) return;
    auto task = [this, wwid] {
        std::lock_guard changing(change_m_);
        Entries all = entries();
        all.erase(wwid);
        if (Status stored = store_or_correct(all); !stored)
            log::warning("{}: for now the file still holds the reservations of a deleted volume",
                         stored.to_string());
        std::lock_guard lock(m_);
        entries_ = std::move(all);
    };
    has_file() ? post(task) : task();
}

void ReservationBook::post(std::function<void()> task) {
    {
        std::lock_guard lock(m_);
        tasks_.push_back(std::move(task));
    }
    wake_.notify_all();
}

void ReservationBook::run() {
    std::unique_lock lock(m_);
    for (;;) {
        wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
        task = nullptr;
        lock.lock();
    }
}

}  // namespace wss::volume
