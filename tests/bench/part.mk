# SPDX-License-Identifier: Apache-2.0
# Benchmarks. Their numbers are instruction counts of a deterministic machine, or ratios within one run.
.PHONY: bench-peers
bench-peers: programs modules ## compare with nvme-rdma/nvmet in one deterministic VM; build/bench/peers.json
	/usr/bin/python3 -m tests.bench.peers --build $(BUILD) --module $(BUILD)/kernel/wss.ko
