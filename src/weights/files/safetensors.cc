#include "weights/files/safetensors.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <optional>

#include "weights/tensors/file_text.h"

namespace quire {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDims = 16;

struct TypeInfo {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

constexpr std::array<TypeInfo, 22> kTypes{{
    {"BOOL", 8, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::kU8},
    {"I8", 8, DType::kI8},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"U32", 32, std::nullopt},
    {"F32", 32, DType::kF32},
    {"C64", 64, std::nullopt},
    {"F64", 64, std::nullopt},
    {"I64", 64, DType::kI64},
    {"U64", 64, std::nullopt},
}};

const TypeInfo* find_type(std::string_view name) {
  const auto* it = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeInfo& type) { return type.name == name; });
  return it == kTypes.end() ? nullptr : it;
}

struct Entry {
  std::string name;
  const TypeInfo* type = nullptr;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_shape = false;
  bool has_offsets = false;
};

// HeaderHandler takes the header's JSON events and accepts only the structure that the format
// allows. So nothing is allocated for anything else: the structure bounds the depth, and the
// header's size bounds the memory.
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  std::vector<Entry> entries;
  std::string problem;  // why the events were refused

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTopValue && key_ == "__metadata__") {
      if (has_metadata_) return refuse(ec, "__metadata__ occurs twice");
      has_metadata_ = true;
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTopValue) {
      entries.emplace_back().name = key_;
      place_ = Place::kTensor;
    } else {
      return refuse(ec, "unexpected object");
    }
    return true;
  }
  bool on_object_end(std::size_t, error_code& ec) {
    if (place_ == Place::kTensor) {
      const Entry& entry = entries.back();
      if (entry.type == nullptr) return refuse(ec, "no dtype");
      if (!entry.has_shape) return refuse(ec, "no shape");
      if (!entry.has_offsets) return refuse(ec, "no data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }
  bool on_array_begin(error_code& ec) {
    if (place_ == Place::kShape) {
      place_ = Place::kShapeItems;
    } else if (place_ == Place::kOffsets) {
      place_ = Place::kOffsetItems;
    } else {
      return refuse(ec, "unexpected array");
    }
    return true;
  }
  bool on_array_end(std::size_t, error_code& ec) {
    Entry& entry = entries.back();
    if (place_ == Place::kOffsetItems && entry.offsets.size() != 2) {
      return refuse(ec, fmt::format("expected 2 data_offsets, got {}", entry.offsets.size()));
    }
    (place_ == Place::kShapeItems ? entry.has_shape : entry.has_offsets) = true;
    place_ = Place::kTensor;
    return true;
  }

  bool on_key_part(string_view part, std::size_t, error_code&) { return append(part); }
  bool on_key(string_view part, std::size_t, error_code& ec) {
    append(part);
    std::string key = std::exchange(buffer_, {});
    if (place_ == Place::kTop) {
      key_ = std::move(key);
      place_ = Place::kTopValue;
    } else if (place_ == Place::kMetadata) {
      place_ = Place::kMetadataValue;
    } else {
      return tensor_key(key, ec);
    }
    return true;
  }
  bool on_string_part(string_view part, std::size_t, error_code&) { return append(part); }
  bool on_string(string_view part, std::size_t, error_code& ec) {
    append(part);
    const std::string text = std::exchange(buffer_, {});
    if (place_ == Place::kMetadataValue) {
      place_ = Place::kMetadata;
      return true;
    }
    if (place_ != Place::kType) return refuse(ec, "unexpected string");
    entries.back().type = find_type(text);
    if (entries.back().type == nullptr) {
      return refuse(ec, fmt::format("unknown dtype '{}'", text.substr(0, 32)));
    }
    place_ = Place::kTensor;
    return true;
  }

  bool on_number_part(string_view, error_code&) { return true; }
  bool on_uint64(uint64_t number, string_view, error_code& ec) { return on_number(number, ec); }
  bool on_int64(int64_t number, string_view, error_code& ec) {
    if (number < 0) return refuse(ec, fmt::format("negative number {}", number));
    return on_number(static_cast<uint64_t>(number), ec);
  }
  bool on_double(double number, string_view, error_code& ec) {
    return refuse(ec, fmt::format("expected an integer, got {}", number));
  }
  bool on_bool(bool, error_code& ec) { return refuse(ec, "unexpected true or false"); }
  bool on_null(error_code& ec) { return refuse(ec, "unexpected null"); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kTensor,
    kType,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kEnd
  };

  bool append(string_view part) {
    buffer_.append(part.data(), part.size());
    return true;
  }

  bool tensor_key(std::string_view key, error_code& ec) {
    const Entry& entry = entries.back();
    const bool repeated = (key == "dtype" && entry.type != nullptr) ||
                          (key == "shape" && entry.has_shape) ||
                          (key == "data_offsets" && entry.has_offsets);
    if (repeated) return refuse(ec, fmt::format("{} occurs twice", key));
    if (key == "dtype") {
      place_ = Place::kType;
    } else if (key == "shape") {
      place_ = Place::kShape;
    } else if (key == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return refuse(
          ec, fmt::format("expected dtype, shape or data_offsets, got '{}'", key.substr(0, 64)));
    }
    return true;
  }

  bool on_number(uint64_t number, error_code& ec) {
    if (place_ == Place::kShapeItems) {
      entries.back().shape.push_back(number);
      if (entries.back().shape.size() > kMaxDims) {
        return refuse(ec, fmt::format("expected at most {} dimensions", kMaxDims));
      }
    } else if (place_ == Place::kOffsetItems) {
      entries.back().offsets.push_back(number);
      if (entries.back().offsets.size() > 2) return refuse(ec, "expected 2 data_offsets, got more");
    } else {
      return refuse(ec, fmt::format("unexpected number {}", number));
    }
    return true;
  }

  bool refuse(error_code& ec, std::string_view why) {
    const bool in_top_value = place_ == Place::kTopValue && key_ != "__metadata__";
    const bool in_tensor = place_ >= Place::kTensor && place_ != Place::kEnd;
    if (in_tensor || in_top_value) {
      problem = fmt::format("tensor '{}': {}", key_.substr(0, 256), why);
    } else if (place_ == Place::kStart) {
      problem = fmt::format("expected an object: {}", why);
    } else {
      problem = std::string(why);
    }
    ec = boost::json::error::exception;  // any error stops the parser; `problem` is the message
    return false;
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::string buffer_;
  bool has_metadata_ = false;
};

uint64_t read_length(std::span<const std::byte> file) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(std::to_integer<uint8_t>(file[i])) << (8 * i);
  }
  return length;
}

Result<std::vector<Entry>> parse_header(std::string_view file_name, std::string_view header) {
  boost::json::parse_options options;
  options.max_depth = 4;
  boost::json::basic_parser<HeaderHandler> parser(options);
  boost::json::error_code error;
  size_t used = 0;
  try {
    used = parser.write_some(false, header.data(), header.size(), error);
  } catch (const std::exception& e) {
    return data_loss("{}: header: {}", file_name, e.what());
  }
  HeaderHandler& handler = parser.handler();
  if (!handler.problem.empty()) return data_loss("{}: header: {}", file_name, handler.problem);
  if (error) {
    return data_loss("{}: header is not valid JSON at byte {}: {}", file_name, used,
                     error.message());
  }
  // The format pads the header with spaces.
  if (header.find_first_not_of(" \n\r\t", used) != std::string_view::npos) {
    return data_loss("{}: header has text after its end, at byte {}", file_name, used);
  }
  return std::move(handler.entries);
}

Result<RawTensor> make_tensor(std::string_view file_name, Entry& entry,
                              std::span<const std::byte> data) {
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end > data.size()) {
    return data_loss("{}: tensor '{}': expected offsets within {} bytes of data, got [{}, {})",
                     file_name, entry.name, data.size(), begin, end);
  }
  uint64_t bits = entry.type->bits;
  for (const uint64_t extent : entry.shape) {
    if (extent > static_cast<uint64_t>(INT64_MAX) || __builtin_mul_overflow(bits, extent, &bits)) {
      return data_loss("{}: tensor '{}': shape [{}] overflows", file_name, entry.name,
                       fmt::join(entry.shape, ", "));
    }
  }
  if (bits % 8 != 0 || bits / 8 != end - begin) {
    return data_loss("{}: tensor '{}': shape [{}] of {} needs {} bytes, got {}", file_name,
                     entry.name, fmt::join(entry.shape, ", "), entry.type->name, bits / 8,
                     end - begin);
  }
  return RawTensor{.name = std::move(entry.name),
                   .type_name = entry.type->name,
                   .dtype = entry.type->dtype,
                   .shape = {entry.shape.begin(), entry.shape.end()},
                   .data = data.subspan(begin, end - begin)};
}

