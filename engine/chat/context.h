// What bounds and reports one rendering: the work left and the first error, with its line. Errors are sticky:
// after one everything returns quickly and nothing it returns is looked at, so evaluation needs no checks at
// every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spillway::jinja {

struct Namespace;

// A unit of work is about one step of the interpreter, 8 bytes of a string built or a quarter of a list's
// element. Renderings of published templates need some ten thousand; the limit is reached in about two
// seconds and bounds memory to about 200 MB.
inline constexpr uint64_t kMaxWork = 20'000'000;
inline constexpr size_t kMaxOutputBytes = size_t{64} << 20;
inline constexpr int kMaxEvaluationDepth = 800;  // nested expressions, statements and macro calls
inline constexpr int kMaxValueDepth = 200;

class Context {
 public:
  void Fail(std::string message) {
    if (failed_) return;
    failed_ = true;
    message_ = std::move(message);
    error_line_ = line;
  }
  bool failed() const { return failed_; }
  const std::string& message() const { return message_; }
  int error_line() const { return error_line_; }

  // False, after failing, when the work is used up or something failed before.
  bool Charge(uint64_t work) {
    if (failed_) return false;
    if (work > left_) {
      Fail("the template does too much work; it was stopped");
      return false;
    }
    left_ -= work;
    return true;
  }
  bool ChargeBytes(uint64_t bytes) { return Charge(bytes / 8 + 1); }

  int line = 1;                  // of what is being evaluated
  int64_t now_unix_seconds = 0;  // for strftime_now
  // Every namespace made: the only values that change and so could hold each other; emptied when rendering
  // ends.
  std::vector<std::shared_ptr<Namespace>> namespaces;

 private:
  bool failed_ = false;
  std::string message_;
  int error_line_ = 0;
  uint64_t left_ = kMaxWork;
};

}  // namespace spillway::jinja
