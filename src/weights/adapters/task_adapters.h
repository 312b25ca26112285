// A checkpoint may contain adapters, one for each task that it was trained for
// (jina-embeddings-v3): config.json lists the tasks, and each tensor holds the updates of all
// tasks, as torch's parametrizations save them. A task's adapter is opened like any other adapter,
// by the path "FOLDER#task=NAME".
//
//   QUIRE_ASSIGN_OR_RETURN(TaskAdapters tasks, read_task_adapters(files));
//   LoraFiles::open(task_adapter_path("/models/jina-embeddings-v3", tasks.names[0]));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "weights/adapters/lora_files.h"
#include "weights/files/model_files.h"

namespace quire {

struct TaskAdapters {
  // in the order of the tensors; empty if there are no adapters
  std::vector<std::string> names = {};
  std::vector<std::string> instructions = {};  // the text before each input of a task; may be ""
  int64_t rank = 0;
  double alpha = 0.0;
};

// Returns kInvalidArgument if config.json contradicts itself. Without a config.json the result has
// no tasks.
Result<TaskAdapters> read_task_adapters(const ModelFiles& files);

std::string task_adapter_path(std::string_view folder, std::string_view task);
// Returns folder and task, or nullopt if the path does not name a task's adapter.
std::optional<std::pair<std::string, std::string>> split_task_path(std::string_view path);

// Returns kNotFound if the folder has no such task and kInvalidArgument if the tensors do not fit
// each other. The result owns the folder's files. Its tensors borrow their bytes from them, except
// those of embeddings, which are copies.
Result<LoraFiles> open_task_adapter(const std::string& folder, std::string_view task);
Result<LoraFiles> read_task_adapter(ModelFiles files, std::string_view task);

}  // namespace quire
