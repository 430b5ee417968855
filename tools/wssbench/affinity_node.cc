// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/affinity_node.h"

namespace wss::wssbench {

// The session to the target of one node. Each worker uses the slot with its own number.
class NodeLoad::Link final : public SessionLink {
  public:
    Link(NodeLoad& node, bool remote)
        : SessionLink(
              {.slots = node.options_.workers, .bytes = node.options_.bytes, .volume = node.options_.volume}),
          node_(node),
          remote_(remote) {}

    void perform(uint32_t worker, const Access& access) noexcept {
        Slot& slot = slots()[worker];
        slot.begun = node_.stamp();
        submit(slot, access);
    }

  private:
    void opened() override {
        if (++node_.opened_ == node_.links_.size()) node_.line_.arrive();
    }
    void completed(Slot& slot) noexcept override {
        node_.count_one(slot.begun);
        node_.remote_ += remote_ ? 1 : 0;
        node_.go_on(slot.index);
    }
    void failed(const Status& why) override { node_.fail(why); }
    void over() override { node_.link_over(); }

    NodeLoad& node_;
    const bool remote_;
};

void StartingLine::arrive() {
    {
        std::lock_guard lock(m_);
        if (++arrived_ < nodes_.size()) return;
    }
    for (NodeLoad* node : nodes_) node->reactor_.post([node] { node->begin_operators(); });
}

void StartingLine::abandon() {
    for (NodeLoad* node : nodes_) node->ask_to_end();
}

NodeLoad::NodeLoad(const NodeOptions& options, Work& work, StartingLine& line)
    : options_(options), work_(work), line_(line), random_(Random::entropy()), workers_(options.workers) {}

Result<std::unique_ptr<NodeLoad>> NodeLoad::create(const NodeOptions& options, Work& work,
                                                   StartingLine& line) {
    std::unique_ptr<NodeLoad> node(new NodeLoad(options, work, line));
    for (uint32_t to = 0; to < options.addresses.size(); ++to) {
        auto address = fabric::Address::parse(options.addresses[to], WSS_SRP_DEFAULT_PORT);
        if (!address) return address.status();
        Network& network = to == options.node ? node->own_ : node->others_;
        WSS_TRY(network.open(node->reactor_, *address));
        node->links_.push_back(std::make_unique<Link>(*node, to != options.node));
        WSS_TRY(node->links_.back()->prepare(*address, network, node->random_));
    }
    line.add(*node);
    return node;
}

NodeLoad::~NodeLoad() = default;

void NodeLoad::begin() {
    for (const auto& link : links_) link->start();
}

void NodeLoad::wind_down() {
    for (const auto& link : links_) link->close();
}

void NodeLoad::begin_operators() {
    if (ending()) return;
    operations_begin();
    started_.store(true, std::memory_order_relaxed);
    running_ = workers_.size();
    for (uint32_t worker = 0; worker < workers_.size(); ++worker) go_on(worker);
}

void NodeLoad::go_on(uint32_t number) noexcept {
    if (ending()) return;
    Worker& worker = workers_[number];
    if (worker.next == worker.accesses.size()) worker = {work_.next(options_.node, number), 0};
    if (worker.accesses.empty()) {
        if (--running_ == 0) wind_down();
        return;
    }
    const NodeAccess& access = worker.accesses[worker.next++];
    links_[access.node]->perform(number, access.access);
}

void NodeLoad::fail(const Status& why) {
    failed(why);
    line_.abandon();
}

void NodeLoad::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
