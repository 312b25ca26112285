#include "sim/fleet/engine_preset.h"

#include <gtest/gtest.h>

#include "roofline/testing/test_models.h"

namespace quire::sim {
namespace {

PoolOptions pool_on(const char* hardware) {
  PoolOptions pool;
  pool.hardware = find_hardware(hardware).value();
  return pool;
}

TEST(EnginePreset, OldVllmDoesNotHideItsHostBehindTheDevice) {
  const EnginePreset old_one = find_engine_preset("vllm-0.12").value();
  const EnginePreset new_one = find_engine_preset("vllm-0.15").value();
  EXPECT_FALSE(old_one.async_scheduling);
  EXPECT_TRUE(new_one.async_scheduling);
  EXPECT_GT(old_one.step_us, new_one.step_us);
}

TEST(EnginePreset, LimitsGoByTheDevice) {
  const EnginePreset preset = find_engine_preset("vllm-0.15").value();
  struct Case {
    const char* hardware;
    int32_t max_num_seqs;
    int32_t max_num_batched_tokens;
  };
  for (const Case& c : {Case{"h100-sxm", 1024, 8192}, Case{"h200-sxm", 1024, 8192},
                        Case{"a100-sxm", 256, 2048}, Case{"l40s", 256, 2048}}) {
    PoolOptions pool = pool_on(c.hardware);
    set_pool(preset, {}, pool);
    EXPECT_EQ(pool.engine.scheduler.max_num_seqs, c.max_num_seqs) << c.hardware;
    EXPECT_EQ(pool.engine.scheduler.max_num_batched_tokens, c.max_num_batched_tokens) << c.hardware;
    EXPECT_EQ(pool.hardware.host.step_us, preset.step_us);
    EXPECT_EQ(pool.memory_utilisation, preset.memory_utilisation);
  }
}

TEST(EnginePreset, WhatSomebodyChoseStays) {
  const EnginePreset preset = find_engine_preset("trt-llm").value();
  PoolOptions pool = pool_on("h100-sxm");
  pool.engine.scheduler.max_num_seqs = 17;
  pool.engine.scheduler.max_num_batched_tokens = 4096;
  pool.engine.scheduler.async_scheduling = false;
  pool.block_size = 64;
  pool.memory_utilisation = 0.5;
  set_pool(preset,
           {.max_num_seqs = true,
            .max_num_batched_tokens = true,
            .async_scheduling = true,
            .memory_utilisation = true,
            .block_size = true},
           pool);
  EXPECT_EQ(pool.engine.scheduler.max_num_seqs, 17);
  EXPECT_EQ(pool.engine.scheduler.max_num_batched_tokens, 4096);
  EXPECT_FALSE(pool.engine.scheduler.async_scheduling);
  EXPECT_EQ(pool.block_size, 64);
  EXPECT_EQ(pool.memory_utilisation, 0.5);
  EXPECT_EQ(pool.engine.scheduler.max_preemptions, 0);
}

TEST(EnginePreset, OnlyTheChosenLimitBoundsTheOther) {
  const EnginePreset preset = find_engine_preset("vllm-0.15").value();
  PoolOptions pool = pool_on("l40s");
  pool.engine.scheduler.max_num_batched_tokens = 128;
  set_pool(preset, {.max_num_batched_tokens = true}, pool);
  EXPECT_EQ(pool.engine.scheduler.max_num_seqs, 128);
  pool.engine.scheduler.max_num_seqs = 4096;
  set_pool(preset, {.max_num_seqs = true}, pool);
  EXPECT_EQ(pool.engine.scheduler.max_num_batched_tokens, 4096);
}

TEST(EnginePreset, ProcessorsKeepTheirOwnHostTimes) {
  Hardware cpu = find_hardware("cpu-avx2").value();
  const double step_us = cpu.host.step_us;
  set_host(find_engine_preset("vllm-0.12").value(), cpu);
  EXPECT_EQ(cpu.host.step_us, step_us);
}

TEST(EnginePreset, TheErrorListsTheNames) {
  const auto unknown = find_engine_preset("vllm");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(
      unknown.status().message(),
      "engine: expected vllm-0.12, vllm-0.15, vllm-0.19, vllm-0.21, sglang, trt-llm or quire, got "
      "'vllm'");
}

}  // namespace
}  // namespace quire::sim
