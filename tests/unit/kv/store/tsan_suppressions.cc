// SPDX-License-Identifier: Apache-2.0
// RocksDB is not built with ThreadSanitizer: synchronisation between its threads is invisible and looks like
// races.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "race:librocksdb\n";
}
