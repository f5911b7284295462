#include "engine/stage/sequence_table.h"

#include <algorithm>

#include "engine/base/status.h"

namespace spillway {
namespace {

void Refuse(SegmentResult* result, SegmentCode code, std::string error) {
  result->code = code;
  result->error = std::move(error);
}

}  // namespace

absl::Status CheckMicroBatch(const MicroBatch& batch, const StageUnits& units, const StageOptions& options,
                             uint32_t n_embd) {
  if (batch.segments.empty()) return InvalidArgument("the micro-batch has no segments");
  uint64_t rows = 0;
  uint64_t logit_rows = 0;
  for (size_t i = 0; i < batch.segments.size(); ++i) {
    const Segment& segment = batch.segments[i];
    rows += segment.tokens.size();
    if (segment.return_logits && segment.outputs != Outputs::kNone) {
      logit_rows += segment.outputs == Outputs::kAll ? segment.tokens.size() : 1;
    }
    for (size_t j = 0; j < i; ++j) {
      if (batch.segments[j].sequence == segment.sequence) {
        return InvalidArgument("sequence {} appears twice in the micro-batch", segment.sequence);
      }
    }
  }
  if (rows > options.max_rows) {
    return InvalidArgument("the micro-batch has {} rows, the stage is planned for {}", rows,
                           options.max_rows);
  }
  if (logit_rows > kMaxLogitRows) {
    return InvalidArgument("logits of {} rows were asked for, at most {} per micro-batch", logit_rows,
                           kMaxLogitRows);
  }
  const uint64_t wanted = units.embedding ? 0 : rows * n_embd;
  if (batch.activations.size() != wanted) {
    return InvalidArgument("the micro-batch carries {} activations, {} rows of n_embd {} need {}",
                           batch.activations.size(), rows, n_embd, wanted);
  }
  return absl::OkStatus();
}

SequenceTable::SequenceTable(const StageOptions& options, uint32_t n_vocab, bool recurrent)
    : options_(options), n_vocab_(n_vocab), page_references_(options.kv_pages, 0), recurrent_(recurrent) {
  free_pages_.reserve(options.kv_pages);
  for (uint32_t page = options.kv_pages; page-- > 0;) free_pages_.push_back(page);
  for (uint32_t seat = options.max_sequences; seat-- > 0;) free_seats_.push_back(seat);
}

SequenceTable::~SequenceTable() = default;

absl::Status SequenceTable::Open(SequenceId id, const SequenceOptions& options) {
  SPILLWAY_RETURN_IF_ERROR(ValidateSamplingParams(options.sampling, n_vocab_));
  if (SequenceState* open = Find(id)) {
    Empty(*open);
    open->options = options;
    return absl::OkStatus();
  }
  if (sequences_.size() >= options_.max_sequences) {
    return ResourceExhausted("sequence {}: all {} sequences of this stage are open", id,
                             options_.max_sequences);
  }
  auto state = std::make_unique<SequenceState>();
  state->options = options;
  state->tokens.reserve(options_.n_ctx);
  state->hashes.reserve(options_.n_ctx + 1);
  state->hashes.push_back(0);
  state->pages.reserve(PagesFor(options_.n_ctx));
  state->seat = free_seats_.back();
  free_seats_.pop_back();
  state->checkpoints = Checkpoints(state->seat);
  sequences_.emplace(id, std::move(state));
  return absl::OkStatus();
}

absl::StatusOr<ForkCopies> SequenceTable::Fork(SequenceId source, SequenceId target, uint32_t tokens) {
  SequenceState* from = Find(source);
  if (from == nullptr) return NotFound("fork: sequence {} is not open", source);
  if (source == target) return InvalidArgument("fork: source and target are both sequence {}", source);
  if (tokens > from->tokens.size()) {
    return InvalidArgument("fork: sequence {} holds {} tokens, {} were asked for", source,
                           from->tokens.size(), tokens);
  }
  if (recurrent_) tokens = from->checkpoints.Latest(tokens);
  const uint32_t full_pages = tokens / kPageTokens;
  const bool partial = tokens % kPageTokens != 0;
  Close(target);
  if (partial && free_pages_.empty()) {
    return ResourceExhausted("fork of sequence {}: no free page for its last {} tokens", source,
                             tokens % kPageTokens);
  }
  SPILLWAY_RETURN_IF_ERROR(Open(target, from->options));
  SequenceState* to = Find(target);
  to->tokens.assign(from->tokens.begin(), from->tokens.begin() + tokens);
  to->hashes.assign(from->hashes.begin(), from->hashes.begin() + tokens + 1);
  for (uint32_t i = 0; i < full_pages; ++i) {
    to->pages.push_back(from->pages[i]);
    ++page_references_[from->pages[i]];
  }
  ForkCopies copies;
  if (partial) {
    const uint32_t page = free_pages_.back();
    free_pages_.pop_back();
    page_references_[page] = 1;
    to->pages.push_back(page);
    copies.page = PageCopy{from->pages[full_pages], page};
  }
  if (recurrent_ && tokens > 0) {
    copies.state = StateCopy{from->checkpoints.SlotAt(tokens), to->checkpoints.Write(0, tokens).target};
  }
  return copies;
}

void SequenceTable::Close(SequenceId id) {
  if (SequenceState* state = Find(id)) {
    Empty(*state);
    free_seats_.push_back(state->seat);
    sequences_.erase(id);
  }
}

void SequenceTable::CloseAll() {
  while (!sequences_.empty()) Close(sequences_.begin()->first);
}

SequenceState* SequenceTable::Find(SequenceId id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second.get();
}

// Whether the segment can follow, or repeat, what is held.
bool SequenceTable::CheckHeld(const Segment& segment, const SequenceState& state,
                              SegmentResult* result) const {
  const uint32_t held = result->held_tokens;
  const auto refuse = [&](uint32_t resume, std::string error) {
    Refuse(result, SegmentCode::kNeedsReplay, std::move(error));
    result->resume_tokens = resume;
    return false;
  };
  if (segment.begin > held) {
    return refuse(held, fmt::format("sequence {}: a gap at position {}; {} tokens are held", segment.sequence,
                                    segment.begin, held));
  }
  if (state.hashes[segment.begin] != segment.prefix_hash) {
    return refuse(0, fmt::format("sequence {}: another prefix at position {}; {} tokens are held",
                                 segment.sequence, segment.begin, held));
  }
  if (segment.recompute) {
    const uint64_t end = uint64_t{segment.begin} + segment.tokens.size();
    const bool matches = end <= held && std::equal(segment.tokens.begin(), segment.tokens.end(),
                                                   state.tokens.begin() + segment.begin);
    if (!matches) {
      return refuse(0, fmt::format("sequence {}: recompute of [{}, {}) does not match the {} tokens held",
                                   segment.sequence, segment.begin, end, held));
    }
  }
  if (recurrent_ && !state.checkpoints.Has(segment.begin)) {
    const uint32_t latest = state.checkpoints.Latest(segment.begin);
    return refuse(latest, fmt::format("sequence {}: no recurrent state is held at position {}; the last one "
                                      "before it is at {}",
                                      segment.sequence, segment.begin, latest));
  }
  return true;
}

std::optional<PageCopy> SequenceTable::Prepare(const Segment& segment, SegmentResult* result) {
  *result = SegmentResult{};
  SequenceState* state = Find(segment.sequence);
  if (state == nullptr) {
    Refuse(result, SegmentCode::kUnknownSequence,
           fmt::format("sequence {} is not open here", segment.sequence));
    return std::nullopt;
  }
  const uint32_t held = static_cast<uint32_t>(state->tokens.size());
  result->held_tokens = held;
  const uint64_t end = uint64_t{segment.begin} + segment.tokens.size();
  if (segment.tokens.empty() || end > options_.n_ctx) {
    Refuse(result, SegmentCode::kInvalid,
           fmt::format("sequence {}: tokens [{}, {}) are empty or past the context of {}", segment.sequence,
                       segment.begin, end, options_.n_ctx));
    return std::nullopt;
  }
  for (int32_t token : segment.tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab_) {
      Refuse(result, SegmentCode::kInvalid,
             fmt::format("sequence {}: token id {} is outside [0, {})", segment.sequence, token, n_vocab_));
      return std::nullopt;
    }
  }
  if (!CheckHeld(segment, *state, result)) return std::nullopt;
  if (!segment.token_masks.empty() &&
      segment.token_masks.size() != segment.wanted_rows() * MaskBytes(n_vocab_)) {
    Refuse(result, SegmentCode::kInvalid,
           fmt::format("sequence {}: {} bytes of token masks for {} rows, each needs {}", segment.sequence,
                       segment.token_masks.size(), segment.wanted_rows(), MaskBytes(n_vocab_)));
    return std::nullopt;
  }
  if (segment.recompute) {
    if (recurrent_) state->run = state->checkpoints.Recompute(segment.begin, static_cast<uint32_t>(end));
    return std::nullopt;
  }
  // Pages first, so that a refusal leaves everything as it was. The page at `begin` may be shared with a
  // fork.
  const uint32_t kept_pages = PagesFor(segment.begin);
  const uint32_t wanted_pages = PagesFor(static_cast<uint32_t>(end));
  const bool shared = segment.begin % kPageTokens != 0 && page_references_[state->pages[kept_pages - 1]] > 1;
  uint32_t released = 0;  // by truncation
  for (size_t i = kept_pages; i < state->pages.size(); ++i)
    released += page_references_[state->pages[i]] == 1;
  if (wanted_pages - kept_pages + shared > free_pages_.size() + released) {
    Refuse(result, SegmentCode::kOutOfPages,
           fmt::format("sequence {}: {} pages are needed, {} are free", segment.sequence,
                       wanted_pages - kept_pages + shared, free_pages_.size() + released));
    return std::nullopt;
  }
  Truncate(*state, segment.begin);
  if (recurrent_) state->run = state->checkpoints.Write(segment.begin, static_cast<uint32_t>(end));
  std::optional<PageCopy> copy;
  const auto take = [this] {
    const uint32_t page = free_pages_.back();
    free_pages_.pop_back();
    page_references_[page] = 1;
    return page;
  };
  if (shared) {
    copy = PageCopy{state->pages.back(), take()};
    --page_references_[state->pages.back()];
    state->pages.back() = copy->target;
  }
  while (state->pages.size() < wanted_pages) state->pages.push_back(take());
  for (int32_t token : segment.tokens) {
    state->tokens.push_back(token);
    state->hashes.push_back(ExtendPrefixHash(state->hashes.back(), token));
  }
  result->held_tokens = static_cast<uint32_t>(state->tokens.size());
  return copy;
}

uint32_t SequenceTable::FreePages() const { return static_cast<uint32_t>(free_pages_.size()); }

uint32_t SequenceTable::OpenSequences() const { return static_cast<uint32_t>(sequences_.size()); }

void SequenceTable::Empty(SequenceState& state) {
  Truncate(state, 0);
  state.checkpoints.Clear();
}

void SequenceTable::Truncate(SequenceState& state, uint32_t tokens) {
  state.tokens.resize(tokens);
  state.hashes.resize(size_t{tokens} + 1);
  while (state.pages.size() > PagesFor(tokens)) {
    const uint32_t page = state.pages.back();
    state.pages.pop_back();
    if (--page_references_[page] == 0) free_pages_.push_back(page);
  }
}

}  // namespace spillway
