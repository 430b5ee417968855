# SPDX-License-Identifier: Apache-2.0
# The status page in a browser, against real programs. Screenshots are kept in build/page.
.PHONY: check-page
check-page: $(NATIVE_NEEDS) ## the status page in headless Chromium, with faults (WSS_THOROUGH=1, TESTS=pytest arguments); build/page/*.png
	WSS_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=3 tests/page $(TESTS)
