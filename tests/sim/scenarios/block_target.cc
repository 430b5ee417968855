// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/block_target.h"

namespace wss::sim {

BlockTarget::BlockTarget(Node& node, const fabric::SimNetwork& network, io::SimDisk& disk)
    : node_(node),
      disk_(disk),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, network)) {
    volume::VolumeSet::Options options;
    options.identity_salt = "sim";  // gives the volume the same identity after every restart
    options.open = [this](const std::string&,
                          const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return disk_.open(node_);
    };
    // The service attaches the volume tables, in its own order among the sources.
    options.attach = false;
    options.closing_thread = false;
    volumes_ = std::make_unique<volume::VolumeSet>(std::vector{&reactor_}, std::move(options));
    node_.run(reactor_);
}

BlockTarget::~BlockTarget() {
    node_.forget(reactor_);
}

void BlockTarget::start() {
    block::Service::Options options;
    options.secrets = secrets_;
    options.arena_bytes = 2 * 1024 * 1024;
    options.epoch_base = (uint64_t{node_.incarnation()} + 1) << 32;
    auto service = block::Service::create({&reactor_}, *volumes_, {fabric_.get()}, options);
    if (!service) {
        status_ = service.status();
        return;
    }
    service_ = std::move(*service);
    volumes_->create_async({.name = "disk", .backend = "sim", .block_size = 512, .declared = true},
                           [this](Status status) { volume_created(status); });
}

void BlockTarget::volume_created(const Status& status) {
    status_ = status;
    if (!status) return;
    fabric::Address address{.scheme = fabric::Scheme::kSim, .host = node_.name(), .port = 1};
    auto listening = service_->listen(0, address);
    status_ = listening.status();
    started_ = status_.is_ok();
}

void BlockTarget::stop() {
    service_->stop([this] { volumes_->close_all_async([this](Status) { stopped_ = true; }); });
}

}  // namespace wss::sim
