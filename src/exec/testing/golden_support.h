// Tiny models under tests/goldens with what transformers computes with them, and running them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "device/isa.h"
#include "exec/model_runner.h"
#include "exec/testing/test_driver.h"

namespace quire::test {

inline constexpr int32_t kGoldenBlocks = 512;

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::vector<int32_t> rows;               // prompt rows whose logits are kept
  std::vector<std::vector<float>> logits;  // one per row
  double min_gap = 0.0;
  int64_t max_model_len = 0;  // 0: the model's own
};

// Returns the folder of a golden: models/NAME or quant_models/NAME.
std::filesystem::path golden_dir(const std::string& name);
// What ModelFiles::open() is given: the folder, or the GGUF file when that is all it holds.
std::string golden_model(const std::filesystem::path& dir);

Golden read_golden(const std::filesystem::path& dir);

// The goldens under models/, sorted; with a GGUF twin alone, or all.
std::vector<std::string> model_golden_names(bool with_gguf = false);
// Returns the names of the folders under quant_models/, sorted.
std::vector<std::string> quant_golden_names();
// Adapters under lora/, sorted: "phi3.rslora" is one of the golden model phi3.
std::vector<std::string> lora_golden_names();
std::filesystem::path lora_golden_dir(const std::string& name);
// Returns the name of an adapter's golden model.
std::string lora_golden_base(const std::string& name);
// What the config.json of a golden model says.
ModelConfig golden_config(const std::string& name);

using LogitsByPosition = std::map<int32_t, std::vector<float>>;  // of the predicted token

// Loads a golden to run on one thread. Logits of every computed row land in `seen`. `isa` is as
// parse_isa() takes it.
std::unique_ptr<ModelRunner> load_golden(const std::filesystem::path& path,
                                         const std::string& dtype, int64_t max_model_len,
                                         LogitsByPosition& seen, std::string_view isa = "auto");

// This names a golden and an instruction set to run it on.
using GoldenOnIsa = std::tuple<std::string, Isa>;
// These return the sets that this CPU has: all, or those that differ in float32 products, which
// tiles do not do. Emulated tiles are not among them: whole models are slow on them, and kernel
// tests hold them to the same bits.
std::vector<Isa> golden_isas();
std::vector<Isa> golden_vector_isas();
// Returns the name of a test's case.
std::string golden_case(const ::testing::TestParamInfo<GoldenOnIsa>& info);

// Returns |a - b| / |b|.
double relative_error(const std::vector<float>& a, const std::vector<float>& b);

// Returns the greatest error of the rows that the golden keeps.
double worst_error(const Golden& golden, LogitsByPosition& seen);

DriverRequest greedy_request(const std::vector<TokenId>& prompt, size_t max_tokens);

}  // namespace quire::test
