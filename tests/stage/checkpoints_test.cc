// Which recurrent states stay, played against slots with contents: a state is never read from a slot that
// something else was written to, and what must be held always is.
#include "engine/stage/checkpoints.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "engine/base/status.h"
#include "engine/stage/sequence_table.h"

namespace spillway {
namespace {

TEST(Checkpoints, TheStateBeforeTheLatestSegmentStays) {
  Checkpoints checkpoints(0);
  EXPECT_TRUE(checkpoints.Has(0));
  EXPECT_EQ(checkpoints.Write(0, 32).source, kNoState);
  for (uint32_t end = 33; end < 300; ++end) {
    const StateRun run = checkpoints.Write(end - 1, end);
    EXPECT_NE(run.source, run.target);
    EXPECT_TRUE(checkpoints.Has(end - 1));
    EXPECT_TRUE(checkpoints.Has(end));
  }
  // Older ones: boundaries of pages, from where a shorter prefix can go on.
  EXPECT_EQ(checkpoints.Latest(298) % 32, 298 % 32);
  EXPECT_EQ(checkpoints.Latest(297) % 32, 0u);
  EXPECT_GE(checkpoints.Latest(297), 32u);
}

TEST(Checkpoints, ASegmentSentAgainReadsTheSameState) {
  Checkpoints checkpoints(3);
  checkpoints.Write(0, 10);
  const StateRun first = checkpoints.Write(10, 20);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(checkpoints.Write(10, 20).source, first.source);
  EXPECT_GE(first.source, 3 * kStateSlots);
  EXPECT_LT(first.source, 4 * kStateSlots);
}

TEST(Checkpoints, TruncationDropsWhatCameAfter) {
  Checkpoints checkpoints(0);
  checkpoints.Write(0, 10);
  checkpoints.Write(10, 20);
  checkpoints.Write(20, 30);
  checkpoints.Write(10, 11);
  EXPECT_EQ(checkpoints.Latest(1000), 11u);
  EXPECT_FALSE(checkpoints.Has(20));
}

// contents[slot]: the position whose state the slot really has.
TEST(Checkpoints, RandomWalkNeverReadsAnotherState) {
  const uint32_t seed = 20250117;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Checkpoints checkpoints(0);
  std::map<uint32_t, uint32_t> contents;
  uint32_t held = 0, previous = 0;
  for (int step = 0; step < 50000; ++step) {
    const uint32_t wanted = random() % 4 == 0 && held > 0 ? random() % held : held;
    const uint32_t begin = checkpoints.Latest(wanted);
    const bool recompute = begin < held && random() % 2 == 0;
    const uint32_t end = recompute ? begin + 1 + random() % (held - begin) : begin + 1 + random() % 40;
    const StateRun run = recompute ? checkpoints.Recompute(begin, end) : checkpoints.Write(begin, end);
    ASSERT_NE(run.target, run.source);
    ASSERT_LT(run.target, kStateSlots);
    if (begin > 0) {
      ASSERT_EQ(contents[run.source], begin);
    }
    if (!recompute) {
      held = end;
      previous = begin;
    }
    contents[run.target] = end;
    for (const uint32_t position : {held, previous, begin}) {
      ASSERT_TRUE(checkpoints.Has(position)) << position;
      if (position > 0) {
        ASSERT_EQ(contents[checkpoints.SlotAt(position)], position);
      }
    }
    if (held > 2000) {
      checkpoints.Clear();
      held = previous = 0;
    }
  }
}

class RecurrentTable : public testing::Test {
 protected:
  SegmentResult Run(SequenceId id, uint32_t begin, uint32_t end, bool recompute = false) {
    Segment segment;
    segment.sequence = id;
    segment.begin = begin;
    segment.recompute = recompute;
    segment.prefix_hash = PrefixHash(std::span(tokens_).first(begin));
    segment.tokens = std::span(tokens_).subspan(begin, end - begin);
    SegmentResult result;
    table_.Prepare(segment, &result);
    return result;
  }

  const StageOptions options_{.n_ctx = 128, .kv_pages = 12, .max_sequences = 3, .max_rows = 64};
  SequenceTable table_{options_, 50, true};
  const std::vector<int32_t> tokens_ = std::vector<int32_t>(128, 7);
};

TEST_F(RecurrentTable, APositionWithoutStateIsToldWhereToReplayFrom) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_EQ(Run(1, 0, 32).code, SegmentCode::kOk);
  ASSERT_EQ(Run(1, 32, 40).code, SegmentCode::kOk);
  const SegmentResult refused = Run(1, 36, 40);
  EXPECT_EQ(refused.code, SegmentCode::kNeedsReplay);
  EXPECT_EQ(refused.resume_tokens, 32u);
  EXPECT_EQ(refused.held_tokens, 40u) << "nothing has changed";
  EXPECT_NE(refused.error.find("at position 36"), std::string::npos) << refused.error;
  EXPECT_EQ(Run(1, 32, 38).code, SegmentCode::kOk);
  EXPECT_EQ(Run(1, 50, 51).resume_tokens, 38u) << "a gap goes on from what is held";
  EXPECT_EQ(Run(1, 7, 8).resume_tokens, 0u);
  EXPECT_EQ(Run(1, 7, 8, true).resume_tokens, 0u);
  EXPECT_EQ(Run(1, 0, 8, true).code, SegmentCode::kOk);
  EXPECT_EQ(Run(1, 8, 16, true).code, SegmentCode::kOk) << "a recompute goes on where the last one ended";
}

TEST_F(RecurrentTable, AForkHoldsTokensUpToAStateThatIsHeld) {
  ASSERT_TRUE(table_.Open(1, {}).ok());
  ASSERT_EQ(Run(1, 0, 32).code, SegmentCode::kOk);
  ASSERT_EQ(Run(1, 32, 40).code, SegmentCode::kOk);
  const auto copies = table_.Fork(1, 2, 39);
  ASSERT_TRUE(copies.ok()) << copies.status();
  EXPECT_FALSE(copies->page.has_value());
  ASSERT_TRUE(copies->state.has_value());
  EXPECT_EQ(copies->state->source, table_.Find(1)->checkpoints.SlotAt(32));
  EXPECT_EQ(table_.Find(2)->tokens.size(), 32u);
  EXPECT_EQ(Run(2, 39, 40).resume_tokens, 32u);
  EXPECT_EQ(Run(2, 32, 40).code, SegmentCode::kOk);
  EXPECT_NE(table_.Find(1)->seat, table_.Find(2)->seat);
}

TEST_F(RecurrentTable, SeatsAreGivenBack) {
  for (int round = 0; round < 5; ++round) {
    std::set<uint32_t> seats;
    for (SequenceId id = 1; id <= 3; ++id) {
      ASSERT_TRUE(table_.Open(id, {}).ok());
      ASSERT_EQ(Run(id, 0, 5).code, SegmentCode::kOk);
      seats.insert(table_.Find(id)->seat);
    }
    EXPECT_EQ(seats, (std::set<uint32_t>{0, 1, 2}));
    if (round % 2 == 0) {
      table_.CloseAll();
    } else {
      for (SequenceId id = 1; id <= 3; ++id) table_.Close(id);
    }
  }
}

}  // namespace
}  // namespace spillway
