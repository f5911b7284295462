// Recursive descent into a small tree, which is then written into an Nfa as often as its repeats ask for.
#include "engine/grammar/regex.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/grammar/code_points.h"
#include "engine/tokenizer/utf8.h"

namespace spillway::grammar {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr int kMaxGroupDepth = 50;
constexpr uint32_t kMaxRepeat = 1000;
constexpr size_t kMaxNfaStates = 20'000;
constexpr uint32_t kUnbounded = UINT32_MAX;

struct Node {
  enum class Kind { kSet, kConcat, kAlternate, kRepeat } kind = Kind::kConcat;
  CodePointSet set;
  std::vector<Node> children;
  uint32_t min = 0, max = 0;
};

Node SetNode(CodePointSet set) {
  Node node;
  node.kind = Node::Kind::kSet;
  node.set = Normalized(std::move(set));
  return node;
}

Node RepeatNode(Node child, uint32_t min, uint32_t max) {
  Node node;
  node.kind = Node::Kind::kRepeat;
  node.min = min;
  node.max = max;
  node.children.push_back(std::move(child));
  return node;
}

// White space of ECMA 262 and of Python together.
CodePointSet Spaces() {
  return {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
          {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<Node> Run() {
    Node node = ParseAlternatives(/*top=*/true);
    if (error_.ok() && !rest_.empty()) Fail("')' closes nothing");
    if (!error_.ok()) return error_;
    return node;
  }

 private:
  void Fail(std::string_view what) {
    if (error_.ok()) error_ = InvalidArgument("{}", what);
    rest_ = {};
  }
  bool Accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Node ParseAlternatives(bool top) {
    Node node;
    node.kind = Node::Kind::kAlternate;
    if (++depth_ > kMaxGroupDepth) Fail("groups nest too deep");
    do {
      node.children.push_back(ParseSequence(top));
    } while (Accept("|"));
    --depth_;
    return node;
  }

  // At the top an alternative that is not anchored may stand anywhere in the text.
  Node ParseSequence(bool top) {
    Node node;
    const auto add_anything = [&node] {
      node.children.push_back(RepeatNode(SetNode({{0, kMaxCodePoint}}), 0, kUnbounded));
    };
    bool ended = false;
    if (top && !Accept("^")) add_anything();
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      if (top && Accept("$")) {
        ended = true;
        if (!rest_.empty() && rest_.front() != '|') Fail("'$' is supported at the end only");
        break;
      }
      node.children.push_back(ParseRepeats(ParseAtom()));
    }
    if (top && !ended) add_anything();
    return node;
  }

  Node ParseRepeats(Node atom) {
    uint32_t min = 0;
    uint32_t max = kUnbounded;
    if (Accept("*")) {
    } else if (Accept("+")) {
      min = 1;
    } else if (Accept("?")) {
      max = 1;
    } else if (!ParseCount(&min, &max)) {
      return atom;
    }
    Accept("?");  // laziness does not change what matches
    if (!rest_.empty() && (rest_.front() == '*' || rest_.front() == '+')) Fail("a repeat of a repeat");
    return RepeatNode(std::move(atom), min, max);
  }

  // {n}, {n,} or {n,m}; anything else that begins with { is a literal.
  bool ParseCount(uint32_t* min, uint32_t* max) {
    if (!rest_.starts_with('{')) return false;
    size_t i = 1;
    const auto number = [&](uint32_t* value) {
      const size_t begin = i;
      uint64_t n = 0;
      for (; i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9' && i < begin + 9; ++i)
        n = n * 10 + static_cast<uint64_t>(rest_[i] - '0');
      *value = static_cast<uint32_t>(n);
      return i > begin;
    };
    if (!number(min)) return false;
    *max = *min;
    if (i < rest_.size() && rest_[i] == ',') {
      ++i;
      if (!number(max)) *max = kUnbounded;
    }
    if (i >= rest_.size() || rest_[i] != '}') return false;
    rest_.remove_prefix(i + 1);
    if (*min > kMaxRepeat || (*max != kUnbounded && *max > kMaxRepeat))
      Fail(fmt::format("a repeat of more than {}", kMaxRepeat));
    if (*max < *min) Fail("a repeat whose bounds are in the wrong order");
    return true;
  }

  Node ParseAtom() {
    if (Accept("(")) {
      if (rest_.starts_with("?") && !rest_.starts_with("?:")) {
        if (!rest_.starts_with("?<") || rest_.starts_with("?<=") || rest_.starts_with("?<!")) {
          Fail("look-around and inline flags are not supported");
          return {};
        }
        rest_.remove_prefix(std::min(rest_.find('>'), rest_.size() - 1) + 1);  // a named group
      } else {
        Accept("?:");
      }
      Node group = ParseAlternatives(/*top=*/false);
      if (!Accept(")")) Fail("a group is not closed");
      return group;
    }
    if (Accept("[")) return SetNode(ParseClass());
    if (Accept(".")) return SetNode(Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (rest_.starts_with('^') || rest_.starts_with('$')) {
      Fail("'^' and '$' are supported at the ends only");
      return {};
    }
    if (rest_.starts_with('*') || rest_.starts_with('+') || rest_.starts_with('?')) {
      Fail("a repeat of nothing");
      return {};
    }
    if (Accept("\\")) {
      bool shorthand = false;
      return SetNode(ParseEscape(/*in_class=*/false, &shorthand));
    }
    const uint32_t c = TakeCharacter();
    return SetNode({{c, c}});
  }

  uint32_t TakeCharacter() {
    const Utf8Step step = NextUtf8(rest_);
    if (rest_.empty() || step.kind != Utf8Kind::kCharacter) {
      Fail(rest_.empty() ? "it ends too early" : "it is not UTF-8");
      return 0;
    }
    rest_.remove_prefix(step.length);
    return step.code_point;
  }

  // After the backslash. `shorthand` is set for \d and its like, which are no bound of a range.
  CodePointSet ParseEscape(bool in_class, bool* shorthand) {
    const uint32_t c = TakeCharacter();
    const CodePointSet digits = {{'0', '9'}};
    const CodePointSet words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    *shorthand = true;
    // Complements of \d and \w stay in ASCII: beyond it engines differ.
    if (c == 'd') return digits;
    if (c == 'D') return Limited(Complement(digits), 0x7F);
    if (c == 'w') return words;
    if (c == 'W') return Limited(Complement(words), 0x7F);
    if (c == 's') return {{0x09, 0x0D}, {0x20, 0x20}};
    if (c == 'S') return Complement(Spaces());
    *shorthand = false;
    static constexpr std::pair<char, uint32_t> kControls[] = {
        {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}};
    for (const auto& [name, value] : kControls) {
      if (c == static_cast<uint32_t>(name)) return {{value, value}};
    }
    if (c == 'x' || c == 'u') return Single(TakeHex(c == 'x' ? 2 : 4));
    if (c == 'b' && in_class) return Single('\b');
    const bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter_or_digit) Fail(fmt::format("'\\{}' is not supported", static_cast<char>(c)));
    return Single(c);
  }

  static CodePointSet Single(uint32_t c) { return {{c, c}}; }

  uint32_t TakeHex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = i < rest_.size() ? rest_[i] : ' ';
      const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                             : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A' + 10)
                                                    : 16;
      if (digit == 16) {
        Fail("an escape without its hexadecimal digits");
        return 0;
      }
      value = value * 16 + digit;
    }
    rest_.remove_prefix(digits);
    return value;
  }

  CodePointSet ParseClass() {
    const bool negated = Accept("^");
    bool has_shorthand = false;
    CodePointSet set;
    while (!rest_.empty() && rest_.front() != ']') {
      bool shorthand = false;
      const CodePointSet item = ClassItem(&shorthand);
      has_shorthand = has_shorthand || shorthand;
      const bool range = !shorthand && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
      if (!range) {
        set.insert(set.end(), item.begin(), item.end());
        continue;
      }
      rest_.remove_prefix(1);
      const CodePointSet end = ClassItem(&shorthand);
      if (shorthand || !error_.ok() || end.front().first < item.front().first) {
        Fail("a class with a range that is none");
        return {};
      }
      set.emplace_back(item.front().first, end.front().first);
    }
    if (!Accept("]")) Fail("a class is not closed");
    set = Normalized(std::move(set));
    if (!negated) return set;
    set = Complement(set);
    return has_shorthand ? Limited(set, 0x7F) : set;
  }

  CodePointSet ClassItem(bool* shorthand) {
    if (Accept("\\")) return ParseEscape(/*in_class=*/true, shorthand);
    return Single(TakeCharacter());
  }

  std::string_view rest_;
  absl::Status error_;
  int depth_ = 0;
};

class Writer {
 public:
  explicit Writer(RegexText text) : text_(text) {}

