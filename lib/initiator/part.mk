# SPDX-License-Identifier: Apache-2.0
# libwss.so: the C API of lib/initiator/wss.h and lib/kv/client/wss_kv.h, for programs that link it
# dynamically. It is linked from the objects of the API and the parts of libwss.a that they need. Clients need
# no storage, hence neither RocksDB nor libaio.
LIBWSS_API := $(addprefix $(BUILD)/lib/,initiator/c_api.o initiator/c_queue.o kv/client/c_api.o)
$(BUILD)/libwss.so: $(LIBWSS_API) $(BUILD)/libwss.a lib/initiator/libwss.map
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,libwss.so.0 -Wl,--version-script=lib/initiator/libwss.map \
		-o $@ $(LIBWSS_API) $(BUILD)/libwss.a $(LDLIBS)
