#include "gateway/text/output_parser.h"

#include <utility>

#include "gateway/text/marker.h"

namespace spillway {
namespace {

using Kind = OutputDelta::Kind;

constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kBodyMarkers[] = {"<|end|>",     "<|call|>",    "<|return|>",   "<|start|>",
                                             "<|channel|>", "<|message|>", "<|constrain|>"};
constexpr size_t kMaxHeaderBytes = 1024;

// Up to a blank or the next marker.
std::string_view Word(std::string_view text) { return text.substr(0, text.find_first_of(" \n\r\t<")); }

}  // namespace

OutputParser::OutputParser(const OutputFormat& format, const OutputOptions& options, ToolSet tools)
    : format_(format), options_(options), tools_(std::move(tools)) {
  if (!options.reasoning) format_.reasoning = nullptr;
  if (!options.calls) format_.calls = nullptr;
  if (format_.calls != nullptr) {
    openers_.push_back(format_.calls->open);
    // Models leave the outer tag out now and then.
    if (!format_.calls->name_open.empty()) openers_.push_back(format_.calls->name_open);
  }
  if (format_.harmony) {
    state_ = State::kHeader;
  } else if (format_.reasoning != nullptr) {
    state_ = options.in_reasoning ? State::kReasoning : State::kStart;
    skip_blanks_ = options.in_reasoning;
  }
}

std::vector<OutputDelta> OutputParser::Add(std::string_view text) {
  std::vector<OutputDelta> out;
  pending_ += text;
  Run(/*end=*/false, /*cut=*/false, out);
  return out;
}

std::vector<OutputDelta> OutputParser::Finish(bool cut) {
  std::vector<OutputDelta> out;
  Run(/*end=*/true, cut, out);
  return out;
}

void OutputParser::Run(bool end, bool cut, std::vector<OutputDelta>& out) {
  while (state_ != State::kComplete && Step(end, cut, out)) {
  }
  if (state_ == State::kComplete) pending_.clear();
}

bool OutputParser::Step(bool end, bool cut, std::vector<OutputDelta>& out) {
  switch (state_) {
    case State::kStart:
      return StepStart(end);
    case State::kReasoning:
      return StepReasoning(end, cut, out);
    case State::kContent:
      return StepContent(end, cut, out);
    case State::kCall:
      return StepCall(end, cut, out);
    case State::kHeader:
      return StepHeader(end);
    case State::kBody:
      return StepBody(end, cut, out);
    case State::kComplete:
      break;
  }
  return false;
}

// Pieces of one kind that follow each other become one.
void OutputParser::Emit(Kind kind, std::string_view text, std::vector<OutputDelta>& out) {
  if (text.empty()) return;
  if (kind == Kind::kContent) said_ = said_ || LeadingBlanks(text) < text.size();
  if (!out.empty() && out.back().kind == kind && kind != Kind::kCall) {
    out.back().text += text;
  } else {
    out.push_back({kind, std::string(text)});
  }
}

// False while there is nothing but blanks to skip.
bool OutputParser::SkipBlanks() {
  if (!skip_blanks_) return true;
  pending_.erase(0, LeadingBlanks(pending_));
  if (pending_.empty()) return false;
  skip_blanks_ = false;
  return true;
}

bool OutputParser::StepStart(bool end) {
  const size_t blanks = LeadingBlanks(pending_);
  const std::string_view text = std::string_view(pending_).substr(blanks);
  if (StartsWith(text, format_.reasoning->open)) {
    pending_.erase(0, blanks + format_.reasoning->open.size());
    skip_blanks_ = true;
    state_ = State::kReasoning;
    return true;
  }
  if (!end && MayBecome(text, format_.reasoning->open)) return false;
  state_ = State::kContent;
  return true;
}

bool OutputParser::StepReasoning(bool end, bool cut, std::vector<OutputDelta>& out) {
  if (!SkipBlanks()) return false;
  const std::string_view close = format_.reasoning->close;
  const std::string_view text = pending_;
  const size_t at = text.find(close);
  if (at != std::string_view::npos) {
    Emit(Kind::kReasoning, WithoutTrailingBlanks(text.substr(0, at)), out);
    pending_.erase(0, at + close.size());
    skip_blanks_ = true;
    state_ = State::kContent;
    return true;
  }
  const size_t held = end && !cut ? 0 : HeldBytes(text, {&close, 1});
  const std::string_view safe = WithoutTrailingBlanks(text.substr(0, text.size() - held));
  Emit(Kind::kReasoning, safe, out);
  pending_.erase(0, end ? pending_.size() : safe.size());
  return false;
}

void OutputParser::BeginCalls(std::string opener, bool bare) {
  bare_ = bare;
  call_.emplace(*format_.calls, tools_, std::move(opener), bare);
  state_ = State::kCall;
}

bool OutputParser::StepContent(bool end, bool cut, std::vector<OutputDelta>& out) {
  if (!SkipBlanks() || pending_.empty()) return false;
  const std::string_view text = pending_;
  if (openers_.empty()) {
    Emit(Kind::kContent, text, out);
    pending_.clear();
    return false;
  }
  if (format_.calls->syntax == CallSyntax::kJsonBare && !said_) {
    const size_t blanks = LeadingBlanks(text);
    if (blanks < text.size() && text[blanks] == '{') {
      BeginCalls(pending_.substr(0, blanks), /*bare=*/true);
      pending_.erase(0, blanks);
      return true;
    }
  }
  const FoundMarker found = FindMarker(text, openers_);
  if (found.at != std::string_view::npos) {
    const std::string_view said = WithoutTrailingBlanks(text.substr(0, found.at));
    Emit(Kind::kContent, said, out);
    // The tag of a name is part of the call.
    const bool outer = found.marker == format_.calls->open;
    const size_t taken = found.at + (outer ? found.marker.size() : 0);
    std::string opener(text.substr(said.size(), taken - said.size()));
    pending_.erase(0, taken);
    BeginCalls(std::move(opener), /*bare=*/false);
    return true;
  }
  size_t held = end && !cut ? 0 : HeldBytes(text, openers_);
  if (end && held < 2) held = 0;  // a lone "<" is more likely meant
  std::string_view safe = text.substr(0, text.size() - held);
  // Blanks before a call are no content.
  if (!end) safe = WithoutTrailingBlanks(safe);
  Emit(Kind::kContent, safe, out);
  pending_.erase(0, end ? pending_.size() : safe.size());
  return false;
}

bool OutputParser::StepCall(bool end, bool cut, std::vector<OutputDelta>& out) {
  const size_t before = out.size();
  const CallParser::Result result = call_->Consume(pending_, end, cut, out);
  for (size_t i = before; i < out.size(); ++i) {
    if (out[i].kind != Kind::kCall) continue;
    if (!options_.parallel && n_calls_ > 0) {  // a list goes on: keep what belongs to the first
      out.resize(i);
      state_ = State::kComplete;
      return false;
    }
    ++n_calls_;
  }
  if (result == CallParser::Result::kMore) return false;
  state_ = State::kContent;
  if (result == CallParser::Result::kNotACall) {
    Emit(Kind::kContent, call_->raw(), out);
    said_ = said_ || bare_;
  } else {
    skip_blanks_ = true;
    if (!options_.parallel && n_calls_ > 0) state_ = State::kComplete;
  }
  call_.reset();
  return true;
}

// Harmony: "<|channel|>analysis<|message|>", with the start of a message before it, a recipient and a format.
bool OutputParser::StepHeader(bool end) {
  const std::string_view text = pending_;
  const size_t at = text.find(kMessage);
  if (at == std::string_view::npos) {
    const std::string_view rest = text.substr(LeadingBlanks(text));
    const bool header =
        rest.empty() || StartsWith(rest, "<") || StartsWith(rest, kRecipient) || MayBecome(rest, kRecipient);
    if (header && text.size() <= kMaxHeaderBytes) {
      if (end) pending_.clear();
      return false;
    }
    body_ = Kind::kContent;  // the model left the header out
    state_ = State::kBody;
    return true;
  }
  const std::string_view header = text.substr(0, at);
  const size_t channel = header.rfind(kChannel);
  const size_t recipient = header.rfind(kRecipient);
  body_ = Kind::kContent;
  if (recipient != std::string_view::npos) {
    body_ = Kind::kArguments;
    recipient_ = Word(header.substr(recipient + kRecipient.size()));
    if (StartsWith(recipient_, kFunctions)) recipient_.erase(0, kFunctions.size());
    call_begun_ = arguments_begun_ = false;
  } else if (channel != std::string_view::npos &&
             Word(header.substr(channel + kChannel.size())) == "analysis") {
    body_ = Kind::kReasoning;
  }
  pending_.erase(0, at + kMessage.size());
  state_ = State::kBody;
  return true;
}

bool OutputParser::StepBody(bool end, bool cut, std::vector<OutputDelta>& out) {
  const std::string_view text = pending_;
  if (body_ == Kind::kArguments && !call_begun_) {
    call_begun_ = true;
    ++n_calls_;
    Emit(Kind::kCall, recipient_, out);
  }
  const FoundMarker found = FindMarker(text, kBodyMarkers);
  const bool marked = found.at != std::string_view::npos;
  const size_t held = marked || (end && !cut) ? 0 : HeldBytes(text, kBodyMarkers);
  const std::string_view safe = marked ? text.substr(0, found.at) : text.substr(0, text.size() - held);
  Emit(body_, safe, out);
  arguments_begun_ = arguments_begun_ || !safe.empty();
  if (!marked) {
    pending_.erase(0, end ? pending_.size() : safe.size());
    return false;
  }
  if (body_ == Kind::kArguments) {
    if (!arguments_begun_) Emit(Kind::kArguments, "{}", out);
    if (!options_.parallel) state_ = State::kComplete;
  }
  if (state_ == State::kBody) state_ = State::kHeader;
  // These begin the next header.
  const bool begins = found.marker == kChannel || found.marker == "<|start|>";
  pending_.erase(0, found.at + (begins ? 0 : found.marker.size()));
  return true;
}

}  // namespace spillway
