// set_device_link() replaces the link between the devices of a description, to answer questions
// like "what if this machine had no NVLink?"
#pragma once

#include <string_view>

#include "roofline/hardware/hardware.h"

namespace quire {

enum class DeviceLink : uint8_t {
  kPcie,  // devices access each other's memory over PCIe (peer to peer)
  kHost,  // every message goes through host memory, for drivers without peer to peer
};

// Parses "pcie" or "host".
Result<DeviceLink> parse_device_link(std::string_view name);

// Uses the PCIe generation of host_link, and removes bridges. kInvalidArgument: the description has
// no host_link.
Status set_device_link(DeviceLink link, Hardware& hardware);

}  // namespace quire
