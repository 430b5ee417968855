// SPDX-License-Identifier: Apache-2.0
// The descriptions of the cards. The values and conclusions are those that the papers' texts quote.
//
//   id, title      the paper's figure; no id: none. `same_as`: all else is taken from another card
//   figure         figure of wssbench whose rows are used; none: `not_measured` is the reason
//   where          labels of these rows: a value, "!value" for another one, "@first" or "@last" for the
//                  smallest or largest of the rows
//   x              the label on the x axis, or several that form a category
//   y, unit        columns of the rows; "us" is the time of one operation, "mb" its throughput
//   draw           "lines" (the default), "bars", or "stack": only stacked bars
//   stack          {unit, parts, paper}. parts: [[name, [places of x; those with "-" are subtracted]]];
//                  paper: [[name, [the value of each part]]]. In place of the parts, it may have `at`, a
//                  place of x, and columns of the rows at that place: [[name, column]]
//   base           y is relative to the row with these labels, turn by turn
//   best_over      settings of which the best is used; other turns choose it (lib/base/summary.h)
//   ignore         labels that x determines
//   paper, quoted  the paper's parameters, and its results in words
//   values         values of the paper: [series, x or null, low, high]
//   claims         conclusions of the paper: the ratio of the rows `of` to the rows `to`, or `column` of the
//                  rows `of`, is above, below or about `than` (1), or "short of" a limit
//   value          of a claim: the ratio of the paper
//   why            what differs, apart from the fabric
//   missing        why there are no rows
#include "tools/wssbench/card.h"

