// SPDX-License-Identifier: Apache-2.0
// usage: kv_store_bench OPERATION COUNT — performs COUNT operations over 1000 keys of 1000 bytes, on the
// version store alone. tests/bench/kv_store.py counts the instructions of each.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

constexpr size_t kKeys = 1000;
constexpr size_t kValue = 1000;

class Workload {
  public:
    Workload()
        : bench_({.window = from_ms(10), .window_floor = from_ms(1)}, size_t{64} << 20), value_(kValue, 'v') {
        for (size_t i = 0; i < kKeys; i++) keys_.push_back("user" + std::to_string(i * 7919));
        for (size_t i = 0; i < kKeys; i++) write(i, true);
    }
    // "-shown": on keys whose address a client has requested, and which it may read one-sidedly.
    bool run(std::string_view operation, size_t count) {
        const bool shown = operation.ends_with("-shown") || operation == "one-sided";
        if (operation.ends_with("-shown")) operation.remove_suffix(6);
        if (shown) show();
        for (size_t i = 0; i < count; i++) {
            if (operation == "nothing") continue;
            if (operation == "get")
                get(i);
            else if (operation == "get-exact")
                get_exact(i);
            else if (operation == "put")
                write(i, true);
            else if (operation == "prepare-commit")
                write(i, false);
            else if (operation == "one-sided")
                read_slot(i);
            else
                return false;
        }
        return true;
    }
    size_t seen() const { return seen_; }

  private:
    void show() {
        for (size_t i = 0; i < kKeys; i++) slots_.push_back(bench_.store->get(keys_[i]).slot);
        copy_.resize(slots_[0].bytes);
    }
    void get(size_t i) { seen_ += bench_.store->get(keys_[i % kKeys], false).version.value.size(); }
    void get_exact(size_t i) {
        seen_ += bench_.store->get_exact(keys_[i % kKeys], {i % kKeys + 1}, false).version.value.size();
    }
    void write(size_t i, bool at_once) {
        const Write write{.key = keys_[i % kKeys], .value = bytes_of(value_)};
        const Transaction transaction{
            .timestamp = {++timestamp_}, .writes = {&write, 1}, .metadata = bytes_of(metadata_)};
        if (at_once)
            (void)bench_.store->put(transaction, {});
        else if (bench_.store->prepare(transaction, {}) == Answer::kOk)
            (void)bench_.store->commit(transaction.timestamp);
        if (timestamp_ % 64 != 0) return;
        bench_.clock.pass(from_ms(5));
        bench_.store->maintain({timestamp_});
    }
    // Processes the bytes of one READ as a client would. The copy stands for the fabric.
    void read_slot(size_t i) {
        const SlotAddress& slot = slots_[i % kKeys];
        std::memcpy(copy_.data(), reinterpret_cast<const std::byte*>(bench_.memory.data()) + slot.offset,
                    slot.bytes);
        SlotView view;
        RecordView record;
        if (parse_slot(copy_, bench_.store->arena(), keys_[i % kKeys], slot, view) != SlotStatus::kOk)
            std::abort();
        const Entry& latest = *view.latest();
        if (check_record(record_within(copy_, slot, latest), bench_.store->arena(), keys_[i % kKeys], latest,
                         record) != SlotStatus::kOk)
            std::abort();
        seen_ += record.value.size();
    }

    Bench bench_;
    const std::string value_;
    const std::string metadata_ = std::string(65, 'm');  // eight fingerprints
    std::vector<std::string> keys_;
    std::vector<SlotAddress> slots_;
    std::vector<std::byte> copy_;
    uint64_t timestamp_ = 0;
    size_t seen_ = 0;
};

}  // namespace
}  // namespace wss::kv::store

int main(int argc, char** argv) {
    wss::kv::store::Workload workload;
    if (argc != 3 || !workload.run(argv[1], std::strtoul(argv[2], nullptr, 10))) {
        std::fprintf(stderr,
                     "usage: kv_store_bench "
                     "nothing|get|get-exact|put[-shown]|prepare-commit[-shown]|one-sided COUNT\n");
        return 2;
    }
    std::printf("%zu\n", workload.seen());
    return 0;
}
