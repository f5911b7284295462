// SIGTERM and SIGINT as something to wait for instead of something that interrupts. Owned by main, used on
// its thread.
#pragma once

namespace spillway::gateway {

class Signals {
 public:
  Signals();       // blocks both for this thread and every thread started later
  bool Pending();  // one came; does not take it
  void Wait();     // returns when one came
  // Has the system send SIGTERM when the parent ends. False when it has ended already.
  bool ExitWithParent();
};

}  // namespace spillway::gateway
