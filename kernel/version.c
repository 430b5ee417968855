// SPDX-License-Identifier: GPL-2.0
/*
 * The module's version, for modinfo and DKMS.
 */
#include <linux/module.h>

#include "uapi/wss_version.h"

MODULE_VERSION(WSS_VERSION);
