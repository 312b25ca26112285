#include "weights/adapters/task_adapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "weights/files/tensor_source.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kTaskMark = "#task=";
constexpr std::string_view kUpdatesA = ".parametrizations.weight.0.lora_A";
constexpr std::string_view kUpdatesB = ".parametrizations.weight.0.lora_B";
constexpr std::string_view kWordTable = "word_embeddings";
constexpr std::string_view kTypeTable = "token_type_embeddings";
constexpr size_t kMaxTasks = 64;
constexpr size_t kMaxInstructionBytes = 4096;
constexpr double kMaxTaskRank = 512;
constexpr double kMaxTaskAlpha = 1e6;

// The updates of one matrix for all tasks.
struct Updates {
  std::string module;
  const RawTensor* a = nullptr;     // [tasks, rank, inputs], or [tasks, rows, rank] for a table
  const RawTensor* b = nullptr;     // [tasks, outputs, rank], or [tasks, rank, columns] for a table
  const RawTensor* base = nullptr;  // the weight that the updates are added to
};

Status check_updates_shape(const RawTensor& tensor, const std::vector<int64_t>& shape) {
  const bool is_float =
      tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
  if (is_float && tensor.shape == shape) return {};
  return invalid_argument("tensor '{}': expected F32, F16 or BF16 [{}], got {} [{}]", tensor.name,
                          fmt::join(shape, ", "), tensor.type_name, fmt::join(tensor.shape, ", "));
}

// TaskReader makes the tensors that PEFT would save for one task.
class TaskReader {
 public:
  TaskReader(const TaskAdapters& tasks, size_t task) : tasks_(tasks), task_(task) {}

  Result<LoraParts> run(const TensorSource& source) {
    for (const RawTensor& tensor : source.tensors()) {
      if (!tensor.name.ends_with(kUpdatesA) || tensor.name.find("pooler.") != std::string::npos)
        continue;
      Updates updates{.module = tensor.name.substr(0, tensor.name.size() - kUpdatesA.size()),
                      .a = &tensor};
      QUIRE_ASSIGN_OR_RETURN(updates.b, source.require(updates.module + std::string(kUpdatesB)));
      QUIRE_ASSIGN_OR_RETURN(updates.base, source.require(updates.module + ".weight"));
      if (updates.base->shape.size() != 2)
        return invalid_argument("tensor '{}': expected a matrix", updates.base->name);
      if (updates.module.ends_with(kWordTable)) {
        words_ = std::move(updates);
      } else if (updates.module.ends_with(kTypeTable)) {
        types_ = std::move(updates);
      } else {
        QUIRE_RETURN_IF_ERROR(add_linear(updates));
      }
    }
    QUIRE_RETURN_IF_ERROR(add_tables());
    const int64_t table_rank = tasks_.rank * (types_.a == nullptr ? 1 : 2);
    const double growth = static_cast<double>(table_rank) / static_cast<double>(tasks_.rank);
    json::object config{{"peft_type", "LORA"}, {"r", tasks_.rank}, {"lora_alpha", tasks_.alpha}};
    config["rank_pattern"] = json::object{{kWordTable, table_rank}};
    config["alpha_pattern"] = json::object{{kWordTable, tasks_.alpha * growth}};
    parts_.config_text = json::serialize(config);
    return std::move(parts_);
  }

 private:
  int64_t num_tasks() const { return std::ssize(tasks_.names); }

  Status add_linear(const Updates& updates) {
    const int64_t outputs = updates.base->shape[0], inputs = updates.base->shape[1];
    QUIRE_RETURN_IF_ERROR(check_updates_shape(*updates.a, {num_tasks(), tasks_.rank, inputs}));
    QUIRE_RETURN_IF_ERROR(check_updates_shape(*updates.b, {num_tasks(), outputs, tasks_.rank}));
    add_slice(*updates.a, updates.module + ".lora_A.weight");
    add_slice(*updates.b, updates.module + ".lora_B.weight");
    return {};
  }

  void add_slice(const RawTensor& all, const std::string& name) {
    RawTensor one = all;
    one.name = "base_model.model." + name;
    one.shape.erase(one.shape.begin());
    const size_t size = all.data.size() / tasks_.names.size();
    one.data = all.data.subspan(task_ * size, size);
    parts_.tensors.push_back(std::move(one));
  }

  // Adds the updates of the tables. Every token has the first type, so the update of that type's
  // row is added to each row of the word table, as one more update of the same rank.
  Status add_tables() {
    if (words_.a == nullptr && types_.a == nullptr) return {};
    if (words_.a == nullptr)
      return invalid_argument("module '{}': expected updates of {} too", types_.module, kWordTable);
    QUIRE_RETURN_IF_ERROR(check_table(words_, words_.base->shape[0], words_.base->shape[1]));
    if (types_.a != nullptr) QUIRE_RETURN_IF_ERROR(check_table(types_, 1, words_.base->shape[1]));
    const int64_t rows = words_.base->shape[0], columns = words_.base->shape[1];
    const int64_t ranks = tasks_.rank * (types_.a == nullptr ? 1 : 2);
    float* const a = add_table(words_.module + ".lora_embedding_A", {ranks, rows});
    float* const b = add_table(words_.module + ".lora_embedding_B", {columns, ranks});
    for (int64_t r = 0; r < ranks; ++r) {
      const bool is_type = r >= tasks_.rank;
      const Updates& from = is_type ? types_ : words_;
      const int64_t rank = r % tasks_.rank;
      for (int64_t row = 0; row < rows; ++row)
        a[r * rows + row] = element(*from.a, (is_type ? 0 : row) * tasks_.rank + rank);
      for (int64_t column = 0; column < columns; ++column)
        b[column * ranks + r] = element(*from.b, rank * columns + column);
    }
    return {};
  }

