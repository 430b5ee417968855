// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/daemon.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "kernel/uapi/wss_version.h"
#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "lib/base/thread.h"
#include "lib/fabric/open.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/tls/kernel.h"
#include "lib/io/plugin.h"
#include "target/block/volume_regions.h"
#include "target/daemon/ask_reactor.h"
#include "target/daemon/machine.h"
#include "target/daemon/session_methods.h"
#include "target/daemon/target_metrics.h"
#include "target/kv/kv_metrics.h"
#include "target/metrics/device_samples.h"
#include "target/metrics/tls_samples.h"

namespace wss::daemon {

// Maximum number of reactors that are started by default. The operator may configure more.
static constexpr int kReactorsByDefault = 4;

// Leaves one CPU to other programs, but returns at least 1.
static size_t default_reactors() {
    return static_cast<size_t>(std::clamp(usable_cpus() - 1, 1, kReactorsByDefault));
}

// The name of this target for storage that has one owner at a time. It stays the same across restarts. It is
// empty without a state file; no earlier owner is recognized then.
static std::string owner_of(const volume::StateLock::Shared& state) {
    if (state == nullptr) return {};
    std::error_code unknown;
    const std::string text =
        machine_id() + '\0' + std::filesystem::weakly_canonical(state->path(), unknown).string();
    return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// Session epochs grow across restarts as long as the system time does.
static uint64_t epoch_base() {
    return static_cast<uint64_t>(std::time(nullptr)) << 24;
}

Result<std::unique_ptr<Daemon>> Daemon::start(const control::TargetConfig& config, const Step& next) {
    WSS_TRY(control::check_target_config(config));
    std::unique_ptr<Daemon> daemon(new Daemon(config, next));
    const Status started = daemon->run_start();
    return started_or_stopped(std::move(daemon), started);
}

Status Daemon::load_kv_secrets() {
    auto secrets = read_secrets(config_.kv.secrets);
    if (!secrets) return secrets.status().within("--kv-secrets");
    kv_known_->replace(*secrets);
    return Status::ok();
}

Result<fabric::tls::Credentials> Daemon::kv_credentials() {
    fabric::tls::Credentials credentials{.files = config_.tls, .identity = {}, .known = {}};
    if (!config_.kv.secrets.empty()) {
        WSS_TRY(load_kv_secrets());
        credentials.known = kv_known_;
    }
    if (!config_.secret_file.empty()) {
        auto own = read_own_secret(config_.secret_file);
        if (!own) return own.status().within("--secret-file");
        credentials.identity = std::move(*own);
    }
    return credentials;
}

Status Daemon::start_kv() {
    auto credentials = kv_credentials();
    if (!credentials) return credentials.status();
    auto rules = control::kv_access(config_);
    if (!rules) return rules.status();
    auto access = rules->empty() ? nullptr : std::make_shared<const kv::AccessRules>(std::move(*rules));
    auto kv = kv::KvPart::start(config_.kv, *credentials, std::move(access));
    if (!kv) return kv.status();
    kv_ = std::move(*kv);
    return Status::ok();
}

// Volumes are opened after other steps that may fail, because opening one can take its storage from another
// program.
Status Daemon::run_start() {
    WSS_TRY(http_.listen(config_.http, config_.control));
    WSS_TRY(lock_state());
    if (!config_.kv.listen.empty()) WSS_TRY(start_kv());
    if (!config_.listen.empty() || config_.kv.listen.empty()) WSS_TRY(start_block());
    add_methods();
    add_metrics();
    add_health();
    starting_ = {};  // clients can send commands from now on, which open volumes on other threads
    http_.open();
    started_ = true;
    return Status::ok();
}

// Takes the lock before any state file is read or written, because another target may be using the files.
Status Daemon::lock_state() {
    if (config_.state.empty()) return Status::ok();
    auto state = volume::StateLock::take(config_.state);
    if (!state) return state.status();
    state_ = std::move(*state);
    return Status::ok();
}

Status Daemon::start_block() {
    WSS_TRY(load_secrets());
    WSS_TRY(open_fabrics());
    WSS_TRY(create_service());
    WSS_TRY(start_threads());
    WSS_TRY(open_volumes());
    WSS_TRY(listen());
    warn_if_open();
    return Status::ok();
}

static std::string host_name() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Result<std::shared_ptr<const auth::SecretBook>> read_secret_book(const control::TargetConfig& config,
                                                                 const std::string& path) {
    auto secrets = read_secrets(path);
    if (!secrets) return secrets.status();
    std::string name = config.name.empty() ? host_name() : config.name;
    if (!is_peer_name(name))
        return failure(
            Code::kInvalid,
            "'{}' cannot be the name of a target that authenticates: use --name, with 1 to {} of A-Z "
            "a-z 0-9 . _ -, beginning with a letter, digit or _",
            name, kInitiatorNameMax);
    return std::make_shared<const auth::SecretBook>(std::move(name), std::move(*secrets), config.auth_v1);
}

Status Daemon::load_secrets() {
    if (config_.secrets.empty()) return Status::ok();
    auto book = read_secret_book(config_, config_.secrets);
    if (!book) return book.status().within("secrets");
    secrets_ = std::move(*book);
    known_->replace(secrets_->secrets());
    return Status::ok();
}

// Logs a warning for each service that any peer may use.
void Daemon::warn_if_open() const {
    const bool kv_open =
        config_.kv.secrets.empty() && !control::admits_by_certificate(config_.tls, config_.kv.listen);
    if (secrets_ != nullptr && !config_.kv.listen.empty() && kv_open)
        log::warning(
            "THE KEY-VALUE STORE DOES NOT AUTHENTICATE: --secrets does not cover --kv-listen; any peer that "
            "reaches it may read and write its keys");
    if (cache_ != nullptr) cache_->warn_if_open(config_);
    for (const std::string& name : config_.auth_v1)
        log::warning(
            "VERSION 1 OF THE AUTHENTICATION IS ALLOWED for '{}': a relay can take over its logins; remove "
            "--auth-v1 once this peer is updated",
            name);
    if (secrets_ != nullptr)
        return log::info("authentication is on: {} initiator{} known", secrets_->names(),
                         secrets_->names() == 1 ? " is" : "s are");
    if (control::admits_by_certificate(config_.tls, config_.listen))
        return log::info(
            "initiators need a certificate issued by --tls-client-ca; their names are verified only with "
            "--secrets");
    if (config_.auth_off)
        return log::warning(
            "AUTHENTICATION IS OFF, as configured: any peer that reaches this target may use it");
    log::warning(
        "AUTHENTICATION IS OFF: any peer that reaches this target may read and write its volumes; use "
        "--secrets FILE, or --auth-off if that is intended");
}

Status Daemon::open_fabrics() {
    if (config_.listen.empty())
        return failure(Code::kInvalid,
                       "no address to listen on: give --listen URI, for instance --listen tcp://0.0.0.0:{}",
                       WSS_SRP_DEFAULT_PORT);
    fabric::tls::Credentials credentials{.files = config_.tls, .identity = {}, .known = {}};
    if (secrets_ != nullptr) credentials.known = known_;
    if (config_.tls_kernel) credentials.kernel_sends_max = fabric::tls::kernel::kBytesPerKey;
    for (const std::string& uri : config_.listen) {
        auto address = fabric::parse_local(uri, WSS_SRP_DEFAULT_PORT);
        if (!address) return address.status().within("--listen");
        auto fabric = fabric::open(*address, credentials);
        if (!fabric) return fabric.status().within("listen on " + address->to_string());
        auto reserved = fabric::reserve(**fabric, *address);
        if (!reserved) return reserved.status().within("listen on " + address->to_string());
        reserved_.push_back(std::move(*reserved));
        wanted_.push_back(*address);
        fabrics_.push_back(std::move(*fabric));
    }
    return Status::ok();
}

volume::VolumeSet::Open Daemon::storage_opener() {
    return [this, owner = owner_of(state_)](const std::string& specification, const io::OpenOptions& how) {
        if (starting_) starting_("opening " + specification, kOpeningMax);
        io::OpenOptions ours = how;
        if (ours.owner.empty()) ours.owner = owner;
        return io::open_backend(specification, ours);
    };
}

static constexpr uint32_t kCapsWithCache = WSS_CAP_ALL | WSS_CAP_CACHE;

Status Daemon::create_service() {
    const bool cached = !config_.cache_listen.empty();
    if (!config_.cpus.empty()) {
        auto cpus = parse_cpus(config_.cpus);
        if (!cpus) return cpus.status().within("cpus");
        cpus_ = std::move(*cpus);
    }
    // One reactor runs the cache. The others relieve it of the protocol, but each command then costs more.
    const size_t count = config_.reactors > 0 ? config_.reactors
                         : cached             ? 1
                         : cpus_.empty()      ? default_reactors()
                                              : std::min<size_t>(cpus_.size(), control::kReactorsMax);
    std::vector<reactor::Reactor*> reactors;
    for (size_t i = 0; i < count; ++i) {
        reactors_.push_back(std::make_unique<reactor::Reactor>(clock_));
        WSS_TRY(reactors_.back()->ready());
        reactors.push_back(reactors_.back().get());
    }
    if (cached) {
        auto cache = CachePart::create(config_, state_, *reactors_[0], reactors_.size());
        if (!cache) return cache.status();
        cache_ = std::move(*cache);
    } else {
        auto uncached = UncachedStart::look(state_, *reactors_[0]);
        if (!uncached) return uncached.status().within("the state file of the target's former cache");
        uncached_ = std::move(*uncached);
    }
    std::vector<fabric::Fabric*> fabrics;
    for (auto& fabric : fabrics_) fabrics.push_back(fabric.get());
    volume::VolumeSet::Options options;
    options.state = state_;
    options.identity_salt = machine_id();
    options.extend = block::VolumeRegions::factory(fabrics);
    options.wait = from_s(config_.drain_seconds);
    options.open = storage_opener();
    if (cached) cache_->add_remote_storage(options);
    if (cached) cache_->follow_deletions(options);
    if (uncached_ != nullptr) uncached_->follow_deletions(options);
    auto reservations = std::make_shared<volume::ReservationBook>();
    if (state_ != nullptr) {
        auto book = volume::ReservationBook::open(state_);
        if (!book) return book.status();
        reservations = std::move(*book);
    }
    options.forgotten = [reservations](uint64_t wwid) { reservations->forget(wwid); };
    volumes_ = std::make_unique<volume::VolumeSet>(reactors, std::move(options));
    if (uncached_ != nullptr) volumes_->table(0).add_observer(*uncached_);
    auto service = block::Service::create(reactors, *volumes_, fabrics,
                                          {.limits = {.caps = cached ? kCapsWithCache : WSS_CAP_ALL},
                                           .epoch_base = epoch_base(),
                                           .cache = cached ? &cache_->cache() : nullptr,
                                           .secrets = secrets_,
                                           .boot_id = boot_id(),
                                           .reservations = std::move(reservations)});
    if (!service) return service.status();
    service_ = std::move(*service);
    return Status::ok();
}

Status Daemon::start_threads() {
    for (size_t i = 0; i < reactors_.size(); ++i) {
        auto started = start_thread("a reactor", [reactor = reactors_[i].get()] { reactor->run(); });
        if (!started) return started.status();
        threads_.push_back(std::move(*started));
        const pthread_t thread = threads_.back().native_handle();
        pthread_setname_np(thread, fmt::format("reactor-{}", i).c_str());
        if (!cpus_.empty()) WSS_TRY(pin_thread(thread, cpus_[i % cpus_.size()]));
    }
    return Status::ok();
}

Status Daemon::open_volumes() {
    starting_("looking for the volumes", kOpeningMax);
    WSS_TRY(volumes_->restore(config_.volumes));
    WSS_TRY(volumes_->declare(config_.volumes));
    for (const auto& volume : config_.volumes) {
        Status created = volumes_->create(volume);
        // The operator must restore the volume's size or give up its writes. Both require a running target.
        if (created.code() == Code::kRefused)
            log::error("{}; it is not served", created.to_string());
        else
            WSS_TRY(created);
    }
    return Status::ok();
}

Status Daemon::listen() {
    reserved_.clear();
    for (size_t i = 0; i < wanted_.size(); ++i) {
        auto promise = std::make_shared<std::promise<Result<fabric::Address>>>();
        auto future = promise->get_future();
        service_->control_reactor().post(
            [this, promise, i] { promise->set_value(service_->listen(i, wanted_[i])); });
        auto bound = future.get();
        if (!bound) return bound.status().within("listen on " + wanted_[i].to_string());
        bound_.push_back(*bound);
        if (wanted_[i].scheme == fabric::Scheme::kRdma && fabric::is_loopback(wanted_[i].host))
            log::warning(
                "{}: most RDMA devices cannot reach a loopback address, not even from this machine: listen "
                "on the address of an RDMA interface (rdma link), or on tcp:// or shm://",
                wanted_[i].to_string());
    }
    if (cache_ != nullptr) return cache_->listen();
    return Status::ok();
}

void Daemon::add_methods() {
    control::Methods& methods = http_.methods();
    control::add_basic_methods(methods, {.name = "wss-target", .role = config_.role, .version = WSS_VERSION});
    control::add_tls_statistics(methods);
    control::add_device_statistics(methods);
    if (service_ != nullptr) {
        control::add_volume_methods(methods, *volumes_);
        add_session_methods(methods, *service_);
        add_auth_methods(methods, *service_, config_, *known_);
    }
    if (cache_ != nullptr) cache_->add_methods(methods);
    if (kv_ != nullptr)
        methods.add_statistics("kv", [this] {
            // One partition is returned as an object, several as a list.
            auto all = nlohmann::json::array();
            for (const std::string& info : kv_->infos_json())
                all.push_back(nlohmann::json::parse(info, nullptr, false));
            return all.size() == 1 ? all[0] : all;
        });
}

void Daemon::add_metrics() {
    http_.exporter().add(metrics::tls_samples);
    http_.exporter().add(metrics::device_samples);
    if (service_ != nullptr) add_target_metrics(http_.exporter(), *service_, *volumes_, cache_.get());
    if (kv_ != nullptr) kv::add_kv_metrics(http_.exporter(), *kv_);
}

void Daemon::add_health() {
    for (size_t i = 0; i < reactors_.size(); ++i)
        http_.health().add(fmt::format("reactor-{}", i), [this, i](const http::Health::Answer& answer) {
            reactors_[i]->post(
                [this, i, answer] { answer(i == 0 && cache_ != nullptr ? cache_->not_ready() : ""); });
        });
    if (kv_ != nullptr)
        http_.health().add("the key-value store",
                           [this](const http::Health::Answer& answer) { kv_->ask_ready(answer); });
}

// A failure of one part does not stop the rest: for example, dirty lines are destaged even if connections of
// the key-value store do not end.
Status Daemon::stop(const Step& next) {
    Status first;
    auto note = [&first](const Status& ended) {
        if (!ended && !first) log::error("{}", ended.to_string());
        if (!ended && first) first = ended;
    };
    const Nanoseconds drain = from_s(config_.drain_seconds);
    // Ends the waits of requests from the control socket, which may wait for engines or for storage that does
    // not answer.
    io::end_plugin_waits();
    if (cache_ != nullptr) reactors_[0]->post([cache = &cache_->cache()] { cache->end_waits(); });
    next("control socket and HTTP port", drain + HttpPart::kAnswerMax);
    note(http_.stop(drain));
    if (kv_ != nullptr) {
        next("key-value store", drain);
        note(kv_->stop(config_.drain_seconds));
    }
    if (threads_.empty()) return first;
    if (service_ != nullptr) {
        next("commands in flight", drain);
        note(stop_service());
    }
    // This precedes the closing of the volumes, because dirty lines are destaged to them.
    if (cache_ != nullptr) {
        next("dirty lines of the cache", drain + CachePart::kFarewellMax);
        note(cache_->stop(config_.drain_seconds, started_ ? cache::LastSave::kYes : cache::LastSave::kNo));
    }
    if (volumes_ != nullptr) {
        next("volumes", drain + kClosingMax);
        note(volumes_->close_all().within("closing the volumes"));
    }
    if (first) stop_threads();
    return first;
}

Status Daemon::stop_service() {
    auto promise = std::make_shared<std::promise<void>>();
    auto future = promise->get_future();
    service_->stop([promise] { promise->set_value(); });
    if (future.wait_for(std::chrono::seconds(config_.drain_seconds)) != std::future_status::ready)
        return failure(
            Code::kTimedOut,
            "commands are unanswered after {} s, because storage or the state file does not accept writes; "
            "exiting without them",
            config_.drain_seconds);
    return Status::ok();
}

void Daemon::stop_threads() {
    for (auto& reactor : reactors_) reactor->stop();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
}

Daemon::~Daemon() {
    WSS_ASSERT(threads_.empty(), "stop() comes first");
    service_.reset();
    volumes_.reset();
    cache_.reset();
}

// An operator who removes the last rule by mistake must not open the store to everyone.
Status Daemon::reload_kv_access() {
    auto rules = control::read_kv_access(config_);
    if (!rules) return rules.status();
    if (rules->empty() && !kv_->restricts()) return Status::ok();
    if (rules->empty())
        return failure(Code::kInvalid,
                       "{}: kv_access has no rule any more: a reload cannot open the store to every client; "
                       "restart the target if that is intended",
                       config_.file);
    const size_t count = rules->words().size();
    WSS_TRY(kv_->set_access(std::make_shared<const kv::AccessRules>(std::move(*rules))));
    log::info("rights of the key-value store reloaded: {} rule{}", count, count == 1 ? "" : "s");
    return Status::ok();
}

// An unreadable file does not prevent the others from being reloaded.
Status Daemon::reload() {
    const bool block = service_ != nullptr && !config_.secrets.empty();
    const bool kv = kv_ != nullptr && !config_.kv.secrets.empty();
    const bool cache = cache_ != nullptr && !config_.cache_secrets.empty();
    const bool access = kv_ != nullptr && !config_.file.empty();
    if (!block && !kv && !cache && !access && config_.tls.empty()) {
        log::info(
            "nothing to reload: a running target reloads only secrets, TLS files and kv_access, and was "
            "started "
            "without them");
        return Status::ok();
    }
    const Status files = reload_tls_files();
    const Status kv_secrets = kv ? load_kv_secrets() : Status::ok();
    const Status kv_access = access ? reload_kv_access() : Status::ok();
    const Status cache_secrets = cache ? cache_->reload_secrets(config_) : Status::ok();
    const Status secrets = block ? reload_secrets(*service_, config_, *known_).status() : Status::ok();
    for (const Status& status : {files, kv_secrets, kv_access, cache_secrets})
        if (!status) return status;
    return secrets;
}

Status Daemon::check_alive() {
    constexpr Nanoseconds kLimit = from_s(kReactorAnswers.count());
    return http_.health().alive(kLimit, kLimit);
}

std::string Daemon::describe() const {
    std::string text;
    for (const auto& address : bound_) text += (text.empty() ? "" : ", ") + address.to_string();
    if (kv_ != nullptr) text += (text.empty() ? "" : ", ") + kv_->describe();
    if (volumes_ == nullptr) return text;
    size_t count = volumes_->count();
    text += fmt::format(", {} volume{}", count, count == 1 ? "" : "s");
    return cache_ == nullptr ? text : text + cache_->describe();
}

}  // namespace wss::daemon
