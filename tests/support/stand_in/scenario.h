// What the stand-ins of the driver's libraries answer: lines "name = value" of the file that
// SPILLWAY_STAND_IN_SCENARIO names, read anew at every call, so that a test changes the machine while it
// runs.
//
//   devices = 2                     of the machine (default 1)
//   device.1.memory_used = 5000     a figure of one device (its name stands at its use)
//   call.cuInit = fail 803          also: hang, crash
//   call.cuInit = fail 802 times 2  and well from the third call on; counted in the file "counter" names
//   garbage = yes                   NVML answers, but nonsense
#pragma once

#include <cstdint>
#include <string>

namespace spillway::stand_in {

class Scenario {
 public:
  Scenario();  // reads the file; without one everything is well
  std::string Text(const std::string& name, const std::string& otherwise) const;
  uint64_t Number(const std::string& name, uint64_t otherwise) const;

 private:
  std::string text_;
};

// What the scenario has for the call named: hangs, crashes, or returns the code to answer with; 0 = go on.
int Enter(const char* call);

}  // namespace spillway::stand_in
