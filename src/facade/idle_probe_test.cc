#include "facade/idle_probe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "engine/testing/engine_test_support.h"
#include "roofline/model/cost_model.h"
#include "roofline/testing/test_models.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

std::shared_ptr<AsyncEngine> serve(const test::RigOptions& options) {
  auto engine = make_async_engine(options.engine, std::make_unique<FakeExecutor>(options.fake),
                                  options.tokenizer, std::make_shared<SteadyClock>());
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

std::shared_ptr<const CostModel> cost_of(const Hardware& hardware) {
  auto cost = CostModel::create(test::model_of(test::kGemma2_9B), hardware, {}, {});
  EXPECT_TRUE(cost.ok()) << cost.status().message();
  return std::make_shared<const CostModel>(std::move(*cost));
}

Hardware cpu(double bytes_per_s) {
  Hardware hardware = *find_hardware(kGenericCpu);
  hardware.memory_bytes_per_s = bytes_per_s;
  return hardware;
}

double reads_of(const AsyncEngine& engine) {
  const auto cost = engine.cost_model();
  return cost == nullptr ? 0 : cost->hardware().memory_bytes_per_s;
}

TEST(IdleProbe, GivesTheEngineItsCostModelOnce) {
  const auto engine = serve(test::small_rig());
  EXPECT_EQ(engine->cost_model(), nullptr);
  std::promise<double> kept;
  IdleProbe probe(
      engine, {.probe =
                   [] {
                     return QuickProbe{cpu(7e9), false};
                   },
               .keep = [&](const QuickProbe& p) { kept.set_value(p.hardware.memory_bytes_per_s); },
               .cost_model = cost_of,
               .period_us = 1000});
  EXPECT_EQ(kept.get_future().get(), 7e9);
  EXPECT_EQ(reads_of(*engine), 7e9);
}

TEST(IdleProbe, ADisturbedProbeServesUntilThereIsABetterOne) {
  const auto engine = serve(test::small_rig());
  std::promise<double> kept;
  std::atomic<int> num_probes{0};
  double reads_after_first = 0;
  IdleProbe probe(
      engine, {.probe =
                   [&] {
                     if (num_probes == 1) reads_after_first = reads_of(*engine);
                     const bool disturbed = num_probes++ < 2;
                     return QuickProbe{cpu(1e9 * num_probes), disturbed};
                   },
               .keep = [&](const QuickProbe& p) { kept.set_value(p.hardware.memory_bytes_per_s); },
               .cost_model = cost_of,
               .period_us = 1000});
  EXPECT_EQ(kept.get_future().get(), 3e9);
  EXPECT_EQ(reads_after_first, 1e9);
  EXPECT_EQ(reads_of(*engine), 3e9);
}

TEST(IdleProbe, NothingIsMeasuredWhileRequestsRun) {
  auto options = test::small_rig();
  options.fake.step_us = 1000;
  const auto engine = serve(options);
  std::atomic<bool> measured_while_busy{false};
  std::promise<void> kept;
  auto stream = engine->submit(test::request(test::tokens(10), 60), nullptr);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->pop().has_value());  // it runs
  IdleProbe probe(engine, {.probe =
                               [&] {
                                 if (engine->stats().generation_tokens < 60)
                                   measured_while_busy = true;
                                 return QuickProbe{cpu(7e9), false};
                               },
                           .keep = [&](const QuickProbe&) { kept.set_value(); },
                           .cost_model = cost_of,
                           .period_us = 1000});
  while ((*stream)->pop()) continue;
  kept.get_future().get();
  EXPECT_FALSE(measured_while_busy);
}

TEST(MachineHardware, IsKeptForTheSameMachineAndReadBack) {
  const test::TempFolder folder;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const MachineProbeOptions machine{.isa = "avx2", .num_threads = 3};
  EXPECT_FALSE(kept_hardware(machine));
  QuickProbe probe{cpu(7e9), true};
  keep(probe, machine);
  EXPECT_FALSE(kept_hardware(machine));  // a disturbed probe is not kept
  probe.disturbed = false;
  probe.hardware.provenance.device = machine_device_name();
  keep(probe, machine);
  ASSERT_TRUE(kept_hardware(machine));
  EXPECT_EQ(kept_hardware(machine)->memory_bytes_per_s, 7e9);
  EXPECT_FALSE(kept_hardware({.isa = "avx2", .num_threads = 2}));
  EXPECT_FALSE(kept_hardware({.isa = "auto", .num_threads = 3}));
  EXPECT_FALSE(kept_hardware({.isa = "avx2", .num_threads = 3, .again = true}));
  probe.hardware.provenance.device = "another machine";
  keep(probe, machine);
  EXPECT_FALSE(kept_hardware(machine));
  std::ofstream(machine_hardware_path(machine)) << "no JSON";
  EXPECT_FALSE(kept_hardware(machine));
}

}  // namespace
}  // namespace quire
