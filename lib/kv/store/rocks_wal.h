// SPDX-License-Identifier: Apache-2.0
// Finds damage in RocksDB's write-ahead log that RocksDB mistakes for a torn tail.
//
// A power failure may tear the record that is being written. RocksDB ignores a torn record and everything
// after it. If each record is synced before the next one is written, only the last record can be torn. If a
// whole record follows a bad one, the bad one was damaged after its sync, and ignoring it would lose
// acknowledged writes.
//
// Thread-safety: none. The database must not be open.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss::kv::store {

// Fails if a record of a log in `directory` is bad and a whole record follows. Requires that every record was
// synced before the next one was written.
Status check_wal(const std::string& directory);

}  // namespace wss::kv::store
