#include "roofline/hardware/device_links.h"

#include <gtest/gtest.h>

#include "roofline/model/kernel_time.h"

namespace quire {
namespace {

double all_reduce_us(const Hardware& hardware, int32_t devices, double bytes) {
  return collective_time(Collective::kAllReduce, devices, bytes, hardware).predicted_us;
}

// Measured microseconds; docs/roofline.md, Links, has the sources.
TEST(DeviceLinks, MeasuredAllReducesArePredicted) {
  struct Case {
    const char* hardware;
    int32_t devices;
    double bytes, us, within_percent;
  };
  for (const Case& c : {
           Case{"rtx-pro-6000", 8, 1024, 24.1, 5},
           Case{"rtx-pro-6000", 8, 262'144, 28.0, 65},  // it uses a protocol of low latency there
           Case{"rtx-pro-6000", 4, 2048, 14.7, 5},
           Case{"h100-pcie", 4, 10'289'152, 362, 10},
           Case{"h100-pcie", 4, 65'929'216, 2036, 5},
           Case{"h100-pcie", 2, 10'289'152, 68, 15},
           Case{"h100-pcie", 2, 66'060'288, 348, 5},
           Case{"rtx-4090", 8, 8, 42.1, 5},
           Case{"h100-sxm", 8, 65'929'216, 343, 20},
           Case{"h100-sxm", 2, 65'929'216, 241, 10},
       }) {
    EXPECT_NEAR(all_reduce_us(find_hardware(c.hardware).value(), c.devices, c.bytes), c.us,
                c.us * c.within_percent / 100)
        << c.hardware << " " << c.devices << " " << c.bytes;
  }
}

TEST(DeviceLinks, EachLinkIsSlowerThanTheOneBefore) {
  const Hardware nvlink = find_hardware("h100-sxm").value();
  Hardware pcie = nvlink;
  Hardware host = nvlink;
  ASSERT_TRUE(set_device_link(DeviceLink::kPcie, pcie).ok());
  ASSERT_TRUE(set_device_link(DeviceLink::kHost, host).ok());
  EXPECT_EQ(pcie.device_link.bytes_per_s, nvlink.host_link.bytes_per_s);
  for (const int32_t devices : {2, 4, 8}) {
    for (double bytes = 256; bytes < 1e9; bytes *= 4) {
      EXPECT_LT(all_reduce_us(nvlink, devices, bytes), all_reduce_us(pcie, devices, bytes));
      EXPECT_LT(all_reduce_us(pcie, devices, bytes), all_reduce_us(host, devices, bytes));
    }
  }
}

TEST(DeviceLinks, ABridgeJoinsTwoDevicesAlone) {
  const Hardware bridged = find_hardware("h100-pcie").value();
  ASSERT_TRUE(bridged.bridge.has_value());
  Hardware without = bridged;
  ASSERT_TRUE(set_device_link(DeviceLink::kPcie, without).ok());
  EXPECT_FALSE(without.bridge.has_value());
  EXPECT_LT(2 * all_reduce_us(bridged, 2, 1e7), all_reduce_us(without, 2, 1e7));
  EXPECT_GT(all_reduce_us(bridged, 4, 1e7), 2 * all_reduce_us(bridged, 2, 1e7));
  EXPECT_EQ(to_json(parse_hardware(to_json(bridged), "again").value()), to_json(bridged));
}

TEST(DeviceLinks, RefusalsSayWhatWasExpected) {
  EXPECT_EQ(parse_device_link("nvlink").status().message(),
            "device-link: expected pcie or host, got 'nvlink'");
  Hardware alone = find_hardware("h100-sxm").value();
  alone.host_link = {};
  EXPECT_EQ(set_device_link(DeviceLink::kPcie, alone).message(),
            "h100-sxm: expected a host_link to put devices behind PCIe, got none");
}

}  // namespace
}  // namespace quire
