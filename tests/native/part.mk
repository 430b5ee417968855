# SPDX-License-Identifier: Apache-2.0
# End-to-end tests that need no virtual machine: wss-target, the nbdkit plugin and libwss on this host.
NATIVE_NEEDS := $(BUILD)/wss-target $(BUILD)/wss-cache $(BUILD)/nbdkit-wss-plugin.so $(BUILD)/libwss.so $(BUILD)/wssctl $(BUILD)/kvctl $(BUILD)/wssbench

.PHONY: check-native soak-kv
check-native: $(NATIVE_NEEDS) ## end-to-end tests without a VM (TESTS=pytest arguments)
	WSS_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=3 tests/native $(TESTS)

soak-kv: $(BUILD)/wss-target $(BUILD)/kvctl ## 10^7 judged operations in each mode of the key-value store, over tcp and shm (OPERATIONS=n, ONLY=shm/ramp-small); build/soak/kv.json
	@/usr/bin/python3 -B -m tests.native.soak_kv --build $(BUILD) $(if $(OPERATIONS),--operations $(OPERATIONS)) $(addprefix --only ,$(ONLY))