  absl::StatusOr<Dfa> Run(const Node& node) {
    const uint32_t begin = nfa_.AddState();
    const uint32_t end = nfa_.AddState();
    Write(node, begin, end);
    if (full()) return ResourceExhausted("it expands to more than {} states", kMaxNfaStates);
    return BuildDfa(nfa_, {begin, end});
  }

 private:
  bool full() const { return nfa_.size() > kMaxNfaStates; }

  void Write(const Node& node, uint32_t from, uint32_t to) {
    if (full()) return;
    switch (node.kind) {
      case Node::Kind::kSet:
        return WriteSet(node.set, from, to);
      case Node::Kind::kConcat:
        for (const Node& child : node.children) {
          const uint32_t next = nfa_.AddState();
          Write(child, from, next);
          from = next;
        }
        return nfa_.AddEmpty(from, to);
      case Node::Kind::kAlternate:
        for (const Node& child : node.children) Write(child, from, to);
        return;
      case Node::Kind::kRepeat:
        return WriteRepeat(node, from, to);
    }
  }

  void WriteRepeat(const Node& node, uint32_t from, uint32_t to) {
    const Node& child = node.children.front();
    // An alternative's begin must not be entered by a loop.
    const auto step = [&] {
      const uint32_t next = nfa_.AddState();
      Write(child, from, next);
      from = next;
    };
    const uint32_t begin = nfa_.AddState();
    nfa_.AddEmpty(from, begin);
    from = begin;
    for (uint32_t i = 0; i < node.min && !full(); ++i) step();
    if (node.max == kUnbounded) {
      const uint32_t loop = nfa_.AddState();
      nfa_.AddEmpty(from, loop);
      Write(child, loop, loop);
      return nfa_.AddEmpty(loop, to);
    }
    for (uint32_t i = node.min; i < node.max && !full(); ++i) {
      nfa_.AddEmpty(from, to);
      step();
    }
    nfa_.AddEmpty(from, to);
  }

