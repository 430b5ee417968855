// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/daemon.h"

#include <sched.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <future>

#include "lib/base/log.h"
#include "lib/fabric/open.h"
#include "target/block/volume_regions.h"
#include "target/daemon/session_methods.h"

namespace wss::daemon {

// More reactors than this want a reason, which the operator has and we do not.
static constexpr int kReactorsByDefault = 4;

// One CPU is left to whoever else lives here; one reactor at least.
static size_t default_reactors() {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return static_cast<size_t>(std::clamp(count - 1, 1, kReactorsByDefault));
}

// Makes the identities of volumes differ between hosts and stay the same on one.
static std::string machine_id() {
    std::ifstream file("/etc/machine-id");
    std::string id;
    std::getline(file, id);
    return id;
}

// Session epochs grow over restarts, as long as the time of day does.
static uint64_t epoch_base() {
    return static_cast<uint64_t>(std::time(nullptr)) << 24;
}

Result<std::unique_ptr<Daemon>> Daemon::start(const control::TargetConfig& config) {
    WSS_TRY(control::check_target_config(config));
    std::unique_ptr<Daemon> daemon(new Daemon(config));
    Status started = daemon->run_start();
    if (started) return daemon;
    if (Status stopped = daemon->stop(); !stopped) {
        log::error("{}", stopped.to_string());
        daemon.release();  // see stop()
    }
    return started;
}

Status Daemon::run_start() {
    WSS_TRY(open_fabrics());
    WSS_TRY(create_service());
    start_threads();
    WSS_TRY(open_volumes());
    WSS_TRY(listen());
    return start_control();
}

Status Daemon::open_fabrics() {
    if (config_.listen.empty())
        return failure(Code::kInvalid,
                       "nowhere to listen: give --listen URI, for instance --listen tcp://0.0.0.0:{}",
                       WSS_SRP_DEFAULT_PORT);
    for (const std::string& uri : config_.listen) {
        auto address = fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT);
        if (!address) return address.status().within("--listen");
        auto fabric = fabric::open(*address);
        if (!fabric) return fabric.status().within("listen on " + address->to_string());
        wanted_.push_back(*address);
        fabrics_.push_back(std::move(*fabric));
    }
    return Status::ok();
}

Status Daemon::create_service() {
    const size_t count = config_.reactors > 0 ? config_.reactors : default_reactors();
    std::vector<reactor::Reactor*> reactors;
    for (size_t i = 0; i < count; ++i) {
        reactors_.push_back(std::make_unique<reactor::Reactor>(clock_));
        reactors.push_back(reactors_.back().get());
    }
    std::vector<fabric::Fabric*> fabrics;
    for (auto& fabric : fabrics_) fabrics.push_back(fabric.get());
    volume::VolumeSet::Options options;
    options.state_path = config_.state;
    options.identity_salt = machine_id();
    options.extend = block::VolumeRegions::factory(fabrics);
    options.wait = from_s(config_.drain_seconds);
    volumes_ = std::make_unique<volume::VolumeSet>(reactors, std::move(options));
    auto service = block::Service::create(reactors, *volumes_, fabrics, {.epoch_base = epoch_base()});
    if (!service) return service.status();
    service_ = std::move(*service);
    return Status::ok();
}

void Daemon::start_threads() {
    for (size_t i = 0; i < reactors_.size(); ++i) {
        threads_.emplace_back([reactor = reactors_[i].get()] { reactor->run(); });
        pthread_setname_np(threads_.back().native_handle(), fmt::format("reactor-{}", i).c_str());
    }
}

Status Daemon::open_volumes() {
    WSS_TRY(volumes_->restore());
    for (const auto& volume : config_.volumes) WSS_TRY(volumes_->create(volume));
    return Status::ok();
}

Status Daemon::listen() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
        auto promise = std::make_shared<std::promise<Result<fabric::Address>>>();
        auto future = promise->get_future();
        service_->control_reactor().post(
            [this, promise, i] { promise->set_value(service_->listen(i, wanted_[i])); });
        auto bound = future.get();
        if (!bound) return bound.status().within("listen on " + wanted_[i].to_string());
        bound_.push_back(*bound);
    }
    return Status::ok();
}

Status Daemon::start_control() {
    if (config_.control.empty()) return Status::ok();
    control::add_basic_methods(methods_, "wss-target", kVersion);
    control::add_volume_methods(methods_, *volumes_);
    add_session_methods(methods_, *service_);
    auto server = control::Server::start(config_.control, methods_);
    if (!server) return server.status();
    control_ = std::move(*server);
    return Status::ok();
}

Status Daemon::stop() {
    control_.reset();
    if (threads_.empty()) return Status::ok();
    if (service_ != nullptr) WSS_TRY(stop_service());
    if (volumes_ != nullptr) {
        Status closed = volumes_->close_all();
        if (!closed) return closed.within("closing the volumes");
    }
    stop_threads();
    return Status::ok();
}

Status Daemon::stop_service() {
    auto promise = std::make_shared<std::promise<void>>();
    auto future = promise->get_future();
    service_->stop([promise] { promise->set_value(); });
    if (future.wait_for(std::chrono::seconds(config_.drain_seconds)) != std::future_status::ready)
        return failure(Code::kTimedOut, "commands are still in the storage after {} s; ending without them",
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
}

std::string Daemon::describe() const {
    std::string text;
    for (const auto& address : bound_) text += (text.empty() ? "" : ", ") + address.to_string();
    size_t count = volumes_->count();
    return text + fmt::format(", {} volume{}", count, count == 1 ? "" : "s");
}

}  // namespace wss::daemon
