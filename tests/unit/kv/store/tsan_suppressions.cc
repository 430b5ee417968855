// SPDX-License-Identifier: Apache-2.0
// RocksDB comes without ThreadSanitizer's marks: what its threads agree on by themselves looks like a race.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "race:librocksdb\n";
}
