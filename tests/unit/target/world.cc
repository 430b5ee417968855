// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/target/world.h"

namespace wss::block::testing {

static fabric::Address loopback() {
    return {.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0};
}

// ---- RawClient -------------------------------------------------------------------------------------------

RawClient::RawClient(ClientSide& world, size_t memory_bytes) : world_(world) {
    auto& fabric = world.client_fabric();
    region_ = *std::move(fabric.allocate(memory_bytes, fabric::Access::kRemoteReadWrite));
    receive_region_ = *std::move(fabric.allocate(kReceives * kReceiveBytes, fabric::Access::kLocal));
    send_region_ = *std::move(fabric.allocate(size_t{kSends} * 20480, fabric::Access::kLocal));
}

RawClient::~RawClient() {
    if (connection_ == nullptr || closed_ || refused_) return;
    connection_->close();
    EXPECT_TRUE(world_.until([&] { return closed_ || refused_; }));
}

void RawClient::connect(const wire::LoginRequest& login) {
    std::array<byte, 56> data;
    ASSERT_EQ(wire::encode_login_request(login, data), 56u);
    fabric::ConnectionOptions options;
    options.receive_depth = kReceives;
    options.send_depth = kSends;
    auto made = world_.client_poller().connect(world_.address(), data, options, *this);
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    connection_ = std::move(*made);
}

void RawClient::post_receive(uint64_t index) {
    fabric::Segment segment{receive_region_->bytes().data() + index * kReceiveBytes, kReceiveBytes,
                            receive_region_->lkey()};
    fabric::Receive receive{.cookie = index, .segments = {&segment, 1}};
    EXPECT_EQ(connection_->post_receives({&receive, 1}), Code::kOk);
}

void RawClient::on_established(fabric::Connection&, std::span<const byte> data) noexcept {
    EXPECT_EQ(wire::parse_login_response(data, login_), wire::ParseError::kNone);
    credits_ = login_.credits;
    established_ = true;
    for (uint64_t i = 0; i < kReceives; ++i) post_receive(i);
}

void RawClient::on_refused(fabric::Connection&, const Status&, std::span<const byte> data) noexcept {
    wire::parse_login_reject(data, reject_);
    refused_ = true;
}

void RawClient::on_closed(fabric::Connection&, const Status&) noexcept {
    closed_ = true;
}

void RawClient::on_completions(fabric::Connection&,
                               std::span<const fabric::Completion> completions) noexcept {
    for (const auto& completion : completions) {
        if (completion.status != fabric::CompletionStatus::kOk || completion.cookie >= kReceives) continue;
        byte* at = receive_region_->bytes().data() + completion.cookie * kReceiveBytes;
        received({at, completion.kind == fabric::CompletionKind::kReceive ? completion.length : 0},
                 completion);
        post_receive(completion.cookie);
    }
}

void RawClient::received(std::span<const byte> message, const fabric::Completion& completion) {
    if (completion.kind == fabric::CompletionKind::kReceiveImmediate) {
        wire::FusedCompletion fused;
        EXPECT_EQ(wire::unpack_fused(completion.immediate, fused), wire::ParseError::kNone);
        credits_ += fused.credits;
        EXPECT_TRUE(repeats_tags || !answers_.contains(fused.tag)) << "answered twice";
        answers_[fused.tag].fused = true;
        return;
    }
    if (wire::opcode_of(message) == WSS_SRP_BATCH_RSP) {
        wire::Done done;
        ASSERT_EQ(wire::parse_done(message, done), wire::ParseError::kNone);
        credits_ += done.credits;
        for (size_t i = 0; i < done.count(); ++i) {
            EXPECT_TRUE(repeats_tags || !answers_.contains(done.tag(i))) << "answered twice";
            answers_[done.tag(i)].batched = true;
        }
        return;
    }
    if (wire::opcode_of(message) != WSS_SRP_RSP) {
        others.emplace_back(message.begin(), message.end());
        return;
    }
    Answer answer;
    ASSERT_EQ(wire::parse_response(message, answer.response), wire::ParseError::kNone);
    answer.sense.assign(answer.response.sense.begin(), answer.response.sense.end());
    answer.response.sense = {};
    answer.invalidated = completion.invalidated;
    credits_ += answer.response.credits;
    EXPECT_TRUE(repeats_tags || !answers_.contains(answer.response.tag)) << "answered twice";
    answers_[answer.response.tag] = answer;
}

void RawClient::send(std::span<const byte> message) {
    byte* at = send_region_->bytes().data() + size_t{next_send_} * 20480;
    next_send_ = (next_send_ + 1) % kSends;
    if (!message.empty()) std::memcpy(at, message.data(), message.size());
    fabric::Segment segment{at, static_cast<uint32_t>(message.size()), send_region_->lkey()};
    fabric::WorkRequest work{.op = fabric::Op::kSend, .cookie = kReceives + 1, .segments = {&segment, 1}};
    Code code = connection_->post({&work, 1});
    EXPECT_TRUE(code == Code::kOk || code == Code::kClosed) << to_string(code);
}

uint64_t RawClient::start(uint64_t lun, std::span<const byte> cdb, wire::CommandRequest::Direction direction,
                          std::vector<wire::RemoteBuffer> data) {
    std::array<byte, 8192> message;
    wire::CommandRequest request{
        .tag = next_tag_++, .lun = lun, .direction = direction, .cdb = cdb, .descriptors = data};
    size_t length = wire::encode_command(request, message);
    EXPECT_GT(length, 0u);
    --credits_;
    send({message.data(), length});
    return request.tag;
}

uint64_t RawClient::start_immediate(uint64_t lun, std::span<const byte> cdb, std::span<const byte> data) {
    std::vector<byte> message(WSS_SRP_IMM_DATA_OFFSET + data.size());
    wire::CommandRequest request{.tag = next_tag_++,
                                 .lun = lun,
                                 .direction = wire::CommandRequest::Direction::kOut,
                                 .cdb = cdb,
                                 .immediate_length = static_cast<uint32_t>(data.size())};
    EXPECT_EQ(wire::encode_command(request, message), WSS_SRP_IMM_DATA_OFFSET);
    std::memcpy(message.data() + WSS_SRP_IMM_DATA_OFFSET, data.data(), data.size());
    --credits_;
    send(message);
    return request.tag;
}

Answer RawClient::take(uint64_t tag) {
    Answer answer = answers_.at(tag);
    answers_.erase(tag);
    return answer;
}

// ---- World -----------------------------------------------------------------------------------------------

World::World(WorldOptions options) {
    target_fabric_ = *std::move(fabric::open(loopback()));
    client_fabric_ = *std::move(fabric::open(loopback()));
    std::vector<reactor::Reactor*> reactors;
    for (size_t i = 0; i < options.reactors; ++i) {
        reactors_.push_back(
            std::make_unique<reactor::Reactor>(options.clock != nullptr ? *options.clock : clock_));
        reactors.push_back(reactors_.back().get());
    }
    client_reactor_ = std::make_unique<reactor::Reactor>(clock_);
    client_poller_ = *std::move(client_fabric_->create_poller());
    client_reactor_->add(*client_poller_);
    options.volumes.extend = VolumeRegions::factory({target_fabric_.get()});
    volumes_ = std::make_unique<volume::VolumeSet>(reactors, options.volumes);
    auto service = Service::create(reactors, *volumes_, {target_fabric_.get()}, options.service);
    EXPECT_TRUE(service.is_ok()) << service.status().to_string();
    service_ = *std::move(service);
    fabric::Address where = loopback();
    where.port = options.port;
    auto address = service_->listen(0, where);
    EXPECT_TRUE(address.is_ok()) << address.status().to_string();
    address_ = *address;
}

void World::stop() {
    if (std::exchange(stopped_, true)) return;
    bool done = false;
    service_->stop([&] { done = true; });
    EXPECT_TRUE(until([&] { return done; })) << "stop() must end";
    bool closed = false;
    volumes_->close_all_async([&](Status) { closed = true; });
    EXPECT_TRUE(until([&] { return closed; })) << "volumes must close";
}

World::~World() {
    stop();
    service_.reset();
    volumes_.reset();
    client_reactor_->remove(*client_poller_);
}

void World::step_target() {
    if (before_target_steps) before_target_steps();
    for (auto& reactor : reactors_) reactor->step();
    if (after_target_steps) after_target_steps();
}

void World::step() {
    step_target();
    if (!clients_sleep) client_reactor_->step();
}

bool World::until(const std::function<bool()>& done) {
    const Nanoseconds limit = clock_.now() + from_s(10);
    while (!done()) {
        if (clock_.now() > limit) return false;
        step();
    }
    return true;
}

void World::add_volume(const std::string& name, const std::string& backend, uint64_t size, uint32_t block) {
    bool done = false;
    volumes_->create_async({.name = name, .backend = backend, .size = size, .block_size = block},
                           [&](Status status) {
                               EXPECT_TRUE(status.is_ok()) << status.to_string();
                               done = true;
                           });
    ASSERT_TRUE(until([&] { return done; }));
}

wire::LoginRequest World::login(uint8_t initiator, uint32_t caps, bool multi) {
    wire::LoginRequest login;
    login.tag = 77;
    login.multi_channel = multi;
    login.immediate = true;
    login.initiator_port[0] = initiator;
    login.target_port[15] = 9;
    login.extended = caps != 0;
    login.caps = caps;
    return login;
}

std::unique_ptr<RawClient> World::client(uint8_t initiator, uint32_t caps, bool multi) {
    auto client = std::make_unique<RawClient>(*this);
    client->connect(login(initiator, caps, multi));
    EXPECT_TRUE(until([&] { return client->established() || client->refused(); }));
    EXPECT_TRUE(client->established()) << client->reject().text();
    return client;
}

Answer World::run(RawClient& client, uint64_t lun, std::span<const byte> cdb,
                  wire::CommandRequest::Direction direction, std::vector<wire::RemoteBuffer> data) {
    uint64_t tag = client.start(lun, cdb, direction, std::move(data));
    EXPECT_TRUE(until([&] { return client.answered(tag) || client.closed(); }));
    EXPECT_TRUE(client.answered(tag));
    return client.answered(tag) ? client.take(tag) : Answer{};
}

Answer World::read(RawClient& client, uint64_t lun, uint64_t lba, uint32_t blocks, size_t offset,
                   uint32_t bytes) {
    return run(client, lun, cdb_read16(lba, blocks), wire::CommandRequest::Direction::kIn,
               {client.remote(offset, bytes)});
}

Answer World::write(RawClient& client, uint64_t lun, uint64_t lba, uint32_t blocks, size_t offset,
                    uint32_t bytes) {
    return run(client, lun, cdb_write16(lba, blocks), wire::CommandRequest::Direction::kOut,
               {client.remote(offset, bytes)});
}

CounterTotals World::totals() {
    CounterTotals totals;
    bool done = false;
    service_->total([&](CounterTotals now) {
        totals = now;
        done = true;
    });
    EXPECT_TRUE(until([&] { return done; }));
    return totals;
}

// ---- Helpers ---------------------------------------------------------------------------------------------

std::vector<byte> cdb(std::initializer_list<int> bytes) {
    std::vector<byte> made(16);
    size_t at = 0;
    for (int each : bytes) made[at++] = byte(each);
    return made;
}

static std::vector<byte> cdb16(int opcode, int flags, uint64_t lba, uint32_t blocks) {
    std::vector<byte> made = cdb({opcode, flags});
    wire::put64(made.data() + 2, lba);
    wire::put32(made.data() + 10, blocks);
    return made;
}

std::vector<byte> cdb_read16(uint64_t lba, uint32_t blocks) {
    return cdb16(0x88, 0, lba, blocks);
}

std::vector<byte> cdb_write16(uint64_t lba, uint32_t blocks, bool fua) {
    return cdb16(0x8a, fua ? 8 : 0, lba, blocks);
}

void fill(byte* at, size_t bytes, uint64_t seed) {
    Random random(seed);
    for (size_t i = 0; i < bytes; ++i) at[i] = byte(random.next());
}

bool holds(const byte* at, size_t bytes, uint64_t seed) {
    Random random(seed);
    for (size_t i = 0; i < bytes; ++i)
        if (at[i] != byte(random.next())) return false;
    return true;
}

}  // namespace wss::block::testing
