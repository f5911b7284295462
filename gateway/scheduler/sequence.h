// One accepted request as the scheduler keeps it: its tokens, how far they were sent through the pipeline and
// what it holds. Plain data; the rules that change it stand in SchedulerCore.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/stage/stage.h"
#include "gateway/scheduler/scheduler.h"

namespace spillway::gateway {

using TimePoint = std::chrono::steady_clock::time_point;

inline double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Sequence {
  RequestId request = 0;  // also its age: lower is older
  SamplingParams sampling;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  EventSink sink;

  // With a constraint: how far the generated tokens have come, and what may be drawn next. A function of
  // them, so running them again changes nothing.
  std::unique_ptr<grammar::ConstraintState> constraint;
  grammar::TokenMask mask;

  std::vector<int32_t> tokens;  // prompt, then what was generated
  uint32_t prompt_tokens = 0;
  uint32_t token_limit = 0;  // tokens.size() at which it ends with kLength

  // Of the current opening; a new opening has a new id, so that answers to an older one are recognised and
  // dropped.
  SequenceId id = 0;       // 0 = not open
  uint32_t opened_on = 0;  // stages [0, opened_on) know it
  uint32_t sent = 0;       // tokens [0, sent) went into stage 0
  uint64_t sent_hash = 0;  // PrefixHash of them
  uint32_t in_flight = 0;  // micro-batches it is part of
  uint32_t pages = 0;      // counted for it on every stage
  uint64_t last_step = 0;
  uint32_t restarts = 0;  // since the last token
  uint32_t run = 0;       // goes up when it is sent again from somewhere under the same id

  TimePoint submitted;
  TimePoint first_sent;  // epoch value = not yet
  TimePoint first_token;
  TimePoint last_token;

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t generated() const { return size() - prompt_tokens; }
  uint32_t unsent() const { return size() - sent; }
  // Only its newest, generated token is left to run, or is running.
  bool decoding() const { return generated() > 0 && unsent() <= 1; }
};

// `count` tokens of a sequence from `begin` in a micro-batch.
struct BatchItem {
  SequenceId sequence = 0;
  uint32_t run = 0;  // of the sequence then; what belongs to an older one is dropped
  uint32_t begin = 0;
  uint32_t count = 0;
  uint64_t prefix_hash = 0;
  bool samples = false;  // its last row draws a token
};

struct FlyingBatch {
  uint64_t step = 0;
  uint32_t stage = 0;  // where it is now
  bool prefill = false;
  uint32_t prefill_rows = 0;
  TimePoint sent_at;
  std::vector<BatchItem> items;
  uint32_t rows() const {
    uint32_t rows = 0;
    for (const BatchItem& item : items) rows += item.count;
    return rows;
  }
};

}  // namespace spillway::gateway
