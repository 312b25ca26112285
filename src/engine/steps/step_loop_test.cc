// Steps that fail while their plans copy KV to host memory, from where it is written to files.
#include "engine/steps/step_loop.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::request;
using test::Rig;
using test::tokens;

// Counts the jobs it is given and never answers them.
class CountingFiles final : public KvFiles {
 public:
  explicit CountingFiles(int& num_stores) : num_stores_(num_stores) {}
  void store(KvStoreJob) override { ++num_stores_; }
  void load(KvLoadJob) override {}
  void remove(std::string) override {}
  void poll(std::vector<KvFileEvent>&) override {}
  std::string file_set() const override { return "counting"; }
  Status check_file_set(const std::string&) const override { return {}; }
  Status look_for(std::span<const std::string>) override { return {}; }
  int64_t file_bytes(KvPool, int32_t num_cells, int32_t) const override { return num_cells; }

 private:
  int& num_stores_;
};

struct FailedCopies {
  Status lost;
  int num_failures = 0;
  int num_stores = 0;
};

// Runs a request on an engine in which the first plan with host copies fails: one that has requests
// too, or one that has only the copies.
FailedCopies run_with_failing_copies(bool overlaps, bool has_requests,
                                     const std::function<Status()>& fail) {
  FailedCopies seen;
  test::RigOptions options = test::small_rig();
  options.engine.scheduler.async_scheduling = overlaps;
  options.fake.max_steps_in_flight = overlaps ? 2 : 1;
  options.fake.keeps_blocks_on_host = true;
  options.engine.kv_offload_bytes = options.fake.kv_spec.block_bytes * 100;
  options.engine.kv.files = {.capacity_bytes = 1000, .run_blocks = 100, .cell_tokens = 2};
  options.engine.open_kv_files = [&](const KvHostMemory&) -> Result<std::unique_ptr<KvFiles>> {
    return std::unique_ptr<KvFiles>(new CountingFiles(seen.num_stores));
  };
  options.fake.fail_step = [&](const StepPlan& plan) {
    const bool fails = !plan.host_copies.empty() && seen.num_failures == 0;
    if (!fails) return Status();
    EXPECT_EQ(!plan.empty(), has_requests);
    EXPECT_EQ(seen.num_stores, 0);
    ++seen.num_failures;
    return fail();
  };
  Rig rig(options);
  // A prompt with full blocks is stored when it is computed; otherwise the whole text at its end.
  EXPECT_TRUE(rig.submit(request(tokens(has_requests ? 40 : 2), 20)).ok());
  for (int i = 0; i < 60 && rig.engine().lost().ok(); ++i) rig.engine().step();
  EXPECT_FALSE(rig.engine().has_unfinished());
  seen.lost = rig.engine().lost();
  return seen;
}

// Host blocks of copies that may not have been made are never written to files.
TEST(HostCopies, AreNotStoredOnceTheDeviceIsLost) {
  for (const bool overlaps : {false, true}) {
    for (const bool has_requests : {false, true}) {
      SCOPED_TRACE(testing::Message() << overlaps << ' ' << has_requests);
      const FailedCopies lost = run_with_failing_copies(
          overlaps, has_requests, [] { return unavailable("the device is lost"); });
      EXPECT_EQ(lost.num_failures, 1);
      EXPECT_EQ(lost.lost.code(), StatusCode::kUnavailable);
      EXPECT_EQ(lost.num_stores, 0);
      // An exception does not tell either what had been done before it. FakeExecutor cannot go on
      // with steps that follow one that throws.
      if (overlaps && has_requests) continue;
      const FailedCopies thrown = run_with_failing_copies(
          overlaps, has_requests, []() -> Status { throw std::runtime_error("no memory"); });
      EXPECT_EQ(thrown.num_failures, 1);
      EXPECT_EQ(thrown.lost.code(), StatusCode::kUnavailable);
      EXPECT_EQ(thrown.num_stores, 0);
    }
  }
}

// The copies of a step that fails otherwise have been made.
TEST(HostCopies, AreStoredIfTheStepFailsOtherwise) {
  for (const bool overlaps : {false, true}) {
    for (const bool has_requests : {false, true}) {
      SCOPED_TRACE(testing::Message() << overlaps << ' ' << has_requests);
      const FailedCopies failed = run_with_failing_copies(
          overlaps, has_requests, [] { return internal_error("logits: NaN"); });
      EXPECT_EQ(failed.num_failures, 1);
      EXPECT_EQ(failed.lost.message(), "");
      EXPECT_GT(failed.num_stores, 0);
    }
  }
}

}  // namespace
}  // namespace quire
