#include "facade/speculation/quantized_copy.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/log.h"
#include "models/model_config.h"
#include "quantize/quantize_checkpoint.h"
#include "weights/files/tensor_source.h"

namespace quire {

Result<QuantizedCopy> QuantizedCopy::make(const ModelFiles& files,
                                          const ThreadTeamOptions& threads) {
  std::string folder = (std::filesystem::temp_directory_path() / "quire-copy-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return internal_error("{}: cannot be made: {}", folder, std::strerror(errno));
  }
  QuantizedCopy copy{std::filesystem::path(folder)};
  QuantizeOptions options;
  options.output = (copy.folder_ / "model").string();
  QUIRE_ASSIGN_OR_RETURN(options.scheme, parse_write_scheme(kCopyWeights));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(files));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(files, source));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create(threads));
  QUIRE_ASSIGN_OR_RETURN(const QuantizeSummary summary,
                         quantize_checkpoint(files, source, config, team, options));
  if (summary.num_modules == 0) {
    return invalid_argument("{}: expected linear layers of whole groups of 32 inputs, got none",
                            files.source());
  }
  log_info("a copy with 4 bits to draft: {} of {} MB", summary.written_bytes / 1'000'000,
           summary.source_bytes / 1'000'000);
  QUIRE_ASSIGN_OR_RETURN(ModelFiles made, ModelFiles::open_folder(options.output));
  copy.files_ = std::make_shared<const ModelFiles>(std::move(made));
  return copy;
}

QuantizedCopy::~QuantizedCopy() {
  if (folder_.empty()) return;
  std::error_code ignored;  // files that cannot be removed stay in the system's temporary folder
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace quire
