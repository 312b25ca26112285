// golden_model() opens a model of tests/goldens/models.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "tests/support/test_data.h"
#include "weights/files/model_files.h"

namespace quire::test {

// Aborts the test program if the model cannot be opened.
inline std::shared_ptr<const ModelFiles> golden_model(const std::string& name) {
  const auto path = source_dir() / "tests" / "goldens" / "models" / name;
  Result<ModelFiles> files = ModelFiles::open(path.string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  return std::make_shared<const ModelFiles>(std::move(*files));
}

}  // namespace quire::test
