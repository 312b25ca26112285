#include "models/vision/vision_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/config_fields.h"
#include "models/vision/tower_reader.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

using ReadTower = void (*)(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
struct TowerFamily {
  std::string_view model_type;
  ReadTower read;
};
constexpr TowerFamily kTowers[] = {
    {"llava", read_llava},          {"llava_next", read_llava_next}, {"mistral3", read_mistral3},
    {"qwen2_vl", read_qwen_vl},     {"qwen2_5_vl", read_qwen_vl},    {"qwen3_vl", read_qwen_vl},
    {"qwen3_vl_moe", read_qwen_vl}, {"qwen3_5", read_qwen_vl},       {"qwen3_5_moe", read_qwen_vl},
    {"gemma3", read_gemma3},        {"idefics3", read_idefics3},     {"smolvlm", read_idefics3},
    {"internvl", read_internvl},    {"gemma4", read_gemma4},         {"mllama", read_mllama},
};

// Reads three numbers of preprocessor_config.json.
std::array<float, 3> read_channels(const ConfigReader& reader, std::string_view key,
                                   std::array<float, 3> default_values, bool is_divisor) {
  const std::vector<double> numbers = reader.numbers(key);
  if (numbers.empty()) return default_values;
  std::array<float, 3> channels = default_values;
  if (numbers.size() != channels.size()) {
    reader.fail(fmt::format("{}: expected 3 numbers, got {}", key, numbers.size()));
    return channels;
  }
  for (size_t i = 0; i < channels.size(); ++i) {
    channels[i] = static_cast<float>(numbers[i]);
    if (!std::isfinite(numbers[i]) || (is_divisor && channels[i] <= 0.0f))
      reader.fail(fmt::format("{}: expected finite numbers above 0, got {}", key, numbers[i]));
  }
  return channels;
}

// Reads the most cells of a picture, whose patches must be those of the tower.
void read_cell_budget(const ConfigReader& reader, VisionSpec& vision) {
  const auto check = [&](std::string_view key, int32_t expected) {
    const int64_t value = reader.integer(key, {1, 1 << 16}, expected);
    if (value != expected) {
      reader.fail(
          fmt::format("{}: expected {}, as the tower has it, got {}", key, expected, value));
    }
  };
  check("patch_size", vision.patch_size);
  check("pooling_kernel_size", vision.merge_size);
  vision.max_cells =
      static_cast<int32_t>(reader.integer("max_soft_tokens", {1, VisionSpec::kMaxCells}, 280));
}

// Reads how large a picture of any size may be. A tower sees all of it at once, and its memory
// grows faster than the picture.
void read_picture_size(const ConfigReader& reader, VisionSpec& vision) {
  if (vision.image_size > 0) return;
  if (vision.fit == PictureFit::kMostCells) return read_cell_budget(reader, vision);
  const bool rounds_up = vision.fit == PictureFit::kRoundedUp;
  constexpr int64_t kMostPixels = int64_t{1} << 30;
  const int64_t of_family = int64_t{28} * 28 * 1280;
  int64_t pixels = reader.integer("max_pixels", {1, kMostPixels}, of_family);
  const std::optional<ConfigReader> size = reader.child("size");
  if (size && !rounds_up) pixels = size->integer("longest_edge", {1, kMostPixels}, pixels);
  const int64_t cell = vision.cell_size();
  if (rounds_up) {
    const int64_t side = size ? size->integer("longest_edge", {1, 1 << 15}, 1024) : 1024;
    pixels = (side + cell - 1) * (side + cell - 1);
  }
  vision.max_cells =
      static_cast<int32_t>(std::clamp<int64_t>(pixels / (cell * cell), 1, VisionSpec::kMaxCells));
}

// Error messages say where a value was read.
struct Source {
  std::string config = "config.json";
  std::string preprocessor = "preprocessor_config.json";
};

Result<std::optional<VisionSpec>> read_objects(const boost::json::object& config,
                                               const boost::json::object& preprocessor,
                                               int64_t hidden_size, const Source& source) {
  Status status;
  const ConfigReader top(config, source.config, {}, status);
  const std::string type = top.string("model_type", "");
  const auto* const family =
      std::find_if(std::begin(kTowers), std::end(kTowers),
                   [&](const TowerFamily& one) { return one.model_type == type; });
  // Some files contain only the language model of such a family.
  const bool is_text =
      family == std::end(kTowers) || (!type.starts_with("llava") && !top.has("vision_config"));
  if (is_text) {
    if (!status.ok()) return status;
    return std::optional<VisionSpec>();
  }
  VisionSpec vision;
  family->read(top, hidden_size, vision);
  if (!status.ok()) return status;
  const ConfigReader of_file(preprocessor, source.preprocessor, {}, status);
  const ConfigReader reader = of_file.child("image_processor").value_or(of_file);
  read_picture_size(reader, vision);
  // In families that center channels, pictures are not normalized further unless the file asks for
  // it.
  if (!vision.centers_channels || reader.boolean("do_normalize", false)) {
    vision.mean = read_channels(reader, "image_mean", vision.mean, false);
    vision.std = read_channels(reader, "image_std", vision.std, true);
  }
  if (!status.ok()) return status;
  return std::optional(std::move(vision));
}

Result<GgufFile> open_gguf(const ModelFiles& files, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
  return GgufFile::parse(name, bytes);
}

}  // namespace

Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size) {
  const Source source;
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_config_object(config, source.config));
  boost::json::object images;
  if (!preprocessor.empty()) {
    QUIRE_ASSIGN_OR_RETURN(images, parse_config_object(preprocessor, source.preprocessor));
  }
  return read_objects(object, images, hidden_size, source);
}

