#include "weights/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "weights/file_text.h"
#include "weights/ggml_types.h"

namespace quire {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 1024;
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxMetadataElements = uint64_t{1} << 26;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;        // empty key, type, one byte
constexpr uint64_t kMinTensorInfoBytes = 8 + 4 + 4 + 8;  // empty name, no dimensions, type, offset

enum class ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

// Bytes that one value takes at least.
uint64_t min_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kString:
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kArray:
      return 12;
  }
  return 1;
}

// Reads forward through the file; every step is checked against what remains.
class Cursor {
 public:
  Cursor(std::string_view file_name, std::span<const std::byte> file)
      : file_name_(file_name), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }
  std::string_view file_name() const { return file_name_; }

  template <typename T>
  Result<T> number(std::string_view what) {
    static_assert(std::endian::native == std::endian::little);
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    T out;
    std::memcpy(&out, file_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return out;
  }

  Result<std::string_view> string(std::string_view what, uint64_t max_bytes) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t length, number<uint64_t>(what));
    if (length > max_bytes) {
      return data_loss("{}: {} has a length of {}, expected at most {}", file_name_, what, length,
                       max_bytes);
    }
    if (length > remaining()) return truncated(what, length);
    const std::string_view out(reinterpret_cast<const char*>(file_.data()) + position_, length);
    position_ += length;
    return out;
  }

  Status truncated(std::string_view what, uint64_t needed) const {
    return data_loss("{}: truncated at byte {}: {} needs {} bytes, {} remain", file_name_,
                     position_, what, needed, remaining());
  }

 private:
  std::string_view file_name_;
  std::span<const std::byte> file_;
  uint64_t position_ = 0;
};

// Metadata values of one file; counts elements over all of them, so that small lies cannot add up.
class ValueReader {
 public:
  explicit ValueReader(Cursor& cursor) : cursor_(cursor) {}

  Result<GgufValue> read(std::string_view key) {
    key_ = key;
    QUIRE_ASSIGN_OR_RETURN(const ValueType type, read_type());
    return read_value(type, 0);
  }

 private:
  Result<ValueType> read_type() {
    QUIRE_ASSIGN_OR_RETURN(const uint32_t type, cursor_.number<uint32_t>(key_));
    if (type > static_cast<uint32_t>(ValueType::kF64)) {
      return data_loss("{}: {}: unknown value type {}", cursor_.file_name(), key_, type);
    }
    return static_cast<ValueType>(type);
  }

  template <typename T>
  Result<GgufValue> scalar() {
    QUIRE_ASSIGN_OR_RETURN(const T number, cursor_.number<T>(key_));
    return wrap(number);
  }

