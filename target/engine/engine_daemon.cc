// SPDX-License-Identifier: Apache-2.0
#include "target/engine/engine_daemon.h"

#include <xxhash.h>

#include <future>
#include <nlohmann/json.hpp>

#include "kernel/uapi/wss_version.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/fabric/open.h"
#include "lib/fabric/resolve.h"
#include "lib/io/plugin.h"
#include "target/control/config.h"
#include "target/control/params.h"
#include "target/daemon/ask_reactor.h"
#include "target/daemon/machine.h"
#include "target/metrics/device_samples.h"
#include "target/metrics/tls_samples.h"
#include "target/volume/try_volumes.h"

namespace wss::engine {

using nlohmann::json;

// Time limits of the steps of stop().
constexpr Nanoseconds kControlMax = from_s(30);
constexpr Nanoseconds kLeaveMargin = from_s(5);
constexpr Nanoseconds kCloseMax = from_s(10);

Result<std::unique_ptr<EngineDaemon>> EngineDaemon::start(const EngineConfig& config,
                                                          const daemon::Step& next) {
    WSS_TRY(check_engine_config(config));
    std::unique_ptr<EngineDaemon> daemon(new EngineDaemon(config));
    const Status started = daemon->run_start(next);
    return daemon::started_or_stopped(std::move(daemon), started);
}

Result<EngineDaemon::Net> EngineDaemon::open_net(std::string key, const fabric::Address& address) {
    fabric::tls::Credentials credentials{.files = config_.tls, .identity = {}, .known = {}};
    if (!secret_.name.empty()) credentials.identity = secret_;
    auto fabric = fabric::open(address, credentials);
    if (!fabric) return fabric.status().within(address.to_string());
    auto poller = (*fabric)->create_poller();
    if (!poller) return poller.status().within(address.to_string());
    reactor_.add(**poller);
    return Net{std::move(key), std::move(*fabric), std::move(*poller)};
}

Result<size_t> EngineDaemon::net_for(const fabric::Address& address) {
    // An RDMA address selects a device. All addresses of any other scheme share one net.
    const std::string key = address.scheme == fabric::Scheme::kRdma ? address.host : std::string();
    const std::string name = fmt::format("{}/{}", static_cast<int>(address.scheme), key);
    for (size_t i = 0; i < nets_.size(); ++i)
        if (nets_[i].key == name) return i;
    auto net = open_net(name, address);
    if (!net) return net.status();
    nets_.push_back(std::move(*net));
    return nets_.size() - 1;
}

Status EngineDaemon::run_start(const daemon::Step& next) {
    WSS_TRY(reactor_.ready());
    WSS_TRY(http_.listen(config_.http, config_.control));
    if (!config_.secret_file.empty()) {
        auto secret = read_own_secret(config_.secret_file);
        if (!secret) return secret.status().within("--secret-file");
        secret_ = std::move(*secret);
    }
    for (const std::string& uri : config_.join) {
        auto address = fabric::Address::parse(uri, control::kCachePort);
        if (!address) return address.status().within("--join");
        auto net = net_for(*address);
        if (!net) return net.status();
        join_.emplace_back(*address, *net);
    }
    WSS_TRY(reserve_places());
    std::vector<cache::Engine::Net> nets;
    for (Net& net : nets_) nets.push_back({net.fabric.get(), net.poller.get()});
    cache::Engine::Options options{.memory = config_.memory};
    options.secret = secret_;
    WSS_TRY(open_volumes(options, next));
    auto engine = cache::Engine::create(reactor_, random_, nets, options);
    if (!engine) return engine.status();
    engine_ = std::move(*engine);
    WSS_TRY(listen_all());
    for (const auto& [address, net] : join_) engine_->join(net, address);
    WSS_TRY(engine_->start());
    auto thread = start_thread("the engine", [this] { reactor_.run(); });
    if (!thread) return thread.status();
    thread_ = std::move(*thread);
    pthread_setname_np(thread_.native_handle(), "engine");
    add_methods();
    add_metrics();
    http_.health().add(
        "engine", [this](const http::Health::Answer& answer) { reactor_.post([answer] { answer(""); }); });
    http_.open();
    return Status::ok();
}

// The owner name for storage that has one owner at a time. It identifies the target to which the storage
// belongs, whichever process serves it.
static std::string owner_of(const fabric::Address& target) {
    const bool anywhere = fabric::has_host(target.scheme) && !fabric::is_loopback(target.host);
    const std::string text = "storage of " + target.to_string() + (anywhere ? "" : daemon::machine_id());
    return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

Status EngineDaemon::open_volumes(cache::Engine::Options& options, const daemon::Step& next) {
    next("looking for the volumes", daemon::kOpeningMax);
    WSS_TRY(volume::try_volumes(config_.volumes, {}, {.keeps_taken = true, .have_size = {}}));
    for (const volume::VolumeOptions& volume : config_.volumes) {
        next("opening " + volume.backend, daemon::kOpeningMax);
        auto backend = io::open_backend(volume.backend, {.size = volume.size,
                                                         .create = volume.create,
                                                         .read_only = volume.read_only,
                                                         .owner = owner_of(join_.front().first),
                                                         .keeps_taken = true});
        if (!backend) return backend.status().within("volume " + volume.name);
        options.volumes.push_back({volume.name, backend->get(), volume.read_only});
        backends_.push_back(std::move(*backend));
    }
    if (!config_.volumes.empty()) {
        // Connections to cache engines use a fabric that no other peer uses.
        auto reach = open_net("reach", join_.front().first);
        if (!reach) return reach.status();
        reach_ = std::move(*reach);
        options.reach = {reach_.fabric.get(), reach_.poller.get()};
    }
    options.boot = daemon::boot_id();
    return Status::ok();
}

// Clients receive this address. The kernel driver accepts numeric RDMA addresses only.
static Result<std::string> advertised(const std::string& uri) {
    auto address = fabric::Address::parse(uri, kEnginePort);
    if (!address) return address.status();
    if (address->scheme != fabric::Scheme::kRdma) return uri;
    auto numeric = fabric::to_numeric(*address);
    if (!numeric) return numeric.status();
    return numeric->to_string();
}

Status EngineDaemon::reserve_places() {
    for (size_t i = 0; i < config_.listen.size(); ++i) {
        auto address = fabric::parse_local(config_.listen[i], kEnginePort);
        if (!address) return address.status().within("--listen");
        auto net = net_for(*address);
        if (!net) return net.status();
        std::string told = i < config_.advertise.size() ? config_.advertise[i] : "";
        if (!told.empty()) {
            auto digits = advertised(told);
            if (!digits) return digits.status().within("--advertise");
            told = *digits;
        }
        auto reserved = fabric::reserve(*nets_[*net].fabric, *address);
        if (!reserved) return reserved.status().within("listen on " + address->to_string());
        listen_.push_back({*address, *net, std::move(told), std::move(*reserved)});
    }
    return Status::ok();
}

Status EngineDaemon::listen_all() {
    for (Place& place : listen_) place.reserved = {};
    for (const Place& place : listen_) {
        auto bound = engine_->listen(place.net, place.address, place.told);
        if (!bound) return bound.status().within("listen on " + place.address.to_string());
    }
    return Status::ok();
}

static json to_json(const cache::Engine& engine) {
    json storages = json::array();
    for (const auto& storage : engine.storages())
        storages.push_back({{"address", storage.address},
                            {"up", storage.up},
                            {"lines", storage.slots},
                            {"used_lines", storage.used_slots},
                            {"line_bytes", storage.line_bytes},
                            {"clients", storage.clients},
                            {"error", storage.last_error}});
    const cache::EngineCounters& c = engine.counters();
    return {{"identity", fmt::format("{:016x}", engine.identity())},
            {"addresses", engine.addresses()},
            {"storages", storages},
            {"counters",
             {{"to_client_bytes", c.to_client_bytes},
              {"from_client_bytes", c.from_client_bytes},
              {"to_storage_bytes", c.to_storage_bytes},
              {"from_storage_bytes", c.from_storage_bytes},
              {"moves", c.moves},
              {"failed_moves", c.failed_moves},
              {"waited_for_stage", c.waited_for_stage},
              {"clients_accepted", c.clients_accepted},
              {"clients_refused", c.clients_refused},
              {"wipes", c.wipes},
              {"storage_reads", c.storage_reads},
              {"storage_read_bytes", c.storage_read_bytes},
              {"storage_writes", c.storage_writes},
              {"storage_write_bytes", c.storage_write_bytes},
              {"storage_flushes", c.storage_flushes},
              {"storage_errors", c.storage_errors}}}};
}

void EngineDaemon::add_methods() {
    control::Methods& methods = http_.methods();
    const bool has_volumes = !config_.volumes.empty();
    control::add_basic_methods(methods, {.name = has_volumes ? "wss-target" : "wss-cache",
                                         .role = has_volumes ? "rs" : "",
                                         .version = WSS_VERSION});
    control::add_tls_statistics(methods);
    control::add_device_statistics(methods);
    auto status = [this]() -> Result<json> {
        auto answer = daemon::ask_reactor<json>(
            [this](auto take) { reactor_.post([this, take] { take(to_json(*engine_)); }); });
        return answer;
    };
    methods.add("engine.status", "storage engines, clients, counters",
                [status](const json& params) -> Result<json> {
                    WSS_TRY(control::Params(params).finish());
                    return status();
                });
    methods.add_change("engine.join", "rejoins the storage engines that released it",
                       [this](const json& params) -> Result<json> {
                           WSS_TRY(control::Params(params).finish());
                           reactor_.post([this] { engine_->join_again(); });
                           return json::object();
                       });
    methods.add_statistics("engine", [status] {
        auto answer = status();
        return answer ? *answer : json{{"error", answer.status().to_string()}};
    });
}

void EngineDaemon::add_metrics() {
    http_.exporter().add(metrics::tls_samples);
    http_.exporter().add(metrics::device_samples);
    http_.exporter().add([this] {
        std::vector<metrics::Sample> out;
        auto c = daemon::ask_reactor<cache::EngineCounters>(
            [this](auto take) { reactor_.post([this, take] { take(engine_->counters()); }); });
        if (!c) return out;
        auto add = [&out](const char* name, const char* help, uint64_t value) {
            out.push_back({name, help, metrics::Sample::Kind::kCounter, {}, static_cast<double>(value)});
        };
        add("wss_engine_to_client_bytes_total", "bytes written to clients", c->to_client_bytes);
        add("wss_engine_from_client_bytes_total", "bytes read from clients", c->from_client_bytes);
        add("wss_engine_to_storage_bytes_total", "bytes written to storage engines", c->to_storage_bytes);
        add("wss_engine_from_storage_bytes_total", "bytes read from storage engines", c->from_storage_bytes);
        add("wss_engine_moves_total", "operations requested by storage engines", c->moves);
        add("wss_engine_failed_moves_total", "failed operations of storage engines", c->failed_moves);
        add("wss_engine_clients_accepted_total", "clients with a valid token", c->clients_accepted);
        add("wss_engine_clients_refused_total", "clients without a valid token", c->clients_refused);
        add("wss_engine_wipes_total", "lines of deleted volumes wiped", c->wipes);
        add("wss_engine_storage_read_bytes_total", "bytes read from the volumes of this process (--role rs)",
            c->storage_read_bytes);
        add("wss_engine_storage_write_bytes_total",
            "bytes written to the volumes of this process (--role rs)", c->storage_write_bytes);
        add("wss_engine_storage_errors_total", "failed operations of the volumes of this process (--role rs)",
            c->storage_errors);
        return out;
    });
}

Status EngineDaemon::stop(const daemon::Step& next) {
    io::end_plugin_waits();
    next("control socket and HTTP port", kControlMax + daemon::HttpPart::kAnswerMax);
    Status first = http_.stop(kControlMax);
    if (!thread_.joinable()) return first;
    auto left = std::make_shared<std::promise<Status>>();
    auto stopped = std::make_shared<std::promise<void>>();
    auto left_future = left->get_future();
    auto stopped_future = stopped->get_future();
    const Nanoseconds leave = from_s(config_.leave_seconds) + kLeaveMargin;
    next("leaving the storage engines", leave);
    reactor_.post([this, left] {
        engine_->leave(from_s(config_.leave_seconds),
                       [left](Status status) { left->set_value(std::move(status)); });
    });
    Status home = failure(Code::kTimedOut, "leaving the storage engines timed out; exiting anyway");
    if (left_future.wait_for(std::chrono::nanoseconds(leave.count)) == std::future_status::ready)
        home = left_future.get();
    if (!home && !first) log::error("{}", first.to_string());
    if (!home) first = std::move(home);  // lost acknowledged writes are the more important failure
    next("connections", kCloseMax);
    reactor_.post([this, stopped] { engine_->stop([stopped] { stopped->set_value(); }); });
    const bool quiet =
        stopped_future.wait_for(std::chrono::nanoseconds(kCloseMax.count)) == std::future_status::ready;
    if (!backends_.empty()) next("volumes", daemon::kClosingMax);
    close_volumes();
    if (!quiet) {
        if (!first) log::error("{}", first.to_string());
        return failure(Code::kTimedOut, "connections did not close within {} s; exiting without them",
                       kCloseMax.count / from_s(1).count);
    }
    reactor_.stop();
    thread_.join();
    return first;
}

// Closes the storage of the volumes. This is done even after a failed step of a stop, because the process
// then exits without destructors. Storage that does not answer a request cannot be closed.
void EngineDaemon::close_volumes() {
    if (backends_.empty()) return;
    const auto released = daemon::ask_reactor<std::vector<const io::Backend*>>(
        [this](auto take) { reactor_.post([this, take] { take(engine_->release_storage()); }); });
    if (!released) return log::error("the volumes are not closed: {}", released.status().to_string());
    std::vector<std::unique_ptr<io::Backend>> closing;
    for (size_t i = 0; i < backends_.size(); ++i)
        if (std::ranges::find(*released, backends_[i].get()) != released->end())
            closing.push_back(std::move(backends_[i]));
        else
            log::error(
                "volume {}: its storage ({}) has not answered all requests and is not closed; an image of "
                "Ceph stays locked",
                config_.volumes[i].name, backends_[i]->describe());
    std::erase(backends_, nullptr);
    for (auto& backend : closing) backend->begin_close();
}  // the destructors of `closing` wait until all are closed

EngineDaemon::~EngineDaemon() {
    WSS_ASSERT(!thread_.joinable(), "stop() comes first");
    engine_.reset();
    for (Net& net : nets_) reactor_.remove(*net.poller);
    if (reach_.poller != nullptr) reactor_.remove(*reach_.poller);
    for (auto& backend : backends_) backend->begin_close();
}

Status EngineDaemon::reload() {
    if (!config_.tls.empty()) return daemon::reload_tls_files();
    log::info(
        "nothing to reload: a running cache engine reloads only TLS files, and was started without them");
    return Status::ok();
}

Status EngineDaemon::check_alive() {
    constexpr Nanoseconds kLimit = from_s(daemon::kReactorAnswers.count());
    return http_.health().alive(kLimit, kLimit);
}

std::string EngineDaemon::describe() const {
    std::string text;
    for (const std::string& address : engine_->addresses()) text += (text.empty() ? "" : ", ") + address;
    if (text.empty()) text = "no address for clients";
    const size_t count = config_.volumes.size();
    if (count > 0)
        return text + fmt::format(", {} volume{} for {}", count, count == 1 ? "" : "s", config_.join[0]);
    return text + fmt::format(", {} MiB", config_.memory >> 20);
}

}  // namespace wss::engine
