#include "facade/tokenizer/gguf_tokenizer.h"

#include <string_view>
#include <utility>

namespace quire {
namespace {

// VocabReader reads the keys "tokenizer.ggml.*". An absent key leaves its field as it is; wrong
// types are remembered as one error.
class VocabReader {
 public:
  explicit VocabReader(const GgufFile& file) : file_(file) {}

  void read(std::string_view key, std::string& field) {
    take(
        key, "a string", [](const GgufValue& v) { return v.as_string(); },
        [&](std::string_view s) { field = s; });
  }
  void read(std::string_view key, std::optional<int64_t>& field) {
    take(
        key, "an integer", [](const GgufValue& v) { return v.as_int(); },
        [&](int64_t n) { field = n; });
  }
  void read(std::string_view key, std::optional<bool>& field) {
    take(
        key, "true or false", [](const GgufValue& v) { return v.as_bool(); },
        [&](bool b) { field = b; });
  }
  void read(std::string_view key, std::vector<std::string>& field) {
    take(
        key, "an array of strings", [](const GgufValue& v) { return v.as_strings(); },
        [&](std::span<const std::string_view> list) { field.assign(list.begin(), list.end()); });
  }
  void read(std::string_view key, std::vector<float>& field) {
    take(
        key, "an array of numbers", [](const GgufValue& v) { return v.as_floats(); },
        [&](const std::vector<double>& list) {
          for (const double x : list) field.push_back(static_cast<float>(x));
        });
  }
  void read(std::string_view key, std::vector<int32_t>& field) {
    take(
        key, "an array of integers", [](const GgufValue& v) { return v.as_ints(); },
        [&](const std::vector<int64_t>& list) {
          for (const int64_t n : list) field.push_back(static_cast<int32_t>(n));
        });
  }
  // Reads an array of bytes.
  void read_bytes(std::string_view key, std::string& field) {
    take(
        key, "an array of bytes", [](const GgufValue& v) { return v.as_ints(); },
        [&](const std::vector<int64_t>& list) {
          for (const int64_t n : list) field.push_back(static_cast<char>(n));
        });
  }
  const Status& status() const { return status_; }

 private:
  template <typename Convert, typename Store>
  void take(std::string_view key, std::string_view expected, Convert convert, Store store) {
    const std::string full = "tokenizer.ggml." + std::string(key);
    const GgufValue* value = file_.find(full);
    if (value == nullptr) return;
    const auto converted = convert(*value);
    if (converted) {
      store(*converted);
    } else if (status_.ok()) {
      status_ = data_loss("{}: expected {}", full, expected);
    }
  }

  const GgufFile& file_;
  Status status_;
};

}  // namespace

Result<std::optional<GgufVocab>> read_gguf_vocab(const GgufFile& file) {
  if (file.find("tokenizer.ggml.model") == nullptr) return std::optional<GgufVocab>();
  GgufVocab vocab;
  VocabReader reader(file);
  reader.read("model", vocab.model);
  reader.read("pre", vocab.pre);
  reader.read("tokens", vocab.tokens);
  reader.read("scores", vocab.scores);
  reader.read("token_type", vocab.token_types);
  reader.read("merges", vocab.merges);
  reader.read("bos_token_id", vocab.bos_token_id);
  reader.read("eos_token_id", vocab.eos_token_id);
  reader.read("unknown_token_id", vocab.unknown_token_id);
  reader.read("padding_token_id", vocab.padding_token_id);
  reader.read("seperator_token_id", vocab.seperator_token_id);
  reader.read("cls_token_id", vocab.cls_token_id);
  reader.read("add_bos_token", vocab.add_bos_token);
  reader.read("add_eos_token", vocab.add_eos_token);
  reader.read("add_space_prefix", vocab.add_space_prefix);
  reader.read("remove_extra_whitespaces", vocab.remove_extra_whitespaces);
  reader.read_bytes("precompiled_charsmap", vocab.precompiled_charsmap);
  if (!reader.status().ok()) return reader.status();
  return std::optional<GgufVocab>(std::move(vocab));
}

Result<std::optional<std::string>> read_gguf_chat_template(const GgufFile& file) {
  const GgufValue* value = file.find("tokenizer.chat_template");
  if (value == nullptr) return std::optional<std::string>();
  const auto text = value->as_string();
  if (!text) return data_loss("tokenizer.chat_template: expected a string");
  return std::optional<std::string>(std::string(*text));
}

}  // namespace quire
