// See fake_stage.h.
#include "tests/gateway/scheduler/fake_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/base/status.h"

namespace spillway::gateway::testing {

namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15ULL)) + 0x632be59bd9b4e019ULL;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 29);
}

// The value stage `stage` gives the row whose history hashes to `history`.
uint64_t RowValue(uint64_t history, uint32_t stage) {
  uint64_t value = 0;
  for (uint32_t s = 0; s <= stage; ++s) value = Mix(value, Mix(history, s));
  return value;
}

int32_t Draw(uint64_t value, uint64_t seed) { return static_cast<int32_t>(Mix(value, seed) % kVocabulary); }

}  // namespace

std::vector<int32_t> SoloTokens(std::vector<int32_t> prompt, uint64_t seed, uint32_t stages, uint32_t count,
                                std::span<const int32_t> stop_ids) {
  std::vector<int32_t> drawn;
  while (drawn.size() < count) {
    drawn.push_back(Draw(RowValue(PrefixHash(prompt), stages - 1), seed));
    prompt.push_back(drawn.back());
    if (std::find(stop_ids.begin(), stop_ids.end(), drawn.back()) != stop_ids.end()) break;
  }
  return drawn;
}

void FakeStage::Push(Frame frame) {
  const std::lock_guard lock(mutex_);
  if (up_ && accepted_ == connection_) frames_.push_back(std::move(frame));
}

void FakeStage::Accept(uint64_t connection) {
  const std::lock_guard lock(mutex_);
  accepted_ = connection;
}

void FakeStage::SendOpen(v1::Open open) {
  Push([this, open = std::move(open)] {
    const std::lock_guard lock(mutex_);
    held_[open.sequence()] = Held{open.sampling().seed(), {}, {}};
    EXPECT_LE(held_.size(), options_.max_sequences);
  });
}

void FakeStage::SendForward(v1::Forward forward) {
  const std::lock_guard lock(mutex_);
  if (!up_ || accepted_ != connection_) return;
  ++queued_forwards_;
  frames_.push_back(
      [this, forward = std::move(forward), connection = connection_] { Answer(forward, connection); });
}

void FakeStage::SendClose(uint64_t sequence) {
  Push([this, sequence] {
    const std::lock_guard lock(mutex_);
    held_.erase(sequence);
  });
}

void FakeStage::SendCancel(uint64_t sequence) {
  Push([] {});
}

void FakeStage::Reset(absl::Status why) {
  const std::lock_guard lock(mutex_);
  ++resets_;
  up_ = false;
  frames_.clear();
  queued_forwards_ = 0;
}

void FakeStage::Connect() {
  StageEvent event;
  event.kind = StageEvent::Kind::kUp;
  event.stage = index_;
  {
    const std::lock_guard lock(mutex_);
    up_ = true;
    frames_.clear();
    queued_forwards_ = 0;
    event.connection = ++connection_;
  }
  sink_->Post(std::move(event));
}

void FakeStage::Lose(const absl::Status& why) {
  StageEvent event;
  event.kind = StageEvent::Kind::kDown;
  event.stage = index_;
  event.why = why;
  {
    const std::lock_guard lock(mutex_);
    up_ = false;
    frames_.clear();
    queued_forwards_ = 0;
    event.connection = connection_;
  }
  sink_->Post(std::move(event));
}

bool FakeStage::Step() {
  Frame frame;
  {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return false;
    frame = std::move(frames_.front());
    frames_.pop_front();
  }
  frame();
  return true;
}

void FakeStage::Held::Truncate(uint32_t begin) {
  tokens.resize(begin);
  states.erase(states.upper_bound(begin), states.end());
}

uint32_t FakeStage::Held::Latest(uint32_t position) const {
  const auto after = states.upper_bound(position);
  return after == states.begin() ? 0 : *std::prev(after);
}

v1::SegmentCode FakeStage::Check(const v1::Segment& segment, v1::SegmentResult* result) {
  const auto found = held_.find(segment.sequence());
  if (found == held_.end()) return v1::SEGMENT_CODE_UNKNOWN_SEQUENCE;
  Held& sequence = found->second;
  std::vector<int32_t>& tokens = sequence.tokens;
  const auto held = static_cast<uint32_t>(tokens.size());
  result->set_held_tokens(held);
  const uint64_t end = uint64_t{segment.begin()} + static_cast<uint64_t>(segment.tokens_size());
  if (end > options_.n_ctx) return v1::SEGMENT_CODE_INVALID;
  if (segment.begin() > held) {
    result->set_resume_tokens(held);
    return v1::SEGMENT_CODE_NEEDS_REPLAY;
  }
  if (PrefixHash(std::span(tokens).first(segment.begin())) != segment.prefix_hash()) {
    return v1::SEGMENT_CODE_NEEDS_REPLAY;
  }
  if (recurrent_ && sequence.Latest(segment.begin()) != segment.begin()) {
    result->set_resume_tokens(sequence.Latest(segment.begin()));
    return v1::SEGMENT_CODE_NEEDS_REPLAY;
  }
  const uint32_t more = PagesFor(static_cast<uint32_t>(end)) - PagesFor(held);
  if (end > held && PagesHeldLocked() + more > options_.kv_pages) return v1::SEGMENT_CODE_OUT_OF_PAGES;
  sequence.Truncate(segment.begin());
  tokens.insert(tokens.end(), segment.tokens().begin(), segment.tokens().end());
  sequence.states.insert(static_cast<uint32_t>(end));
  while (sequence.states.size() > 4) sequence.states.erase(sequence.states.begin());
  result->set_held_tokens(static_cast<uint32_t>(tokens.size()));
  return v1::SEGMENT_CODE_OK;
}

