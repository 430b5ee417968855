// SPDX-License-Identifier: Apache-2.0
// Targets that send false or malformed messages, or nothing. The session closes the connection, fails its
// requests in bounded time, and never touches memory outside the request's buffers.
#include "tests/unit/initiator/bench.h"

namespace wss::initiator::testing {
namespace {

// Accepts connections and answers according to its script.
class FakeTarget final : public fabric::ListenHandler, public fabric::ConnectionHandler {
  public:
    using Script = std::function<void(FakeTarget&, const wire::Command&)>;

    FakeTarget() {
        fabric::Address any{.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0};
        fabric_ = *std::move(fabric::open(any));
        poller_ = *std::move(fabric_->create_poller());
        memory_ = *std::move(fabric_->allocate(kReceives * kBytes + kBytes, fabric::Access::kLocal));
        listener_ = *std::move(poller_->listen(any, *this));
        login.credits = 8;
        login.max_it_iu = WSS_SRP_MAX_IT_IU_LEN;
        login.max_ti_iu = WSS_SRP_MAX_TI_IU_LEN;
        login.immediate = true;
        login.extended = true;
        login.caps = WSS_CAP_FUSED_COMPLETION | WSS_CAP_BATCHED_COMPLETION;
    }
    ~FakeTarget() override {
        for (auto& connection : connections_) connection->close();
        for (int i = 0; i < 1000 && closed < connections_.size(); ++i) poller_->poll();
        EXPECT_EQ(closed, connections_.size());
    }

    wire::LoginResponse login;
    std::vector<byte> raw_login;  // instead of `login`
    Script script = [](FakeTarget&, const wire::Command&) {};
    bool accepts = true;
    uint64_t naa = 0x3000000000000001;  // identity of the disk
    bool write_cache = false;  // the disk has a write cache; it then compares and writes, but has no FUA
    size_t closed = 0;
    uint32_t commands = 0;

    fabric::Address address() const { return listener_->address(); }
    void step() { poller_->poll(); }
    void send(std::span<const byte> message) {
        std::memcpy(memory_->bytes().data(), message.data(), message.size());
        fabric::Segment segment{memory_->bytes().data(), static_cast<uint32_t>(message.size()),
                                memory_->lkey()};
        fabric::WorkRequest work{.op = fabric::Op::kSend, .cookie = ~uint64_t{0}, .segments = {&segment, 1}};
        EXPECT_EQ(connections_.back()->post({&work, 1}), Code::kOk);
        // The memory is reused: wait until the message has been copied.
        for (int i = 0; i < 3; ++i) poller_->poll();
    }
    void respond(wire::Response response) {
        std::array<byte, 256> message;
        send({message.data(), wire::encode_response(response, message)});
    }
    void fused(uint32_t immediate) {
        fabric::WorkRequest work{
            .op = fabric::Op::kWriteImmediate, .cookie = ~uint64_t{0}, .immediate = immediate};
        EXPECT_EQ(connections_.back()->post({&work, 1}), Code::kOk);
    }
    void done(std::initializer_list<uint16_t> tags, size_t left_out = 0) {
        std::array<byte, 256> message;
        std::vector<uint16_t> all(tags);
        send({message.data(), wire::encode_done(1, all, message) - left_out});
    }
    // Answers the commands of a login and of opening "disk": one volume of 1 MiB.
    void be_a_disk(const wire::Command& command);

    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        std::array<byte, sizeof(wss_srp_login_rsp)> data;
        wire::encode_login_response(login, data);
        connections_.push_back(*request->create(*poller_, {}, *this));
        for (uint64_t i = 0; i < kReceives; ++i) post(i);
        EXPECT_TRUE(connections_.back()->accept(raw_login.empty() ? std::span<const byte>(data) : raw_login));
    }
    void on_established(fabric::Connection&, std::span<const byte>) noexcept override {}
    void on_refused(fabric::Connection&, const Status&, std::span<const byte>) noexcept override { ++closed; }
    void on_closed(fabric::Connection&, const Status&) noexcept override { ++closed; }
    void on_completions(fabric::Connection&,
                        std::span<const fabric::Completion> completions) noexcept override {
        for (const auto& completion : completions) {
            if (completion.status != fabric::CompletionStatus::kOk || completion.cookie >= kReceives)
                continue;
            wire::Command command;
            wire::Bytes message(at(completion.cookie), completion.length);
            if (wire::parse_command(message, WSS_SRP_IMM_DATA_OFFSET, command) == wire::ParseError::kNone) {
                ++commands;
                script(*this, command);
            }
            post(completion.cookie);
        }
    }

