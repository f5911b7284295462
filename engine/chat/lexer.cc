// One pass over the source: data up to the next tag, then the tag's tokens up to its end.
#include "engine/chat/lexer.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/tokenizer/utf8.h"

namespace spillway::jinja {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";
constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                           "/",  "%",  "~",  "<",  ">",  "=",  ".", ":", "|",
                                           ",",  ";",  "(",  ")",  "[",  "]",  "{", "}"};

bool IsSpace(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
bool IsName(char c) { return IsNameStart(c) || IsDigit(c); }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Every line end as "\n", the last one dropped.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (position_ < source_.size() && error_.ok()) LexData();
    if (!error_.ok()) return error_;
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(position_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void Fail(int line, std::string_view message) {
    if (error_.ok()) error_ = InvalidArgument("chat template, line {}: {}", line, message);
    position_ = source_.size();
  }
  void Advance(size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    position_ += count;
  }
  void SkipSpaces() {
    size_t count = 0;
    while (position_ + count < source_.size() && IsSpace(source_[position_ + count])) ++count;
    Advance(count);
  }

  void LexData();
  void LexComment();
  void LexTag(char kind);
  bool LexRaw();
  void EndTag(bool strip, bool trim_newline);
  void LexToken();
  void LexString();
  void LexNumber();
  void AddData(size_t begin, size_t end, bool strip_right, bool strip_blanks);
  void AppendEscape(std::string_view text, size_t& i, std::string& out);

  const std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  absl::Status error_;
  std::vector<Token> tokens_;
  std::vector<char> brackets_;  // open in the present tag
};

// `strip_blanks`: lstrip_blocks applies, so blanks after the last newline go where nothing else stands before
// the tag.
void Lexer::AddData(size_t begin, size_t end, bool strip_right, bool strip_blanks) {
  std::string_view data = std::string_view(source_).substr(begin, end - begin);
  if (strip_right) {
    data = data.substr(0, data.find_last_not_of(kSpaces) + 1);
  } else if (strip_blanks) {
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool at_line_start = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
    if (at_line_start && data.find_first_not_of(kSpaces, line_begin) == std::string_view::npos) {
      data = data.substr(0, line_begin);
    }
  }
  if (!data.empty()) Add(TokenKind::kData, std::string(data));
}

void Lexer::LexData() {
  size_t tag = position_;
  for (;; ++tag) {
    tag = source_.find('{', tag);
    if (tag == std::string::npos || tag + 1 >= source_.size()) {
      AddData(position_, source_.size(), false, false);
      position_ = source_.size();
      return;
    }
    const char next = source_[tag + 1];
    if (next == '{' || next == '%' || next == '#') break;
  }
  const char kind = source_[tag + 1];
  const char mark = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
  AddData(position_, tag, mark == '-', kind != '{' && mark != '+');
  Advance(tag - position_ + 2);
  if (mark == '-' || (mark == '+' && kind != '{')) Advance(1);
  if (kind == '#') {
    LexComment();
  } else if (kind == '{' || !LexRaw()) {
    LexTag(kind);
  }
}

void Lexer::EndTag(bool strip, bool trim_newline) {
  if (strip) {
    SkipSpaces();
  } else if (trim_newline && At("\n")) {
    Advance(1);
  }
}

void Lexer::LexComment() {
  const size_t end = source_.find("#}", position_);
  if (end == std::string::npos) return Fail(line_, "a comment is not closed with #}");
  const char mark = end > position_ ? source_[end - 1] : ' ';
  Advance(end + 2 - position_);
  EndTag(mark == '-', mark != '+');
}

// {% raw %} … {% endraw %}; false where the tag is another one.
bool Lexer::LexRaw() {
  std::string_view rest = Rest();
  const auto skip = [&rest] { rest.remove_prefix(std::min(rest.find_first_not_of(kSpaces), rest.size())); };
  skip();
  if (!rest.starts_with("raw")) return false;
  rest.remove_prefix(3);
  skip();
  const bool strip = rest.starts_with('-');
  const bool keep = rest.starts_with('+');
  if (strip || keep) rest.remove_prefix(1);
  if (!rest.starts_with("%}")) return false;
  rest.remove_prefix(2);
  const int opened = line_;
  Advance(Rest().size() - rest.size());
  EndTag(strip, !keep);
  const size_t begin = position_;
  for (size_t tag = source_.find("{%", begin); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
    rest = std::string_view(source_).substr(tag + 2);
    const char mark = rest.empty() ? ' ' : rest[0];
    if (mark == '-' || mark == '+') rest.remove_prefix(1);
    skip();
    if (!rest.starts_with("endraw")) continue;
    rest.remove_prefix(6);
    skip();
    const char end_mark = rest.empty() ? ' ' : rest[0];
    if (end_mark == '-' || end_mark == '+') rest.remove_prefix(1);
    if (!rest.starts_with("%}")) continue;
    AddData(begin, tag, mark == '-', mark != '+');
    Advance(Rest().size() - rest.size() + 2);
    EndTag(end_mark == '-', end_mark != '+');
    return true;
  }
  Fail(opened, "raw is not closed with endraw");
  return true;
}

void Lexer::LexTag(char kind) {
  const int opened = line_;
  const std::string_view end = kind == '{' ? "}}" : "%}";
  Add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
  brackets_.clear();
  for (;;) {
    SkipSpaces();
    if (!error_.ok()) return;
    if (position_ >= source_.size()) return Fail(opened, fmt::format("a tag is not closed with {}", end));
    if (brackets_.empty()) {
      const char mark = At("-") || (At("+") && kind != '{') ? source_[position_] : ' ';
      const size_t skip = mark == ' ' ? 0 : 1;
      if (Rest().substr(skip).starts_with(end)) {
        Add(kind == '{' ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        Advance(skip + 2);
        return EndTag(mark == '-', kind != '{' && mark != '+');
      }
    }
    LexToken();
  }
}

void Lexer::LexToken() {
  const char c = source_[position_];
  if (c == '"' || c == '\'') return LexString();
  if (IsDigit(c)) return LexNumber();
  if (IsNameStart(c)) {
    size_t length = 1;
    while (position_ + length < source_.size() && IsName(source_[position_ + length])) ++length;
    Add(TokenKind::kName, source_.substr(position_, length));
    return Advance(length);
  }
  for (const std::string_view op : kOperators) {
    if (!At(op)) continue;
    if (c == '(' || c == '[' || c == '{') brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c)
        return Fail(line_, fmt::format("'{}' closes nothing", c));
      brackets_.pop_back();
    }
    Add(TokenKind::kOperator, std::string(op));
    return Advance(op.size());
  }
  Fail(line_, fmt::format("unexpected character '{}'", c));
}

