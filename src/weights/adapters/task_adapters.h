// A checkpoint may bring adapters along, one for each task that it was trained for
// (jina-embeddings-v3): config.json lists the tasks, and tensors hold the updates of all of them,
// as torch's parametrizations save them. A task's adapter is opened like any other, by a path
// "FOLDER#task=NAME".
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
  std::vector<std::string> names = {};         // in the order of the tensors; empty: there are none
  std::vector<std::string> instructions = {};  // what stands before each text of a task; may be ""
  int64_t rank = 0;
  double alpha = 0.0;
};

// kInvalidArgument: config.json contradicts itself. Without such a file there are none.
Result<TaskAdapters> read_task_adapters(const ModelFiles& files);

std::string task_adapter_path(std::string_view folder, std::string_view task);
// Returns folder and task, or nothing where the path is another adapter's.
std::optional<std::pair<std::string, std::string>> split_task_path(std::string_view path);

// kNotFound: the folder has no such task. kInvalidArgument: tensors do not fit each other. Their bytes
// are borrowed from the folder's files, which the result owns, but for those of embeddings.
Result<LoraFiles> open_task_adapter(const std::string& folder, std::string_view task);
Result<LoraFiles> read_task_adapter(ModelFiles files, std::string_view task);

}  // namespace quire
