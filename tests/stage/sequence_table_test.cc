// The bookkeeping of sequences: what a segment may do, pages counted exactly, forks sharing and copying
// pages, and a random walk against a naive model.
#include "engine/stage/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/base/status.h"

namespace spillway {
namespace {

constexpr uint32_t kVocab = 50;

StageOptions Options() {
  return StageOptions{.n_ctx = 128, .kv_pages = 8, .max_sequences = 3, .max_rows = 64, .threads = 1};
}

std::vector<int32_t> Tokens(uint32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((first + i) % kVocab);
  return tokens;
}

class SequenceTableTest : public testing::Test {
 protected:
  SegmentResult Run(SequenceId id, uint32_t begin, std::span<const int32_t> tokens,
                    std::optional<uint64_t> hash = {}, bool recompute = false) {
    SequenceState* state = table_.Find(id);
    Segment segment;
    segment.sequence = id;
    segment.begin = begin;
    segment.recompute = recompute;
    segment.prefix_hash =
        hash.value_or(state != nullptr && begin < state->hashes.size() ? state->hashes[begin] : uint64_t{0});
    segment.tokens = tokens;
    SegmentResult result;
    copy_ = table_.Prepare(segment, &result);
    return result;
  }

  SequenceTable table_{Options(), kVocab};
  std::optional<PageCopy> copy_;
};

TEST_F(SequenceTableTest, TakesAndReturnsPages) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  EXPECT_EQ(Run(1, 0, Tokens(33)).code, SegmentCode::kOk);
  EXPECT_EQ(table_.FreePages(), 6u);
  EXPECT_EQ(Run(1, 10, Tokens(2)).held_tokens, 12u);  // cut back
  EXPECT_EQ(table_.FreePages(), 7u);
  table_.Close(1);
  EXPECT_EQ(table_.FreePages(), 8u);
}

TEST_F(SequenceTableTest, RefusesWithTheReasonAndChangesNothing) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_TRUE(table_.Open(2, {}).ok());
  ASSERT_EQ(Run(1, 0, Tokens(40)).code, SegmentCode::kOk);
  EXPECT_EQ(Run(7, 0, Tokens(1)).code, SegmentCode::kUnknownSequence);
  EXPECT_EQ(Run(1, 41, Tokens(1)).code, SegmentCode::kNeedsReplay);
  EXPECT_EQ(Run(1, 40, Tokens(1), 12345).code, SegmentCode::kNeedsReplay);
  EXPECT_EQ(Run(1, 40, Tokens(0)).code, SegmentCode::kInvalid);
  EXPECT_EQ(Run(1, 40, Tokens(89)).code, SegmentCode::kInvalid);
  EXPECT_EQ(Run(1, 4294967295u, Tokens(2)).code, SegmentCode::kInvalid);
  const std::vector<int32_t> bad = {3, 50};
  EXPECT_THAT(Run(1, 40, bad).error, testing::HasSubstr("token id 50"));
  ASSERT_EQ(Run(2, 0, Tokens(128)).code, SegmentCode::kOk);
  EXPECT_EQ(table_.FreePages(), 2u);
  const SegmentResult full = Run(1, 40, Tokens(88));
  EXPECT_EQ(full.code, SegmentCode::kOk);
  EXPECT_EQ(table_.FreePages(), 0u);
  ASSERT_TRUE(table_.Open(3, {}).ok());
  const SegmentResult none = Run(3, 0, Tokens(1));
  EXPECT_EQ(none.code, SegmentCode::kOutOfPages);
  EXPECT_EQ(none.held_tokens, 0u);
  EXPECT_EQ(Run(1, 127, Tokens(1)).held_tokens, 128u);
  EXPECT_EQ(table_.Open(4, {}).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SequenceTableTest, RefusesMasksOfAnotherSize) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  const std::vector<int32_t> tokens = Tokens(3);
  const std::vector<uint8_t> masks(3 * MaskBytes(kVocab), 0xFF);
  const auto code = [&](Outputs outputs, size_t bytes) {
    Segment segment;
    segment.sequence = 1;
    segment.tokens = tokens;
    segment.outputs = outputs;
    segment.token_masks = std::span(masks).first(bytes);
    SegmentResult result;
    table_.Prepare(segment, &result);
    return result.code;
  };
  EXPECT_EQ(code(Outputs::kLast, MaskBytes(kVocab)), SegmentCode::kOk);
  EXPECT_EQ(code(Outputs::kAll, 3 * MaskBytes(kVocab)), SegmentCode::kOk);
  EXPECT_EQ(code(Outputs::kLast, MaskBytes(kVocab) - 1), SegmentCode::kInvalid);
  EXPECT_EQ(code(Outputs::kAll, MaskBytes(kVocab)), SegmentCode::kInvalid);
  EXPECT_EQ(code(Outputs::kNone, MaskBytes(kVocab)), SegmentCode::kInvalid);
}

TEST_F(SequenceTableTest, RecomputeNeedsTheSameTokensHeld) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_EQ(Run(1, 0, Tokens(20)).code, SegmentCode::kOk);
  EXPECT_EQ(Run(1, 5, Tokens(10, 5), {}, true).code, SegmentCode::kOk);
  EXPECT_EQ(table_.Find(1)->tokens.size(), 20u);
  EXPECT_EQ(Run(1, 5, Tokens(10, 6), {}, true).code, SegmentCode::kNeedsReplay);
  EXPECT_EQ(Run(1, 15, Tokens(10, 15), {}, true).code, SegmentCode::kNeedsReplay);
}

