// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/affinity_node.h"

namespace wss::wssbench {

namespace {

constexpr size_t kPage = 4096;
constexpr Nanoseconds kConnectTimeout = from_s(30);

size_t room_of(uint32_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

// The session to the target of one node, with a request and a buffer for each worker.
class NodeLoad::Link final : public initiator::SessionHandler {
  public:
    Link(NodeLoad& node, bool remote) : node_(node), remote_(remote), slots_(node.options_.workers) {}

    Status prepare(const fabric::Address& address, Network& network);
    void start() { session_->start(); }
    void close() noexcept;
    void submit(uint32_t worker, const Access& access) noexcept;

    void on_ready(initiator::Session&) noexcept override;
    void on_lost(initiator::Session&, const Status& why) noexcept override {
        if (!closing_) node_.fail(why);
    }
    void on_failed(initiator::Session&, const Status& why) noexcept override { over(why); }
    void on_closed(initiator::Session&) noexcept override { over(Status::ok()); }

  private:
    struct Slot : initiator::Request {
        Link* link = nullptr;
        uint32_t worker = 0;
        iovec segment{};
        Nanoseconds begun{};
    };

    void over(const Status& why);
    void ended(Slot& slot) noexcept;

    NodeLoad& node_;
    const bool remote_;
    std::vector<Slot> slots_;  // by worker
    std::unique_ptr<initiator::Session> session_;
    initiator::Volume* volume_ = nullptr;
    bool closing_ = false;
};

Status NodeLoad::Link::prepare(const fabric::Address& address, Network& network) {
    size_t room = room_of(node_.options_.bytes), all = room * slots_.size();
    initiator::Options wish{.address = address, .queue_depth = node_.options_.workers + 1};
    wish.bounce_bytes = std::max(initiator::kBounceMin, all);
    wish.connect_timeout = kConnectTimeout;
    auto session = initiator::Session::create(node_.reactor_, *network.fabric, *network.poller, node_.random_,
                                              std::move(wish), *this);
    if (!session) return session.status();
    session_ = std::move(*session);
    auto region = network.fabric->allocate(all, fabric::Access::kRemoteReadWrite);
    if (!region) return region.status();
    std::byte* memory = (*region)->bytes().data();
    WSS_TRY(session_->memory().regions().add(std::move(*region)));
    for (uint32_t worker = 0; worker < slots_.size(); ++worker) {
        Slot& slot = slots_[worker];
        slot.link = this;
        slot.worker = worker;
        slot.segment.iov_base = memory + worker * room;
        slot.done = [](initiator::Request& request, void*) noexcept {
            Slot& its = static_cast<Slot&>(request);
            its.link->ended(its);
        };
    }
    return Status::ok();
}

void NodeLoad::Link::on_ready(initiator::Session&) noexcept {
    if (volume_ != nullptr || closing_) return;
    session_->open_volume(node_.options_.volume, [this](Result<initiator::Volume*> opened) {
        if (closing_) return;
        if (!opened) return node_.fail(opened.status());
        volume_ = *opened;
        if (++node_.opened_ == node_.links_.size()) node_.line_.arrive();
    });
}

void NodeLoad::Link::submit(uint32_t worker, const Access& access) noexcept {
    Slot& slot = slots_[worker];
    slot.operation = access.write ? initiator::Operation::kWrite : initiator::Operation::kRead;
    slot.volume = volume_;
    slot.offset = access.offset;
    slot.length = access.length;
    slot.segment.iov_len = access.length;
    slot.buffers = {&slot.segment, 1};
    slot.begun = node_.stamp();
    if (!session_->submit(slot)) ended(slot);
}

void NodeLoad::Link::ended(Slot& slot) noexcept {
    if (slot.outcome == initiator::Outcome::kOk) {
        node_.count_one(slot.begun);
        node_.remote_ += remote_ ? 1 : 0;
        node_.go_on(slot.worker);
    } else if (!closing_) {
        node_.fail(Status(Code::kIo, describe(slot)));
    }
}

void NodeLoad::Link::close() noexcept {
    using State = initiator::Session::State;
    if (std::exchange(closing_, true)) return;
    if (session_->state() == State::kClosed || session_->state() == State::kIdle) return node_.link_over();
    session_->close();
}

void NodeLoad::Link::over(const Status& why) {
    closing_ = true;  // before fail(), which closes all links
    node_.link_over();
    if (!why) node_.fail(why);
}

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

Status NodeLoad::open(Network& network, const fabric::Address& address) {
    if (network.poller) return Status::ok();
    auto opened = fabric::open(address);
    if (!opened) return opened.status();
    network.fabric = std::move(*opened);
    auto poller = network.fabric->create_poller();
    if (!poller) return poller.status();
    network.poller = std::move(*poller);
    reactor_.add(*network.poller);
    return Status::ok();
}

Result<std::unique_ptr<NodeLoad>> NodeLoad::create(const NodeOptions& options, Work& work,
                                                   StartingLine& line) {
    std::unique_ptr<NodeLoad> node(new NodeLoad(options, work, line));
    for (uint32_t to = 0; to < options.addresses.size(); ++to) {
        auto address = fabric::Address::parse(options.addresses[to], WSS_SRP_DEFAULT_PORT);
        if (!address) return address.status();
        Network& network = to == options.node ? node->own_ : node->others_;
        WSS_TRY(node->open(network, *address));
        node->links_.push_back(std::make_unique<Link>(*node, to != options.node));
        WSS_TRY(node->links_.back()->prepare(*address, network));
    }
    line.add(*node);
    return node;
}

NodeLoad::~NodeLoad() {
    links_.clear();
    for (Network* network : {&own_, &others_})
        if (network->poller) reactor_.remove(*network->poller);
}

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
    links_[access.node]->submit(number, access.access);
}

void NodeLoad::fail(const Status& why) {
    failed(why);
    line_.abandon();
}

void NodeLoad::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