Result<VisionSpec> parse_mmproj(const std::string& name, const GgufFile& mmproj,
                                const GgufFile& model) {
  const Result<MmprojConfig> read = translate_mmproj(mmproj, model);
  if (!read.ok()) return read.status().with_context(name);
  QUIRE_ASSIGN_OR_RETURN(std::optional<VisionSpec> vision,
                         read_objects(read->config, read->preprocessor, read->width, {name, name}));
  QUIRE_CHECK(vision.has_value(), "{} is of a family without towers", name);
  use_mmproj_layout(mmproj, *vision);
  return std::move(*vision);
}

Result<VisionSpec> read_mmproj_vision(const ModelFiles& files) {
  const std::string name = *files.mmproj_name();
  QUIRE_ASSIGN_OR_RETURN(const GgufFile mmproj, open_gguf(files, name));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile model, open_gguf(files, *files.gguf_name()));
  return parse_mmproj(name, mmproj, model);
}

Result<std::string> read_preprocessor(const ModelFiles& files) {
  if (const auto name = files.mmproj_name()) {
    QUIRE_ASSIGN_OR_RETURN(const GgufFile mmproj, open_gguf(files, *name));
    QUIRE_ASSIGN_OR_RETURN(const GgufFile model, open_gguf(files, *files.gguf_name()));
    const Result<MmprojConfig> read = translate_mmproj(mmproj, model);
    if (!read.ok()) return read.status().with_context(*name);
    return boost::json::serialize(read->preprocessor);
  }
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    if (!files.contains(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
    if (!text.empty()) return std::string(text);
  }
  return std::string();
}

Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size) {
  if (files.mmproj_name()) {
    QUIRE_ASSIGN_OR_RETURN(VisionSpec vision, read_mmproj_vision(files));
    return std::optional(std::move(vision));
  }
  if (files.gguf_name() || !files.contains("config.json")) return std::optional<VisionSpec>();
  QUIRE_ASSIGN_OR_RETURN(const std::string_view config, files.text("config.json"));
  QUIRE_ASSIGN_OR_RETURN(const std::string preprocessor, read_preprocessor(files));
  return parse_vision(config, preprocessor, hidden_size);
}

Status limit_image_tokens(int32_t max_tokens, VisionSpec& vision) {
  if (max_tokens == 0 || vision.canvas.any()) return {};
  int32_t least = 1;
  if (!vision.grids.empty()) {
    least = vision.grid_embeddings(vision.grids.front());
    for (const TileGrid& grid : vision.grids) least = std::min(least, vision.grid_embeddings(grid));
  } else if (vision.image_size > 0) {
    least = vision.tile_embeddings();
  }
  if (max_tokens < least) {
    return invalid_argument(
        "--max-image-tokens: expected at least {}, those of this model's smallest picture, got {}",
        least, max_tokens);
  }
  vision.max_tokens = max_tokens;
  vision.max_cells = std::min(vision.max_cells, max_tokens);
  std::erase_if(vision.grids,
                [&](const TileGrid& grid) { return vision.grid_embeddings(grid) > max_tokens; });
  return {};
}

DecoderSpec source_encoder(const VisionSpec& vision) {
  DecoderSpec all = vision.encoder;
  const std::vector<LayerSpec>& more = vision.canvas.global.layers;
  all.layers.insert(all.layers.end(), more.begin(), more.end());
  return all;
}

bool has_tower(const ModelFiles& files, const TensorSource& source) {
  if (files.mmproj_name()) return true;
  const auto is_of_tower = [](const RawTensor& tensor) {
    std::string_view name = tensor.name;
    constexpr std::string_view kModel = "model.";
    if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
    return name.starts_with("visual.") || name.starts_with("vision_tower.") ||
           name.starts_with("vision_model.");
  };
  return std::any_of(source.tensors().begin(), source.tensors().end(), is_of_tower);
}