  void WriteSet(const CodePointSet& set, uint32_t from, uint32_t to) {
    for (const auto& [first, last] : set) {
      if (text_ == RegexText::kPlain) {
        nfa_.AddCodePoints(from, first, last, to);
        continue;
      }
      for (uint32_t c = first; c <= std::min<uint32_t>(last, '\\'); ++c) {
        if (c < 0x20 || c == '"' || c == '\\') WriteText(Escaped(c), from, to);
      }
      // What stands as it is lies between and behind those.
      for (const auto& [low, high] :
           {std::pair<uint32_t, uint32_t>{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCodePoint}}) {
        if (std::max(first, low) <= std::min(last, high))
          nfa_.AddCodePoints(from, std::max(first, low), std::min(last, high), to);
      }
    }
  }

  static std::string Escaped(uint32_t c) {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      default:
        return fmt::format("\\u{:04x}", c);
    }
  }

  void WriteText(std::string_view text, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = i + 1 == text.size() ? to : nfa_.AddState();
      const auto byte = static_cast<uint8_t>(text[i]);
      nfa_.AddEdge(from, byte, byte, next);
      from = next;
    }
  }

  const RegexText text_;
  Nfa nfa_;
};

}  // namespace

absl::StatusOr<Dfa> CompileRegex(std::string_view pattern, RegexText text) {
  if (pattern.size() > kMaxPatternBytes)
    return ResourceExhausted("{} bytes, at most {}", pattern.size(), kMaxPatternBytes);
  SPILLWAY_ASSIGN_OR_RETURN(const Node node, Parser(pattern).Run());
  return Writer(text).Run(node);
}

}  // namespace spillway::grammar
