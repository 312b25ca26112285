#include "weights/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "weights/gguf/ggml_types.h"
#include "weights/tensors/file_text.h"

namespace quire {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 1024;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

// Returns the smallest size of an entry: an empty key, a type and one byte. For a tensor it is an
// empty name, the number of dimensions (none), a type and an offset.
uint64_t min_metadata_bytes(const GgufCursor& cursor) { return cursor.size_bytes() + 4 + 1; }
uint64_t min_tensor_info_bytes(const GgufCursor& cursor) { return cursor.size_bytes() + 4 + 4 + 8; }

struct TensorInfo {
  std::string_view name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // outermost first
  uint64_t offset = 0;         // from the start of the data
  uint64_t size_bytes = 0;
};

Status set_size(std::string_view file_name, TensorInfo& info) {
  const uint64_t row = info.shape.empty() ? 1 : static_cast<uint64_t>(info.shape.back());
  if (row % info.type->block_elements != 0) {
    return data_loss("{}: tensor '{}': rows of {} elements, expected a multiple of {} for {}",
                     file_name, info.name, row, info.type->block_elements, info.type->name);
  }
  uint64_t count = 1;
  bool overflow = false;
  for (const int64_t extent : info.shape) {
    overflow = overflow || __builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count);
  }
  overflow = overflow || __builtin_mul_overflow(count / info.type->block_elements,
                                                uint64_t{info.type->block_bytes}, &info.size_bytes);
  if (overflow || count > static_cast<uint64_t>(INT64_MAX)) {
    return data_loss("{}: tensor '{}': shape [{}] overflows", file_name, info.name,
                     fmt::join(info.shape, ", "));
  }
  return {};
}

Result<TensorInfo> read_tensor_info(GgufCursor& cursor) {
  const std::string_view file_name = cursor.file_name();
  TensorInfo info;
  QUIRE_ASSIGN_OR_RETURN(info.name, cursor.string("a tensor name", kMaxTensorNameBytes));
  if (info.name.empty() || !is_valid_utf8(info.name)) {
    return data_loss("{}: expected a tensor name in UTF-8, got '{}'", file_name, info.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t num_dims, cursor.number<uint32_t>(info.name));
  if (num_dims > kMaxDims) {
    return data_loss("{}: tensor '{}': expected at most {} dimensions, got {}", file_name,
                     info.name, kMaxDims, num_dims);
  }
  for (uint32_t i = 0; i < num_dims; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t extent, cursor.size(info.name));
    if (extent > static_cast<uint64_t>(INT64_MAX)) {
      return data_loss("{}: tensor '{}': dimension {} overflows", file_name, info.name, extent);
    }
    info.shape.push_back(static_cast<int64_t>(extent));
  }
  std::reverse(info.shape.begin(), info.shape.end());
  QUIRE_ASSIGN_OR_RETURN(const uint32_t type, cursor.number<uint32_t>(info.name));
  info.type = find_ggml_type(type);
  if (info.type == nullptr) {
    return data_loss("{}: tensor '{}': unknown ggml type {}", file_name, info.name, type);
  }
  if (info.type->block_elements == 0) {
    return unimplemented("{}: tensor '{}': type {} was withdrawn from GGUF", file_name, info.name,
                         info.type->name);
  }
  QUIRE_ASSIGN_OR_RETURN(info.offset, cursor.number<uint64_t>(info.name));
  QUIRE_RETURN_IF_ERROR(set_size(file_name, info));
  return info;
}

Result<uint64_t> read_alignment(std::string_view file_name, const GgufFile& file) {
  const GgufValue* value = file.find("general.alignment");
  if (value == nullptr) return kDefaultAlignment;
  const std::optional<int64_t> alignment = value->as_int();
  if (!alignment || *alignment <= 0 || static_cast<uint64_t>(*alignment) > kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
    return data_loss("{}: general.alignment: expected a power of two up to {}, got {}", file_name,
                     kMaxAlignment, alignment ? fmt::to_string(*alignment) : "another type");
  }
  return static_cast<uint64_t>(*alignment);
}

Status check_place(std::string_view file_name, const TensorInfo& info, uint64_t alignment,
                   uint64_t data_bytes) {
  if (info.offset % alignment != 0) {
    return data_loss("{}: tensor '{}': offset {} is not a multiple of {}", file_name, info.name,
                     info.offset, alignment);
  }
  if (info.offset > data_bytes || info.size_bytes > data_bytes - info.offset) {
    return data_loss(
        "{}: tensor '{}': {} bytes at offset {} exceed the {} bytes of data (truncated?)",
        file_name, info.name, info.size_bytes, info.offset, data_bytes);
  }
  return {};
}

