# SPDX-License-Identifier: Apache-2.0
# End-to-end tests without a virtual machine: wss-target, the nbdkit plugin and libwss on this host.
NATIVE_NEEDS := $(BUILD)/wss-target $(BUILD)/wss-cache $(BUILD)/nbdkit-wss-plugin.so $(BUILD)/libwss.so $(BUILD)/wssctl $(BUILD)/kvctl $(BUILD)/wssbench $(RBD_PLUGIN)

.PHONY: check-native check-ceph soak-kv
check-native: $(NATIVE_NEEDS) ## end-to-end tests without a VM (TESTS=pytest arguments)
	WSS_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=3 tests/native $(TESTS)

check-ceph: $(NATIVE_NEEDS) $(BUILD)/unit_tests ## volumes on images of a real Ceph cluster of this host, with faults (TESTS=pytest arguments)
	WSS_CEPH_FAULTS=1 WSS_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=5 tests/native/test_ceph.py tests/native/test_ceph_ownership.py tests/native/test_ceph_takeover.py tests/native/test_ceph_lock.py tests/native/test_ceph_clones.py tests/native/test_ceph_elsewhere.py tests/native/test_ceph_limits.py tests/native/test_ceph_late.py tests/native/test_ceph_faults.py $(TESTS)

soak-kv: $(BUILD)/wss-target $(BUILD)/kvctl ## 10^7 checked operations in each mode of the key-value store, over tcp and shm (OPERATIONS=n, ONLY=shm/ramp-small); build/soak/kv.json
	@/usr/bin/python3 -B -m tests.native.soak_kv --build $(BUILD) $(if $(OPERATIONS),--operations $(OPERATIONS)) $(addprefix --only ,$(ONLY))