TEST_F(SequenceTableTest, ForkSharesFullPagesAndCopiesTheLast) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_EQ(Run(1, 0, Tokens(70)).code, SegmentCode::kOk);  // 3 pages
  const auto copies = table_.Fork(1, 2, 66);
  ASSERT_TRUE(copies.ok()) << copies.status();
  ASSERT_TRUE(copies->page.has_value());
  EXPECT_FALSE(copies->state.has_value());
  EXPECT_EQ(table_.FreePages(), 4u);
  EXPECT_EQ(table_.Find(2)->pages[1], table_.Find(1)->pages[1]);
  EXPECT_NE(table_.Find(2)->pages[2], table_.Find(1)->pages[2]);
  // Writing into the shared second page needs a page of its own.
  ASSERT_EQ(Run(2, 40, Tokens(1)).code, SegmentCode::kOk);
  ASSERT_TRUE(copy_.has_value());
  EXPECT_EQ(copy_->source, table_.Find(1)->pages[1]);
  EXPECT_EQ(copy_->target, table_.Find(2)->pages[1]);
  table_.Close(1);
  table_.Close(2);
  EXPECT_EQ(table_.FreePages(), 8u);
}

TEST_F(SequenceTableTest, ReopeningDropsTheState) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_EQ(Run(1, 0, Tokens(70)).code, SegmentCode::kOk);
  ASSERT_TRUE(table_.Open(1, {}).ok());
  EXPECT_EQ(table_.FreePages(), 8u);
  EXPECT_EQ(table_.Find(1)->tokens.size(), 0u);
}

// Whatever happens, no page is lost, no page is written by two sequences, and history is what was accepted.
TEST_F(SequenceTableTest, RandomWalkNeverLosesOrSharesAWrittenPage) {
  const uint32_t seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::map<SequenceId, std::vector<int32_t>> expected;
  for (int step = 0; step < 20000; ++step) {
    const SequenceId id = 1 + random() % 3;
    switch (random() % 8) {
      case 0:
        ASSERT_TRUE(table_.Open(id, {}).ok());
        expected[id].clear();
        break;
      case 1:
        table_.Close(id);
        expected.erase(id);
        break;
      case 2: {
        const SequenceId source = 1 + random() % 3;
        if (!expected.contains(source) || source == id) break;
        const uint32_t tokens = static_cast<uint32_t>(random() % (expected[source].size() + 1));
        if (table_.Fork(source, id, tokens).ok()) {
          expected[id].assign(expected[source].begin(), expected[source].begin() + tokens);
        } else if (table_.Find(id) == nullptr) {
          expected.erase(id);
        }
        break;
      }
      default: {
        if (!expected.contains(id)) break;
        const uint32_t begin = static_cast<uint32_t>(random() % (expected[id].size() + 1));
        const std::vector<int32_t> tokens = Tokens(1 + random() % 40, static_cast<int32_t>(random() % 50));
        if (Run(id, begin, tokens).code != SegmentCode::kOk) break;
        expected[id].resize(begin);
        expected[id].insert(expected[id].end(), tokens.begin(), tokens.end());
        // The pages written belong to this sequence alone.
        for (const auto& [other, history] : expected) {
          if (other == id) continue;
          for (uint32_t page = begin / kPageTokens;
               page < PagesFor(begin + static_cast<uint32_t>(tokens.size())); ++page) {
            ASSERT_THAT(table_.Find(other)->pages,
                        testing::Not(testing::Contains(table_.Find(id)->pages[page])));
          }
        }
      }
    }
    std::set<uint32_t> used;
    for (const auto& [open, history] : expected) {
      ASSERT_EQ(table_.Find(open)->tokens, history);
      ASSERT_EQ(table_.Find(open)->hashes.back(), PrefixHash(history));
      ASSERT_EQ(table_.Find(open)->pages.size(), PagesFor(static_cast<uint32_t>(history.size())));
      used.insert(table_.Find(open)->pages.begin(), table_.Find(open)->pages.end());
    }
    ASSERT_EQ(used.size() + table_.FreePages(), 8u);
  }
}

TEST(MicroBatchShape, IsCheckedAsAWhole) {
  const std::vector<int32_t> tokens = Tokens(70);
  Segment segment{.sequence = 1,
                  .begin = 0,
                  .outputs = Outputs::kAll,
                  .return_logits = true,
                  .recompute = false,
                  .prefix_hash = 0,
                  .tokens = std::span(tokens).first(10)};
  std::vector<Segment> segments = {segment};
  const StageUnits first{0, 1, true, false}, later{1, 2, false, true};
  const std::vector<float> activations(100);
  EXPECT_TRUE(CheckMicroBatch({segments, {}}, first, Options(), 10).ok());
  EXPECT_TRUE(CheckMicroBatch({segments, activations}, later, Options(), 10).ok());
  EXPECT_FALSE(CheckMicroBatch({segments, activations}, later, Options(), 11).ok());
  EXPECT_FALSE(CheckMicroBatch({segments, activations}, first, Options(), 10).ok());
  EXPECT_FALSE(CheckMicroBatch({{}, {}}, first, Options(), 10).ok());
  segments.push_back(segment);
  EXPECT_THAT(MessageOf(CheckMicroBatch({segments, {}}, first, Options(), 10)), testing::HasSubstr("twice"));
  segments[1].sequence = 2;
  EXPECT_THAT(MessageOf(CheckMicroBatch({segments, {}}, first, Options(), 10)),
              testing::HasSubstr("logits of 20 rows"));
  segments[1].tokens = tokens;
  EXPECT_THAT(MessageOf(CheckMicroBatch({segments, {}}, first, Options(), 10)),
              testing::HasSubstr("80 rows"));
}

}  // namespace
}  // namespace spillway
