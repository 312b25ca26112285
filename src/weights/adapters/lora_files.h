// LoraFiles is a LoRA adapter as PEFT saves it: a folder with adapter_config.json and
// adapter_model.safetensors, whose tensors are named base_model.model.MODULE.lora_A.weight and the
// like.
//
//   QUIRE_ASSIGN_OR_RETURN(LoraFiles adapter, LoraFiles::open("/adapters/sql"));
//   for (const LoraModule& module : adapter.modules()) …   // y += scale * (B (A x) + bias)
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/adapters/adapter_config.h"
#include "weights/files/model_files.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// A LoraModule is the update of one linear of the base model, of its embeddings, or of a parameter
// that holds the matrices of all experts of a layer.
struct LoraModule {
  std::string name;  // in the base model: "model.layers.0.self_attn.q_proj"
  int64_t rank = 0;
  float scale = 1.0f;
  int64_t num_experts = 1;    // X
  bool is_embedding = false;  // its inputs are the vocabulary
  // The names that an updated parameter may have; empty for a linear. PEFT's files tell only by the
  // shape which parameter is updated, so rank and scale are those of the fitting parameter with the
  // greatest rank.
  std::vector<std::string> parameters = {};
  // Tensors of the adapter's file, checked against each other.
  const RawTensor* a = nullptr;  // [X * rank, inputs], expert by expert
  // [outputs, rank * X], rank by rank, within each rank expert by expert
  const RawTensor* b = nullptr;
  const RawTensor* bias = nullptr;       // [outputs] or null
  const RawTensor* magnitude = nullptr;  // [outputs] with DoRA, else null

  int64_t num_inputs() const { return a->shape[1]; }
  int64_t num_outputs() const { return b->shape[0]; }
};

// A WholeModule replaces a module of the base model.
struct WholeModule {
  std::string name;
  const RawTensor* weight = nullptr;  // either may be null, not both
  const RawTensor* bias = nullptr;
};

// LoraParts holds the contents of an adapter's files when they come from another format than
// PEFT's.
struct LoraParts {
  std::string config_text;                     // in the format of adapter_config.json
  std::vector<RawTensor> tensors = {};         // under PEFT's names, in any order
  std::deque<std::vector<float>> floats = {};  // the memory of those tensors that lie in no file
};

// Owns the file mappings. It is immutable, and any thread may read it.
class LoraFiles {
 public:
  // Opens a folder that PEFT saved, or a model's own adapter of a task
  // (weights/adapters/task_adapters.h). Returns kNotFound if a file or the folder is missing,
  // kUnimplemented if the weights are a .bin file, which can hold code, or if the configuration
  // asks for something that Quire does not support, and kInvalidArgument or kDataLoss if the files
  // do not fit each other.
  static Result<LoraFiles> open(const std::string& path);
  static Result<LoraFiles> read(ModelFiles files);
  // Makes an adapter of tensors whose bytes lie in `files` or in parts.floats.
  static Result<LoraFiles> make(ModelFiles files, LoraParts parts);

  const std::string& source() const { return files_.source(); }
  const AdapterConfig& config() const { return config_; }
  const std::vector<LoraModule>& modules() const { return modules_; }  // sorted by name
  // sorted by name
  const std::vector<WholeModule>& whole_modules() const { return whole_modules_; }
  int64_t max_rank() const;
  int64_t num_parameters() const;
  // Returns whether the adapter updates routed experts.
  bool changes_experts() const;
  // Returns the number of elements of the tensors of whole modules.
  int64_t num_whole_elements() const;
  // Returns the SHA-256 of configuration and tensors, in hexadecimal digits.
  const std::string& digest() const { return digest_; }

 private:
  LoraFiles(ModelFiles files, AdapterConfig config)
      : files_(std::move(files)), config_(std::move(config)) {}
  Status find_modules();
  Status check(LoraModule& module) const;
  Status check_rank(LoraModule& module) const;
  // Checks the base weight that PEFT may save beside the update of a module's embeddings.
  Status check_base(const RawTensor& weight, std::string_view module) const;

  ModelFiles files_;
  AdapterConfig config_;
  std::deque<std::vector<float>> floats_;  // the memory of those tensors that lie in no file
  std::vector<RawTensor> tensors_;         // never changed once modules_ point to them
  std::vector<LoraModule> modules_;
  std::vector<WholeModule> whole_modules_;
  std::string digest_;
};

}  // namespace quire