namespace wss::wssbench {

namespace {

constexpr const char* kPaperA = R"json([
{"id": "A4", "figure": "ramp-transports", "title": "RAMP over each transport",
 "x": "system", "y": ["rate"], "unit": "throughput, × that of tcp messages", "draw": "bars", "base": {"system": "tcp messages"},
 "paper": "4 servers, 8 clients, 1 M transactions of 8 operations, 95 % reads; QDR InfiniBand",
 "quoted": "Eth 1 : IPoIB 1.32 : Verbs 2.39 : RDMA 2.53",
 "values": [["Eth", "tcp messages", 1, 1], ["IPoIB", "IPoIB", 1.32, 1.32], ["Verbs", "shm messages", 2.39, 2.39],
            ["RDMA", "shm rings", 2.53, 2.53]],
 "claims": [{"says": "messages without sockets are faster than sockets", "of": {"system": "shm messages"},
             "to": {"system": "tcp messages"}, "relation": "above", "value": "2.39"},
            {"says": "written rings are faster than sockets", "of": {"system": "shm rings"},
             "to": {"system": "tcp messages"}, "relation": "above", "value": "2.53"},
            {"says": "written rings are faster than messages", "of": {"system": "shm rings"},
             "to": {"system": "shm messages"}, "relation": "above", "value": "1.06"}],
 "why": "8 threads of one client, not 8 clients. tcp stands for Ethernet, shm for InfiniBand; IPoIB is missing."},
{"id": "A5", "figure": "ramp-size", "title": "Throughput by the size of transactions",
 "x": "operations", "y": ["rate"], "unit": "throughput, × RAMP(GET,PUT)", "base": {"system": "RAMP(GET,PUT)"},
 "paper": "4 servers, 8 clients, 1 M transactions, 95 % reads; RAMP(GET,PUT) over IPoIB, GET+ and GET* over RDMA",
 "quoted": "at 4 operations, GET+ 2.07 × and GET* 2.78 × RAMP(GET,PUT)",
 "values": [["RAMP(GET+,PUT+)", 4, 2.07, 2.07], ["RAMP(GET*,PUT+)", 4, 2.78, 2.78]],
 "claims": [{"says": "GET+ is faster than RAMP(GET,PUT)", "of": {"system": "RAMP(GET+,PUT+)", "operations": 4},
             "to": {"system": "RAMP(GET,PUT)"}, "relation": "above", "value": "2.07"},
            {"says": "the paper's GET* is faster than RAMP(GET,PUT)",
             "of": {"system": "RAMP(GET*,PUT+) paper", "operations": 4}, "to": {"system": "RAMP(GET,PUT)"},
             "relation": "above", "value": "2.78"},
            {"says": "the paper's GET* is the fastest", "of": {"system": "RAMP(GET*,PUT+) paper"},
             "to": {"system": "RAMP(GET+,PUT+)"}, "relation": "above"}],
 "why": "8 threads of one client, not 8 clients. RAMP(GET,PUT) and locking use tcp, GET+ and GET* use shm."},
{"id": "A6", "figure": "ramp-mix", "title": "Throughput by the share of reads, micro-benchmark",
 "x": "read_percent", "y": ["rate"], "unit": "throughput, × RAMP(GET,PUT)", "base": {"system": "RAMP(GET,PUT)"},
 "paper": "4 servers, 8 clients, 1 M transactions of 8 operations",
 "quoted": "with reads only, GET+ 1.94 × and GET* 2.69 × RAMP(GET,PUT); without reads GET* = GET+",
 "values": [["RAMP(GET+,PUT+)", 100, 1.94, 1.94], ["RAMP(GET*,PUT+)", 100, 2.69, 2.69]],
 "claims": [{"says": "with reads only, GET+ is faster than RAMP(GET,PUT)",
             "of": {"system": "RAMP(GET+,PUT+)", "read_percent": 100}, "to": {"system": "RAMP(GET,PUT)"},
             "relation": "above", "value": "1.94"},
            {"says": "with reads only, the paper's GET* is faster than RAMP(GET,PUT)",
             "of": {"system": "RAMP(GET*,PUT+) paper", "read_percent": 100}, "to": {"system": "RAMP(GET,PUT)"},
             "relation": "above", "value": "2.69"},
            {"says": "without reads, GET* equals GET+", "of": {"system": "RAMP(GET*,PUT+) paper", "read_percent": 0},
             "to": {"system": "RAMP(GET+,PUT+)"}, "relation": "about", "value": "1"}],
 "why": "Values of 100 bytes, 8 threads of one client, not 8 clients. RAMP(GET,PUT) uses tcp, GET+ and GET* shm."},
{"id": "A7", "figure": "ramp-ycsb", "title": "Throughput by the share of reads, YCSB",
 "x": "read_percent", "y": ["rate"], "unit": "throughput, × RAMP(GET,PUT)", "base": {"system": "RAMP(GET,PUT)"},
 "paper": "4 servers, 8 clients, values of 1 KB, 1000 keys, uniform",
 "quoted": "with reads only, GET+ 2.06 × and GET* 2.67 × RAMP(GET,PUT)",
 "values": [["RAMP(GET+,PUT+)", 100, 2.06, 2.06], ["RAMP(GET*,PUT+)", 100, 2.67, 2.67]],
 "claims": [{"says": "with reads only, GET+ is faster than RAMP(GET,PUT)",
             "of": {"system": "RAMP(GET+,PUT+)", "read_percent": 100}, "to": {"system": "RAMP(GET,PUT)"},
             "relation": "above", "value": "2.06"},
            {"says": "with reads only, the paper's GET* is faster than RAMP(GET,PUT)",
             "of": {"system": "RAMP(GET*,PUT+) paper", "read_percent": 100}, "to": {"system": "RAMP(GET,PUT)"},
             "relation": "above", "value": "2.67"}],
 "why": "8 threads of one client, not 8 clients, without JNI. RAMP(GET,PUT) uses tcp, GET+ and GET* shm."}
])json";

