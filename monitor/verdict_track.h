// One subject's confirmed verdict: what it was, since when, and whether a new one is certain enough to say.
// Knows no clock; confined to one thread.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "truth/verdict.h"

namespace spillway::monitor {

struct Event {
  double unix_seconds = 0;
  std::string worker;    // or the engine's name
  std::string from, to;  // causes; empty = as planned
  std::string extent;
  std::string detail;
  std::string remedy;
};

// The latest transitions of all subjects.
class EventLog {
 public:
  static constexpr size_t kMaxEvents = 200;
  void Add(Event event) {
    events_.push_front(std::move(event));
    if (events_.size() > kMaxEvents) events_.pop_back();
  }
  const std::deque<Event>& newest_first() const { return events_; }

 private:
  std::deque<Event> events_;
};

class VerdictTrack {
 public:
  // A new fallback must be seen twice: one late answer on a busy machine is no alarm. What is `certain`
  // counts at once, and so does the end of a fallback.
  static constexpr int kConfirmRounds = 2;

  explicit VerdictTrack(double now_unix_seconds) : since_(now_unix_seconds) {}

  // The transition, when this verdict is one; its worker's name is left to the caller.
  std::optional<Event> Update(truth::Verdict verdict, bool certain, double now_unix_seconds) {
    if (verdict.cause == verdict_.cause && verdict.extent == verdict_.extent) {
      verdict_ = std::move(verdict);  // the figures may have moved
      pending_ = {};
      return std::nullopt;
    }
    const bool same = pending_.cause == verdict.cause && pending_.extent == verdict.extent;
    pending_ = {verdict.cause, verdict.extent, same ? pending_.rounds + 1 : 1};
    if (!certain && verdict.fallback() && pending_.rounds < kConfirmRounds) return std::nullopt;
    pending_ = {};
    Event event = {now_unix_seconds,
                   "",
                   verdict_.cause,
                   verdict.cause,
                   std::string(truth::ExtentName(verdict.extent)),
                   verdict.detail,
                   verdict.remedy};
    verdict_ = std::move(verdict);
    since_ = now_unix_seconds;
    return event;
  }

  const truth::Verdict& verdict() const { return verdict_; }
  double since_unix_seconds() const { return since_; }

 private:
  struct Pending {
    std::string cause;
    truth::Extent extent = truth::Extent::kNone;
    int rounds = 0;
  };
  double since_;
  truth::Verdict verdict_;
  Pending pending_;
};

}  // namespace spillway::monitor