  private:
    static constexpr uint64_t kReceives = 32;
    static constexpr size_t kBytes = 20480;
    byte* at(uint64_t index) { return memory_->bytes().data() + (index + 1) * kBytes; }
    void post(uint64_t index) {
        fabric::Segment segment{at(index), kBytes, memory_->lkey()};
        fabric::Receive receive{index, {&segment, 1}};
        connections_.back()->post_receives({&receive, 1});
    }
    void answer(const wire::Command& command, std::vector<byte> data);
    bool answer_with_cache(const wire::Command& command);

    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<fabric::Listener> listener_;
    std::vector<std::unique_ptr<fabric::Connection>> connections_;
};

void FakeTarget::answer(const wire::Command& command, std::vector<byte> data) {
    wire::Response response{.tag = command.tag, .credits = 1};
    wire::RemoteBuffer to = command.in.descriptor(0);
    data.resize(std::min<size_t>(data.size(), to.length));
    std::memcpy(memory_->bytes().data() + 4096, data.data(), data.size());
    fabric::Segment segment{memory_->bytes().data() + 4096, static_cast<uint32_t>(data.size()),
                            memory_->lkey()};
    fabric::WorkRequest work{.op = fabric::Op::kWrite,
                             .cookie = ~uint64_t{0},
                             .segments = {&segment, 1},
                             .remote = {to.address, to.rkey}};
    EXPECT_EQ(connections_.back()->post({&work, 1}), Code::kOk);
    response.in = {wire::Residual::Kind::kUnder, to.length - static_cast<uint32_t>(data.size())};
    if (response.in.bytes == 0) response.in = {};
    respond(response);
}

bool FakeTarget::answer_with_cache(const wire::Command& command) {
    const uint8_t opcode = wire::get8(command.cdb.data());
    std::vector<byte> data(64);
    if (opcode == wire::kInquiry && wire::get8(command.cdb.data() + 2) == wire::kVpdBlockLimits) {
        wire::put8(data.data() + 1, wire::kVpdBlockLimits);
        wire::put16(data.data() + 2, 60);
        wire::put8(data.data() + 5, 255);  // blocks of COMPARE AND WRITE
    } else if (opcode == wire::kModeSense10) {
        data.resize(8 + 20);
        wire::put16(data.data(), 26);
        wire::put8(data.data() + 8, wire::kModeCaching);
        wire::put8(data.data() + 9, 18);
        wire::put8(data.data() + 10, 0x04);  // WCE
    } else {
        return false;
    }
    answer(command, data);
    return true;
}

void FakeTarget::be_a_disk(const wire::Command& command) {
    if (write_cache && answer_with_cache(command)) return;
    const uint8_t opcode = wire::get8(command.cdb.data());
    const bool page = (wire::get8(command.cdb.data() + 1) & 1) != 0;
    if (opcode == wire::kReportLuns) {
        std::vector<byte> data(16);
        wire::put32(data.data(), 8);
        return answer(command, data);
    }
    if (opcode == wire::kInquiry && !page) {
        std::vector<byte> data(36, byte{' '});
        std::fill_n(data.begin(), 8, byte{});
        data[2] = byte{6};
        data[3] = byte{2};
        data[4] = byte{31};
        std::memcpy(data.data() + 8, "WSS     ", 8);
        return answer(command, data);
    }
    if (opcode == wire::kInquiry && wire::get8(command.cdb.data() + 2) == wire::kVpdIdentification) {
        std::vector<byte> data(4 + 4 + 12 + 4 + 8);
        wire::put8(data.data() + 1, wire::kVpdIdentification);
        wire::put16(data.data() + 2, 28);
        wire::put8(data.data() + 4, 2);
        wire::put8(data.data() + 5, 1);
        wire::put8(data.data() + 7, 12);
        std::memcpy(data.data() + 8, "WSS     disk", 12);
        wire::put8(data.data() + 20, 1);
        wire::put8(data.data() + 21, 3);
        wire::put8(data.data() + 23, 8);
        wire::put64(data.data() + 24, naa);
        return answer(command, data);
    }
    if (opcode == wire::kInquiry) {
        std::vector<byte> data(write_cache ? 7 : 6);
        wire::put16(data.data() + 2, static_cast<uint16_t>(data.size() - 4));
        wire::put8(data.data() + 5, wire::kVpdIdentification);
        if (write_cache) wire::put8(data.data() + 6, wire::kVpdBlockLimits);
        return answer(command, data);
    }
    if (opcode == wire::kServiceActionIn16) {
        std::vector<byte> data(32);
        wire::put64(data.data(), 2047);
        wire::put32(data.data() + 8, 512);
        return answer(command, data);
    }
    std::array<byte, 32> sense;
    size_t length = wire::encode_sense(
        {.key = wire::SenseKey::kIllegalRequest, .code = wire::AdditionalSense::kInvalidOpcode},
        wire::SenseFormat::kFixed, sense);
    respond(
        {.tag = command.tag, .credits = 1, .status = wire::kCheckCondition, .sense = {sense.data(), length}});
}

Options quick() {
    Options options;
    options.request_timeout = from_ms(300);
    options.reconnect_timeout = from_ms(200);
    options.reconnect_delay = from_ms(1);
    options.connect_timeout = from_ms(500);
    return options;
}

struct WithAHostileTarget : ::testing::Test {
    WithAHostileTarget() : bench(target.address(), quick()) {
        bench.others = [this] { target.step(); };
        target.script = [](FakeTarget& fake, const wire::Command& command) { fake.be_a_disk(command); };
    }
    // Logs in and opens the disk. After that, `script` answers.
    void open(FakeTarget::Script script) {
        ASSERT_TRUE(bench.start()) << bench.why.to_string();
        disk = bench.open("disk");
        ASSERT_NE(disk, nullptr) << bench.why.to_string();
        target.script = std::move(script);
    }
    // Runs one read to its end. The memory around its buffer must not change.
    Outcome read() {
        if (disk == nullptr) return Outcome::kClosed;  // open() has failed and reported it
        std::vector<byte> data(3 * 4096, byte{0x5a});
        iovec buffer{data.data() + 4096, 4096};
        Io io;
        io.volume = disk;
        io.length = 4096;
        io.buffers = {&buffer, 1};
        Outcome outcome = bench.run(io);
        EXPECT_TRUE(std::all_of(data.begin(), data.begin() + 4096, [](byte b) { return b == byte{0x5a}; }));
        EXPECT_TRUE(std::all_of(data.end() - 4096, data.end(), [](byte b) { return b == byte{0x5a}; }));
        return outcome;
    }
    FakeTarget target;
    Bench bench;
    Volume* disk = nullptr;
};

TEST_F(WithAHostileTarget, requests_succeed_while_it_behaves) {
    open([](FakeTarget& fake, const wire::Command& command) {
        fake.respond({.tag = command.tag, .credits = 1});
    });
    EXPECT_EQ(disk->info().size, 1024u * 1024);
    EXPECT_EQ(read(), Outcome::kOk);
}

TEST_F(WithAHostileTarget, a_request_is_not_sent_again_to_the_unit_that_has_taken_its_lun) {
    uint32_t reads = 0;
    open([&](FakeTarget& fake, const wire::Command& command) {
        if (wire::get8(command.cdb.data()) != wire::kRead16) return fake.be_a_disk(command);
        if (++reads > 1) return fake.respond({.tag = command.tag, .credits = 1});
        fake.naa ^= 0x10;
        std::array<byte, 32> sense;
        size_t length = wire::encode_sense(
            {.key = wire::SenseKey::kUnitAttention, .code = wire::AdditionalSense::kReportedLunsChanged},
            wire::SenseFormat::kFixed, sense);
        fake.respond({.tag = command.tag,
                      .credits = 1,
                      .status = wire::kCheckCondition,
                      .sense = {sense.data(), length}});
    });
    EXPECT_EQ(read(), Outcome::kVolumeGone);
    EXPECT_EQ(reads, 1u);
    target.naa ^= 0x10;  // its volume has returned
    bench.session().look_again();
    EXPECT_TRUE(bench.until([&] { return !disk->gone(); }));
    EXPECT_EQ(read(), Outcome::kOk);
}

TEST_F(WithAHostileTarget, garbage_instead_of_a_login_response_is_reported) {
    target.raw_login = std::vector<byte>(52, byte{0xff});
    EXPECT_FALSE(bench.start());
    EXPECT_NE(bench.why.text().find("does not speak SRP"), std::string::npos) << bench.why.text();
}

TEST_F(WithAHostileTarget, a_login_without_credits_is_refused) {
    target.login.credits = 0;
    EXPECT_FALSE(bench.start());
    EXPECT_EQ(bench.why.code(), Code::kInvalid) << bench.why.to_string();
}

TEST_F(WithAHostileTarget, a_login_response_that_permits_only_tiny_messages_is_refused) {
    target.login.max_it_iu = 64;
    EXPECT_FALSE(bench.start());
    EXPECT_EQ(bench.why.code(), Code::kUnsupported) << bench.why.to_string();
}

TEST_F(WithAHostileTarget, silence_leads_to_a_timeout) {
    open([](FakeTarget&, const wire::Command&) {});
    EXPECT_EQ(read(), Outcome::kTimedOut);
    EXPECT_GE(bench.lost, 1u) << "the buffer is free only without the connection";
}

TEST_F(WithAHostileTarget, login_to_a_silent_target_fails) {
    target.script = [](FakeTarget&, const wire::Command&) {};
    EXPECT_FALSE(bench.start());
}

TEST_F(WithAHostileTarget, credits_are_never_exceeded) {
    target.login.credits = 3;
    uint32_t seen = 0;
    open([&](FakeTarget&, const wire::Command&) { ++seen; });
    std::vector<std::unique_ptr<Io>> ios;
    for (int i = 0; i < 10; ++i) {
        ios.push_back(std::make_unique<Io>());
        ios.back()->operation = Operation::kFlush;
        ios.back()->volume = disk;
        ASSERT_TRUE(bench.session().submit(*ios.back()));
    }
    ASSERT_TRUE(bench.until([&] { return seen == 3; }));
    for (int i = 0; i < 100; ++i) {
        bench.reactor().step();
        target.step();
    }
    EXPECT_EQ(seen, 3u);
    for (auto& io : ios) EXPECT_TRUE(bench.until([&] { return io->over; }));
}

// Each message ends the connection. The read fails, as the target repeats the message after each login.
TEST_F(WithAHostileTarget, invalid_messages_close_the_connection) {
    using Lie = std::function<void(FakeTarget&, const wire::Command&)>;
    const Lie lies[] = {
        [](FakeTarget& fake, const wire::Command& command) { fake.respond({.tag = command.tag + 1}); },
        [](FakeTarget& fake, const wire::Command& command) { fake.respond({.tag = ~command.tag}); },
        [](FakeTarget& fake, const wire::Command& command) { fake.respond({.tag = command.tag ^ 1024}); },
        [](FakeTarget& fake, const wire::Command&) { fake.send(std::vector<byte>(1, byte{0xc1})); },
        [](FakeTarget& fake, const wire::Command&) { fake.send(std::vector<byte>(256, byte{0xff})); },
        [](FakeTarget& fake, const wire::Command&) { fake.send(std::vector<byte>(36, byte{0x00})); },
        [](FakeTarget& fake, const wire::Command&) { fake.fused(0xffffffff); },
        [](FakeTarget& fake, const wire::Command&) { fake.fused(0x00070000); },
        [](FakeTarget& fake, const wire::Command&) { fake.done({7}); },
        [](FakeTarget& fake, const wire::Command& command) {
            fake.done({static_cast<uint16_t>(command.tag), 7}, 1);
        },
        [](FakeTarget& fake, const wire::Command&) {
            fake.send(std::vector<byte>{byte{0xf6}, byte{0}});
        },
        [](FakeTarget& fake, const wire::Command& command) {
            std::array<byte, 256> message{};
            wire::encode_response({.tag = command.tag, .credits = 1}, message);
            wire::put32(message.data() + 28, 0x7fffffff);  // sense length
            message[18] = byte{2};
            fake.send({message.data(), 64});
        },
        [](FakeTarget& fake, const wire::Command&) {
            std::array<byte, 16> message{};
            message[0] = byte{0x80};  // logout
            fake.send(message);
        },
    };
    open([](FakeTarget&, const wire::Command&) {});
    for (const Lie& lie : lies) {
        uint32_t lost = bench.lost;
        // Commands of each new login are answered correctly, reads are not.
        target.script = [&](FakeTarget& fake, const wire::Command& command) {
            if (wire::get8(command.cdb.data()) == wire::kRead16) return lie(fake, command);
            fake.be_a_disk(command);
        };
        EXPECT_NE(read(), Outcome::kOk);
        EXPECT_GT(bench.lost, lost) << "lie " << (&lie - lies);
        ASSERT_TRUE(bench.until([&] { return bench.session().state() == Session::State::kLive; }));
    }
}

TEST_F(WithAHostileTarget, a_command_completed_twice_in_one_message_closes_the_connection) {
    bool twice = true;
    open([&](FakeTarget& fake, const wire::Command& command) {
        if (wire::get8(command.cdb.data()) != wire::kRead16) return fake.be_a_disk(command);
        auto tag = static_cast<uint16_t>(command.tag);
        std::exchange(twice, false) ? fake.done({tag, tag}) : fake.done({tag});
    });
    EXPECT_EQ(read(), Outcome::kOk);
    EXPECT_TRUE(bench.until([&] { return bench.lost == 1; }));
    EXPECT_TRUE(bench.until([&] { return bench.ready == 2; }));
    EXPECT_EQ(read(), Outcome::kOk);
}

TEST_F(WithAHostileTarget, batched_completions_that_were_not_negotiated_close_the_connection) {
    target.login.caps = WSS_CAP_FUSED_COMPLETION;
    bool lie = true;
    open([&](FakeTarget& fake, const wire::Command& command) {
        if (wire::get8(command.cdb.data()) != wire::kRead16) return fake.be_a_disk(command);
        if (std::exchange(lie, false)) return fake.done({static_cast<uint16_t>(command.tag)});
        fake.respond({.tag = command.tag, .credits = 1});
    });
    EXPECT_EQ(read(), Outcome::kOk);
    EXPECT_EQ(bench.lost, 1u);
}

TEST_F(WithAHostileTarget, a_repeated_response_closes_the_connection) {
    bool twice = true;
    open([&](FakeTarget& fake, const wire::Command& command) {
        if (wire::get8(command.cdb.data()) != wire::kRead16) return fake.be_a_disk(command);
        fake.respond({.tag = command.tag, .credits = 1});
        if (std::exchange(twice, false)) fake.respond({.tag = command.tag, .credits = 1});
    });
    EXPECT_EQ(read(), Outcome::kOk);
    EXPECT_TRUE(bench.until([&] { return bench.lost == 1; }));
    EXPECT_TRUE(bench.until([&] { return bench.ready == 2; }));
    EXPECT_EQ(read(), Outcome::kOk);
}

TEST_F(WithAHostileTarget, less_data_than_requested_is_an_error) {
    open([](FakeTarget& fake, const wire::Command& command) {
        fake.respond({.tag = command.tag, .credits = 1, .in = {wire::Residual::Kind::kUnder, 512}});
    });
    EXPECT_EQ(read(), Outcome::kShort);
}

TEST_F(WithAHostileTarget, a_command_for_a_busy_target_is_repeated_until_the_deadline) {
    int busy = 5;
    open([&](FakeTarget& fake, const wire::Command& command) {
        fake.respond({.tag = command.tag, .credits = 1, .status = busy-- > 0 ? wire::kBusy : wire::kGood});
    });
    EXPECT_EQ(read(), Outcome::kOk);
    target.script = [](FakeTarget& fake, const wire::Command& command) {
        fake.respond({.tag = command.tag, .credits = 1, .status = wire::kTaskSetFull});
    };
    EXPECT_EQ(read(), Outcome::kTimedOut);
    EXPECT_EQ(bench.lost, 0u) << "nothing was on the wire when it expired";
}

TEST_F(WithAHostileTarget, a_request_is_not_sent_again_after_its_deadline) {
    uint32_t reads = 0;
    open([&](FakeTarget& fake, const wire::Command& command) {
        ++reads;
        fake.respond({.tag = command.tag, .credits = 1, .status = wire::kBusy});
    });
    std::vector<byte> data(4096);
    iovec buffer{data.data(), data.size()};
    Io io;
    io.volume = disk;
    io.length = data.size();
    io.buffers = {&buffer, 1};
    bench.clock().stop();  // the machine may be busy
    ASSERT_TRUE(bench.session().submit(io));
    ASSERT_TRUE(bench.until([&] { return reads == 1; }));
    bench.reactor().step();            // receives the response
    bench.clock().skip(from_ms(250));  // deadlines are checked now, and not again before that of the request
    ASSERT_TRUE(bench.until([&] { return reads == 2; }));
    bench.reactor().step();
    bench.clock().skip(from_ms(60));
    ASSERT_TRUE(bench.until([&] { return io.over && io.outcome == Outcome::kTimedOut; }));
    EXPECT_EQ(reads + bench.lost, 2u);
}

TEST_F(WithAHostileTarget, endless_unit_attentions_fail_the_request) {
    open([](FakeTarget& fake, const wire::Command& command) {
        std::array<byte, 32> sense;
        size_t length = wire::encode_sense(
            {.key = wire::SenseKey::kUnitAttention, .code = wire::AdditionalSense::kPowerOn},
            wire::SenseFormat::kFixed, sense);
        fake.respond({.tag = command.tag,
                      .credits = 1,
                      .status = wire::kCheckCondition,
                      .sense = {sense.data(), length}});
    });
    EXPECT_EQ(read(), Outcome::kRefused);
}

TEST_F(WithAHostileTarget, a_medium_error_names_the_block) {
    open([](FakeTarget& fake, const wire::Command& command) {
        std::array<byte, 32> sense;
        size_t length = wire::encode_sense({.key = wire::SenseKey::kMediumError,
                                            .code = wire::AdditionalSense::kUnrecoveredReadError,
                                            .has_information = true,
                                            .information = 5},
                                           wire::SenseFormat::kFixed, sense);
        fake.respond({.tag = command.tag,
                      .credits = 1,
                      .status = wire::kCheckCondition,
                      .sense = {sense.data(), length}});
    });
    Io io;
    std::vector<byte> data(4096);
    iovec buffer{data.data(), data.size()};
    io.volume = disk;
    io.length = 4096;
    io.buffers = {&buffer, 1};
    EXPECT_EQ(bench.run(io), Outcome::kMediumError);
    EXPECT_NE(describe(io).find("at block 5"), std::string::npos) << describe(io);
}

TEST_F(WithAHostileTarget, a_silence_beyond_keep_alive_ends_the_connection) {
    target.login.caps = WSS_CAP_KEEPALIVE;
    target.login.keepalive_ms = 60;
    ASSERT_TRUE(bench.start());
    EXPECT_TRUE(bench.until([&] { return bench.lost > 0; }));
    EXPECT_EQ(bench.why.code(), Code::kTimedOut) << bench.why.to_string();
}

TEST_F(WithAHostileTarget, random_bytes_do_no_harm) {
    open([](FakeTarget&, const wire::Command&) {});
    Random random(7);
    for (int round = 0; round < 150; ++round) {
        target.script = [&](FakeTarget& fake, const wire::Command& command) {
            if (wire::get8(command.cdb.data()) != wire::kRead16) return fake.be_a_disk(command);
            std::array<byte, 256> message{};
            wire::encode_response({.tag = command.tag, .credits = 1}, message);
            size_t length = random.chance(2) ? 36 : random.below(257);
            for (uint64_t i = random.below(4); i > 0; --i) message[random.below(64)] = byte(random.next());
            if (random.chance(8)) return fake.fused(static_cast<uint32_t>(random.next()));
            fake.send({message.data(), std::max<size_t>(length, 1)});
        };
        read();  // any outcome is allowed, in bounded time
        ASSERT_TRUE(bench.until([&] { return bench.session().state() == Session::State::kLive; }));
    }
}

// A target with cache engines that refuse every connection.
struct RefusingEngines : WithAHostileTarget, fabric::ListenHandler {
    RefusingEngines() {
        target.login.caps |= WSS_CAP_CACHE;
        bench.others = [this] {
            target.step();
            poller->poll();
        };
    }
    ~RefusingEngines() override {
        bench.others = [this] { target.step(); };
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest>) noexcept override { ++refused; }
    void name_engine(uint16_t index) {
        wire::CacheEngineNotice notice{.index = index, .handle = 1};
        ASSERT_TRUE(notice.set_uri(listener->address().to_string()));
        std::array<byte, 256> message;
        target.send({message.data(), wire::encode_cache_engine(notice, message)});
    }