  template <typename T>
  static GgufValue wrap(T number) {
    if constexpr (std::is_floating_point_v<T>) {
      return GgufValue{static_cast<double>(number)};
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return GgufValue{number};
      }
      return GgufValue{static_cast<int64_t>(number)};
    } else {
      return GgufValue{static_cast<int64_t>(number)};
    }
  }

  Result<bool> boolean() {
    QUIRE_ASSIGN_OR_RETURN(const uint8_t byte, cursor_.number<uint8_t>(key_));
    if (byte > 1) {
      return data_loss("{}: {}: expected a bool of 0 or 1, got {}", cursor_.file_name(), key_,
                       byte);
    }
    return byte == 1;
  }

  Result<GgufValue> read_value(ValueType type, int depth) {
    switch (type) {
      case ValueType::kU8:
        return scalar<uint8_t>();
      case ValueType::kI8:
        return scalar<int8_t>();
      case ValueType::kU16:
        return scalar<uint16_t>();
      case ValueType::kI16:
        return scalar<int16_t>();
      case ValueType::kU32:
        return scalar<uint32_t>();
      case ValueType::kI32:
        return scalar<int32_t>();
      case ValueType::kF32:
        return scalar<float>();
      case ValueType::kU64:
        return scalar<uint64_t>();
      case ValueType::kI64:
        return scalar<int64_t>();
      case ValueType::kF64:
        return scalar<double>();
      case ValueType::kArray:
        return array(depth + 1);
      case ValueType::kBool: {
        QUIRE_ASSIGN_OR_RETURN(const bool value, boolean());
        return GgufValue{value};
      }
      case ValueType::kString: {
        QUIRE_ASSIGN_OR_RETURN(const std::string_view text,
                               cursor_.string(key_, cursor_.remaining()));
        return GgufValue{text};
      }
    }
    return internal_error("{}: value type", cursor_.file_name());
  }

  template <typename T, typename Stored>
  Result<GgufValue> numbers(uint64_t count) {
    std::vector<Stored> out;
    out.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const T number, cursor_.number<T>(key_));
      out.push_back(static_cast<Stored>(number));
    }
    return GgufValue{std::move(out)};
  }

  Result<GgufValue> strings(uint64_t count) {
    std::vector<std::string_view> out;
    out.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view text,
                             cursor_.string(key_, cursor_.remaining()));
      out.push_back(text);
    }
    return GgufValue{std::move(out)};
  }

  Result<GgufValue> booleans(uint64_t count) {
    std::vector<uint8_t> out;
    out.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const bool value, boolean());
      out.push_back(value ? 1 : 0);
    }
    return GgufValue{std::move(out)};
  }

  Result<GgufValue> arrays(uint64_t count, int depth) {
    GgufValue::Array
        out;  // grows as it is read: an element takes more memory than it takes in the file
    for (uint64_t i = 0; i < count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(GgufValue value, array(depth + 1));
      out.push_back(std::move(value));
    }
    return GgufValue{std::move(out)};
  }

  Result<GgufValue> array(int depth) {
    if (depth > kMaxArrayDepth) {
      return data_loss("{}: {}: arrays nest deeper than {}", cursor_.file_name(), key_,
                       kMaxArrayDepth);
    }
    QUIRE_ASSIGN_OR_RETURN(const ValueType type, read_type());
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, cursor_.number<uint64_t>(key_));
    if (count > cursor_.remaining() / min_bytes(type)) {
      return data_loss("{}: {}: array of {} values does not fit into the remaining {} bytes",
                       cursor_.file_name(), key_, count, cursor_.remaining());
    }
    num_elements_ += count;
    if (num_elements_ > kMaxMetadataElements) {
      return data_loss("{}: {}: metadata holds more than {} array elements", cursor_.file_name(),
                       key_, kMaxMetadataElements);
    }
    switch (type) {
      case ValueType::kU8:
        return numbers<uint8_t, int64_t>(count);
      case ValueType::kI8:
        return numbers<int8_t, int64_t>(count);
      case ValueType::kU16:
        return numbers<uint16_t, int64_t>(count);
      case ValueType::kI16:
        return numbers<int16_t, int64_t>(count);
      case ValueType::kU32:
        return numbers<uint32_t, int64_t>(count);
      case ValueType::kI32:
        return numbers<int32_t, int64_t>(count);
      case ValueType::kI64:
        return numbers<int64_t, int64_t>(count);
      case ValueType::kU64:
        return numbers<uint64_t, uint64_t>(count);
      case ValueType::kF32:
        return numbers<float, double>(count);
      case ValueType::kF64:
        return numbers<double, double>(count);
      case ValueType::kBool:
        return booleans(count);
      case ValueType::kString:
        return strings(count);
      case ValueType::kArray:
        return arrays(count, depth);
    }
    return internal_error("{}: value type", cursor_.file_name());
  }

  Cursor& cursor_;
  std::string_view key_;
  uint64_t num_elements_ = 0;
};

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

