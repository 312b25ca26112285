#include "exec/testing/golden_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>

#include "tests/support/test_data.h"

namespace quire::test {
namespace {

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(c));
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>((bits >> num_bits) & 0xff);
    }
  }
  return bytes;
}

std::filesystem::path goldens_dir() { return source_dir() / "tests" / "goldens"; }

std::vector<std::string> names_under(const char* folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::filesystem::path golden_dir(const std::string& name) {
  const auto plain = goldens_dir() / "models" / name;
  return std::filesystem::exists(plain) ? plain : goldens_dir() / "quant_models" / name;
}

std::string golden_model(const std::filesystem::path& dir) {
  return (std::filesystem::exists(dir / "config.json") ? dir : dir / "model.gguf").string();
}

std::vector<std::string> model_golden_names(bool with_gguf) {
  std::vector<std::string> names = names_under("models");
  if (with_gguf) {
    std::erase_if(names, [](const std::string& name) {
      return !std::filesystem::exists(goldens_dir() / "models" / name / "model.gguf");
    });
  }
  return names;
}

std::vector<std::string> quant_golden_names() { return names_under("quant_models"); }

std::vector<std::string> lora_golden_names() { return names_under("lora"); }
std::filesystem::path lora_golden_dir(const std::string& name) {
  return goldens_dir() / "lora" / name;
}
std::string lora_golden_base(const std::string& name) { return name.substr(0, name.find('.')); }

ModelConfig golden_config(const std::string& name) {
  Result<ModelConfig> config = parse_model_config(read_file(golden_dir(name) / "config.json"));
  QUIRE_CHECK(config.ok(), "{}: {}", name, config.status().message());
  return std::move(*config);
}

Golden read_golden(const std::filesystem::path& dir) {
  const boost::json::value json = boost::json::parse(read_file(dir / "golden.json"));
  Golden golden;
  for (const auto& id : json.at("prompt").as_array())
    golden.prompt.push_back(id.to_number<TokenId>());
  for (const auto& id : json.at("tokens").as_array())
    golden.tokens.push_back(id.to_number<TokenId>());
  for (const auto& row : json.at("rows").as_array())
    golden.rows.push_back(row.to_number<int32_t>());
  golden.min_gap = json.at("min_gap").to_number<double>();
  golden.max_model_len = json.at("max_model_len").to_number<int64_t>();
  const std::string bytes = decode_base64(json.at("logits_f32_base64").as_string());
  const size_t row_bytes = bytes.size() / golden.rows.size();
  for (size_t i = 0; i < golden.rows.size(); ++i) {
    golden.logits.emplace_back(row_bytes / sizeof(float));
    std::memcpy(golden.logits.back().data(), bytes.data() + i * row_bytes, row_bytes);
  }
  return golden;
}

std::unique_ptr<ModelRunner> load_golden(const std::filesystem::path& path,
                                         const std::string& dtype, int64_t max_model_len,
                                         LogitsByPosition& seen, std::string_view isa) {
  auto files = ModelFiles::open(path.string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.dtype = dtype;
  options.isa = isa;
  options.max_model_len = max_model_len;
  options.kv_cache_memory_bytes = int64_t{64} << 20;
  options.threads = 1;
  options.pin_threads = false;
  options.max_num_batched_tokens = 128;
  options.max_num_seqs = 8;
  options.on_logits = [&seen](RequestId, int32_t position, std::span<const float> logits) {
    seen[position].assign(logits.begin(), logits.end());
  };
  auto runner = ModelRunner::create(options);
  QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
  QUIRE_CHECK(
      (*runner)->initialize({.num_blocks = kGoldenBlocks, .num_state_blocks = kGoldenBlocks}).ok());
  return std::move(*runner);
}

std::vector<Isa> golden_isas() {
  std::vector<Isa> all = golden_vector_isas();
  if (has_isa(Isa::kAmx)) all.push_back(Isa::kAmx);
  return all;
}

std::vector<Isa> golden_vector_isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2Core, Isa::kAvx2, Isa::kAvx512Core,
                        Isa::kAvx512Vnni, Isa::kAvx512}) {
    if (has_isa(isa)) all.push_back(isa);
  }
  return all;
}

std::string golden_case(const ::testing::TestParamInfo<GoldenOnIsa>& info) {
  std::string name =
      std::get<0>(info.param) + "_" + std::string(to_string(std::get<1>(info.param)));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

double worst_error(const Golden& golden, LogitsByPosition& seen) {
  double worst = 0.0;
  for (size_t i = 0; i < golden.rows.size(); ++i) {
    const std::vector<float>& got = seen[golden.rows[i] + 1];
    EXPECT_EQ(got.size(), golden.logits[i].size());
    if (got.size() != golden.logits[i].size()) return 1.0;
    worst = std::max(worst, relative_error(got, golden.logits[i]));
  }
  return worst;
}

DriverRequest greedy_request(const std::vector<TokenId>& prompt, size_t max_tokens) {
  DriverRequest request{.id = 1, .prompt = prompt};
  request.params.max_tokens = static_cast<int32_t>(max_tokens);
  request.params.temperature = 0.0f;
  request.params.prompt_logprobs = 0;  // so that every row's logits are computed
  return request;
}

}  // namespace quire::test
