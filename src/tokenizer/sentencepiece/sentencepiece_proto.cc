#include "tokenizer/sentencepiece/sentencepiece_proto.h"

#include <cmath>
#include <cstring>

#include "tokenizer/model/vocab.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// WireReader reads the wire format of protocol buffers, a sequence of (field number, value).
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    uint32_t number = 0;
    uint64_t integer = 0;      // varint and fixed values
    std::string_view bytes{};  // length-delimited values
    bool is_bytes = false;
    bool is_fixed32 = false;
  };

  bool done() const { return bytes_.empty(); }

  Result<Field> next() {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t tag, varint());
    Field field{.number = static_cast<uint32_t>(tag >> 3)};
    switch (tag & 7) {
      case 0: {
        QUIRE_ASSIGN_OR_RETURN(field.integer, varint());
        return field;
      }
      case 1:
        return fixed(8, field);
      case 5:
        field.is_fixed32 = true;
        return fixed(4, field);
      case 2: {
        QUIRE_ASSIGN_OR_RETURN(const uint64_t size, varint());
        if (size > bytes_.size()) return truncated(size);
        field.is_bytes = true;
        field.bytes = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return field;
      }
      default:
        return data_loss("expected a protocol-buffer wire type 0, 1, 2 or 5, got {}", tag & 7);
    }
  }

 private:
  Status truncated(uint64_t wanted) const {
    return data_loss("truncated: expected {} more bytes, got {}", wanted, bytes_.size());
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return truncated(1);
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return data_loss("a number of more than 64 bits");
  }

  Result<Field> fixed(size_t size, Field field) {
    if (bytes_.size() < size) return truncated(size);
    std::memcpy(&field.integer, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return field;
  }

  std::string_view bytes_;
};

// Calls visit(field) for every field of a message.
template <typename Visit>
Status for_each_field(std::string_view message, Visit&& visit) {
  WireReader reader(message);
  while (!reader.done()) {
    QUIRE_ASSIGN_OR_RETURN(const WireReader::Field field, reader.next());
    QUIRE_RETURN_IF_ERROR(visit(field));
  }
  return Status();
}

Result<SentencePieceProto::Piece> parse_piece(std::string_view message) {
  SentencePieceProto::Piece piece;
  QUIRE_RETURN_IF_ERROR(for_each_field(message, [&](const WireReader::Field& field) -> Status {
    if (field.number == 1 && field.is_bytes) {
      if (!is_valid_utf8(field.bytes)) return data_loss("a piece is not UTF-8");
      piece.text = field.bytes;
    } else if (field.number == 2 && field.is_fixed32) {
      const auto bits = static_cast<uint32_t>(field.integer);
      std::memcpy(&piece.score, &bits, 4);
      if (!std::isfinite(piece.score))
        return data_loss("the score of '{}' is not finite", piece.text);
    } else if (field.number == 3) {
      if (field.integer < 1 || field.integer > 6) {
        return data_loss("expected a piece type 1 to 6, got {}", field.integer);
      }
      piece.type = static_cast<SentencePieceType>(field.integer);
    }
    return Status();
  }));
  return piece;
}

Status parse_trainer(std::string_view message, SentencePieceProto& out) {
  return for_each_field(message, [&](const WireReader::Field& field) -> Status {
    switch (field.number) {
      case 3:
        if (field.integer < 1 || field.integer > 4) {
          return data_loss("expected a model type 1 to 4, got {}", field.integer);
        }
        out.algorithm = static_cast<SentencePieceProto::Algorithm>(field.integer);
        break;
      case 24:
        out.whitespace_as_suffix = field.integer != 0;
        break;
      case 35:
        out.byte_fallback = field.integer != 0;
        break;
      case 46:
        out.bos_piece = field.bytes;
        break;
      case 47:
        out.eos_piece = field.bytes;
        break;
      case 48:
        out.pad_piece = field.bytes;
        break;
      default:
        break;
    }
    return Status();
  });
}

Status parse_normalizer_spec(std::string_view message, SentencePieceProto& out) {
  return for_each_field(message, [&](const WireReader::Field& field) -> Status {
    switch (field.number) {
      case 2:
        out.charsmap = field.bytes;
        break;
      case 3:
        out.add_dummy_prefix = field.integer != 0;
        break;
      case 4:
        out.remove_extra_whitespaces = field.integer != 0;
        break;
      case 5:
        out.escape_whitespaces = field.integer != 0;
        break;
      default:
        break;
    }
    return Status();
  });
}

}  // namespace

Result<SentencePieceProto> parse_sentencepiece_proto(std::string_view bytes) {
  SentencePieceProto proto;
  QUIRE_RETURN_IF_ERROR(for_each_field(bytes, [&](const WireReader::Field& field) -> Status {
    if (!field.is_bytes) return Status();
    if (field.number == 1) {
      if (proto.pieces.size() >= static_cast<size_t>(Vocab::kMaxSize)) {
        return data_loss("more than {} pieces", Vocab::kMaxSize);
      }
      QUIRE_ASSIGN_OR_RETURN(SentencePieceProto::Piece piece, parse_piece(field.bytes));
      proto.pieces.push_back(std::move(piece));
      return Status();
    }
    if (field.number == 2) return parse_trainer(field.bytes, proto);
    if (field.number == 3) return parse_normalizer_spec(field.bytes, proto);
    return Status();
  }));
  if (proto.pieces.empty()) return data_loss("expected a SentencePiece model, found no pieces");
  return proto;
}

}  // namespace quire
