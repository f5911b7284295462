// In-process pipeline: segments in, logits or tokens out.
#include "engine/stage/local_pipeline.h"

#include <algorithm>

#include "engine/base/status.h"

namespace spillway {
namespace {

// An open sequence on every stage, closed at the end of the scope.
class LocalSequence {
 public:
  static constexpr SequenceId kId = 1;

  explicit LocalSequence(std::span<Stage* const> stages) : stages_(stages) {}
  LocalSequence(const LocalSequence&) = delete;
  LocalSequence& operator=(const LocalSequence&) = delete;
  ~LocalSequence() {
    for (Stage* stage : stages_) stage->Close(kId);
  }

  absl::Status Open(uint32_t prompt_tokens) {
    SequenceOptions options;
    options.sampling.temperature = 0.0f;
    options.prompt_tokens = prompt_tokens;
    for (Stage* stage : stages_) SPILLWAY_RETURN_IF_ERROR(stage->Open(kId, options));
    return absl::OkStatus();
  }

  // Runs the next tokens; the sequence's hash follows.
  absl::Status Append(std::span<const int32_t> tokens, Outputs outputs, bool return_logits,
                      ForwardOutput* output) {
    Segment segment;
    segment.sequence = kId;
    segment.begin = held_;
    segment.outputs = outputs;
    segment.return_logits = return_logits;
    segment.prefix_hash = hash_;
    segment.tokens = tokens;
    SPILLWAY_RETURN_IF_ERROR(RunMicroBatch(stages_, {&segment, 1}, output));
    held_ += segment.count();
    for (const int32_t token : tokens) hash_ = ExtendPrefixHash(hash_, token);
    return absl::OkStatus();
  }

 private:
  const std::span<Stage* const> stages_;
  uint32_t held_ = 0;
  uint64_t hash_ = 0;
};

absl::StatusOr<uint32_t> CheckedChunk(std::span<Stage* const> stages, uint32_t chunk) {
  if (stages.empty() || !stages.front()->units().embedding || !stages.back()->units().head) {
    return InvalidArgument("a pipeline needs a first stage with the embedding and a last one with the head");
  }
  for (const Stage* stage : stages) chunk = std::min(chunk, stage->options().max_rows);
  if (chunk == 0) return InvalidArgument("a pipeline cannot run in chunks of 0 rows");
  return chunk;
}

}  // namespace

absl::Status RunMicroBatch(std::span<Stage* const> stages, std::span<const Segment> segments,
                           ForwardOutput* output) {
  *output = {};
  for (size_t i = 0; i < stages.size(); ++i) {
    const MicroBatch batch = {segments, output->activations};
    SPILLWAY_RETURN_IF_ERROR(stages[i]->Forward(batch, output));
    for (const SegmentResult& result : output->segments) {
      if (result.code != SegmentCode::kOk) return FailedPrecondition("stage {}: {}", i, result.error);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> LogitsFrom(std::span<Stage* const> stages, std::span<const int32_t> tokens,
                                              uint32_t first, uint32_t chunk) {
  SPILLWAY_ASSIGN_OR_RETURN(chunk, CheckedChunk(stages, chunk));
  if (first > tokens.size()) {
    return InvalidArgument("logits from position {} were asked for, of {} tokens", first, tokens.size());
  }
  LocalSequence sequence(stages);
  SPILLWAY_RETURN_IF_ERROR(sequence.Open(static_cast<uint32_t>(tokens.size())));
  std::vector<float> logits;
  for (size_t begin = 0; begin < tokens.size();) {
    // A chunk is all before `first` or all from it on.
    const size_t limit = begin < first ? first : tokens.size();
    const size_t count = std::min<size_t>(chunk, limit - begin);
    const Outputs outputs = begin < first ? Outputs::kNone : Outputs::kAll;
    ForwardOutput output;
    SPILLWAY_RETURN_IF_ERROR(sequence.Append(tokens.subspan(begin, count), outputs, true, &output));
    for (const SampledRow& row : output.sampled)
      logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    begin += count;
  }
  return logits;
}

absl::StatusOr<std::vector<float>> AllLogits(std::span<Stage* const> stages, std::span<const int32_t> tokens,
                                             uint32_t chunk) {
  return LogitsFrom(stages, tokens, 0, chunk);
}

absl::StatusOr<std::vector<int32_t>> GreedyTokens(std::span<Stage* const> stages,
                                                  std::span<const int32_t> prompt, uint32_t count,
                                                  uint32_t chunk) {
  SPILLWAY_ASSIGN_OR_RETURN(chunk, CheckedChunk(stages, chunk));
  if (prompt.empty()) return InvalidArgument("greedy decoding needs a prompt of at least one token");
  LocalSequence sequence(stages);
  SPILLWAY_RETURN_IF_ERROR(sequence.Open(static_cast<uint32_t>(prompt.size())));
  std::vector<int32_t> generated;
  ForwardOutput output;
  for (size_t begin = 0; begin < prompt.size();) {
    const size_t rows = std::min<size_t>(chunk, prompt.size() - begin);
    const Outputs outputs = begin + rows == prompt.size() ? Outputs::kLast : Outputs::kNone;
    SPILLWAY_RETURN_IF_ERROR(sequence.Append(prompt.subspan(begin, rows), outputs, false, &output));
    begin += rows;
  }
  while (generated.size() < count) {
    generated.push_back(output.sampled.back().chosen.token);
    if (generated.size() == count) break;
    SPILLWAY_RETURN_IF_ERROR(sequence.Append({&generated.back(), 1}, Outputs::kLast, false, &output));
  }
  return generated;
}

}  // namespace spillway