    const fabric::Address any{.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0};
    std::unique_ptr<fabric::Fabric> fabric = *fabric::open(any);
    std::unique_ptr<fabric::Poller> poller = *fabric->create_poller();
    std::unique_ptr<fabric::Listener> listener = *poller->listen(any, *this);
    uint16_t refused = 0;
};

TEST_F(RefusingEngines, leave_their_places_to_others) {
    open([](FakeTarget& fake, const wire::Command& command) { fake.be_a_disk(command); });
    for (uint16_t index = 0; index < WSS_CACHE_ENGINES_MAX; ++index) {
        name_engine(index);
        ASSERT_TRUE(bench.until([&] { return refused == index + 1; })) << index;
        for (int i = 0; i < 100; ++i) bench.reactor().step();  // the session detects it in this time
    }
}

class WithoutFua : public WithAHostileTarget {
  protected:
    WithoutFua() {
        target.write_cache = true;
        io_.operation = Operation::kCompareAndWrite;
        io_.length = 512;
        io_.vector = {{bytes_.data(), 1024}};
        io_.buffers = io_.vector;
        io_.fua = true;
    }
    // Counts compares and flushes. Answers all others as a disk does.
    void open_counted(uint8_t flush_status) {
        open([this, flush_status](FakeTarget& fake, const wire::Command& command) {
            const uint8_t opcode = wire::get8(command.cdb.data());
            if (opcode == wire::kCompareAndWrite) {
                ++compares_;
                return fake.respond({.tag = command.tag, .credits = 1});
            }
            if (opcode != wire::kSynchronizeCache16) return fake.be_a_disk(command);
            ++flushes_;
            fake.respond({.tag = command.tag, .credits = 1, .status = flush_status});
        });
        ASSERT_TRUE(disk->info().write_cache && !disk->info().fua);
        io_.volume = disk;
    }
    std::vector<byte> bytes_ = std::vector<byte>(1024);
    Io io_;
    uint32_t compares_ = 0, flushes_ = 0;
};

TEST_F(WithoutFua, a_compare_and_write_is_flushed) {
    open_counted(wire::kGood);
    EXPECT_EQ(bench.run(io_), Outcome::kOk);
    EXPECT_EQ(compares_, 1u);
    EXPECT_EQ(flushes_, 1u);
}

TEST_F(WithoutFua, a_compare_and_write_is_not_repeated_when_the_target_is_lost_before_its_flush) {
    open_counted(wire::kBusy);
    ASSERT_TRUE(bench.session().submit(io_));
    ASSERT_TRUE(bench.until([&] { return flushes_ > 0; }));
    for (int i = 0; i < 3; ++i) bench.reactor().step();  // gets the answer
    bench.network().cut();
    ASSERT_TRUE(bench.until([&] { return io_.over; }));
    EXPECT_EQ(io_.outcome, Outcome::kConnectionLost) << describe(io_);
    EXPECT_EQ(compares_, 1u);
}

}  // namespace
}  // namespace wss::initiator::testing
