# SPDX-License-Identifier: Apache-2.0
# Benchmarks. Their numbers are instruction counts of a deterministic machine, or ratios within one run.
.PHONY: bench-peers
bench-peers: programs modules ## compare WSS with nvme-rdma, ib_srp, iSER and rnbd in one deterministic VM; build/bench/peers.json (PEERS='--workloads …', PEERS='--kernel newer')
	rnbd=$$(tests/lab/kernels/left_out.sh rnbd $(notdir $(patsubst %/,%,$(dir $(KDIR))))) && \
	$(LAB_ENV) /usr/bin/python3 -B -m tests.bench.peers --build $(BUILD) --module $(BUILD)/kernel/wss.ko --rnbd "$$rnbd" $(PEERS)

.PHONY: bench-cache-hit
bench-cache-hit: programs modules ## instructions of a cache hit and of a read from a RAM volume, in user space (valgrind) and on whole machines (four VMs)
	/usr/bin/python3 -B tests/bench/cache_hit.py --build $(BUILD)
	$(LAB_ENV) /usr/bin/python3 -B -m tests.bench.cache_hit_lab $(HIT)

.PHONY: bench-tls
bench-tls: $(BUILD)/wssbench ## instructions of a read and a write over tcp, tls in user space and tls in the kernel, in one deterministic VM; build/bench/tls.json
	$(LAB_ENV) /usr/bin/python3 -B -m tests.bench.tls $(TLS)

$(BUILD)/kv_store_bench: $(BUILD)/tests/bench/kv_store_bench.o $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(BUILD)/tests/bench/kv_store_bench.d

.PHONY: bench-kv-store
bench-kv-store: $(BUILD)/kv_store_bench ## instructions per operation of the version store (valgrind)
	@/usr/bin/python3 -m tests.bench.kv_store $<

.PHONY: bench-kv
bench-kv: programs ## compare the key-value store with Redis and its modes with each other; build/bench/kv.json
	/usr/bin/python3 -B tests/bench/kv.py --build $(BUILD)

SCALE_BENCH := $(BUILD)/tests/bench/scale_bench.o $(BUILD)/tests/bench/scale_world.o
$(BUILD)/scale_bench: $(SCALE_BENCH) $(BUILD)/libtarget.a $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(SCALE_BENCH:.o=.d)

.PHONY: bench-scale
bench-scale: $(BUILD)/scale_bench ## longest turn of the target's reactor, and bytes per line, at 10⁴ … 1.6·10⁷ lines; build/bench/scale.json (SCALE='--lines 10000')
	@/usr/bin/python3 -B -m tests.bench.scale $< $(SCALE)
