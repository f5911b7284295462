// Goal: whatever the cuts between pieces, the released text is the text before the first completed stop
// string; nothing is held that could be released; characters stay whole. Checked by hand and against a naive
// search on random text.
#include "gateway/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace spillway {
namespace {

using Strings = std::vector<std::string>;

StopMatcher Make(const Strings& stops) {
  auto matcher = StopMatcher::Create(stops);
  EXPECT_TRUE(matcher.ok()) << matcher.status().message();
  return *std::move(matcher);
}

TEST(StopMatcher, ReleasesEverythingWithoutStops) {
  StopMatcher matcher;
  EXPECT_EQ(matcher.Add("abc"), "abc");
  EXPECT_EQ(matcher.Add(""), "");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, CutsBeforeTheStopStringAndDropsTheRest) {
  StopMatcher matcher = Make({"END"});
  EXPECT_EQ(matcher.Add("one END two"), "one ");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.stop(), "END");
  EXPECT_EQ(matcher.Add("three"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopMatcher matcher = Make({"\n\nUser:"});
  EXPECT_EQ(matcher.Add("hello"), "hello");
  EXPECT_EQ(matcher.Add(" \n"), " ");
  EXPECT_EQ(matcher.held_bytes(), 1u);
  EXPECT_EQ(matcher.Add("\nUs"), "");
  EXPECT_EQ(matcher.Add("ual"), "\n\nUsual");
  EXPECT_EQ(matcher.Add("\n\n\nUser"), "\n");
  EXPECT_EQ(matcher.Add(":"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, FinishReleasesAnUnfinishedStopString) {
  StopMatcher matcher = Make({"stop"});
  EXPECT_EQ(matcher.Add("a sto"), "a ");
  EXPECT_EQ(matcher.Finish(), "sto");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.held_bytes(), 0u);
}

TEST(StopMatcher, FindsAStopStringBehindItsOwnFalseStart) {
  for (const auto& [stop, text, before] :
       std::vector<std::array<std::string, 3>>{{"aab", "aaaab", "aa"},
                                               {"abab!", "ababab!", "ab"},
                                               {"aaa", "aaaa", ""},
                                               {"\n\n#", "\n\n\n\n#", "\n\n"}}) {
    StopMatcher matcher = Make({stop});
    std::string released;
    for (const char byte : text) released += matcher.Add(std::string(1, byte));
    EXPECT_TRUE(matcher.stopped()) << stop;
    EXPECT_EQ(released, before);
  }
}

TEST(StopMatcher, TheFirstToCompleteWinsThenTheLongest) {
  StopMatcher inner = Make({"abcd", "bc"});
  EXPECT_EQ(inner.Add("xabcd"), "xa");
  EXPECT_EQ(inner.stop(), "bc");
  StopMatcher same_end = Make({"c", "bc", "abc"});
  EXPECT_EQ(same_end.Add("xabc"), "x");
  EXPECT_EQ(same_end.stop(), "abc");
  StopMatcher prefix = Make({"abc", "ab"});
  EXPECT_EQ(prefix.Add("xabc"), "x");
  EXPECT_EQ(prefix.stop(), "ab");
}

TEST(StopMatcher, OfSeveralFalseStartsTheLongestIsHeld) {
  StopMatcher matcher = Make({"xyz!", "yz?", "z."});
  EXPECT_EQ(matcher.Add("axyz"), "a");
  EXPECT_EQ(matcher.Add("?"), "x");
  EXPECT_EQ(matcher.stop(), "yz?");
}

TEST(StopMatcher, KeepsCharactersWhole) {
  // Both begin with the byte E2: a false start inside a character is not one.
  StopMatcher matcher = Make({"\u20ac\u20ac"});
  EXPECT_EQ(matcher.Add("\u2026"), "\u2026");
  EXPECT_EQ(matcher.Add("\u20ac"), "");
  EXPECT_EQ(matcher.Add("\u2026"), "\u20ac\u2026");
  EXPECT_EQ(matcher.Add("\U0001f600\u20ac\u20ac"), "\U0001f600");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, RefusesEmptyTooLongAndTooMany) {
  const auto code = [](const Strings& stops) { return StopMatcher::Create(stops).status().code(); };
  EXPECT_EQ(code({"a", ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Strings(StopMatcher::kMaxStops + 1, "a")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({std::string(StopMatcher::kMaxStopBytes + 1, 'a')}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Strings(StopMatcher::kMaxStops, std::string(StopMatcher::kMaxStopBytes, 'a'))),
            absl::StatusCode::kOk);
  EXPECT_EQ(code({}), absl::StatusCode::kOk);
}

// What is before the first stop string to complete, and whether there is one: tries every end.
struct Naive {
  std::string before;
  bool stopped = false;
};

Naive SearchNaively(const std::string& text, const Strings& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

// The longest end of the text that begins a stop string.
size_t HeldNaively(const std::string& text, const Strings& stops) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) held = std::max(held, n);
    }
  }
  return held;
}

// Few characters, so that stop strings overlap themselves and each other.
std::string RandomText(std::mt19937& random, size_t length) {
  const char* const alphabet[] = {"a", "b", "\u20ac", "\u2026"};
  std::string text;
  for (size_t i = 0; i < length; ++i) text += alphabet[random() % 4 % (1 + random() % 4)];
  return text;
}

// Cuts at random character boundaries.
Strings Pieces(std::mt19937& random, const std::string& text) {
  Strings pieces(1);
  for (const char byte : text) {
    const bool starts_character = (byte & 0xc0) != 0x80;
    if (starts_character && random() % 3 == 0) pieces.emplace_back();
    pieces.back() += byte;
  }
  return pieces;
}

bool EndsBetweenCharacters(const std::string& whole, size_t at) {
  return at == whole.size() || (whole[at] & 0xc0) != 0x80;
}

TEST(StopMatcher, MatchesANaiveSearchWhateverThePieces) {
  std::mt19937 random(7);
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    Strings stops(random() % 5);
    for (std::string& stop : stops) stop = RandomText(random, 1 + random() % 7);
    const std::string text = RandomText(random, random() % 30);
    const Naive expected = SearchNaively(text, stops);
    StopMatcher matcher = Make(stops);
    std::string added, released;
    for (const std::string& piece : Pieces(random, text)) {
      released += matcher.Add(piece);
      added += piece;
      ASSERT_TRUE(EndsBetweenCharacters(text, released.size()));
      if (matcher.stopped()) continue;
      ASSERT_EQ(released.size() + HeldNaively(added, stops), added.size()) << "holds too much or too little";
    }
    ASSERT_EQ(matcher.stopped(), expected.stopped);
    released += matcher.Finish();
    ASSERT_EQ(released, expected.before);
    stopped += expected.stopped;
  }
  EXPECT_GT(stopped, 2000);
  EXPECT_LT(stopped, 18000);
}

}  // namespace
}  // namespace spillway