constexpr const char* kPaperB = R"json([
{"id": "B4", "figure": "local", "title": "Local I/O by the size of reads",
 "where": {"operation": "read", "threads": "@last"}, "x": "bytes", "y": ["rate"], "unit": "IOPS",
 "paper": "1000 threads, pread, 10 NVMe SSDs, 2 × 22 cores", "quoted": "about 4.8 M IOPS at 512 B",
 "values": [["local", 512, 4.8e6, 4.8e6]],
 "claims": [{"says": "IOPS fall with the size", "of": {"bytes": "@last"}, "to": {"bytes": "@first"},
             "relation": "below"}],
 "why": "Fewer threads, and one file or device instead of ten devices."},
{"id": "B5", "figure": "local", "title": "Local I/O by threads, reads of 512 B",
 "where": {"operation": "read", "bytes": 512}, "x": "threads", "y": ["rate"], "unit": "IOPS",
 "paper": "pread, 10 NVMe SSDs, 2 × 22 cores", "quoted": "about 4.8 M IOPS at 1000 threads, where IOPS level off",
 "values": [["local", 1000, 4.8e6, 4.8e6]],
 "claims": [{"says": "IOPS rise with the threads", "of": {"threads": "@last"}, "to": {"threads": "@first"},
             "relation": "above"}],
 "why": "One file or device instead of ten. For aio and uring, the x axis is the number of requests in flight."},
{"id": "B6", "figure": "echo", "title": "RDMA echo by connections, 512 B",
 "where": {"operation": "read", "bytes": 512}, "x": "connections", "y": ["rate"], "unit": "operations/s",
 "paper": "2 threads for each connection on each side, pinned; 56 Gb/s InfiniBand, 2 × 22 cores",
 "quoted": "just under 6 M/s at 10 connections; falls from 11, where threads cross sockets",
 "values": [["pinned", 10, 6e6, 6e6]],
 "claims": [{"says": "the rate rises up to 10 connections", "of": {"connections": "@last"},
             "to": {"connections": "@first"}, "relation": "above"}],
 "why": "The server has one thread for all connections, where the paper has two for each one."},
{"id": "B7", "figure": "echo", "title": "RDMA echo by the size of reads",
 "where": {"operation": "read", "pinned": "on", "connections": "@last"}, "x": "bytes", "y": ["rate"],
 "unit": "operations/s", "paper": "10 connections, pinned", "quoted": "just under 6 M/s at 512 B",
 "values": [["pinned", 512, 6e6, 6e6]],
 "claims": [{"says": "the rate falls with the size", "of": {"bytes": "@last"}, "to": {"bytes": "@first"},
             "relation": "below"}],
 "why": "The server has one thread for all connections, where the paper has two for each one."},
{"id": "B8", "figure": "remote", "title": "Remote I/O, dynamic, by connections, 512 B",
 "where": {"what": "remote", "method": "dynamic", "operation": "read", "pattern": "random", "bytes": 512},
 "x": "connections", "y": ["rate"], "unit": "IOPS",
 "paper": "a thread for each request, not pinned; 10 NVMe SSDs, 56 Gb/s InfiniBand",
 "quoted": "about 70 K IOPS at 1 connection; fewer connections are better", "values": [["dynamic", 1, 7e4, 7e4]],
 "claims": [{"says": "IOPS fall with the connections", "of": {"connections": "@last"},
             "to": {"connections": "@first"}, "relation": "below"}],
 "why": "One reactor polls all connections, where the paper has a polling thread for each one."},
{"id": "B9", "figure": "remote", "title": "Remote I/O, dynamic, by the size of reads",
 "where": {"what": "remote", "method": "dynamic", "operation": "read", "pattern": "random",
           "connections": "@first"},
 "x": "bytes", "y": ["rate"], "unit": "IOPS", "paper": "1 connection, a thread for each request, not pinned",
 "quoted": "about 70 K IOPS at 512 B", "values": [["dynamic", 512, 7e4, 7e4]],
 "claims": [{"says": "IOPS fall with the size", "of": {"bytes": "@last"}, "to": {"bytes": "@first"},
             "relation": "below"}],
 "why": "One reactor polls all connections, and one file or device holds the data."},
{"id": "B10", "figure": "remote", "title": "Remote I/O, static, by connections, 512 B",
 "where": {"what": "remote", "method": "static", "operation": "read", "pattern": "random", "bytes": 512},
 "x": "connections", "y": ["rate"], "unit": "IOPS", "paper": "5 I/O threads for each connection, not pinned",
 "quoted": "2.3 M IOPS at most, with many connections", "values": [["static, maximum", null, 2.3e6, 2.3e6]],
 "claims": [{"says": "IOPS rise with the connections", "of": {"connections": "@last"},
             "to": {"connections": "@first"}, "relation": "above"}],
 "why": "A fixed number of I/O threads in all, not 5 for each connection. One reactor polls all connections."},
{"id": "B11", "figure": "remote", "title": "Remote I/O, static, by I/O threads, 512 B",
 "where": {"what": "remote", "method": "static", "operation": "read", "pattern": "random", "bytes": 512,
           "connections": "@last"},
 "x": "threads", "y": ["rate"], "unit": "IOPS", "paper": "10 connections, not pinned",
 "quoted": "rises with the threads; short of local I/O and of the echo beyond a few", "values": [],
 "claims": [{"says": "IOPS rise with the I/O threads", "of": {"threads": "@last"}, "to": {"threads": "@first"},
             "relation": "above"}],
 "why": "One reactor polls all connections."},
{"id": "B12", "figure": "remote", "title": "The best of each method, by the size of reads",
 "where": {"operation": "read", "pattern": "random"}, "x": "bytes", "y": ["rate"], "unit": "IOPS", "draw": "bars",
 "best_over": ["connections", "depth", "threads"], "paper": "the best number of connections and threads of each",
 "quoted": "at 512 B: local 4.8 M, echo just under 6 M, static 2.3 M, dynamic 70 K; static = 32 × dynamic",
 "values": [["local", 512, 4.8e6, 4.8e6], ["echo", 512, 6e6, 6e6], ["static", 512, 2.3e6, 2.3e6],
            ["dynamic", 512, 7e4, 7e4]],
 "claims": [{"says": "static is faster than dynamic", "of": {"what": "remote", "method": "static", "bytes": 512},
             "to": {"method": "dynamic"}, "relation": "above", "value": "32"},
            {"says": "static stays short of local I/O", "of": {"what": "remote", "method": "static", "bytes": 512},
             "to": {"what": "local"}, "relation": "short of", "value": "0.48"},
            {"says": "static stays short of the echo", "of": {"what": "remote", "method": "static", "bytes": 512},
             "to": {"what": "echo", "method": ""}, "relation": "short of", "value": "0.38"}],
 "why": "Fewer settings to choose from, and one file or device instead of ten."},
{"id": "C5", "same_as": "B5", "title": "Local I/O by threads, reads of 512 B"},
{"id": "C6", "same_as": "B6", "title": "RDMA echo by connections, 512 B"},
{"id": "C7", "same_as": "B10", "title": "Remote I/O, static, by connections, 512 B"},
{"id": "C8", "same_as": "B11", "title": "Remote I/O, static, by I/O threads, 512 B"},
{"id": "C9", "same_as": "B12", "title": "The best of each method, reads of 512 B", "x": ["what", "method"],
 "where": {"operation": "read", "pattern": "random", "bytes": 512},
 "values": [["", "local static", 4.8e6, 4.8e6], ["", "echo", 6e6, 6e6],
            ["", "remote static", 2.3e6, 2.3e6], ["", "remote dynamic", 7e4, 7e4]]},
{"id": "C10", "figure": "replay", "title": "Run time of a TPC-H Q3 I/O log, 16 KiB",
 "where": {"trace": "q3", "bytes": 16384, "threads": "@last"}, "x": "where", "y": ["run_seconds"],
 "unit": "seconds", "paper": "10 000 I/O threads, a recorded log",
 "quoted": "local is faster, remote is close to it; no values", "values": [],
 "claims": [{"says": "the run times are close to each other", "of": {"where": "!local"}, "to": {"where": "local"},
             "relation": "about"}],
 "why": "A generated log with the access pattern of Q3, and fewer threads."},
{"id": "C11", "figure": "replay", "title": "Replay and random reads, local, 16 KiB, by I/O threads",
 "where": {"where": "local", "bytes": 16384}, "x": "threads", "y": ["rate"], "unit": "IOPS",
 "paper": "up to 10 000 threads, 10 NVMe SSDs", "quoted": "replay is a little ahead in some places; no values",
 "values": [],
 "claims": [{"says": "replay is not slower than random reads", "of": {"trace": "q3"}, "to": {"trace": "random"},
             "relation": "above", "than": 0.95}],
 "why": "A generated log; O_DIRECT gains from locality only if the device does."},
{"id": "C12", "figure": "replay", "title": "Replay and random reads, remote, 16 KiB, by I/O threads",
 "where": {"where": "!local", "bytes": 16384}, "x": "threads", "y": ["rate"], "unit": "IOPS",
 "paper": "up to 10 000 threads, 10 NVMe SSDs", "quoted": "replay is a little ahead in some places; no values",
 "values": [],
 "claims": [{"says": "replay is not slower than random reads", "of": {"trace": "q3"}, "to": {"trace": "random"},
             "relation": "above", "than": 0.95}],
 "why": "A generated log; O_DIRECT gains from locality only if the device does."},
{"id": "C13", "figure": "replay", "title": "Replay and random reads, remote, 512 B, by I/O threads",
 "where": {"where": "!local", "bytes": 512}, "x": "threads", "y": ["rate"], "unit": "IOPS",
 "paper": "up to 10 000 threads, 10 NVMe SSDs",
 "quoted": "replay is ahead at few threads and behind at many; no values", "values": [],
 "claims": [{"says": "replay is ahead at few threads", "of": {"trace": "q3", "threads": "@first"},
             "to": {"trace": "random"}, "relation": "above"},
            {"says": "replay is behind at many threads", "of": {"trace": "q3", "threads": "@last"},
             "to": {"trace": "random"}, "relation": "below"}],
 "why": "A generated log; fewer threads than those whose management slowed the paper's replay."}
])json";

