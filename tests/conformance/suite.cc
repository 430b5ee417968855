// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/suite.h"

namespace wss::fabric::conformance {

INSTANTIATE_TEST_SUITE_P(Fabric, OverAFabric, testing::ValuesIn(registry()),
                         [](const auto& instance) { return instance.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OverAFabric);

static void equip(End& end, Fabric& fabric) {
    end.fabric = &fabric;
    Result<std::unique_ptr<Poller>> poller = fabric.create_poller();
    ASSERT_TRUE(poller) << poller.status().to_string();
    end.poller = std::move(*poller);
    Result<std::unique_ptr<Region>> arena = fabric.allocate(kArenaBytes, Access::kRemoteReadWrite);
    ASSERT_TRUE(arena) << arena.status().to_string();
    end.arena = std::move(*arena);
    for (std::byte byte : end.arena->bytes()) ASSERT_EQ(byte, std::byte{0}) << "allocated memory is zeroed";
}

void OverAFabric::SetUp() {
    world_ = GetParam().make();
    equip(client_, world_->client());
    equip(server_, world_->server());
}

void OverAFabric::TearDown() {
    if (world_ == nullptr) return;
    hang_up();
    kept_.reset();
    listener_.reset();
}

void OverAFabric::turn() {
    client_.poller->poll();
    server_.poller->poll();
    world_->advance();
}

void OverAFabric::listen() {
    address_ = world_->listen_address();
    Result<std::unique_ptr<Listener>> listener = server_.poller->listen(address_, *this);
    ASSERT_TRUE(listener) << listener.status().to_string();
    listener_ = std::move(*listener);
    address_ = listener_->address();
}

void OverAFabric::begin_connect(std::string_view data) {
    Result<std::unique_ptr<Connection>> connection =
        client_.poller->connect(address_, bytes_of(data), options_, client_.heard);
    ASSERT_TRUE(connection) << connection.status().to_string();
    client_.connection = std::move(*connection);
}

void OverAFabric::on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept {
    request_data_ = private_text(request->data());
    if (answer_ == Answer::kKeep) kept_ = std::move(request);
    if (answer_ == Answer::kReject) request->reject(bytes_of(answer_data_));
    if (answer_ != Answer::kAccept) return;
    Result<std::unique_ptr<Connection>> connection =
        request->create(*server_.poller, options_, server_.heard);
    ASSERT_TRUE(connection) << connection.status().to_string();
    server_.connection = std::move(*connection);
    Status accepted = server_.connection->accept(bytes_of(answer_data_));
    ASSERT_TRUE(accepted) << accepted.to_string();
}

void OverAFabric::connect() {
    if (listener_ == nullptr) {
        ASSERT_NO_FATAL_FAILURE(listen());
    }
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.established && server_.heard.established; }))
        << client_.heard.why.to_string();
}

void OverAFabric::hang_up() {
    for (End* end : {&client_, &server_})
        if (end->connection != nullptr && !end->heard.over()) end->connection->close();
    for (End* end : {&client_, &server_}) {
        if (end->connection == nullptr) continue;
        ASSERT_TRUE(wait([&] { return end->heard.over(); })) << "close() leads to on_closed";
        end->connection.reset();
    }
}

}  // namespace wss::fabric::conformance
