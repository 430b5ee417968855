// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/paper.h"

namespace wss::wssbench {

namespace {

struct Value {
    const char* figure;
    const char* text;
    double x = -1, value = -1;
    const char* series = "";
    const char* where = "{}";  // labels of the comparable rows, as JSON
};

constexpr Value kValues[] = {
    {"local", "B figs 4, 5: 4.8 M IOPS at 512 B with 1000 threads (10 NVMe SSDs, 2 x 22 cores)", 1000, 4.8e6,
     "", R"({"bytes": 512, "operation": "read"})"},
    {"echo",
     "B figs 6, 7: just under 6 M/s at 10 connections, falling when threads cross sockets (56 Gb/s "
     "InfiniBand)",
     10, 6.0e6, "", R"({"bytes": 512, "operation": "read"})"},
    {"remote", "B figs 8, 9: dynamic, 70 K IOPS, best at 1 connection", 1, 7.0e4, "dynamic",
     R"({"bytes": 512, "operation": "read", "pattern": "random"})"},
    {"remote", "B figs 10, 11: static, 2.3 M IOPS = 48 % of local", 22, 2.3e6, "static",
     R"({"bytes": 512, "operation": "read", "pattern": "random"})"},
    {"remote", "B fig 12, C fig 9: static = 32 x dynamic"},
    {"replay",
     "C fig 10: run times of the TPC-H Q3 log at 16 KiB, local and remote, close to each other (10 000 I/O "
     "threads)"},
    {"replay", "C figs 11, 12: 16 KiB, replay a little ahead of random"},
    {"replay", "C fig 13: 512 B, remote: replay ahead of random at few threads, behind at many"},
    {"net", "D fig 8: 8 B: 28 us round trip; 50-100 B messages about 15 us one way", 8, 1e6 / 28, "ping-pong",
     R"({"depth": 1})"},
    {"net", "D figs 9, 10: 512 B: 26 us", 512, 1e6 / 26, "rdma", R"({"depth": 1})"},
    {"net", "D figs 9, 10: 64 KiB: 120 us; up to 670 MB/s", 65536, 1e6 / 120, "rdma", R"({"depth": 1})"},
    {"mr", "D fig 11: MUnlock 25-30 us flat; MLock grows with size (490 MB/s)"},
    {"burst", "D fig 12: 1-8 consecutive RDMAs of 1-4 KiB: 250-350 MB/s"},
    {"scsi", "D fig 14: 512 B: 180 us, of which about 54 us (30 %) are WSS itself", 512, 1e6 / 180, "",
     R"({"buffers": "registered"})"},
    {"ramp-transports",
     "A fig 4: Eth 1 : IPoIB 1.32 : Verbs 2.39 : RDMA 2.53 (RAMP, 95 % reads, 8 operations)"},
    {"ramp-size", "A fig 5: at 4 operations GET+ 2.07 x, GET* 2.78 x of RAMP over IPoIB"},
    {"ramp-mix", "A fig 6: at 100 % reads 1.94 x and 2.69 x; at 0 % GET* = GET+"},
    {"ramp-ycsb", "A fig 7: at 100 % reads 2.06 x and 2.67 x (YCSB, 1 KB values, 1000 keys, uniform)"},
    {"mlockv", "D fig 13: 570-600 MB/s as one region, 250-350 MB/s in pieces: 1.7-2.3 x"},
    {"raw", "D fig 15: 70 MB/s, 24 % of the model 1/(1/net + 1/copy) = 287 MB/s"},
    {"block", "D fig 16: read 220, write 210 MB/s, 76.7 % of the model 1/(1/net + 1/copy) = 287 MB/s"},
    {"breakdown",
     "D tables 3, 4: of 920 us for a raw write of 64 KiB: communication 309 (33.6 %), WSS and SRP 92 (10.0 "
     "%), memory copy 114 (12.4 %), other (kernel, system call) 405 (44.0 %)"},
};

}  // namespace

Json paper_values(const std::string& figure) {
    Json values = Json::array();
    for (const Value& value : kValues) {
        if (figure != value.figure) continue;
        Json one = {{"text", value.text}};
        if (value.x >= 0)
            one.update({{"x", value.x},
                        {"value", value.value},
                        {"series", value.series},
                        {"where", Json::parse(value.where)}});
        values.push_back(std::move(one));
    }
    return values;
}

}  // namespace wss::wssbench
