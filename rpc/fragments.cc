// Fragment bookkeeping. The only copies are those of payloads that do not fit one message.
#include "rpc/fragments.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "rpc/convert.h"

namespace spillway::rpc {

namespace {

uint64_t SampledBytes(const v1::SampledRow& row) {
  return 64 + row.logits().size() + 16 * uint64_t(row.top_size());
}

uint64_t PayloadBytes(const v1::ForwardReply& reply) {
  uint64_t bytes = reply.activations().size();
  for (const v1::SampledRow& row : reply.sampled()) bytes += SampledBytes(row);
  return bytes;
}

}  // namespace

std::vector<v1::ClientFrame> SplitForward(v1::Forward forward) {
  std::vector<v1::ClientFrame> frames;
  if (forward.activations().size() <= kMaxFragmentBytes) {
    forward.set_fragment(0);
    forward.set_last(true);
    *frames.emplace_back().mutable_forward() = std::move(forward);
    return frames;
  }
  std::string activations;
  activations.swap(*forward.mutable_activations());
  const uint64_t step = forward.step();
  const v1::ActivationType type = forward.activation_type();
  for (uint64_t sent = 0; sent < activations.size();) {
    const uint64_t count = std::min<uint64_t>(kMaxFragmentBytes, activations.size() - sent);
    v1::Forward* part = frames.emplace_back().mutable_forward();
    if (sent == 0) *part = std::move(forward);
    part->set_step(step);
    part->set_activation_type(type);
    part->set_activations(activations.data() + sent, count);
    part->set_fragment(static_cast<uint32_t>(frames.size() - 1));
    sent += count;
    part->set_last(sent == activations.size());
  }
  return frames;
}

namespace {

// A fragment with the scalars of `reply`, without its payload.
v1::ForwardReply* AddFragment(const v1::ForwardReply& scalars, std::vector<v1::WorkerFrame>* frames) {
  v1::ForwardReply* part = frames->emplace_back().mutable_reply();
  *part = scalars;
  part->set_fragment(static_cast<uint32_t>(frames->size() - 1));
  part->set_last(false);
  return part;
}

}  // namespace

std::vector<v1::WorkerFrame> SplitReply(v1::ForwardReply reply) {
  std::vector<v1::WorkerFrame> frames;
  if (PayloadBytes(reply) <= kMaxFragmentBytes) {
    reply.set_fragment(0);
    reply.set_last(true);
    *frames.emplace_back().mutable_reply() = std::move(reply);
    return frames;
  }
  std::string activations;
  activations.swap(*reply.mutable_activations());
  google::protobuf::RepeatedPtrField<v1::SampledRow> sampled;
  sampled.Swap(reply.mutable_sampled());
  google::protobuf::RepeatedPtrField<v1::SegmentResult> segments;
  segments.Swap(reply.mutable_segments());

  v1::ForwardReply* part = AddFragment(reply, &frames);
  part->mutable_segments()->Swap(&segments);
  uint64_t used = 0;
  for (uint64_t sent = 0; sent < activations.size();) {
    if (sent > 0) part = AddFragment(reply, &frames);
    used = std::min<uint64_t>(kMaxFragmentBytes, activations.size() - sent);
    part->set_activations(activations.data() + sent, used);
    sent += used;
  }
  for (v1::SampledRow& row : sampled) {
    const uint64_t bytes = SampledBytes(row);
    if (used > 0 && used + bytes > kMaxFragmentBytes) {
      part = AddFragment(reply, &frames);
      used = 0;
    }
    used += bytes;
    part->add_sampled()->Swap(&row);
  }
  part->set_last(true);
  return frames;
}

std::unique_ptr<v1::Forward> ForwardJoiner::Add(v1::Forward fragment, std::vector<Refusal>* refusals) {
  if (discarded_step_ && *discarded_step_ == fragment.step() && fragment.fragment() > 0) {
    if (fragment.last()) discarded_step_.reset();
    return nullptr;
  }
  discarded_step_.reset();
  if (pending_ != nullptr && fragment.fragment() > 0 && fragment.step() == pending_->step()) {
    return Continue(std::move(fragment), refusals);
  }
  if (pending_ != nullptr) {
    refusals->push_back({pending_->step(), InvalidArgument("forward: step {} was cut off by step {}",
                                                           pending_->step(), fragment.step())});
    pending_.reset();
  }
  return Begin(std::move(fragment), refusals);
}

void ForwardJoiner::Refuse(const v1::Forward& fragment, absl::Status status, std::vector<Refusal>* refusals) {
  refusals->push_back({fragment.step(), std::move(status)});
  pending_.reset();
  if (!fragment.last()) discarded_step_ = fragment.step();
}

std::unique_ptr<v1::Forward> ForwardJoiner::Begin(v1::Forward fragment, std::vector<Refusal>* refusals) {
  if (fragment.fragment() != 0) {
    Refuse(
        fragment,
        InvalidArgument("forward: fragment {} of step {} came first", fragment.fragment(), fragment.step()),
        refusals);
    return nullptr;
  }
  const absl::StatusOr<uint64_t> rows = CheckSegments(fragment, limits_.max_rows);
  if (!rows.ok()) {
    Refuse(fragment, rows.status(), refusals);
    return nullptr;
  }
  expected_bytes_ = 0;
  if (limits_.takes_activations) {
    const absl::StatusOr<uint64_t> element = ActivationBytes(fragment.activation_type());
    if (!element.ok()) {
      Refuse(fragment, element.status(), refusals);
      return nullptr;
    }
    expected_bytes_ = *rows * limits_.n_embd * *element;
    if (expected_bytes_ > kMaxForwardBytes) {
      Refuse(fragment,
             InvalidArgument("forward: {} rows need {} bytes of activations; at most {} a micro-batch", *rows,
                             expected_bytes_, kMaxForwardBytes),
             refusals);
      return nullptr;
    }
  } else if (fragment.activation_type() != v1::ACTIVATION_TYPE_UNSPECIFIED) {
    // Without a payload the type says what the reply should carry.
    const absl::StatusOr<uint64_t> element = ActivationBytes(fragment.activation_type());
    if (!element.ok()) {
      Refuse(fragment, element.status(), refusals);
      return nullptr;
    }
  }
  const uint64_t bytes = fragment.activations().size();
  if (bytes > expected_bytes_ || (fragment.last() && bytes != expected_bytes_)) {
    Refuse(fragment,
           InvalidArgument("forward: step {} carries {} activation bytes; its {} rows need {}",
                           fragment.step(), bytes, *rows, expected_bytes_),
           refusals);
    return nullptr;
  }
  auto forward = std::make_unique<v1::Forward>(std::move(fragment));
  if (forward->last()) return forward;
  forward->mutable_activations()->reserve(expected_bytes_);
  pending_ = std::move(forward);
  return nullptr;
}

std::unique_ptr<v1::Forward> ForwardJoiner::Continue(v1::Forward fragment, std::vector<Refusal>* refusals) {
  if (fragment.fragment() != pending_->fragment() + 1) {
    Refuse(fragment,
           InvalidArgument("forward: fragment {} of step {} came after fragment {}", fragment.fragment(),
                           fragment.step(), pending_->fragment()),
           refusals);
    return nullptr;
  }
  if (fragment.segments_size() != 0 || fragment.activation_type() != pending_->activation_type()) {
    Refuse(fragment,
           InvalidArgument("forward: fragment {} of step {} changes the {}", fragment.fragment(),
                           fragment.step(), fragment.segments_size() != 0 ? "segments" : "activation type"),
           refusals);
    return nullptr;
  }
  const uint64_t bytes = uint64_t{pending_->activations().size()} + fragment.activations().size();
  if (fragment.activations().empty() || bytes > expected_bytes_ ||
      (fragment.last() && bytes != expected_bytes_)) {
    Refuse(fragment,
           InvalidArgument("forward: step {} carries {} activation bytes up to fragment {}; its rows need {}",
                           fragment.step(), bytes, fragment.fragment(), expected_bytes_),
           refusals);
    return nullptr;
  }
  pending_->mutable_activations()->append(fragment.activations());
  pending_->set_fragment(fragment.fragment());
  if (!fragment.last()) return nullptr;
  return std::move(pending_);
}

absl::Status ReplyJoiner::Add(v1::ForwardReply fragment, uint64_t max_bytes, v1::ForwardReply* whole,
                              bool* complete) {
  *complete = false;
  const uint32_t due = pending_ == nullptr ? 0 : pending_->fragment() + 1;
  if (fragment.fragment() != due || (pending_ != nullptr && pending_->step() != fragment.step())) {
    return Internal("reply: fragment {} of step {} where fragment {} was due", fragment.fragment(),
                    fragment.step(), due);
  }
  bytes_ = (pending_ == nullptr ? 0 : bytes_) + PayloadBytes(fragment);
  if (bytes_ > max_bytes) {
    return Internal("reply: step {} carries more than the {} bytes its rows can need", fragment.step(),
                    max_bytes);
  }
  if (pending_ == nullptr && fragment.last()) {
    *whole = std::move(fragment);
    *complete = true;
    return absl::OkStatus();
  }
  if (pending_ == nullptr) {
    pending_ = std::make_unique<v1::ForwardReply>(std::move(fragment));
    return absl::OkStatus();
  }
  pending_->mutable_activations()->append(fragment.activations());
  for (v1::SampledRow& row : *fragment.mutable_sampled()) pending_->add_sampled()->Swap(&row);
  pending_->set_fragment(fragment.fragment());
  if (!fragment.last()) return absl::OkStatus();
  *whole = std::move(*pending_);
  pending_.reset();
  whole->set_fragment(0);
  whole->set_last(true);
  *complete = true;
  return absl::OkStatus();
}

}  // namespace spillway::rpc
