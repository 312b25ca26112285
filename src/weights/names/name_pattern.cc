#include "weights/names/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace quire {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr uint32_t kMaxSteps = 100'000;

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct NamePattern::Compiled {
  explicit Compiled(pcre2_code* code_in) : code(code_in) {}
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
  pcre2_code* code;
};

NamePattern NamePattern::exact(std::string text) { return {Kind::kExact, std::move(text)}; }
NamePattern NamePattern::part(std::string text) { return {Kind::kPart, std::move(text)}; }

Result<NamePattern> NamePattern::regex(std::string text) {
  if (text.size() > kMaxPatternBytes) {
    return invalid_argument("regular expression: expected at most {} bytes, got {}",
                            kMaxPatternBytes, text.size());
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(bytes_of(text), text.size(), PCRE2_ANCHORED, &error, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    return invalid_argument("regular expression '{}': {}", text,
                            reinterpret_cast<const char*>(message));
  }
  NamePattern pattern(Kind::kRegex, std::move(text));
  pattern.compiled_ = std::make_shared<const Compiled>(code);
  return pattern;
}

bool NamePattern::matches(std::string_view name) const {
  switch (kind_) {
    case Kind::kExact:
      return name == text_;
    case Kind::kPart:
      return name.find(text_) != std::string_view::npos;
    case Kind::kRegex:
      break;
  }
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMaxSteps);
  pcre2_set_depth_limit(context.get(), kMaxSteps);
  return pcre2_match(compiled_->code, bytes_of(name), name.size(), 0, 0, data.get(),
                     context.get()) >= 0;
}

}  // namespace quire