Status check_overlaps(std::string_view file_name, const std::vector<TensorInfo>& infos) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& info : infos) {
    if (info.size_bytes > 0) order.push_back(&info);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->size_bytes) {
      return data_loss("{}: tensors '{}' and '{}' overlap", file_name, order[i - 1]->name,
                       order[i]->name);
    }
  }
  return {};
}

Result<uint32_t> read_version(GgufCursor& cursor) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t magic, cursor.number<uint32_t>("the magic"));
  if (magic != 0x46554747u) {  // "GGUF"
    return data_loss("{}: expected the magic GGUF, got {:#010x}", cursor.file_name(), magic);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t version, cursor.number<uint32_t>("the version"));
  if (version >= 1 && version <= 3) return version;
  if (version != 0 && (version & 0xffffu) == 0) {
    return unimplemented("{}: big-endian GGUF is not supported", cursor.file_name());
  }
  return data_loss("{}: expected GGUF version 1 to 3, got {}", cursor.file_name(), version);
}

Result<std::map<std::string_view, GgufValue>> read_metadata(GgufCursor& cursor, uint64_t count) {
  std::map<std::string_view, GgufValue> metadata;
  GgufValueReader reader(cursor);
  for (uint64_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view key,
                           cursor.string("a metadata key", kMaxKeyBytes));
    if (key.empty() || !is_valid_utf8(key)) {
      return data_loss("{}: expected a metadata key in UTF-8, got '{}'", cursor.file_name(), key);
    }
    QUIRE_ASSIGN_OR_RETURN(GgufValue value, reader.read(key));
    if (!metadata.emplace(key, std::move(value)).second) {
      return data_loss("{}: metadata key '{}' occurs twice", cursor.file_name(), key);
    }
  }
  return metadata;
}

Result<std::vector<TensorInfo>> read_tensor_infos(GgufCursor& cursor, uint64_t count) {
  std::vector<TensorInfo> infos;
  infos.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(TensorInfo info, read_tensor_info(cursor));
    infos.push_back(std::move(info));
  }
  std::sort(infos.begin(), infos.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  for (size_t i = 1; i < infos.size(); ++i) {
    if (infos[i].name == infos[i - 1].name) {
      return data_loss("{}: tensor '{}' occurs twice", cursor.file_name(), infos[i].name);
    }
  }
  return infos;
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::string_view file_name, std::span<const std::byte> file) {
  Result<GgufFile> parsed = parse_all(file_name, file);
  if (!parsed.ok()) return one_line(parsed.status());
  return parsed;
}

Result<GgufFile> GgufFile::parse_all(std::string_view file_name, std::span<const std::byte> bytes) {
  GgufCursor cursor(file_name, bytes);
  GgufFile file;
  QUIRE_ASSIGN_OR_RETURN(file.version_, read_version(cursor));
  if (file.version_ == 1) cursor.use_32_bit_sizes();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_tensors, cursor.size("the tensor count"));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_values, cursor.size("the metadata count"));
  if (num_values > cursor.remaining() / min_metadata_bytes(cursor)) {
    return data_loss("{}: {} metadata values do not fit into {} bytes", file_name, num_values,
                     cursor.remaining());
  }
  QUIRE_ASSIGN_OR_RETURN(file.metadata_, read_metadata(cursor, num_values));
  if (num_tensors > cursor.remaining() / min_tensor_info_bytes(cursor)) {
    return data_loss("{}: {} tensors do not fit into {} bytes", file_name, num_tensors,
                     cursor.remaining());
  }
  if (const GgufValue* parts = file.find("split.count"); parts != nullptr && parts->as_int() > 1) {
    return unimplemented("{}: one part of a split model; merge the parts into one file", file_name);
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos, read_tensor_infos(cursor, num_tensors));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t alignment, read_alignment(file_name, file));

  // A file of metadata only (a vocabulary) may end before the padding.
  const uint64_t data_begin =
      std::min((cursor.position() + alignment - 1) / alignment * alignment, uint64_t{bytes.size()});
  const std::span<const std::byte> data = bytes.subspan(data_begin);
  for (const TensorInfo& info : infos) {
    QUIRE_RETURN_IF_ERROR(check_place(file_name, info, alignment, data.size()));
  }
  QUIRE_RETURN_IF_ERROR(check_overlaps(file_name, infos));
  file.tensors_.reserve(infos.size());
  for (TensorInfo& info : infos) {
    file.tensors_.push_back({.name = std::string(info.name),
                             .type_name = info.type->name,
                             .dtype = info.type->dtype,
                             .shape = std::move(info.shape),
                             .data = data.subspan(info.offset, info.size_bytes)});
  }
  return file;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

}  // namespace quire
