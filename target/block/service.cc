// SPDX-License-Identifier: Apache-2.0
#include "target/block/service.h"

#include <algorithm>

namespace wss::block {

// A listener, and the index of its fabric.
class Service::Port final : public fabric::ListenHandler {
  public:
    Port(Service& service, size_t fabric_index) : service_(service), fabric_index_(fabric_index) {}

    Result<fabric::Address> open(const fabric::Address& address) {
        auto listener = service_.worker(0).lane(fabric_index_).poller().listen(address, *this);
        if (!listener) return listener.status();
        listener_ = std::move(*listener);
        return listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        service_.sessions().connect_requested(fabric_index_, std::move(request));
    }

  private:
    Service& service_;
    const size_t fabric_index_;
    std::unique_ptr<fabric::Listener> listener_;
};

Service::Service(std::vector<reactor::Reactor*> reactors, volume::VolumeSet& volumes, const Options& options)
    : reactors_(std::move(reactors)),
      volumes_(volumes),
      cache_(options.cache),
      reservations_(options.reservations != nullptr ? options.reservations
                                                    : std::make_shared<volume::ReservationBook>()),
      range_locks_(*this),
      sessions_(*this, *reactors_.at(0),
                {.limits = options.limits,
                 .epoch_base = options.epoch_base,
                 .fence_timeout = options.fence_timeout,
                 .drain_timeout = options.drain_timeout,
                 .silence_probe = options.silence_probe,
                 .silence_max = options.silence_max,
                 .take_timeout = options.take_timeout,
                 .pending_auth_max = options.pending_auth_max,
                 .secrets = options.secrets,
                 .boot_id = options.boot_id}) {}

Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::create(std::vector<reactor::Reactor*> reactors,
                                                 volume::VolumeSet& volumes,
                                                 std::vector<fabric::Fabric*> fabrics,
                                                 const Options& options) {
    if (reactors.empty() || reactors.size() > kReactorsMax)
        return failure(Code::kInvalid, "{} reactors: between 1 and {} are allowed", reactors.size(),
                       kReactorsMax);
    if (fabrics.empty() || fabrics.size() > kFabricsMax)
        return failure(Code::kInvalid, "{} addresses to listen on: between 1 and {} are allowed",
                       fabrics.size(), kFabricsMax);
    std::unique_ptr<Service> service(new Service(std::move(reactors), volumes, options));
    for (size_t i = 0; options.cache != nullptr && i < service->reactors_.size(); ++i) {
        auto gateway = cache::Gateway::create(*options.cache, *service->reactors_[i]);
        if (!gateway) return gateway.status();
        service->gateways_.push_back(std::move(*gateway));
    }
    for (size_t i = 0; i < service->reactors_.size(); ++i) {
        auto worker =
            Worker::create(*service, i, *service->reactors_[i], volumes.table(i), fabrics,
                           {.arena_bytes = options.arena_bytes,
                            .gateway = options.cache != nullptr ? service->gateways_[i].get() : nullptr});
        if (!worker) return worker.status();
        service->workers_.push_back(std::move(*worker));
    }
    return service;
}

Result<fabric::Address> Service::listen(size_t fabric_index, const fabric::Address& address) {
    auto port = std::make_unique<Port>(*this, fabric_index);
    auto bound = port->open(address);
    if (bound) ports_.push_back(std::move(port));
    return bound;
}

void Service::offer(cache::CachedVolume& volume) {
    for (auto& gateway : gateways_)
        if (!gateway->is_home()) gateway->offer(volume);
}

void Service::stop(std::function<void()> done) {
    control_reactor().post([this, done = std::move(done)]() mutable {
        ports_.clear();
        reservations_->keep_all();
        if (cache_ != nullptr) cache_->end_waits();
        sessions_.stop(std::move(done));
    });
}

void Service::list_sessions(std::function<void(std::vector<SessionInfo>)> take) {
    control_reactor().post([this, take = std::move(take)] { take(sessions_.list()); });
}

void Service::set_secrets(std::shared_ptr<const auth::SecretBook> secrets, std::function<void(size_t)> take) {
    control_reactor().post([this, secrets = std::move(secrets), take = std::move(take)] {
        take(sessions_.set_secrets(secrets));
    });
}

void Service::end_session(std::string initiator, std::function<void(size_t)> take) {
    control_reactor().post(
        [this, initiator = std::move(initiator), take = std::move(take)] { take(sessions_.end(initiator)); });
}

void Service::session_use(std::function<void(SessionUse)> take) {
    control_reactor().post([this, take = std::move(take)] { take(sessions_.use()); });
}

void Service::total(std::function<void(CounterTotals)> take) {
    control_reactor().post([this, take = std::move(take)] { take(sessions_.totals()); });
}

}  // namespace wss::block
