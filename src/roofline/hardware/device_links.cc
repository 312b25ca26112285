#include "roofline/hardware/device_links.h"

namespace quire {
namespace {

// Peer to peer: the times of a small message with four and eight devices, and the share of eight
// devices, are as measured on RTX PRO 6000; the ramp is that of four H100 (docs/roofline.md,
// Links).
constexpr CollectiveModel kPcie = {
    .alpha_us = 10, .alpha_per_device_us = 1.175, .ramp_us = 4.83, .share = 0.63};
// Through the host: eight RTX 4090 for small messages, eight RTX 5090 for large ones.
constexpr CollectiveModel kHost = {
    .alpha_us = 17.5, .alpha_per_device_us = 2.05, .ramp_us = 4.83, .share = 0.44};

}  // namespace

Result<DeviceLink> parse_device_link(std::string_view name) {
  if (name == "pcie") return DeviceLink::kPcie;
  if (name == "host") return DeviceLink::kHost;
  return invalid_argument("device-link: expected pcie or host, got '{}'", name);
}

Status set_device_link(DeviceLink link, Hardware& hardware) {
  if (hardware.host_link.bytes_per_s <= 0) {
    return invalid_argument("{}: expected a host_link to put devices behind PCIe, got none",
                            hardware.name);
  }
  hardware.device_link = {.bytes_per_s = hardware.host_link.bytes_per_s, .latency_us = 15};
  hardware.bridge.reset();
  hardware.small_all_reduce.reset();
  hardware.collective = link == DeviceLink::kPcie ? kPcie : kHost;
  return {};
}

}  // namespace quire
