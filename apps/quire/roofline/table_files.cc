#include "quire/roofline/table_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/text_fields.h"
#include "roofline/hardware/builtin_tables.h"

namespace quire::roofline {
namespace {

constexpr size_t kMaxTableBytes = size_t{1} << 30;

struct Samples {
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
  std::vector<ExpertsSample> experts;
};

template <typename Sample>
Status append(Result<std::vector<Sample>> read, std::vector<Sample>& samples) {
  QUIRE_RETURN_IF_ERROR(read.status());
  samples.insert(samples.end(), read->begin(), read->end());
  return {};
}

// `named` means that the user named this very file, so it is an error when it is not a table.
Status add_table(const std::string& text, const std::string& where, bool named, Samples& samples) {
  const std::string_view head = std::string_view(text).substr(0, text.find('\n'));
  const auto has = [head](std::string_view column) {
    return head.find(column) != std::string_view::npos;
  };
  if (has("moe_dtype")) return append(read_experts_csv(text, where), samples.experts);
  // Tables of whole modules (mla_dtype) and of mixed launches (n_decode) do not measure single
  // operators.
  const bool whole = has("mla_dtype") || has("n_decode");
  if (has("gemm_dtype") && !whole) return append(read_gemm_csv(text, where), samples.gemm);
  if (has("num_key_value_heads") && !whole) {
    return append(read_attention_csv(text, where), samples.attention);
  }
  if (!named) return {};
  return invalid_argument(
      "{}: expected a table with the column gemm_dtype, num_key_value_heads or moe_dtype", where);
}

Status read_table(const std::string& path, bool named, Samples& samples) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxTableBytes));
  return add_table(text, path, named, samples);
}

// Returns the tables of a folder in the order of their names.
Result<std::vector<std::string>> tables_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().string();
    if (name.ends_with(".csv") || name.ends_with(".csv.gz")) files.push_back(name);
  }
  if (error) return not_found("{}: {}", folder, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<Fidelity> fidelity_of(std::string_view name, std::span<const std::string> paths,
                             const Hardware& hardware) {
  if (name != "auto") return parse_fidelity(name);
  const bool any =
      !paths.empty() || !hardware.table_path.empty() || has_builtin_tables(hardware.name);
  return any ? Fidelity::kTable : Fidelity::kAnalytic;
}

Result<std::shared_ptr<const OperatorTables>> load_tables(std::span<const std::string> paths,
                                                          const Hardware& hardware) {
  std::vector<std::string> all(paths.begin(), paths.end());
  if (all.empty() && !hardware.table_path.empty()) all.push_back(hardware.table_path);
  Samples samples;
  if (all.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<BuiltinTable> tables, builtin_tables(hardware.name));
    for (const BuiltinTable& table : tables) {
      QUIRE_RETURN_IF_ERROR(add_table(table.text, table.name, true, samples));
    }
    if (tables.empty()) {
      return invalid_argument(
          "--fidelity table: expected operator times of {} in --tables FILE or FOLDER, or a "
          "table_path in its description",
          hardware.name);
    }
  }
  for (const std::string& path : all) {
    if (!std::filesystem::is_directory(path)) {
      QUIRE_RETURN_IF_ERROR(read_table(path, true, samples));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> files, tables_in(path));
    for (const std::string& file : files) QUIRE_RETURN_IF_ERROR(read_table(file, false, samples));
  }
  if (samples.gemm.empty() && samples.attention.empty() && samples.experts.empty()) {
    return invalid_argument(
        "--fidelity table: expected rows of known operators and types in {}, found none",
        all.front());
  }
  return std::make_shared<const OperatorTables>(hardware, samples.gemm, samples.attention,
                                                samples.experts);
}

}  // namespace quire::roofline
