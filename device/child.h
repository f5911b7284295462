// Work that may hang or crash, done in a forked child with a deadline: it reports fields line by line, so
// that what was learnt before the end is not lost and the step it ended in has a name.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::device {

// The child's end of the pipe. Text is cleaned of everything that is not printable ASCII.
class Report {
 public:
  explicit Report(int descriptor) : descriptor_(descriptor) {}
  void Step(std::string_view call) { Line("step", call); }
  void Put(const std::string& path, const std::string& value) { Line(path, value); }
  template <typename Number>
  void Put(const std::string& path, const std::optional<Number>& value) {
    if (value) Line(path, std::to_string(*value));
  }
  void End() { Line("end", ""); }

 private:
  void Line(std::string_view path, std::string_view value);
  const int descriptor_;
};

enum class ChildEnd : uint8_t { kDone, kTimedOut, kCrashed, kFailed };

struct ChildRun {
  ChildEnd end = ChildEnd::kFailed;
  std::string step;   // the last one begun
  int signal = 0;     // of a crash
  std::string error;  // of kFailed
  double seconds = 0;
};

using Fields = std::map<std::string, std::string>;

// Kills the child and all it started at the deadline. One that not even a kill ends (it sits in the kernel)
// is left behind after half a second, without any of our descriptors. Other threads of the caller may run;
// the child does not use them.
ChildRun RunInChild(const std::function<void(Report&)>& work, std::chrono::milliseconds deadline,
                    Fields* fields);

// Facts list their fields once, in VisitFields(facts, visit) with visit(name, field); these two carry them
// through the pipe. A field is a std::string or a std::optional of a number.
template <typename Facts>
void PutFields(Report& report, const std::string& prefix, const Facts& facts) {
  VisitFields(facts, [&](const char* name, const auto& field) { report.Put(prefix + name, field); });
}

void ParseField(const std::string& text, std::string* field);
void ParseField(const std::string& text, std::optional<uint64_t>* field);
void ParseField(const std::string& text, std::optional<int64_t>* field);
void ParseField(const std::string& text, std::optional<double>* field);

// Whether any field was there.
template <typename Facts>
bool GetFields(const Fields& fields, const std::string& prefix, Facts* facts) {
  bool any = false;
  VisitFields(*facts, [&](const char* name, auto& field) {
    const auto found = fields.find(prefix + name);
    if (found == fields.end()) return;
    any = true;
    ParseField(found->second, &field);
  });
  return any;
}

}  // namespace spillway::device
