#include "quantize/quantize_checkpoint.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "quantize/shard_writer.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = "quantize.unfinished.json";
constexpr TensorRole kLinearRoles[] = {TensorRole::kQkv,  TensorRole::kQ,  TensorRole::kK,
                                       TensorRole::kV,    TensorRole::kO,  TensorRole::kGateUp,
                                       TensorRole::kGate, TensorRole::kUp, TensorRole::kDown};

// One tensor of the source, and what is done with it.
struct Job {
  const RawTensor* tensor = nullptr;
  std::string module;  // empty: the tensor is copied
  std::vector<WriteTensor> outputs;
};

std::set<std::string> linear_modules(const ModelConfig& config) {
  const NameMap& names = checkpoint_names(config);
  std::set<std::string> modules;
  for (const NamePrefix& prefix : names.prefixes) {
    for (const TensorRole role : kLinearRoles) {
      const NameMapEntry* entry = find_role(names, role);
      if (entry == nullptr || entry->transposed || entry->order != QkvOrder::kStacked) continue;
      for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
        std::string name = tensor_name(*entry, prefix, layer, "");
        name.pop_back();  // the dot before the suffix
        modules.insert(std::move(name));
      }
    }
  }
  return modules;
}

bool is_float(const RawTensor& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
}

bool is_weight_file(std::string_view name) {
  for (const std::string_view end :
       {".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth",
        ".gguf", ".h5", ".msgpack", ".onnx"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

class Quantizer {
 public:
  Quantizer(const ModelFiles& files, const TensorSource& source, const ModelConfig& config,
            ThreadTeam& team, const QuantizeOptions& options)
      : files_(files), source_(source), config_(config), team_(team), options_(options) {}

  // Makes all checks that can refuse the job, and creates the folder.
  Status prepare() {
    QUIRE_RETURN_IF_ERROR(check_source());
    plan_jobs();
    return open_folder();
  }

  Result<QuantizeSummary> run() {
    QUIRE_RETURN_IF_ERROR(prepare());
    const std::vector<std::vector<const Job*>> shards = cut_shards();
    boost::json::object weight_map;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1 ? "model.safetensors"
                                                  : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                                i + 1, shards.size());
      QUIRE_RETURN_IF_ERROR(write_shard(name, shards[i]));
      for (const Job* job : shards[i]) {
        for (const WriteTensor& tensor : job->outputs) weight_map[tensor.name] = name;
      }
    }
    summary_.num_shards = static_cast<int64_t>(shards.size());
    if (shards.size() > 1) QUIRE_RETURN_IF_ERROR(write_index(std::move(weight_map)));
    QUIRE_RETURN_IF_ERROR(copy_files());
    QUIRE_RETURN_IF_ERROR(write_config());
    std::error_code error;
    fs::remove(path(kUnfinished), error);
    return std::move(summary_);
  }

 private:
  std::string path(std::string_view name) const {
    return (fs::path(options_.output) / name).string();
  }

  Status check_source() const {
    if (config_.format == CheckpointFormat::kGguf) {
      return invalid_argument("{}: expected a Hugging Face model directory, got a GGUF file",
                              files_.source());
    }
    if (config_.quantization.method() != QuantMethod::kNone) {
      return invalid_argument("{}: expected float weights, got {}", files_.source(),
                              config_.quantization.description());
    }
    return {};
  }

  void plan_jobs() {
    const std::set<std::string> linear = linear_modules(config_);
    constexpr std::string_view kWeight = ".weight";
    for (const RawTensor& tensor : source_.tensors()) {
      Job job{.tensor = &tensor};
      const std::string module = tensor.name.ends_with(kWeight)
                                     ? tensor.name.substr(0, tensor.name.size() - kWeight.size())
                                     : std::string();
      const bool is_linear =
          linear.contains(module) && tensor.shape.size() == 2 && is_float(tensor);
      if (is_linear && fits(options_.scheme, tensor.shape[1])) {
        job.module = module;
        job.outputs = module_tensors(options_.scheme, module, tensor.shape[0], tensor.shape[1],
                                     *tensor.dtype);
        ++summary_.num_modules;
      } else {
        job.outputs = {{tensor.name, tensor.type_name, tensor.shape}};
        if (is_linear) summary_.kept_modules.push_back(module);
      }
      for (const WriteTensor& output : job.outputs) summary_.written_bytes += output.bytes();
      summary_.source_bytes += static_cast<int64_t>(tensor.data.size());
      jobs_.push_back(std::move(job));
    }
  }

  // The folder must be new, or left by an interrupted run of the same job.
  Status open_folder() const {
    const std::string job =
        boost::json::serialize(boost::json::object{{"source", files_.source()},
                                                   {"source_bytes", summary_.source_bytes},
                                                   {"to", options_.scheme.name},
                                                   {"method", options_.method},
                                                   {"shard_bytes", options_.shard_bytes}});
    std::error_code error;
    if (!fs::exists(options_.output, error)) {
      fs::create_directories(options_.output, error);
      if (error) return internal_error("{}: cannot create: {}", options_.output, error.message());
    } else if (!fs::is_directory(options_.output, error)) {
      return invalid_argument("{}: expected a folder, found a file", options_.output);
    } else if (fs::exists(path(kUnfinished), error)) {
      std::ifstream file(path(kUnfinished));
      const std::string found{std::istreambuf_iterator<char>(file), {}};
      if (found == job) return {};
      return invalid_argument("{}: holds an unfinished run of another job; remove it first",
                              options_.output);
    } else if (!fs::is_empty(options_.output, error)) {
      return invalid_argument("{}: exists and is not empty; nothing is written over",
                              options_.output);
    }
    return write_file(path(kUnfinished), job);
  }

  std::vector<std::vector<const Job*>> cut_shards() const {
    std::vector<std::vector<const Job*>> shards(1);
    int64_t bytes = 0;
    for (const Job& job : jobs_) {
      int64_t added = 0;
      for (const WriteTensor& output : job.outputs) added += output.bytes();
      if (bytes > 0 && bytes + added > options_.shard_bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().push_back(&job);
      bytes += added;
    }
    return shards;
  }

  Status write_shard(const std::string& name, const std::vector<const Job*>& jobs) {
    std::vector<WriteTensor> tensors;
    for (const Job* job : jobs)
      tensors.insert(tensors.end(), job->outputs.begin(), job->outputs.end());
    if (is_whole_shard(path(name), tensors)) {
      ++summary_.num_shards_kept;
      for (const Job* job : jobs) advance(*job->tensor);
      return {};
    }
    QUIRE_ASSIGN_OR_RETURN(ShardWriter writer, ShardWriter::create(path(name), tensors));
    for (const Job* job : jobs) {
      QUIRE_RETURN_IF_ERROR(write_job(*job, writer));
      advance(*job->tensor);
    }
    return writer.finish();
  }

  void advance(const RawTensor& tensor) {
    done_bytes_ += static_cast<int64_t>(tensor.data.size());
    if (options_.on_progress) options_.on_progress(done_bytes_, summary_.source_bytes);
  }

  Status write_job(const Job& job, ShardWriter& writer) const {
    const RawTensor& tensor = *job.tensor;
    const auto rescale = options_.rescales.find(tensor.name);
    const bool rescaled = rescale != options_.rescales.end();
    if (job.module.empty() && !rescaled) return writer.append(tensor.data);
    std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = read_element(tensor.data.data(), *tensor.dtype, static_cast<int64_t>(i));
      if (!std::isfinite(values[i])) {
        return data_loss("tensor '{}': expected finite weights, got {}", tensor.name, values[i]);
      }
    }
    if (rescaled) apply(rescale->second, tensor, values);
    if (job.module.empty()) {
      std::vector<std::byte> bytes(tensor.data.size());
      for (size_t i = 0; i < values.size(); ++i) {
        write_element(bytes.data(), *tensor.dtype, static_cast<int64_t>(i), values[i]);
      }
      return writer.append(bytes);
    }
    for (const std::vector<std::byte>& bytes : quantize_module(
             options_.scheme, team_, values, tensor.shape[0], tensor.shape[1], *tensor.dtype)) {
      QUIRE_RETURN_IF_ERROR(writer.append(bytes));
    }
    return {};
  }

  static void apply(const Rescale& rescale, const RawTensor& tensor, std::vector<float>& values) {
    const auto columns = static_cast<size_t>(tensor.shape.back());
    for (size_t i = 0; i < values.size(); ++i) {
      float factor = rescale.columns.empty() ? 1.0f : rescale.columns[i % columns];
      if (!rescale.rows.empty()) factor *= rescale.rows[i / columns];
      values[i] = (values[i] + rescale.offset) * factor - rescale.offset;
    }
  }

  Status write_index(boost::json::object weight_map) const {
    const boost::json::object index{
        {"metadata", boost::json::object{{"total_size", summary_.written_bytes}}},
        {"weight_map", std::move(weight_map)}};
    return write_file(path("model.safetensors.index.json"), boost::json::serialize(index));
  }

  Status copy_files() const {
    for (const std::string& name : files_.names()) {
      if (name == "config.json" || is_weight_file(name)) continue;
      const auto bytes = files_.find(name);
      if (!bytes) continue;  // an empty file
      QUIRE_RETURN_IF_ERROR(
          write_file(path(name), {reinterpret_cast<const char*>(bytes->data()), bytes->size()}));
    }
    return {};
  }

  Status write_config() const {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files_.text("config.json"));
    boost::json::error_code error;
    boost::json::value config = boost::json::parse({text.data(), text.size()}, error);
    if (error || !config.is_object()) return invalid_argument("config.json: not a JSON object");
    std::vector<std::string> ignored{"lm_head"};
    ignored.insert(ignored.end(), summary_.kept_modules.begin(), summary_.kept_modules.end());
    config.get_object()["quantization_config"] = quantization_config(options_.scheme, ignored);
    return write_file(path("config.json"), boost::json::serialize(config) + "\n");
  }

  const ModelFiles& files_;
  const TensorSource& source_;
  const ModelConfig& config_;
  ThreadTeam& team_;
  const QuantizeOptions& options_;
  QuantizeSummary summary_;
  std::vector<Job> jobs_;
  int64_t done_bytes_ = 0;
};

}  // namespace

Status claim_output(const ModelFiles& files, const TensorSource& source, const ModelConfig& config,
                    ThreadTeam& team, const QuantizeOptions& options) {
  return Quantizer(files, source, config, team, options).prepare();
}

Result<QuantizeSummary> quantize_checkpoint(const ModelFiles& files, const TensorSource& source,
                                            const ModelConfig& config, ThreadTeam& team,
                                            const QuantizeOptions& options) {
  return Quantizer(files, source, config, team, options).run();
}

}  // namespace quire
