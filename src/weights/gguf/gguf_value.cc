#include "weights/gguf/gguf_value.h"

#include <limits>
#include <type_traits>
#include <utility>

namespace quire {
namespace {

constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxStringBytes = UINT64_MAX;  // strings are bounded by the end of the file
constexpr uint64_t kMaxMetadataElements = uint64_t{1} << 26;

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

// Returns the bytes that one value takes at least, where a length takes `size_bytes`.
uint64_t min_bytes(ValueType type, uint64_t size_bytes) {
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
      return size_bytes;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kArray:
      return 4 + size_bytes;
  }
  return 1;
}

// ValueReader reads one metadata value. It counts the elements of the arrays in all values of the
// file, so that many arrays of moderate size cannot exhaust memory.
class ValueReader {
 public:
  ValueReader(GgufCursor& cursor, uint64_t& num_elements)
      : cursor_(cursor), num_elements_(num_elements) {}

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
        QUIRE_ASSIGN_OR_RETURN(const std::string_view text, cursor_.string(key_, kMaxStringBytes));
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
      QUIRE_ASSIGN_OR_RETURN(const std::string_view text, cursor_.string(key_, kMaxStringBytes));
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
    // The array grows as it is read, because an element takes more memory than it takes in the
    // file.
    GgufValue::Array out;
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
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, cursor_.size(key_));
    if (count > cursor_.remaining() / min_bytes(type, cursor_.size_bytes())) {
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

  GgufCursor& cursor_;
  std::string_view key_;
  uint64_t& num_elements_;
};

}  // namespace

Result<GgufValue> GgufValueReader::read(std::string_view key) {
  return ValueReader(cursor_, num_elements_).read(key);
}

std::optional<bool> GgufValue::as_bool() const {
  if (const bool* b = std::get_if<bool>(&value)) return *b;
  return std::nullopt;
}

std::optional<int64_t> GgufValue::as_int() const {
  if (const int64_t* i = std::get_if<int64_t>(&value)) return *i;
  return std::nullopt;  // a uint64 value is greater than any int64
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
