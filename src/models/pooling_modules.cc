#include <boost/json/parse.hpp>
#include <cstring>
#include <utility>

#include "models/config_fields.h"
#include "models/pooling_config.h"
#include "weights/files/safetensors.h"

namespace quire {
namespace {

Result<boost::json::value> parse_json(std::string_view text, std::string_view where) {
  boost::json::parse_options options;
  options.max_depth = 32;
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", where, error.message());
  return value;
}

struct PoolingMode {
  std::string_view key;   // older files: one flag per kind
  std::string_view name;  // newer files: the value of pooling_mode
  std::optional<PoolingKind> kind;
};
constexpr PoolingMode kModes[] = {
    {"pooling_mode_cls_token", "cls", PoolingKind::kCls},
    {"pooling_mode_mean_tokens", "mean", PoolingKind::kMean},
    {"pooling_mode_max_tokens", "max", PoolingKind::kMax},
    {"pooling_mode_lasttoken", "lasttoken", PoolingKind::kLast},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
};

// Finds the head, which may be the embedding's table.
Result<const RawTensor*> find_head(const ModelConfig& config, const TensorSource& source) {
  const NameMap& names = checkpoint_names(config);
  const NameMapEntry* const entry = find_role(
      names, config.tie_word_embeddings ? TensorRole::kTokenEmbedding : TensorRole::kLmHead);
  for (const NamePrefix& prefix : names.prefixes) {
    if (entry == nullptr) break;
    const RawTensor* const head = source.find(tensor_name(*entry, prefix, -1, "weight"));
    if (head == nullptr) continue;
    if (head->dtype && head->shape == std::vector{config.vocab_size, config.hidden_size})
      return head;
    return unimplemented("LogitScore: expected a head of {} x {} that is not quantized, got {}",
                         config.vocab_size, config.hidden_size, head->type_name);
  }
  return invalid_argument("LogitScore: expected a checkpoint with a head");
}

// Adds the head's rows for the tokens that a LogitScore compares, as a matrix of their own.
Status add_logit_rows(const ModelConfig& config, const LogitTokens& tokens,
                      const TensorSource& source, std::vector<RawTensor>& tensors,
                      std::vector<std::unique_ptr<std::byte[]>>& memory) {
  QUIRE_ASSIGN_OR_RETURN(const RawTensor* const head, find_head(config, source));
  const size_t row_bytes = head->data.size() / static_cast<size_t>(config.vocab_size);
  const size_t num_bytes = row_bytes * static_cast<size_t>(tokens.count());
  memory.push_back(std::make_unique<std::byte[]>(num_bytes));
  std::byte* out = memory.back().get();
  RawTensor rows = *head;
  rows.name = fmt::format("{}.weight", kLogitRows);
  rows.shape[0] = tokens.count();
  rows.data = {out, num_bytes};
  for (const int64_t token : {tokens.yes, tokens.no.value_or(-1)}) {
    if (token < 0) continue;
    std::memcpy(out, head->data.data() + row_bytes * static_cast<size_t>(token), row_bytes);
    out += row_bytes;
  }
  tensors.push_back(std::move(rows));
  return {};
}

Status add_dense_tensors(const ModelFiles& files, const SentenceModule& module, size_t index,
                         std::vector<RawTensor>& tensors) {
  const std::string name = module.path + "/model.safetensors";
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
  QUIRE_ASSIGN_OR_RETURN(std::vector<RawTensor> read, parse_safetensors(name, bytes));
  for (RawTensor& tensor : read) {
    tensor.name = fmt::format("sentence_dense.{}.{}", index, tensor.name);
    tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace

Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, "modules.json"));
  if (!value.is_array())
    return invalid_argument("modules.json: expected a list of modules, got {}", shown(value));
  std::vector<SentenceModule> modules;
  for (const boost::json::value& entry : value.get_array()) {
    if (!entry.is_object())
      return invalid_argument("modules.json: expected objects in the list, got {}", shown(entry));
    Status status;
    const ConfigReader reader(entry.get_object(), "modules.json", {}, status);
    const std::string type = reader.string("type", "");
    SentenceModule module{.path = reader.string("path", ""),
                          .kind = type.substr(type.rfind('.') + 1)};
    if (!status.ok()) return status;
    modules.push_back(std::move(module));
  }
  return modules;
}

Result<LogitTokens> read_logit_tokens(const ModelFiles& files, const SentenceModule& module,
                                      int64_t vocab_size) {
  const std::string name = module.path + "/config.json";
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, parse_config_object(text, name));
  Status status;
  const ConfigReader reader(object, name, {}, status);
  const IntRange ids{0, vocab_size - 1};
  LogitTokens tokens{.yes = reader.integer("true_token_id", ids), .no = {}};
  if (reader.has("false_token_id") && !reader.is_null("false_token_id"))
    tokens.no = reader.integer("false_token_id", ids);
  if (!status.ok()) return status;
  return tokens;
}

Result<PoolingKind> parse_pooling_kind(std::string_view text, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, where));
  if (!value.is_object())
    return invalid_argument("{}: expected an object, got {}", where, shown(value));
  Status status;
  const ConfigReader reader(value.get_object(), where, {}, status);
  const std::string mode = reader.has("pooling_mode") ? reader.string("pooling_mode", "") : "";
  const PoolingMode* found = nullptr;
  int num_found = 0;
  for (const PoolingMode& known : kModes) {
    if (known.name != mode && !reader.boolean(known.key, false)) continue;
    found = &known;
    ++num_found;
  }
  if (!reader.boolean("include_prompt", true))
    reader.fail("include_prompt: expected true, got false");
  if (!status.ok()) return status;
  if (num_found != 1 || !found->kind) {
    return unimplemented("{}: expected one of cls, mean, max and lasttoken, got {}", where,
                         num_found == 0   ? "none"
                         : num_found == 1 ? found->name
                                          : "several");
  }
  return *found->kind;
}

Result<ModuleTensors> with_sentence_modules(const ModelFiles& files, const ModelConfig& config,
                                            TensorSource source) {
  ModuleTensors all{.source = std::move(source), .memory = {}};
  if (!config.pooling.any() || !files.contains("modules.json")) return all;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("modules.json"));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SentenceModule> modules, parse_sentence_modules(text));
  std::vector<RawTensor> tensors;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (modules[i].kind == "Dense")
      QUIRE_RETURN_IF_ERROR(add_dense_tensors(files, modules[i], i, tensors));
    if (modules[i].kind != "LogitScore") continue;
    QUIRE_ASSIGN_OR_RETURN(const LogitTokens tokens,
                           read_logit_tokens(files, modules[i], config.vocab_size));
    QUIRE_RETURN_IF_ERROR(add_logit_rows(config, tokens, all.source, tensors, all.memory));
  }
  if (tensors.empty()) return all;
  tensors.insert(tensors.end(), all.source.tensors().begin(), all.source.tensors().end());
  all.source = TensorSource(std::move(tensors));
  return all;
}

}  // namespace quire