Result<TensorInfo> read_tensor_info(Cursor& cursor) {
  const std::string_view file_name = cursor.file_name();
  TensorInfo info;
  QUIRE_ASSIGN_OR_RETURN(info.name, cursor.string("a tensor name", kMaxTensorNameBytes));
  if (info.name.empty() || !is_utf8(info.name)) {
    return data_loss("{}: expected a tensor name in UTF-8, got '{}'", file_name, info.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t num_dims, cursor.number<uint32_t>(info.name));
  if (num_dims > kMaxDims) {
    return data_loss("{}: tensor '{}': expected at most {} dimensions, got {}", file_name,
                     info.name, kMaxDims, num_dims);
  }
  for (uint32_t i = 0; i < num_dims; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t extent, cursor.number<uint64_t>(info.name));
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

Result<uint32_t> read_version(Cursor& cursor) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t magic, cursor.number<uint32_t>("the magic"));
  if (magic != 0x46554747u) {  // "GGUF"
    return data_loss("{}: expected the magic GGUF, got {:#010x}", cursor.file_name(), magic);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t version, cursor.number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if (version == 1) {
    return unimplemented("{}: GGUF version 1 is not supported; convert it to version 3",
                         cursor.file_name());
  }
  if (version != 0 && (version & 0xffffu) == 0) {
    return unimplemented("{}: big-endian GGUF is not supported", cursor.file_name());
  }
  return data_loss("{}: expected GGUF version 2 or 3, got {}", cursor.file_name(), version);
}

Result<std::map<std::string_view, GgufValue>> read_metadata(Cursor& cursor, uint64_t count) {
  std::map<std::string_view, GgufValue> metadata;
  ValueReader reader(cursor);
  for (uint64_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view key,
                           cursor.string("a metadata key", kMaxKeyBytes));
    if (key.empty() || !is_utf8(key)) {
      return data_loss("{}: expected a metadata key in UTF-8, got '{}'", cursor.file_name(), key);
    }
    QUIRE_ASSIGN_OR_RETURN(GgufValue value, reader.read(key));
    if (!metadata.emplace(key, std::move(value)).second) {
      return data_loss("{}: metadata key '{}' occurs twice", cursor.file_name(), key);
    }
  }
  return metadata;
}

Result<std::vector<TensorInfo>> read_tensor_infos(Cursor& cursor, uint64_t count) {
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
  Cursor cursor(file_name, bytes);
  GgufFile file;
  QUIRE_ASSIGN_OR_RETURN(file.version_, read_version(cursor));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_tensors, cursor.number<uint64_t>("the tensor count"));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_values, cursor.number<uint64_t>("the metadata count"));
  if (num_values > cursor.remaining() / kMinMetadataBytes) {
    return data_loss("{}: {} metadata values do not fit into {} bytes", file_name, num_values,
                     cursor.remaining());
  }
  QUIRE_ASSIGN_OR_RETURN(file.metadata_, read_metadata(cursor, num_values));
  if (num_tensors > cursor.remaining() / kMinTensorInfoBytes) {
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

std::optional<bool> GgufValue::as_bool() const {
  if (const bool* b = std::get_if<bool>(&value)) return *b;
  return std::nullopt;
}

std::optional<int64_t> GgufValue::as_int() const {
  if (const int64_t* i = std::get_if<int64_t>(&value)) return *i;
  return std::nullopt;  // a uint64 here is above int64
}

std::optional<double> GgufValue::as_float() const {
  if (const double* d = std::get_if<double>(&value)) return *d;
  if (const int64_t* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const uint64_t* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  return std::nullopt;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (const auto* s = std::get_if<std::string_view>(&value)) return *s;
  return std::nullopt;
}

std::optional<std::span<const std::string_view>> GgufValue::as_strings() const {
  if (const auto* s = std::get_if<std::vector<std::string_view>>(&value)) return std::span(*s);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> GgufValue::as_ints() const {
  if (const auto* i = std::get_if<std::vector<int64_t>>(&value)) return *i;
  if (const auto* u = std::get_if<std::vector<uint64_t>>(&value)) {
    std::vector<int64_t> out;
    for (const uint64_t number : *u) {
      if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      out.push_back(static_cast<int64_t>(number));
    }
    return out;
  }
  return std::nullopt;
}

std::optional<std::vector<double>> GgufValue::as_floats() const {
  if (const auto* d = std::get_if<std::vector<double>>(&value)) return *d;
  if (const auto ints = as_ints()) return std::vector<double>(ints->begin(), ints->end());
  return std::nullopt;
}

}  // namespace quire
