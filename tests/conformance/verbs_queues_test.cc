// SPDX-License-Identifier: Apache-2.0
// More connections than one completion queue has entries for.
#include <poll.h>

#include <memory>
#include <vector>

#include "tests/conformance/verbs_fixture.h"

namespace wss::fabric {
namespace {

// Both ends of several connections, in order of creation.
struct Ends final : ListenHandler {
    explicit Ends(Verbs& test) : t(test) {
        t.listener.reset();
        auto listening = t.server_poller->listen(t.where, *this);
        EXPECT_TRUE(listening) << listening.status().to_string();
        listener = std::move(*listening);
        t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kRemoteReadWrite));
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        End& end = *servers.emplace_back(std::make_unique<End>());
        auto made = request->create(*t.server_poller, t.options, end);
        ASSERT_TRUE(made) << made.status().to_string();
        end.connection = std::move(*made);
        t.post_receives(end, 1);
        EXPECT_TRUE(end.connection->accept({}));
    }
    void connect() {
        End& end = *clients.emplace_back(std::make_unique<End>());
        auto made = t.client_poller->connect(t.where, {}, t.options, end);
        ASSERT_TRUE(made) << made.status().to_string();
        end.connection = std::move(*made);
        ASSERT_TRUE(t.until([&] {
            return end.established && servers.size() == clients.size() && servers.back()->established;
        }));
    }
    // Sends one message on each connection, one after the other.
    void talk() {
        for (size_t i = 0; i < clients.size(); ++i) {
            ASSERT_EQ(t.post(*clients[i], {.op = Op::kSend, .cookie = 1}, t.segment(0, 64)), Code::kOk);
            ASSERT_TRUE(t.until([&] {
                return clients[i]->completions.size() == 1 && servers[i]->completions.size() == 1;
            })) << i;
            EXPECT_EQ(clients[i]->completions[0].status, CompletionStatus::kOk);
        }
    }
    void close() {
        for (auto* ends : {&clients, &servers}) {
            for (auto& end : *ends) t.close(*end);
            ends->clear();
        }
    }
    Verbs& t;
    std::unique_ptr<Listener> listener;
    std::vector<std::unique_ptr<End>> clients, servers;
};

// 20 x 4000 entries are more than two completion queues of soft RoCE have.
void a_poller_serves_more_connections_than_a_completion_queue_has_entries_for(Verbs& t) {
    t.options.send_depth = 2000;
    t.options.receive_depth = 2000;
    Ends ends(t);
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(ends.connect());
        ASSERT_NO_FATAL_FAILURE(ends.talk());
        ends.close();
    }
}

// The completion arrives in the newest queue.
void a_sleeping_poller_is_woken_by_each_of_its_completion_queues(Verbs& t) {
    t.options.send_depth = 4000;
    t.options.receive_depth = 4000;
    Ends ends(t);
    for (int i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(ends.connect());
    for (size_t i = 0; i < ends.clients.size(); ++i) {
        while (!t.server_poller->arm()) t.server_poller->poll();
        ASSERT_EQ(t.post(*ends.clients[i], {.op = Op::kSend, .cookie = 1}, t.segment(0, 64)), Code::kOk);
        pollfd woken{.fd = t.server_poller->fd(), .events = POLLIN, .revents = 0};
        ASSERT_EQ(::poll(&woken, 1, 30'000), 1) << "connection " << i;
        ASSERT_TRUE(t.until([&] { return ends.servers[i]->completions.size() == 1; }));
    }
    ends.close();
}

constexpr std::pair<const char*, VerbsBody> kTests[] = {
    VERBS_TEST(a_poller_serves_more_connections_than_a_completion_queue_has_entries_for),
    VERBS_TEST(a_sleeping_poller_is_woken_by_each_of_its_completion_queues),
};

[[maybe_unused]] const bool registered = register_verbs_tests("VerbsQueues", __FILE__, kTests);

}  // namespace
}  // namespace wss::fabric
