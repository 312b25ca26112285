// Runs tiny models under tests/goldens, and reads what transformers computes with them.
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
// Returns what ModelFiles::open() opens: the folder, or the GGUF file if the folder holds nothing
// else.
std::string golden_model(const std::filesystem::path& dir);

Golden read_golden(const std::filesystem::path& dir);

// Returns the goldens under models/, sorted; with those that exist only as GGUF, if `with_gguf`.
std::vector<std::string> model_golden_names(bool with_gguf = false);
// Returns the names of the folders under quant_models/, sorted.
std::vector<std::string> quant_golden_names();
// Returns the adapters under lora/, sorted: "phi3.rslora" is an adapter of the golden model phi3.
std::vector<std::string> lora_golden_names();
std::filesystem::path lora_golden_dir(const std::string& name);
// Returns the name of an adapter's golden model.
std::string lora_golden_base(const std::string& name);
// Returns the config.json of a golden model.
ModelConfig golden_config(const std::string& name);

using LogitsByPosition = std::map<int32_t, std::vector<float>>;  // of the predicted token

// Loads a golden to run on one thread. The logits of every computed row are written to `seen`.
// `isa` is a name that parse_isa() takes.
std::unique_ptr<ModelRunner> load_golden(const std::filesystem::path& path,
                                         const std::string& dtype, int64_t max_model_len,
                                         LogitsByPosition& seen, std::string_view isa = "auto");

// A golden and an instruction set to run it on.
using GoldenOnIsa = std::tuple<std::string, Isa>;
// Return instruction sets of this CPU: golden_isas() all of them, golden_vector_isas() those that
// differ in float32 products, which tiles do not compute. Emulated tiles are left out: whole models
// are slow on them, and kernel tests hold them to the same bits.
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