namespace {

bool is_float(const RawTensor& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
}

// Joins the four bounds of each matrix to one tensor with the matrix's name.
void join_bounds(std::vector<RawTensor>& tensors,
                 std::vector<std::unique_ptr<std::byte[]>>& memory) {
  constexpr std::string_view kFirst = ".input_min";
  constexpr std::string_view kAll[] = {kFirst, ".input_max", ".output_min", ".output_max"};
  const TensorSource source(tensors);
  const auto is_bound = [&](const RawTensor& tensor) {
    return std::any_of(std::begin(kAll), std::end(kAll),
                       [&](std::string_view suffix) { return tensor.name.ends_with(suffix); });
  };
  std::erase_if(tensors, is_bound);
  for (const RawTensor& first : source.tensors()) {
    if (!first.name.ends_with(kFirst)) continue;
    const std::string module = first.name.substr(0, first.name.size() - kFirst.size());
    auto bytes = std::make_unique<std::byte[]>(std::size(kAll) * sizeof(float));
    bool is_whole = true;
    for (size_t i = 0; i < std::size(kAll); ++i) {
      const RawTensor* const tensor = source.find(module + std::string(kAll[i]));
      is_whole = is_whole && tensor != nullptr && is_float(*tensor) && tensor->num_elements() == 1;
      if (!is_whole) break;
      constexpr float kMost = std::numeric_limits<float>::max();
      const float bound = read_element(tensor->data.data(), *tensor->dtype, 0);
      write_element(bytes.get(), DType::kF32, static_cast<int64_t>(i),
                    std::isinf(bound) ? std::copysign(kMost, bound) : bound);
    }
    if (!is_whole) continue;  // the missing tensor is reported when the matrix is loaded
    tensors.push_back({.name = module + ".bounds",
                       .type_name = "F32",
                       .dtype = DType::kF32,
                       .shape = {std::ssize(kAll)},
                       .data = {bytes.get(), std::size(kAll) * sizeof(float)}});
    memory.push_back(std::move(bytes));
  }
}

// A table of rows per axis, [2, P, E], is read as one table of all rows.
void join_axes(RawTensor& tensor) {
  const bool is_table =
      tensor.name.ends_with(".position_embedding_table") || tensor.name == "v.position_embd.weight";
  if (!is_table || tensor.shape.size() != 3) return;
  tensor.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
}

// Keeps the tensors of `out` that are the tower's, under the names of VisionSpec::names.
void name_tensors(const VisionSpec& vision, TowerTensors& out) {
  const auto rename = [](const std::vector<std::string>& names, std::string_view to,
                         std::string& name) {
    for (size_t i = 0; i < names.size(); ++i) {
      const bool is_whole = name == names[i];
      if (names[i].empty() || !(is_whole || name.starts_with(names[i] + "."))) continue;
      name = fmt::format("{}.{}{}", to, i, name.substr(names[i].size()));
      return;
    }
  };
  std::vector<RawTensor> tensors;
  for (RawTensor tensor : out.source.tensors()) {
    std::string& name = tensor.name;
    constexpr std::string_view kModel = "model.";
    if (name.starts_with(kModel)) name.erase(0, kModel.size());
    const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
    if (std::none_of(vision.tensor_prefixes.begin(), vision.tensor_prefixes.end(), begins))
      continue;
    // In files of older tools, names of CLIP and SigLIP contain this part.
    constexpr std::string_view kTower = "vision_tower.", kInner = "vision_model.";
    if (name.starts_with(kTower) &&
        std::string_view(name).substr(kTower.size()).starts_with(kInner))
      name.erase(kTower.size(), kInner.size());
    // In files without another tower, names begin with this part.
    if (name.starts_with(kInner)) name.replace(0, kInner.size(), kTower);
    rename(vision.dense_names, "dense", name);
    rename(vision.dense_norm_names, "dense_norm", name);
    // A vector without a bias is the matrix of a layer with one input, which is 1.
    if (name.starts_with("dense.") && tensor.shape.size() == 1 && !name.ends_with(".bias"))
      tensor.shape.push_back(1);
    if (tensor.shape.size() > 3) {
      int64_t columns = 1;
      for (size_t i = 1; i < tensor.shape.size(); ++i) columns *= tensor.shape[i];
      tensor.shape = {tensor.shape[0], columns};
    }
    const bool is_class = name.ends_with(".class_embedding") || name == "v.class_embd";
    if (is_class && tensor.shape.size() == 1) tensor.shape.insert(tensor.shape.begin(), 1);
    join_axes(tensor);
    tensors.push_back(std::move(tensor));
  }
  join_bounds(tensors, out.memory);
  out.source = TensorSource(std::move(tensors));
}

}  // namespace

Result<TowerTensors> tower_tensors(const VisionSpec& vision, const ModelFiles& files,
                                   const TensorSource& model) {
  TowerTensors tensors;
  if (const auto name = files.mmproj_name()) {
    QUIRE_ASSIGN_OR_RETURN(const GgufFile mmproj, open_gguf(files, *name));
    Result<TowerTensors> read = mmproj_tensors(mmproj);
    if (!read.ok()) return read.status().with_context(*name);
    tensors = std::move(*read);
  } else {
    tensors.source = model;
  }
  name_tensors(vision, tensors);
  return tensors;
}

}  // namespace quire
