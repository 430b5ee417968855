// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "lib/wire/cache.h"

namespace wss::wire {
namespace {

std::array<std::byte, 512> memory;

Record first_record(size_t length) {
    Bytes message{memory.data(), length};
    Record record;
    EXPECT_EQ(next_record(message, record), ParseError::kNone);
    EXPECT_TRUE(message.empty());
    return record;
}

TEST(CacheMessages, of_join_and_welcome_are_parsed_as_they_were_encoded) {
    const CacheJoin join{.engine = 7, .memory = 1ull << 33, .incarnation = 3, .storage = 9};
    CacheJoin joined;
    ASSERT_EQ(parse_cache_join({memory.data(), encode_cache_join(join, memory)}, joined), ParseError::kNone);
    EXPECT_EQ(joined, join);
    const CacheWelcome welcome{.storage = 9,
                               .incarnation = 4,
                               .line_bytes = 65536,
                               .operations = 1024,
                               .keep = true,
                               .owners = true};
    CacheWelcome welcomed;
    ASSERT_EQ(parse_cache_welcome({memory.data(), encode_cache_welcome(welcome, memory)}, welcomed),
              ParseError::kNone);
    EXPECT_EQ(welcomed, welcome);
}

TEST(CacheMessages, that_are_impossible_are_refused) {
    CacheWelcome welcome{.storage = 1, .incarnation = 1, .line_bytes = 65537, .operations = 8}, out;
    EXPECT_NE(parse_cache_welcome({memory.data(), encode_cache_welcome(welcome, memory)}, out),
              ParseError::kNone);
    welcome = {.storage = 1, .incarnation = 1, .line_bytes = 65536, .operations = kCacheOperationsMax + 1};
    EXPECT_NE(parse_cache_welcome({memory.data(), encode_cache_welcome(welcome, memory)}, out),
              ParseError::kNone);
    CacheJoin nobody, joined;
    EXPECT_NE(parse_cache_join({memory.data(), encode_cache_join(nobody, memory)}, joined),
              ParseError::kNone);
    // A client's login is not accepted as a join, nor a join as a login.
    CacheLogin login{.handle = 5}, logged_in;
    EXPECT_NE(parse_cache_join({memory.data(), encode_cache_login(login, memory)}, joined),
              ParseError::kNone);
    EXPECT_EQ(parse_cache_login({memory.data(), encode_cache_login(login, memory)}, logged_in),
              ParseError::kNone);
}

TEST(CacheMessages, of_moves_are_parsed_as_they_were_encoded) {
    rc::check([] {
        CacheMove move;
        move.to_peer = *rc::gen::arbitrary<bool>();
        move.immediate = move.to_peer && *rc::gen::arbitrary<bool>();
        move.coalesced = move.immediate && *rc::gen::arbitrary<bool>();
        move.has_header = !move.to_peer && *rc::gen::arbitrary<bool>();
        move.atomic = !move.to_peer && *rc::gen::arbitrary<bool>();
        move.handle = *rc::gen::arbitrary<uint64_t>();
        move.slot = *rc::gen::arbitrary<uint32_t>();
        move.offset = *rc::gen::arbitrary<uint32_t>();
        move.length = *rc::gen::inRange<uint32_t>(1, 1 << 20);
        move.immediate_value = *rc::gen::arbitrary<uint32_t>();
        move.remote = {*rc::gen::inRange<uint64_t>(0, UINT64_MAX - (1 << 21)),
                       *rc::gen::arbitrary<uint32_t>(), move.length};
        if (move.has_header) move.header.fill(std::byte{0x5a});
        Record record = first_record(put_move(77, move, memory));
        CacheMove out;
        RC_ASSERT(parse_move(record, out) == ParseError::kNone);
        RC_ASSERT(record.id == 77u);
        RC_ASSERT(out.handle == move.handle && out.slot == move.slot && out.offset == move.offset);
        RC_ASSERT(out.remote == move.remote && out.immediate_value == move.immediate_value);
        RC_ASSERT(out.to_peer == move.to_peer && out.immediate == move.immediate);
        RC_ASSERT(out.coalesced == move.coalesced);
        RC_ASSERT(out.atomic == move.atomic && out.has_header == move.has_header);
        RC_ASSERT(!move.has_header || out.header == move.header);
    });
}

TEST(CacheMessages, of_real_storage_are_parsed_as_they_were_encoded) {
    CacheStorage storage{.op = CacheStorage::Op::kRead,
                         .immediate = true,
                         .has_copy = true,
                         .volume = 3,
                         .immediate_value = 0xabcd0000,
                         .offset = uint64_t{1} << 40,
                         .length = 65536,
                         .handle = 99,
                         .remote = {0x1000, 7, 65536},
                         .copy = {0x2000, 8, 65536}};
    CacheStorage back;
    ASSERT_EQ(parse_storage(first_record(put_storage(5, storage, memory)), back), ParseError::kNone);
    EXPECT_TRUE(back.op == storage.op && back.immediate && back.has_copy && !back.fua);
    EXPECT_EQ(back.volume, 3u);
    EXPECT_EQ(back.immediate_value, 0xabcd0000u);
    EXPECT_EQ(back.offset, storage.offset);
    EXPECT_EQ(back.length, 65536u);
    EXPECT_EQ(back.handle, 99u);
    EXPECT_EQ(back.copy.address, 0x2000u);
    EXPECT_EQ(back.copy.rkey, 8u);
    EXPECT_EQ(back.remote.rkey, 7u);
    storage.op = CacheStorage::Op::kWrite;
    EXPECT_EQ(parse_storage(first_record(put_storage(5, storage, memory)), back), ParseError::kContradiction);
    storage.immediate = storage.has_copy = false;
    storage.length = kStorageTransferMax + 1;
    EXPECT_EQ(parse_storage(first_record(put_storage(5, storage, memory)), back), ParseError::kOutOfBounds);
    CacheVolume volume;
    ASSERT_EQ(parse_volume(first_record(put_volume({.bytes = 1 << 20, .boot = 4, .number = 2, .name = "disk"},
                                                   memory)),
                           volume),
              ParseError::kNone);
    EXPECT_EQ(volume.name, "disk");
    EXPECT_EQ(volume.boot, 4u);
    EXPECT_FALSE(volume.read_only);
    ASSERT_EQ(parse_volume(first_record(put_volume({.bytes = 512, .read_only = true, .name = "a"}, memory)),
                           volume),
              ParseError::kNone);
    EXPECT_TRUE(volume.read_only);
    for (uint32_t block : {0u, 1000u})
        EXPECT_EQ(parse_volume(first_record(put_volume(
                                   {.bytes = 1 << 20, .logical_block = block, .name = "disk"}, memory)),
                               volume),
                  ParseError::kContradiction);
    // A name that fills its field: every accepted name can be encoded again.
    const std::string longest(63, 'n');
    const size_t bytes = put_volume({.bytes = 1 << 20, .name = longest}, memory);
    ASSERT_EQ(parse_volume(first_record(bytes), volume), ParseError::kNone);
    EXPECT_EQ(volume.name, longest);
    memory[bytes - 1] = std::byte{'n'};
    EXPECT_EQ(parse_volume(first_record(bytes), volume), ParseError::kContradiction);
    uint32_t error = 0;
    ASSERT_EQ(parse_failed(first_record(put_failed(9, 28, memory)), error), ParseError::kNone);
    EXPECT_EQ(error, 28u);
}

TEST(CacheMessages, of_the_state_of_a_volume_are_parsed_as_they_were_encoded_and_refused_if_contradictory) {
    auto sent = [](const CacheVolumeState& state, CacheVolumeState& back) {
        return parse_volume_state(first_record(put_volume_state(state, memory)), back);
    };
    CacheVolumeState back;
    for (const CacheVolumeState& state :
         {CacheVolumeState{.number = 2, .bytes = 1 << 20}, CacheVolumeState{.bytes = 1, .suspended = true},
          CacheVolumeState{.bytes = 512, .text = "waits"},
          CacheVolumeState{.number = 1, .error = 108, .text = "blocklisted"},
          CacheVolumeState{.bytes = 512, .owner = 1},
          CacheVolumeState{.bytes = 512, .owner = 7, .text = "waits"},
          CacheVolumeState{.bytes = 512, .series = 3, .term = 1, .since = 1},
          CacheVolumeState{.bytes = 512, .owner = 7, .series = 3, .term = 2, .since = 1, .text = "waits"}}) {
        ASSERT_EQ(sent(state, back), ParseError::kNone);
        EXPECT_EQ(back, state);
    }
    EXPECT_EQ(sent({.number = 2, .bytes = 0}, back), ParseError::kContradiction);
    EXPECT_EQ(sent({.error = 4096, .bytes = 512}, back), ParseError::kContradiction);
    ASSERT_EQ(sent({.bytes = 512, .text = std::string(1000, 'x')}, back), ParseError::kNone);
    EXPECT_EQ(back.text, std::string(CacheVolumeState::kTextMax, 'x'));
    ASSERT_EQ(sent({.bytes = 512, .text = "a\x1b[2Jb"}, back), ParseError::kNone);
    EXPECT_EQ(back.text, "a?[2Jb");
    Record unowned = first_record(put_volume_state({.bytes = 512}, memory));
    unowned.flags |= 2;
    EXPECT_EQ(parse_volume_state(unowned, back), ParseError::kOutOfBounds);
    Record unheld = first_record(put_volume_state({.bytes = 512}, memory));
    unheld.flags |= 16;
    EXPECT_EQ(parse_volume_state(unheld, back), ParseError::kOutOfBounds);
    for (const CacheVolumeState& impossible :
         {CacheVolumeState{.bytes = 512, .series = 1}, CacheVolumeState{.bytes = 512, .series = 1, .term = 1},
          CacheVolumeState{.bytes = 512, .series = 1, .term = 1, .since = 2}})
        EXPECT_EQ(sent(impossible, back), ParseError::kContradiction);
    Record nobody =
        first_record(put_volume_state({.bytes = 512, .series = 1, .term = 1, .since = 1}, memory));
    std::fill_n(memory.begin() + kRecordHead + 16, 8, std::byte{0});
    EXPECT_EQ(parse_volume_state(nobody, back), ParseError::kContradiction);
    std::array<std::byte, 4> none{};
    EXPECT_EQ(put_volume_state({.bytes = 512}, none), 0u);
    EXPECT_EQ(parse_volume_state(first_record(put_handle(RecordType::kVolumeState, 1, memory)), back),
              ParseError::kOutOfBounds);
}

TEST(CacheMessages, of_staged_records_are_parsed_as_they_were_encoded_and_refused_if_contradictory) {
    using Op = CacheStorage::Op;
    auto sent = [](const CacheStorage& storage, CacheStorage& back) {
        return parse_storage(first_record(put_storage(5, storage, memory)), back);
    };
    CacheStorage back;
    const CacheStorage read{.op = Op::kRead,
                            .immediate = true,
                            .staged = true,
                            .immediate_value = 9,
                            .length = 65536,
                            .handle = 99,
                            .remote = {0x1000, 7, 65536},
                            .staging_offset = 3 * 65536};
    ASSERT_EQ(sent(read, back), ParseError::kNone);
    EXPECT_TRUE(back.staged && back.immediate && !back.has_copy);
    EXPECT_EQ(back.staging_offset, 3u * 65536);
    EXPECT_EQ(back.remote, read.remote);
    const CacheStorage write{.op = Op::kWrite, .staged = true, .length = 4096, .staging_offset = 8192};
    ASSERT_EQ(sent(write, back), ParseError::kNone);
    EXPECT_TRUE(back.staged && back.op == Op::kWrite);
    EXPECT_EQ(back.staging_offset, 8192u);
    CacheStorage wrong = read;
    wrong.has_copy = true;
    EXPECT_EQ(sent(wrong, back), ParseError::kContradiction) << "an additional copy";
    wrong = read;
    wrong.staging_offset = 512;
    EXPECT_EQ(sent(wrong, back), ParseError::kContradiction) << "half a page";
    wrong = read;
    wrong.handle = kStorageHandle;
    EXPECT_EQ(sent(wrong, back), ParseError::kContradiction) << "an immediate value without a receiver";
    wrong = write;
    wrong.handle = 99;
    EXPECT_EQ(sent(wrong, back), ParseError::kContradiction) << "a write with two sources";
    wrong = write;
    wrong.op = Op::kFlush;
    EXPECT_EQ(sent(wrong, back), ParseError::kContradiction) << "no data moves";
}

TEST(CacheMessages, of_staging_memory_and_engines_of_real_storage_are_parsed_as_they_were_encoded) {
    CacheStaging staging;
    ASSERT_EQ(parse_staging(first_record(put_staging({0x7000, 1 << 20, 12}, memory)), staging),
              ParseError::kNone);
    EXPECT_EQ(staging.address, 0x7000u);
    EXPECT_EQ(staging.bytes, 1u << 20);
    EXPECT_EQ(staging.rkey, 12u);
    EXPECT_EQ(parse_staging(first_record(put_staging({0x7000, 0, 12}, memory)), staging),
              ParseError::kContradiction);
    EXPECT_EQ(parse_staging(first_record(put_staging({UINT64_MAX, 4096, 12}, memory)), staging),
              ParseError::kAddressWraps);
    EXPECT_EQ(parse_staging(first_record(put_handle(RecordType::kStaging, 1, memory)), staging),
              ParseError::kOutOfBounds);
    CacheEngineNotice notice{.added = true, .index = 7, .handle = 55}, back;
    ASSERT_TRUE(notice.set_uri("tcp://10.0.0.7:5557"));
    const Record record = first_record(put_engine(notice, memory));
    EXPECT_EQ(record.type, RecordType::kEngine);
    ASSERT_EQ(parse_cache_engine(record.body, back), ParseError::kNone);
    EXPECT_EQ(back.uri_text(), "tcp://10.0.0.7:5557");
    EXPECT_EQ(back.handle, 55u);
}

TEST(CacheMessages, of_any_bytes_are_parsed_or_refused_within_their_bounds) {
    rc::check([](const std::vector<uint8_t>& bytes) {
        Bytes message{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
        size_t before = message.size() + 1;
        Record record;
        while (!message.empty() && message.size() < before) {
            before = message.size();
            if (next_record(message, record) != ParseError::kNone) break;
            CacheMove move;
            CacheHeader header;
            CacheLogin login;
            uint32_t slot;
            uint64_t handle;
            std::string text;
            (void)parse_move(record, move);
            (void)parse_header(record, header);
            (void)parse_grant(record, login);
            (void)parse_slot(record, slot);
            (void)parse_handle(record, handle);
            (void)parse_text(record, text);
            CacheStorage storage;
            CacheVolume volume;
            uint32_t error;
            (void)parse_storage(record, storage);
            (void)parse_volume(record, volume);
            CacheVolumeState state;
            (void)parse_volume_state(record, state);
            CacheStaging staging;
            (void)parse_staging(record, staging);
            (void)parse_failed(record, error);
        }
        CacheEngineNotice notice;
        RetryNotice again;
        CacheJoin join;
        (void)parse_cache_engine({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, notice);
        (void)parse_retry({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, again);
        (void)parse_cache_join({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, join);
    });
}

TEST(CacheMessages, with_a_record_longer_than_the_message_are_refused) {
    const size_t length = put_handle(RecordType::kRevoke, 3, memory);
    for (size_t cut = 1; cut < length; ++cut) {
        Bytes message{memory.data(), cut};
        Record record;
        EXPECT_NE(next_record(message, record), ParseError::kNone) << cut;
    }
}

TEST(CacheMessages, of_notices_of_engines_and_retries_are_parsed_as_they_were_encoded) {
    CacheEngineNotice notice{.added = true, .index = 63, .handle = 0x1122334455667788};
    notice.token.fill(std::byte{9});
    ASSERT_TRUE(notice.set_uri("rdma://10.0.0.7:5557"));
    ASSERT_FALSE(CacheEngineNotice{}.set_uri(std::string(WSS_CACHE_URI_MAX, 'x')));
    CacheEngineNotice out;
    ASSERT_EQ(parse_cache_engine({memory.data(), encode_cache_engine(notice, memory)}, out),
              ParseError::kNone);
    EXPECT_EQ(out.uri_text(), "rdma://10.0.0.7:5557");
    EXPECT_TRUE(out.added && out.index == 63 && out.handle == notice.handle && out.token == notice.token);
    notice.index = 64;
    EXPECT_NE(parse_cache_engine({memory.data(), encode_cache_engine(notice, memory)}, out),
              ParseError::kNone);
    RetryNotice again;
    ASSERT_EQ(parse_retry({memory.data(), encode_retry({.tag = 5, .engine = 64}, memory)}, again),
              ParseError::kNone);
    EXPECT_TRUE(again.tag == 5 && again.engine == 64);
}

TEST(CacheMessages, have_tokens_that_are_equal_only_if_all_bytes_are_equal) {
    CacheToken a{}, b{};
    EXPECT_TRUE(same_token(a, b));
    for (size_t i = 0; i < a.size(); ++i) {
        b = a;
        b[i] = std::byte{1};
        EXPECT_FALSE(same_token(a, b)) << i;
    }
}

}  // namespace
}  // namespace wss::wire