constexpr const char* kPaperD = R"json([
{"id": "D table 1", "title": "Block access over earlier networks",
 "quoted": "60 MB/s over cLAN with VIPL (2002), 100 MB/s over InfiniBand with DAPL (2004)",
 "not_measured": "it lists results over cLAN and DAPL, which are no longer available; D15 and D16 are its successors"},
{"id": "D8", "figure": "net", "title": "Ping-pong by size", "where": {"operation": "ping-pong", "depth": 1},
 "x": "bytes", "y": ["us"], "unit": "round trip, µs", "paper": "PM2 on RDMA-capable 10 GbE, two nodes",
 "quoted": "28 µs round trip for 8 B; 50 to 100 B take about 15 µs one way", "values": [["send/recv", 8, 28, 28]],
 "claims": [{"says": "messages of 64 B take hardly longer than those of 8 B", "of": {"bytes": 64},
             "to": {"bytes": 8}, "relation": "about", "value": "1.07"}],
 "why": "A waiting side sleeps and must be woken; the paper's adapter raises an interrupt."},
{"id": "D9", "figure": "net", "title": "Latency of one RDMA by size", "where": {"operation": "!ping-pong", "depth": 1},
 "x": "bytes", "y": ["us"], "unit": "µs", "paper": "one operation at a time, from post to completion",
 "quoted": "512 B: 26 µs; 64 KiB: 120 µs", "values": [["RDMA", 512, 26, 26], ["RDMA", 65536, 120, 120]],
 "claims": [{"says": "64 KiB take longer than 512 B", "of": {"bytes": 65536}, "to": {"bytes": 512},
             "relation": "above", "value": "4.6"}],
 "why": "The operations are those of lib/fabric instead of PM2."},
{"id": "D10", "figure": "net", "title": "Throughput of one RDMA by size",
 "where": {"operation": "!ping-pong", "depth": 1}, "x": "bytes", "y": ["mb"], "unit": "MB/s",
 "paper": "computed from the latencies of D9", "quoted": "up to 670 MB/s",
 "values": [["RDMA, maximum", null, 670, 670]],
 "claims": [{"says": "the throughput rises with the size", "of": {"bytes": "@last"}, "to": {"bytes": "@first"},
             "relation": "above"}],
 "why": "The operations are those of lib/fabric instead of PM2."},
{"id": "D11", "figure": "mr", "title": "MLock and MUnlock by size", "where": {"fabric": "rdma"}, "x": "region",
 "y": ["mlock_us", "munlock_us"], "unit": "µs", "paper": "user memory, PM2",
 "quoted": "MUnlock 25 to 30 µs; MLock grows with the size at 490 MB/s: 40 µs for 512 B, 170 µs for 64 KiB",
 "values": [["MLock", 512, 40, 40], ["MLock", 65536, 170, 170], ["MUnlock", null, 25, 30]],
 "claims": [{"says": "MLock grows with the size", "of": {"quantity": "mlock_us", "region": "@last"},
             "to": {"region": "@first"}, "relation": "above"},
            {"says": "MUnlock does not", "of": {"quantity": "munlock_us", "region": "@last"},
             "to": {"region": "@first"}, "relation": "about"}],
 "missing": "shm and tcp register nothing with an adapter: wssbench mr --fabric rdma --address URI",
 "why": "Another kernel and driver."},
{"id": "D12", "figure": "burst", "title": "1 to 8 consecutive RDMAs", "x": "rdmas", "y": ["mb"], "unit": "MB/s",
 "ignore": ["bytes"], "paper": "RDMAs of 1 to 4 KiB", "quoted": "250 to 350 MB/s, of the 670 MB/s of one large RDMA",
 "values": [["consecutive", null, 250, 350]],
 "claims": [{"says": "8 small RDMAs are slower than one of their total size", "of": {"as": "pieces", "rdmas": 8},
             "to": {"as": "one"}, "relation": "below", "value": "0.37-0.52"}],
 "why": "Consecutive RDMAs are posted together; those of the paper followed each other."},
{"id": "D13", "figure": "mlockv", "title": "MLockV: throughput by pieces", "where": {"piece": 4096}, "x": "pieces",
 "y": ["mb_per_s"], "unit": "MB/s", "ignore": ["bytes"], "paper": "1 to 128 pieces of 512 B to 4 KiB, kpmMLockV",
 "quoted": "570 to 600 MB/s with MLockV, 250 to 350 MB/s without",
 "values": [["MLockV", null, 570, 600], ["without", null, 250, 350]],
 "claims": [{"says": "one region is faster than one for each segment",
             "of": {"registered": "one region", "pieces": 32}, "to": {"registered": "one region a segment"},
             "relation": "above", "value": "1.6-2.4"}],
 "why": "Whole requests of the block device, with registration and reply; pieces of 4 KiB only."},
{"id": "D14", "figure": "scsi", "title": "User-level SCSI latency by size", "where": {"depth": 1}, "x": "bytes",
 "y": ["us"], "unit": "µs", "paper": "one command at a time, buffers registered for each command",
 "quoted": "512 B: 180 µs, of which about 54 µs are WSS; 64 KiB: about 300 µs",
 "values": [["SCSI", 512, 180, 180], ["SCSI", 65536, 300, 300]],
 "stack": {"unit": "µs", "at": 512, "columns": [["network alone", "network_us"], ["WSS and SRP", "wss_us"]],
  "paper": [["512 B", [126, 54]]]},
 "claims": [{"says": "64 KiB take longer than 512 B", "of": {"bytes": 65536}, "to": {"bytes": 512},
             "relation": "above", "value": "1.67"}],
 "why": "Buffers are registered in advance, kept in the pin-down cache, or copied; nothing registers per command."},
{"id": "D15", "figure": "raw", "title": "Raw I/O by record size", "where": {"depth": 1}, "x": "bytes",
 "y": ["mb_per_s"], "unit": "MB/s", "paper": "iozone, one command at a time, one copy",
 "quoted": "about 70 MB/s, 24 % of the model of network and copy (287 MB/s)",
 "values": [["raw", null, 70, 70], ["model", null, 287, 287]],
 "claims": [{"says": "raw I/O stays short of the network", "of": {"bytes": "@last"}, "column": "of_net",
             "relation": "short of"}],
 "why": "Raw I/O makes no copy here, so the network alone is its bound; the kernel joins pages into one region."},
{"id": "D16", "figure": "block", "title": "Block I/O by record size", "where": {"system": "wss"}, "x": "bytes",
 "y": ["mb_per_s"], "unit": "MB/s", "paper": "iozone through the page cache, write with fsync",
 "quoted": "read 220, write 210 MB/s, 76.7 % of the model of network and copy (287 MB/s)",
 "values": [["read", null, 220, 220], ["write", null, 210, 210], ["model", null, 287, 287]],
 "claims": [{"says": "block I/O stays short of the model", "of": {"where": "file", "bytes": 65536},
             "column": "of_model", "relation": "short of", "value": "0.73-0.77"}],
 "why": "A later kernel with large folios and read-ahead."},
{"id": "D table 3", "figure": "breakdown", "title": "Time of a 64 KiB raw write by stage",
 "x": "stage", "y": ["mean_us"], "unit": "µs", "draw": "stack",
 "stack": {"unit": "µs", "parts": [["system call, application", ["fio's own time of it", "-total"]],
   ["block layer", ["block"]], ["command, registration", ["map"]], ["post", ["post"]],
   ["messages, RDMA, target", ["remote"]], ["invalidation, completion", ["finish"]]],
  "paper": [["write", [520, 0, 42, 1, 335, 23]]]},
 "paper": "strace and traces of WSS, one write of 64 KiB in 512 B pieces",
 "quoted": "of 920 µs: system call to driver 374, driver 16, MLockV 26, post 1, messages 30, SE and CE 305, MUnlockV with what surrounds it 23, completion 146",
 "values": [],
 "claims": [{"says": "most of the time is spent outside of driver, network and target",
             "of": {"stage": "fio's own time of it"}, "to": {"stage": "total"}, "relation": "above", "than": 2,
             "value": "2.3"}],
 "why": "The 520 µs outside the paper's driver include the block layer. Its SCSI layers of 2004 are not on the path."},
{"id": "D table 4", "title": "Time of a 64 KiB raw write by kind",
 "quoted": "of 920 µs: communication 309 (33.6 %), WSS and SRP 92 (10.0 %), copy 114 (12.4 %), other 405 (44.0 %)",
 "not_measured": "the driver's stage `remote` holds both the network and the target, which this table separates"}
])json";

