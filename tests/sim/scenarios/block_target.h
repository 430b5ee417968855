// SPDX-License-Identifier: Apache-2.0
// The target process of a simulated node: the objects that the daemon assembles, on simulated parts.
#pragma once

#include <memory>

#include "lib/fabric/sim/sim_fabric.h"
#include "lib/io/sim/sim_disk.h"
#include "target/block/service.h"
#include "target/volume/volume_set.h"

namespace wss::sim {

class BlockTarget {
  public:
    BlockTarget(Node& node, const fabric::SimNetwork& network, io::SimDisk& disk);
    ~BlockTarget();

    // Makes initiators authenticate. Call before start().
    void use_secrets(std::shared_ptr<const auth::SecretBook> secrets) { secrets_ = std::move(secrets); }
    // start() and stop() only begin; the world must be stepped until they end.
    void start();
    void stop();
    bool started() const { return started_; }
    bool stopped() const { return stopped_; }
    const Status& status() const { return status_; }
    block::Service& service() { return *service_; }  // valid once started

  private:
    void volume_created(const Status& status);

    Node& node_;
    io::SimDisk& disk_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::shared_ptr<const auth::SecretBook> secrets_;
    std::unique_ptr<block::Service> service_;
    bool started_ = false;
    bool stopped_ = false;
    Status status_;
};

}  // namespace wss::sim