void Lexer::LexString() {
  const char quote = source_[position_];
  size_t end = position_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return Fail(line_, "a string is not closed");
  const std::string_view body = std::string_view(source_).substr(position_ + 1, end - position_ - 1);
  std::string text;
  for (size_t i = 0; i < body.size() && error_.ok(); ++i) {
    if (body[i] == '\\') {
      AppendEscape(body, ++i, text);
    } else {
      text += body[i];
    }
  }
  if (!error_.ok()) return;
  Add(TokenKind::kString, std::move(text));
  Advance(end + 1 - position_);
}

// Python's escapes. `i` is at the character after the backslash and ends at the last one used.
void Lexer::AppendEscape(std::string_view text, size_t& i, std::string& out) {
  static constexpr std::pair<char, char> kSimple[] = {{'n', '\n'}, {'t', '\t'},  {'r', '\r'}, {'\\', '\\'},
                                                      {'"', '"'},  {'\'', '\''}, {'a', '\a'}, {'b', '\b'},
                                                      {'f', '\f'}, {'v', '\v'}};
  const char c = text[i];
  if (c == '\n') return;  // a continued line
  for (const auto& [name, value] : kSimple) {
    if (c == name) {
      out += value;
      return;
    }
  }
  uint32_t value = 0;
  if (c >= '0' && c <= '7') {
    for (size_t digits = 0; digits < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++digits) {
      value = value * 8 + static_cast<uint32_t>(text[i++] - '0');
    }
    --i;
    return AppendUtf8(value, out);
  }
  const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {  // unknown escapes stay as they are
    out += '\\';
    out += c;
    return;
  }
  for (size_t k = 1; k <= digits; ++k) {
    const int digit = i + k < text.size() ? HexDigit(text[i + k]) : -1;
    if (digit < 0) return Fail(line_, fmt::format("\\{} needs {} hexadecimal digits", c, digits));
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  i += digits;
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    return Fail(line_, fmt::format("\\{} names no character: {:x}", c, value));
  }
  AppendUtf8(value, out);
}

void Lexer::LexNumber() {
  size_t end = position_;
  std::string text;
  bool is_float = false;
  const auto digits = [&] {
    while (end < source_.size() && (IsDigit(source_[end]) || source_[end] == '_')) {
      if (source_[end] != '_') text += source_[end];
      ++end;
    }
  };
  digits();
  if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
    is_float = true;
    text += source_[end++];
    digits();
  }
  if (end + 1 < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
    const size_t sign = source_[end + 1] == '+' || source_[end + 1] == '-' ? 1 : 0;
    if (end + 1 + sign < source_.size() && IsDigit(source_[end + 1 + sign])) {
      is_float = true;
      text += source_.substr(end, 1 + sign);
      end += 1 + sign;
      digits();
    }
  }
  Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
  Advance(end - position_);
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return InvalidArgument("chat template: {} bytes, at most {}", source.size(), kMaxTemplateBytes);
  }
  return Lexer(NormalizeLines(source)).Run();
}

}  // namespace spillway::jinja