// What the papers leave open.
constexpr const char* kBeyond = R"json([
{"figure": "local", "title": "Local writes of 512 B, by threads", "where": {"operation": "write", "bytes": 512},
 "x": "threads", "y": ["rate"], "unit": "IOPS"},
{"figure": "echo", "title": "Echo of writes of 512 B, by connections", "where": {"operation": "write", "bytes": 512},
 "x": "connections", "y": ["rate"], "unit": "operations/s"},
{"figure": "remote", "title": "Remote random writes of 512 B, by connections",
 "where": {"what": "remote", "operation": "write", "pattern": "random", "bytes": 512}, "x": "connections",
 "y": ["rate"], "unit": "IOPS"},
{"figure": "remote", "title": "Remote sequential reads of 512 B, by connections",
 "where": {"what": "remote", "operation": "read", "pattern": "sequential", "bytes": 512}, "x": "connections",
 "y": ["rate"], "unit": "IOPS"},
{"figure": "ramp-algorithms", "title": "RAMP-Fast, RAMP-Small and RAMP-Hybrid over written rings, by the share of reads",
 "x": "read_percent", "y": ["rate"], "unit": "transactions/s"},
{"figure": "scaling", "title": "Processor time of an operation as numbers grow", "x": "count", "y": ["cpu_us"],
 "unit": "µs"}
])json";

}  // namespace

const Json& card_descriptions() {
    static const Json all = [] {
        Json cards = Json::array();
        for (const char* part : {kPaperA, kPaperB, kPaperD, kBeyond})
            for (Json& card : Json::parse(part)) {
                if (card.contains("same_as"))
                    for (const Json& other : Json(cards))
                        if (other.value("id", "") == card["same_as"]) {
                            Json merged = other;
                            merged.update(card);
                            card = std::move(merged);
                        }
                cards.push_back(std::move(card));
            }
        return cards;
    }();
    return all;
}

}  // namespace wss::wssbench