void FakeStage::Compute(const v1::Segment& segment, int index, const char* input, v1::ForwardReply* reply) {
  const Held& held = held_.at(segment.sequence());
  uint64_t history = segment.prefix_hash();
  uint64_t value = 0;
  for (int row = 0; row < segment.tokens_size(); ++row) {
    history = ExtendPrefixHash(history, segment.tokens(row));
    if (input != nullptr) {
      uint64_t incoming = 0;
      std::memcpy(&incoming, input + row * 8, 8);
      EXPECT_EQ(incoming, RowValue(history, index_ - 1)) << "activations of another row";
    }
    value = RowValue(history, index_);
    if (index_ + 1 < stages_) reply->mutable_activations()->append(reinterpret_cast<const char*>(&value), 8);
  }
  if (index_ + 1 == stages_ && segment.outputs() == v1::OUTPUT_ROWS_LAST) {
    v1::SampledRow& sampled = *reply->add_sampled();
    sampled.set_segment(static_cast<uint32_t>(index));
    sampled.set_position(segment.begin() + static_cast<uint32_t>(segment.tokens_size()) - 1);
    int32_t token = Draw(value, held.seed);
    const std::string& mask = segment.token_masks();
    if (!mask.empty()) {  // the next one allowed
      EXPECT_EQ(mask.size(), MaskBytes(kVocabulary));
      for (uint32_t tries = 0; tries < kVocabulary; ++tries) {
        if ((static_cast<uint8_t>(mask[static_cast<size_t>(token) / 8]) >> (token % 8) & 1) != 0) break;
        token = (token + 1) % static_cast<int32_t>(kVocabulary);
      }
    }
    sampled.mutable_chosen()->set_token(token);
  }
}

void FakeStage::Answer(const v1::Forward& forward, uint64_t connection) {
  StageEvent event;
  event.kind = StageEvent::Kind::kReply;
  event.stage = index_;
  v1::ForwardReply& reply = event.reply.reply;
  {
    const std::lock_guard lock(mutex_);
    if (connection == connection_ && queued_forwards_ > 0) --queued_forwards_;
    event.connection = connection;
    reply.set_step(forward.step());
    reply.set_activation_type(forward.activation_type());
    reply.set_last(true);
    reply.mutable_timings()->set_compute_ns(1000);
    size_t offset = 0;
    uint32_t rows = 0;
    for (int i = 0; i < forward.segments_size(); ++i) {
      const v1::Segment& segment = forward.segments(i);
      v1::SegmentResult& result = *reply.add_segments();
      const v1::SegmentCode code = Check(segment, &result);
      result.set_code(code);
      if (code != v1::SEGMENT_CODE_OK) ++refusals_;
      const char* input = index_ == 0 ? nullptr : forward.activations().data() + offset;
      if (code == v1::SEGMENT_CODE_OK) Compute(segment, i, input, &reply);
      offset += static_cast<size_t>(segment.tokens_size()) * 8;
      rows += static_cast<uint32_t>(segment.tokens_size());
    }
    EXPECT_EQ(forward.activations().size(), index_ == 0 ? 0 : offset);
    EXPECT_LE(rows, options_.max_rows);
    batch_rows_.push_back(rows);
    if (tamper) tamper(reply);
  }
  sink_->Post(std::move(event));
}

void FakeStage::ForgetEverything() {
  const std::lock_guard lock(mutex_);
  held_.clear();
}

bool FakeStage::ForgetOne(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  if (held_.empty()) return false;
  auto it = std::next(held_.begin(), static_cast<ptrdiff_t>(random() % held_.size()));
  if (random() % 2 == 0) {
    held_.erase(it);
  } else {
    const auto half = static_cast<uint32_t>(it->second.tokens.size() / 2);
    it->second.Truncate(recurrent_ ? it->second.Latest(half) : half);
  }
  return true;
}

void FakeStage::Rewind(uint32_t tokens) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, held] : held_) held.Truncate(recurrent_ ? held.Latest(tokens) : tokens);
}

uint32_t FakeStage::PagesHeldLocked() const {
  uint32_t pages = 0;
  for (const auto& [id, held] : held_) pages += PagesFor(static_cast<uint32_t>(held.tokens.size()));
  return pages;
}

uint32_t FakeStage::pages_held() const {
  const std::lock_guard lock(mutex_);
  return PagesHeldLocked();
}

uint32_t FakeStage::open_sequences() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(held_.size());
}

size_t FakeStage::queued_forwards() const {
  const std::lock_guard lock(mutex_);
  return queued_forwards_;
}

uint32_t FakeStage::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

uint32_t FakeStage::resets() const {
  const std::lock_guard lock(mutex_);
  return resets_;
}

std::vector<uint32_t> FakeStage::batch_rows() const {
  const std::lock_guard lock(mutex_);
  return batch_rows_;
}

}  // namespace spillway::gateway::testing
