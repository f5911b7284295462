// The pre-tokenizers by name. Patterns are the ones each model's tokenizer.json publishes, as far as GGUF's
// name stands for them; contractions are spelt in both cases instead of (?i:…), which would also match U+017F
// for "s". Every pattern is linear in the text: where a published one is not, the row says what was changed.
#include <array>

#include "engine/tokenizer/pre_tokenizer.h"

namespace spillway {
namespace {

using Pattern = std::string_view;

#define SPILLWAY_CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"

constexpr Pattern kGpt2Words =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))re";
constexpr Pattern kDigit = R"re(\p{N})re";
constexpr Pattern kLineEnd = R"re([\r\n])re";

constexpr std::array kGpt2 = {kGpt2Words};
constexpr std::array kDigitsThenGpt2 = {kDigit, kGpt2Words};
constexpr std::array<Pattern, 1> kLlama3 = {
    SPILLWAY_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
constexpr std::array<Pattern, 1> kQwen2 = {
    SPILLWAY_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
constexpr std::array<Pattern, 1> kQwen35 = {
    SPILLWAY_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr std::array<Pattern, 1> kSeedCoder = {
    SPILLWAY_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
constexpr std::array<Pattern, 2> kMinicpm5 = {
    R"re(\p{N}{1,3})re", SPILLWAY_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
constexpr std::array<Pattern, 1> kBailing = {
    R"re('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})re"
    R"re(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re"};

// Words that begin with capitals and go on in small letters: o200k, Tekken and Kimi.
#define SPILLWAY_UPPER R"re([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])re"
#define SPILLWAY_LOWER R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}])re"
#define SPILLWAY_CASED_WORDS(upper, lower, suffix)       \
  R"re([^\r\n\p{L}\p{N}]?)re" upper "*" lower "+" suffix \
  "|"                                                    \
  R"re([^\r\n\p{L}\p{N}]?)re" upper "+" lower "*" suffix "|"

constexpr std::array<Pattern, 1> kO200k = {SPILLWAY_CASED_WORDS(
    SPILLWAY_UPPER, SPILLWAY_LOWER,
    SPILLWAY_CONTRACTIONS "?") R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
constexpr std::array<Pattern, 1> kTekken = {SPILLWAY_CASED_WORDS(
    SPILLWAY_UPPER, SPILLWAY_LOWER, "") R"re(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};
// Published as the classes above without Han, an intersection that PCRE2 lacks: the complement's complement.
constexpr std::array<Pattern, 1> kKimiK2 = {R"re(\p{sc:Han}+|)re" SPILLWAY_CASED_WORDS(
    R"re([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])re",
    R"re([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])re",
    SPILLWAY_CONTRACTIONS "?") R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

#undef SPILLWAY_CASED_WORDS
#undef SPILLWAY_LOWER
#undef SPILLWAY_UPPER
#undef SPILLWAY_CONTRACTIONS

constexpr Pattern kBloomWords = R"re( ?[^(\s|.,!?…。，、।۔،)]+)re";
constexpr std::array kBloom = {kBloomWords};
constexpr std::array kViking = {kBloomWords, kDigit};
// Merges reach over words: only line ends part.
constexpr std::array kLines = {Pattern(R"re([^\n]+|\n+)re")};

// Cased letters as of the model's training, an enumeration because no property gives exactly this set.
constexpr Pattern kDeepseekLetters =
    R"re(\s?[)re"
    R"re(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})re"
    R"re(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})re"
    R"re(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})re"
    R"re(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})re"
    R"re(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})re"
    R"re(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})re"
    R"re(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})re"
    R"re(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})re"
    R"re(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})re"
    R"re(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})re"
    R"re(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})re"
    R"re(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})re"
    R"re(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})re"
    R"re(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})re"
    R"re(]+)re";
constexpr Pattern kDeepseekPunctuation =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";
constexpr Pattern kDeepseekCjk = R"re([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re";
// Published as \s+$, which tries every position of a run of spaces: the look-behind keeps it linear.
constexpr Pattern kTrailingSpace = R"re((?<!\s)\s+\z)re";

constexpr std::array kDeepseekLlm = {kLineEnd,       kDeepseekLetters, kDeepseekPunctuation,
                                     kTrailingSpace, kDeepseekCjk,     Pattern(R"re(\p{N}+)re")};
constexpr std::array kDeepseekCoder = {kLineEnd, Pattern(R"re(\s?\p{L}+)re"), Pattern(R"re(\s?\p{P}+)re"),
                                       kDeepseekCjk, kDigit};
constexpr std::array kDeepseekV3 = {
    Pattern(R"re(\p{N}{1,3})re"), Pattern(R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re"),
    Pattern(R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)re"
            R"re(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re")};
constexpr std::array kDefault = {Pattern(R"re([\p{P}\$\+<=>\^~\|]+)re"), kGpt2Words, Pattern(R"re(\p{N}+)re"),
                                 Pattern(R"re([0-9][0-9][0-9])re")};
constexpr std::array kFalcon = {Pattern(R"re([\p{P}\$\+<=>\^~\|`]+)re"), kGpt2Words,
                                Pattern(R"re([0-9][0-9][0-9])re")};

// Sorted by name.
constexpr PreTokenizerSpec kTable[] = {
    {"a.x-4.0", kGpt2},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"bloom", kBloom},
    {"chatglm-bpe", kLlama3},
    {"codeshell", kDigitsThenGpt2},
    {"command-r", kDigitsThenGpt2},
    {"dbrx", kLlama3},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-r1-qwen", kQwen2},
    {"deepseek-v3", kDeepseekV3},
    {"default", kDefault},
    {"exaone", kDigitsThenGpt2},
    {"exaone4", kGpt2},
    {"falcon", kFalcon},
    {"falcon-h1", kLlama3, WholeWords::kAll, true},
    {"falcon3", kLlama3, WholeWords::kAll, true},
    {"gemma4", kLines, WholeWords::kLineEnds, true, false, /*characters=*/true},
    {"gigachat", kGpt2},
    {"glm4", kLlama3},
    {"gpt-2", kGpt2},
    {"gpt-4o", kO200k},
    {"gpt3-finnish", kBloom},
    {"granite", kDigitsThenGpt2},
    {"granite-docling", kGpt2},
    {"grok-2", kQwen2},
    {"hunyuan", kQwen2},
    {"hunyuan-dense", kDeepseekV3},
    {"jais", kGpt2},
    {"joyai-llm", kDeepseekV3},
    {"kanana2", kO200k},
    {"kimi-k2", kKimiK2},
    {"kormo", kQwen2},
    {"lfm2", kLlama3, WholeWords::kAll, true},
    {"llada-moe", kBailing},
    {"llama-bpe", kLlama3, WholeWords::kAll, true},
    {"llama-v3", kLlama3, WholeWords::kAll, true},
    {"llama3", kLlama3, WholeWords::kAll, true},
    {"llama4", kO200k},
    {"megrez", kQwen2},
    {"mellum", kGpt2},
    {"midm-2.0", kLlama3, WholeWords::kAll, true},
    {"minerva-7b", kDigitsThenGpt2},
    {"minicpm5", kMinicpm5},
    {"minimax-m2", kO200k},
    {"modern-bert", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"phi-2", kGpt2},
    {"pixtral", kLlama3, WholeWords::kAll, true},
    {"poro-chat", kBloom},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"refact", kDigitsThenGpt2},
    {"seed-coder", kSeedCoder},
    {"smaug-bpe", kLlama3},
    {"smollm", kDigitsThenGpt2},
    {"solar-open", kQwen2},
    {"stablelm2", kQwen2},
    {"starcoder", kDigitsThenGpt2},
    {"step35", kDeepseekV3},
    {"tekken", kTekken, WholeWords::kAll, true},
    {"trillion", kGpt2},
    {"viking", kViking},
};

}  // namespace

const PreTokenizerSpec* FindPreTokenizer(std::string_view name) {
  for (const PreTokenizerSpec& spec : kTable) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string SupportedPreTokenizers() {
  std::string names;
  for (const PreTokenizerSpec& spec : kTable) {
    if (!names.empty()) names += ", ";
    names += spec.name;
  }
  return names;
}

}  // namespace spillway
