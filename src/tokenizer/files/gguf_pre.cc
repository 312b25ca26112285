#include "tokenizer/files/gguf_pre.h"

#include <algorithm>
#include <initializer_list>

#include "tokenizer/stages/word_scanner.h"

namespace quire {
namespace {

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
// These are the cased letters as the DeepSeek tokenizers list them.
constexpr std::string_view kDeepSeekLetters =
    "\\s?["
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"
    "\\x{1e900}-\\x{1e943}"
    "]+";
constexpr std::string_view kDeepSeekPunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kDeepSeekCjk = R"([一-龥ࠀ-一가-퟿]+)";
constexpr std::string_view kDeepSeek3Cjk = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloomWords = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailingWords =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Cuts runs of digits into threes from the right.
constexpr std::string_view kThousands = R"(\d{1,3}(?=(?:\d{3})*\b))";
constexpr std::string_view kExaoneMoeWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuScripts =
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kYoutuWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Cuts runs of blanks into powers of two.
constexpr std::string_view kJais2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
// Words may contain blanks; runs of digits are cut into threes from the right.
constexpr std::string_view kNumbers = R"(\p{N}+)";
constexpr std::string_view kDigitThousands = R"(\d{1,3}(?=(?:\d{3})*(?!\d)))";

// Does the same for all kinds of numbers.
constexpr std::string_view kNumberThousands = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kAfmoeScripts =
    R"([一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+)";

// An Entry is one way to cut text, and the names that files give it.
struct Entry {
  std::initializer_list<std::string_view> names;
  std::initializer_list<std::string_view> patterns;
  bool ignore_merges = false;
  bool add_bos = false;
};

const Entry kEntries[] = {
    {{"",
      "default",
      "gpt-2",
      "gpt2",
      "phi-2",
      "mpt",
      "olmo",
      "jais",
      "jina-es",
      "jina-de",
      "jina-v1-en",
      "jina-v2-es",
      "jina-v2-de",
      "jina-v2-code",
      "gigachat",
      "roberta-bpe",
      "trillion",
      "granite-docling",
      "modern-bert",
      "a.x-4.0",
      "mellum",
      "exaone4"},
     {kGpt2Pattern}},
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {kDigit, kGpt2Pattern}},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
      "jina-v5-nano"},
     {kLlama3Pattern},
     true,
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {kLlama3Pattern}},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2",
      "kormo", "f2llmv2"},
     {kQwen2Pattern}},
    {{"qwen35"}, {kQwen35Words}},
    {{"laguna"}, {kGgufLines, kQwen2Pattern}},
    {{"minicpm5"}, {kThreeDigits, kMiniCpm5Words}, true},
    {{"gpt-4o", "llama4", "o200k", "minimax-m2", "kanana2", "talkie"}, {kO200kPattern}},
    {{"granite-embed-multi-97m"}, {kO200kPattern}, true},
    {{"tiny_aya", "cohere2moe"}, {kThousands, kO200kPattern}},
    {{"youtu"}, {kYoutuScripts, kYoutuWords}, true},
    {{"tekken"}, {kTekkenWords}, true, true},
    {{"jais-2"}, {kJais2Words}},
    {{"superbpe"}, {kNumbers, kDigitThousands}},
    {{"kimi-k2"}, {kKimiPattern}},
    {{"exaone-moe"}, {kExaoneMoeWords}},
    {{"deepseek-llm"},
     {"[\r\n]", kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kDeepSeekCjk, R"(\p{N}+)"}},
    {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kDigit}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {kThreeDigits, kDeepSeek3Cjk, kDeepSeek3Words}},
    {{"afmoe"}, {kNumberThousands, kAfmoeScripts, kDeepSeek3Words}},
    {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {kBloomWords}},
    {{"viking"}, {kBloomWords, kDigit}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailingWords}},
    {{"seed-coder"}, {kSeedWords}},
};

}  // namespace

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (std::find(entry.names.begin(), entry.names.end(), name) == entry.names.end()) continue;
    return GgufPreTokenizer{entry.patterns, entry.ignore_merges, entry.add_bos};
  }
  return std::nullopt;
}

}  // namespace quire