// Checks that every byte of the data belongs to exactly one tensor, as the format requires.
Status check_tiling(std::string_view file_name, const std::vector<Entry>& entries,
                    uint64_t data_bytes) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  uint64_t reached = 0;
  for (const Entry* entry : order) {
    if (entry->offsets[0] < reached) {
      return data_loss("{}: tensor '{}' overlaps another one: it begins at {}, expected {}",
                       file_name, entry->name, entry->offsets[0], reached);
    }
    if (entry->offsets[0] > reached) {
      return data_loss("{}: tensor '{}' leaves a hole: it begins at {}, expected {}", file_name,
                       entry->name, entry->offsets[0], reached);
    }
    reached = entry->offsets[1];
  }
  if (reached != data_bytes) {
    return data_loss("{}: expected {} bytes of tensor data, got {}", file_name, reached,
                     data_bytes);
  }
  return {};
}

Result<std::vector<RawTensor>> parse_file(std::string_view file_name,
                                          std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return data_loss("{}: expected at least {} bytes, got {}", file_name, kLengthBytes,
                     file.size());
  }
  const uint64_t length = read_length(file);
  if (length > kMaxHeaderBytes) {
    return data_loss("{}: header length {} exceeds the limit of {}", file_name, length,
                     kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    return data_loss("{}: header length {} exceeds the file of {} bytes (truncated?)", file_name,
                     length, file.size());
  }
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + length);
  QUIRE_ASSIGN_OR_RETURN(std::vector<Entry> entries, parse_header(file_name, header));

  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].name == entries[i - 1].name) {
      return data_loss("{}: tensor '{}' occurs twice", file_name, entries[i].name);
    }
  }
  // Bounds are checked first, so that the error for a truncated file does not speak of a hole.
  const Status tiling = check_tiling(file_name, entries, data.size());
  std::vector<RawTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    QUIRE_ASSIGN_OR_RETURN(RawTensor tensor, make_tensor(file_name, entry, data));
    tensors.push_back(std::move(tensor));
  }
  QUIRE_RETURN_IF_ERROR(tiling);
  return tensors;
}

