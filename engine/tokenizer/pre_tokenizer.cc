// Runs the patterns with PCRE2 over the runs of valid UTF-8 in a text.
#include "engine/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <utility>

#include "engine/base/status.h"
#include "engine/tokenizer/utf8.h"

namespace spillway {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

// PCRE2's own \s also takes U+180E, which lost White_Space in Unicode 6.3, so the property is spelt out.
std::string ExpandSpaceClasses(std::string_view pattern) {
  constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      in_class = c == '[' || (in_class && c != ']');
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' || escaped == 'S') {
      if (!in_class) out += escaped == 's' ? "[" : "[^";
      out += kSpace;
      if (!in_class) out += ']';
    } else {
      out += c;
      out += escaped;
    }
  }
  return out;
}

absl::StatusOr<Code> CompilePattern(std::string_view name, std::string_view pattern) {
  const std::string expanded = ExpandSpaceClasses(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                          PCRE2_UTF | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr));
  if (code == nullptr) {
    return Internal("pre-tokenizer {}: pattern error {} at offset {} of {}", name, error, offset, expanded);
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it fails, matching interprets
  return code;
}

// Scratch memory of one Split call. Limits are lifted: a limit would drop text, and every pattern is linear.
class Matcher {
 public:
  Matcher() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    if (context_ == nullptr) return;
    pcre2_set_match_limit(context_.get(), UINT32_MAX);
    pcre2_set_depth_limit(context_.get(), UINT32_MAX);
  }

  // The next match at or after `from`. False at the end and where PCRE2 gives up: the rest is then one piece.
  bool Next(const pcre2_code* code, std::string_view text, size_t from, size_t& begin, size_t& end) {
    if (data_ == nullptr) return false;
    const auto match = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data_.get(), context_.get());
    };
    int result = match(0);
    if (result < PCRE2_ERROR_PARTIAL)
      result = match(PCRE2_NO_JIT);  // the JIT's stack is small, the heap is not
    if (result < 0) return false;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_.get());
    begin = range[0];
    end = range[1];
    return begin < end;
  }

 private:
  std::unique_ptr<pcre2_match_data, FreeMatchData> data_;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context_;
};

// Appends the matches in `text` and the gaps between them.
void SplitPiece(Matcher& matcher, const pcre2_code* code, std::string_view text,
                std::vector<std::string_view>& out) {
  size_t done = 0;
  size_t begin = 0;
  size_t end = 0;
  while (done < text.size() && matcher.Next(code, text, done, begin, end)) {
    if (begin > done) out.push_back(text.substr(done, begin - done));
    out.push_back(text.substr(begin, end - begin));
    done = end;
  }
  if (done < text.size()) out.push_back(text.substr(done));
}

// Length of the run at the front of `text` that is all characters (or, `valid` false, all invalid bytes).
size_t RunLength(std::string_view text, bool valid) {
  size_t length = 0;
  while (length < text.size()) {
    const Utf8Step step = NextUtf8(text.substr(length));
    if ((step.kind == Utf8Kind::kCharacter) != valid) break;
    length += step.length;
  }
  return length;
}

}  // namespace

struct PreTokenizer::Impl {
  std::vector<Code> patterns;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Compile(const PreTokenizerSpec& spec) {
  auto impl = std::make_unique<Impl>();
  for (const std::string_view pattern : spec.patterns) {
    SPILLWAY_ASSIGN_OR_RETURN(Code code, CompilePattern(spec.name, pattern));
    impl->patterns.push_back(std::move(code));
  }
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> out;
  std::vector<std::string_view> pieces;
  std::vector<std::string_view> next;
  Matcher matcher;
  while (!text.empty()) {
    if (const size_t invalid = RunLength(text, false); invalid > 0) {
      out.push_back(text.substr(0, invalid));
      text.remove_prefix(invalid);
      continue;
    }
    const size_t valid = RunLength(text, true);
    pieces.assign(1, text.substr(0, valid));
    text.remove_prefix(valid);
    for (const Code& code : impl_->patterns) {
      next.clear();
      for (const std::string_view piece : pieces) SplitPiece(matcher, code.get(), piece, next);
      pieces.swap(next);
    }
    out.insert(out.end(), pieces.begin(), pieces.end());
  }
  return out;
}

}  // namespace spillway
