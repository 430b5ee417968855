// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/cluster_removals.h"

namespace wss::sim {

ClusterRemovals::ClusterRemovals(World& world, Node& target, const RemovalOptions& options,
                                 BlockShared& whole)
    : world_(world),
      target_node_(target),
      options_(options),
      whole_(whole),
      random_(options.seed ^ 0x6a7e),
      absences_(options.seed ^ 0xab5e) {
    if (options_.one_in > 0) client_node_ = &world_.add_node("removals");
}

ClusterRemovals::~ClusterRemovals() = default;

void ClusterRemovals::create(ClusterTarget& target) {
    one_->state = One::State::kCreating;
    target.create_volume(one_->name, one_->disk,
                         [this, one = one_.get(), of = target_node_.incarnation()](const Status& status) {
                             if (of != target_node_.incarnation()) return;
                             one->state = status ? One::State::kLive : One::State::kAbsent;
                         });
}

void ClusterRemovals::remove(ClusterTarget& target) {
    ++removals_;
    one_->state = One::State::kRemoving;
    one_->since = world_.now();
    target.remove_volume(one_->name,
                         [this, one = one_.get(), of = target_node_.incarnation()](const Status& status) {
                             if (of != target_node_.incarnation()) return;
                             if (!status) whole_.fail("a removal failed: " + status.to_string());
                             one->state = One::State::kRemoved;
                         });
}

void ClusterRemovals::target_crashed() {
    if (one_ == nullptr) return;
    one_->disk.crash();
    one_->shared.model.crash();
    // Unless its removal was acknowledged, the volume is created again.
    if (one_->state != One::State::kRemoved) one_->state = One::State::kAbsent;
    one_->missing = options_.absences && absences_.chance(2);
    if (one_->missing)
        one_->missing_until = world_.now() + from_ms(static_cast<int64_t>(absences_.below(5000)));
}

void ClusterRemovals::close_client() {
    if (one_->client == nullptr) return;
    if (one_->client->under_way() > 0) return;
    one_->client->close();
    if (one_->client->closed()) one_->client.reset();
}

void ClusterRemovals::care_for(ClusterTarget* target) {
    One& one = *one_;
    if (!one.shared.failure.empty()) whole_.fail(one.name + ": " + one.shared.failure);
    if (one.missing) {
        close_client();
        one.missing = one.client != nullptr || (!finishing_ && world_.now() < one.missing_until);
    }
    if (one.state == One::State::kAbsent && target != nullptr && !one.missing) create(*target);
    if (one.state == One::State::kLive && one.client == nullptr) {
        one.client = std::make_unique<BlockClient>(*client_node_, options_.network, "target", options_.depth,
                                                   one.shared);
        one.client->use_volume(one.name);
        one.client->start();
        // The request may fail.
        if (options_.back)
            target->cache().set_policy(one.name, {.policy = cache::Policy::kBack}, [](const Status&) {});
    }
    if (one.state == One::State::kLive && one.going) remove(*target);
    if (one.state == One::State::kRemoving && world_.now() - one.since > kRemovalMax)
        whole_.fail(one.name + " was not removed in time");
    if (one.state != One::State::kRemoved) return;
    close_client();
    if (one.client == nullptr) gone_.push_back(std::move(one_));
}

void ClusterRemovals::inject(ClusterTarget* target) {
    if (client_node_ == nullptr) return;
    if (one_ == nullptr && !finishing_)
        one_ = std::make_unique<One>(world_, options_, "scratch" + std::to_string(++made_));
    if (one_ == nullptr) return;
    if (one_->state == One::State::kLive && random_.chance(options_.one_in)) one_->going = true;
    // The client continues while the volume is being removed.
    if (one_->client != nullptr && one_->state != One::State::kRemoved && !one_->missing)
        for (uint64_t wanted = random_.below(options_.depth + 1); wanted > 0; --wanted)
            one_->client->begin_one();
    care_for(target);
}

bool ClusterRemovals::finish(ClusterTarget* target) {
    finishing_ = true;
    if (one_ == nullptr) return true;
    one_->going = true;
    care_for(target);
    return one_ == nullptr;
}

void ClusterRemovals::abandon() {
    if (one_ != nullptr) {
        one_->client.release();
        one_.release();
    }
}

}  // namespace wss::sim