Result<SafetensorsIndex> parse_index(std::string_view text) {
  constexpr std::string_view kName = "model.safetensors.index.json";
  boost::json::parse_options options;
  options.max_depth = 16;
  boost::json::error_code error;
  boost::json::value root;
  try {
    root = boost::json::parse({text.data(), text.size()}, error, {}, options);
  } catch (const std::exception& e) {
    return data_loss("{}: {}", kName, e.what());
  }
  if (error) return data_loss("{}: not valid JSON: {}", kName, error.message());
  const boost::json::object* object = root.if_object();
  const boost::json::value* map = object == nullptr ? nullptr : object->if_contains("weight_map");
  if (map == nullptr || !map->is_object())
    return data_loss("{}: expected an object weight_map", kName);
  SafetensorsIndex index;
  for (const auto& [key, value] : map->get_object()) {
    if (!value.is_string())
      return data_loss("{}: shard of '{}' is not a string", kName, std::string(key));
    std::string shard(value.get_string());
    const bool plain = !shard.empty() && shard.front() != '.' &&
                       shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      return data_loss("{}: expected a plain file name for '{}', got '{}'", kName, std::string(key),
                       shard.substr(0, 256));
    }
    index.shard_of.emplace(std::string(key), std::move(shard));
  }
  if (index.shard_of.empty()) return data_loss("{}: weight_map is empty", kName);
  return index;
}

}  // namespace

Result<std::vector<RawTensor>> parse_safetensors(std::string_view file_name,
                                                 std::span<const std::byte> file) {
  Result<std::vector<RawTensor>> parsed = parse_file(file_name, file);
  if (!parsed.ok()) return one_line(parsed.status());
  return parsed;
}

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text) {
  Result<SafetensorsIndex> parsed = parse_index(text);
  if (!parsed.ok()) return one_line(parsed.status());
  return parsed;
}

}  // namespace quire
