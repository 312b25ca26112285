// set_device_link() puts a device behind another kind of link than its description has: "what if
// this machine had no NVLink?"
#pragma once

#include <string_view>

#include "roofline/hardware/hardware.h"

namespace quire {

enum class DeviceLink : uint8_t {
  kPcie,  // devices reach each other's memory over PCIe (peer to peer)
  kHost,  // every message goes through the host's memory, as where drivers forbid the former
};

// Expects "pcie" or "host".
Result<DeviceLink> parse_device_link(std::string_view name);

// The generation of PCIe is that of host_link. Bridges are taken away. kInvalidArgument where the
// description has no host_link.
Status set_device_link(DeviceLink link, Hardware& hardware);

}  // namespace quire
