// SPDX-License-Identifier: Apache-2.0
// Cache engines that refuse their parts of a read: RETRY names those that the initiator must fence.
#include <algorithm>

#include "tests/sim/tests/hostile_engine.h"
#include "tests/sim/tests/raw_side.h"

namespace wss::sim {
namespace {

using block::testing::RawClient;

// Three engines to which a client claims to be connected.
class RefusedReads : public HostileEngines {
  protected:
    static constexpr size_t kEngines = 3;
    static constexpr uint32_t kLine = kLineBytes / io::SimDisk::kSector, kLines = 8;

    void SetUp() override {
        HostileEngines::SetUp();
        for (size_t i = 0; i < kEngines; ++i) {
            auto& node = world_.add_node("engine" + std::to_string(i));
            engines_.push_back(std::make_unique<HostileEngine>(node, network_));
            engines_[i]->join({.engine = 1 + i, .memory = 64 * kLineBytes});
            ASSERT_TRUE(until([&] { return engines_[i]->welcomed; }));
            engines_[i]->say(
                [](auto room) { return wire::put_text(RecordType::kAddress, "sim://engine:9", room); });
            engines_[i]->inventory_end(64);
            engines_[i]->plain(RecordType::kReady);
        }
        client_.connect(block::testing::World::login(1, WSS_CAP_CACHE | WSS_CAP_FUSED_COMPLETION));
        ASSERT_TRUE(side_.until([&] { return client_.established(); }));
        for (auto& engine : engines_) {
            ASSERT_TRUE(until([&] { return engine->granted != 0; }));
            engine->handle(RecordType::kAttached, engine->granted);
        }
        world_.run_for(from_ms(100));
    }
    void TearDown() override {
        client_.close();
        EXPECT_TRUE(side_.until([&] { return client_.closed(); }));
        for (auto& engine : engines_) retire(std::move(engine));
        HostileEngines::TearDown();
    }
    uint64_t start(uint64_t line) {
        return client_.start(0, block::testing::cdb_read16(line * kLine, kLines * kLine),
                             wire::CommandRequest::Direction::kIn, {client_.remote(0, kLines * kLineBytes)});
    }
    // Reads lines from storage, so that engines have them afterwards.
    void fill(uint64_t line) {
        const uint64_t tag = start(line);
        ASSERT_TRUE(until([&] { return client_.answered(tag); }));
        EXPECT_EQ(client_.take(tag).response.status, wire::kGood);
        world_.run_for(from_ms(100));
    }
    // Reads lines that are in engines, and returns the engine that RETRY names.
    uint32_t retry(uint64_t line) {
        client_.others.clear();
        const uint64_t tag = start(line);
        wire::RetryNotice again;
        EXPECT_TRUE(until([&] {
            return std::any_of(client_.others.begin(), client_.others.end(), [&](const auto& message) {
                return wire::parse_retry(message, again) == wire::ParseError::kNone && again.tag == tag;
            });
        }));
        return again.engine;
    }

    std::vector<std::unique_ptr<HostileEngine>> engines_;
    RawSide side_{world_, network_};
    RawClient client_{side_};
};

TEST_F(RefusedReads, make_the_target_name_all_engines_when_several_refuse_parts_of_a_read) {
    for (uint64_t line = 0; line < 64; line += kLines) fill(line);
    for (auto& engine : engines_) engine->refuses = true;
    size_t most = 0;
    for (uint64_t line = 0; line < 64; line += kLines) {
        for (auto& engine : engines_) engine->refused = 0;
        const uint32_t named = retry(line);
        size_t refusing = 0;
        for (auto& engine : engines_) refusing += engine->refused > 0;
        EXPECT_EQ(named == WSS_CACHE_ENGINES_MAX, refusing > 1) << "line " << line;
        most = std::max(most, refusing);
    }
    EXPECT_EQ(most, kEngines);
}

}  // namespace
}  // namespace wss::sim