  Status check_table(const Updates& updates, int64_t rows, int64_t columns) const {
    if (updates.base->shape != std::vector{rows, columns}) {
      return invalid_argument("tensor '{}': expected [{}, {}], got [{}]", updates.base->name, rows,
                              columns, fmt::join(updates.base->shape, ", "));
    }
    QUIRE_RETURN_IF_ERROR(check_updates_shape(*updates.a, {num_tasks(), rows, tasks_.rank}));
    return check_updates_shape(*updates.b, {num_tasks(), tasks_.rank, columns});
  }

  // Returns an element of the task's part of `all`.
  float element(const RawTensor& all, int64_t index) const {
    const int64_t size = all.num_elements() / num_tasks();
    return read_element(all.data.data(), *all.dtype, static_cast<int64_t>(task_) * size + index);
  }

  // Adds a tensor of floats whose memory parts_ owns.
  float* add_table(const std::string& name, std::vector<int64_t> shape) {
    RawTensor tensor{.name = "base_model.model." + name,
                     .type_name = "F32",
                     .dtype = DType::kF32,
                     .shape = std::move(shape)};
    std::vector<float>& floats = parts_.floats.emplace_back(tensor.num_elements());
    tensor.data = std::as_bytes(std::span(floats));
    parts_.tensors.push_back(std::move(tensor));
    return floats.data();
  }

  const TaskAdapters& tasks_;
  const size_t task_;
  Updates words_, types_;
  LoraParts parts_;
};

double number_of(const json::object& object, std::string_view key, double otherwise) {
  const json::value* const value = object.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : otherwise;
}

Status read_names(const json::array& list, TaskAdapters& tasks) {
  for (const json::value& name : list) {
    if (!name.is_string() || name.get_string().empty())
      return invalid_argument("config.json: lora_adaptations: expected names");
    tasks.names.emplace_back(name.get_string());
    if (std::ranges::count(tasks.names, tasks.names.back()) > 1) {
      return invalid_argument(
          "config.json: lora_adaptations: expected different names, got {} twice",
          tasks.names.back());
    }
  }
  if (tasks.names.size() <= kMaxTasks) return {};
  return invalid_argument("config.json: lora_adaptations: expected at most {} tasks, got {}",
                          kMaxTasks, tasks.names.size());
}

}  // namespace

Result<TaskAdapters> read_task_adapters(const ModelFiles& files) {
  TaskAdapters tasks;
  if (files.gguf_name() || !files.contains("config.json")) return tasks;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
  boost::system::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object()) return invalid_argument("config.json: expected a JSON object");
  const json::object& object = value.get_object();
  const json::value* const names = object.if_contains("lora_adaptations");
  if (names == nullptr || !names->is_array() || names->get_array().empty()) return tasks;
  QUIRE_RETURN_IF_ERROR(read_names(names->get_array(), tasks));
  const double rank = number_of(object, "lora_rank", 4);
  tasks.alpha = number_of(object, "lora_alpha", 1);
  if (rank < 1 || rank > kMaxTaskRank || rank != std::floor(rank))
    return invalid_argument("config.json: lora_rank: expected 1 to {}, got {}", kMaxTaskRank, rank);
  if (!(std::fabs(tasks.alpha) <= kMaxTaskAlpha)) {
    return invalid_argument("config.json: lora_alpha: expected at most {}, got {}", kMaxTaskAlpha,
                            tasks.alpha);
  }
  tasks.rank = static_cast<int64_t>(rank);
  tasks.instructions.resize(tasks.names.size());
  const json::value* const instructions = object.if_contains("task_instructions");
  if (instructions == nullptr || !instructions->is_object()) return tasks;
  for (size_t i = 0; i < tasks.names.size(); ++i) {
    const json::value* const one = instructions->get_object().if_contains(tasks.names[i]);
    if (one == nullptr || !one->is_string()) continue;
    tasks.instructions[i] = std::string(one->get_string());
    if (tasks.instructions[i].size() > kMaxInstructionBytes) {
      return invalid_argument("config.json: task_instructions: expected at most {} bytes, got {}",
                              kMaxInstructionBytes, tasks.instructions[i].size());
    }
  }
  return tasks;
}

std::string task_adapter_path(std::string_view folder, std::string_view task) {
  return fmt::format("{}{}{}", folder, kTaskMark, task);
}

std::optional<std::pair<std::string, std::string>> split_task_path(std::string_view path) {
  const size_t at = path.rfind(kTaskMark);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(path.substr(0, at)),
                   std::string(path.substr(at + kTaskMark.size())));
}

Result<LoraFiles> open_task_adapter(const std::string& folder, std::string_view task) {
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open_folder(folder));
  return read_task_adapter(std::move(files), task);
}

Result<LoraFiles> read_task_adapter(ModelFiles files, std::string_view task) {
  const std::string folder = files.source();
  QUIRE_ASSIGN_OR_RETURN(const TaskAdapters tasks, read_task_adapters(files));
  const auto found = std::ranges::find(tasks.names, task);
  if (found == tasks.names.end()) {
    return not_found(
        "{}: config.json: lora_adaptations: expected {} among them, got {}", folder, task,
        tasks.names.empty() ? "none" : fmt::format("{}", fmt::join(tasks.names, ", ")));
  }
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(files));
  TaskReader reader(tasks, static_cast<size_t>(found - tasks.names.begin()));
  Result<LoraParts> parts = reader.run(source);
  if (!parts.ok()) return parts.status().with_context(folder);
  return LoraFiles::make(std::move(files), std::move(*parts));
}

}  // namespace quire
